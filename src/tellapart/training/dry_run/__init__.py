"""A dry run: all of a training run but its long part, with a forecast, and every problem at once."""
