"""Fusion encoders: one network reads an image and a text together and judges whether they match."""
