"""Losses: pure functions of tensors that return named parts; one file, one loss."""
