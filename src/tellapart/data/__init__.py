"""What a minimal pair is: items, pair sets, scores, and how their files are read and written."""
