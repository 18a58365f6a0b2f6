"""Anything that scores image-text pairs, and the store that keeps what was computed."""
