"""Tasks that are no minimal pairs: what a model must put out for each, and how that is measured."""
