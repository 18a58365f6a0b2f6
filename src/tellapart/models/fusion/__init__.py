"""Fusion encoders: one network reads an image and a text together and says whether they match."""
