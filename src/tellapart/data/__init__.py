"""Minimal pairs: items, pair sets and scores, and the readers and writers of their files."""
