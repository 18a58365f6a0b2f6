"""Bars with intervals and the line of chance, side by side or, for many models, in rows."""

from __future__ import annotations
