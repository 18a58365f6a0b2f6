"""A run folder as tables and as one self-contained page."""
