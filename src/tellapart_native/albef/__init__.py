"""ALBEF in its authors' files: prefix, network, keys and preprocessing."""
