"""Equivariance curves: how the deviations of a model's scores are distributed about zero."""

from __future__ import annotations
