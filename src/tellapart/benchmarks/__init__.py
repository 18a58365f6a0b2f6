"""Files or embedded data to a PairSet: one file a benchmark."""
