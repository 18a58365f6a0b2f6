"""Training runs as text, JSON, curves, a page and a model card."""
