"""Models that score image-text pairs, and the store of the numbers that they computed."""
