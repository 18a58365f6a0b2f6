"""The table of one benchmark as its paper lays it out, models down; else the metrics of a first look."""

from __future__ import annotations
