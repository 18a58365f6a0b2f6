"""Models of the transformers library."""
