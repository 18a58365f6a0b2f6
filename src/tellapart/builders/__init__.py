"""Sources to pair sets: videos, diffusion, changed captions."""
