"""Models with gradients: every library's, new ones, and low-rank updates."""
