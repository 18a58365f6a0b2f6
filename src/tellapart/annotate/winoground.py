"""Winoground's human study: does this caption fit this image? The share of people who say yes is the pair's score."""

from __future__ import annotations

from tellapart.annotate.survey import Ask, Survey
from tellapart.annotate.units import match_units

__all__ = ["MATCH"]

MATCH = Survey(
    name="match",
    title="does the caption fit the image: yes or no, for every image with every caption",
    source="Winoground (Thrush et al. 2022) section 4.1",
    instructions=(
        "Say whether the caption is true of the image.",
        "Mind the order of the words: who does what, and what is where.",
    ),
    asks=(Ask("match", "choice", "Is the caption true of the image?", ("yes", "no")),),
    units=lambda pairs, _earlier: match_units("match", pairs),
)
