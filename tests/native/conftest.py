"""The tests here share `golden.py`."""

from __future__ import annotations
