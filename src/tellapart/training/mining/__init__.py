"""Hard negatives found among the training images and captions themselves."""
