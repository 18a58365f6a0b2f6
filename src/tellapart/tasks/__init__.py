"""Tasks other than minimal pairs: the output of a model for each record, and its metrics."""
