"""Models of the sentence-transformers library."""
