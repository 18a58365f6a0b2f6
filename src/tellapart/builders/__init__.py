"""Sources to pair sets: videos, changed captions."""
