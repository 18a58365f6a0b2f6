"""Sources to pair sets: scenes rendered from a seed."""
