"""Dual encoders of open_clip."""
