"""Scripts that make what tellapart reads out of files that need other tools, or each other."""
