"""Small dual encoders that are trained from nothing in minutes: a residual CNN beside a text transformer."""
