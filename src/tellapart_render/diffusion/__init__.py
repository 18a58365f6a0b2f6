"""Pairs of pictures from text-to-image diffusion models."""
