"""ViLBERT and 12-in-1 in its authors' files: prefix, network, keys and preprocessing."""
