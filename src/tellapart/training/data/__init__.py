"""Training rows: their files, their order, and their pictures, read and changed."""
