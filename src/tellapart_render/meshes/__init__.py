"""Triangle meshes of every object, their materials, and those of scanned objects."""
