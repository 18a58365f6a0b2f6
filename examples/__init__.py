"""Whole programs that use tellapart."""
