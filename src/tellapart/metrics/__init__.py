"""Arrays of scores in, one value per item out."""
