"""One item as a matrix: its images, its captions, and each model's score of every pair of them."""

from __future__ import annotations
