"""VL-T5 in its authors' files: prefix, network, keys and preprocessing."""
