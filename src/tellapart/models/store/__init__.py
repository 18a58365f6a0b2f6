"""Numbers that were computed once: the store, its file and rows, and the readers of images that it knows."""
