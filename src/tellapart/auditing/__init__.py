"""Artefact tests of a pair set, its data card and its Croissant metadata."""
