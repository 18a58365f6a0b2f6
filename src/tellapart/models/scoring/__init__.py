"""Scores and vectors of pair sets, computed once for every distinct image, text or pair."""
