"""The store of computed numbers: its file, its keys, and the batches and images that numbers are computed of."""
