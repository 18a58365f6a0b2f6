"""Records of runs and timings, and the folders they are kept in."""
