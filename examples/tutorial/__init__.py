"""The pairs and the training of the tutorials in `docs/`."""
