"""Models that write text about images."""
