"""Training steps: a batch is encoded, its loss taken, and gradients left in the parameters."""
