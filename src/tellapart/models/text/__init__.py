"""Models that score a text alone."""
