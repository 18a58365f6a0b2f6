"""Training models to tell pairs apart: losses."""
