"""Layers that several families share: transformers of text and of images, under the names of the files."""
