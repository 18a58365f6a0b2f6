"""Items at the head of a report: three that the best model gets and words alone do not, and three that it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tellapart.report.heatmap import first_breakdown
from tellapart.report.items import margins, worst_first
from tellapart.report.rivals import Rivals
from tellapart.report.sections import Section

#: Items of each kind.
_MOST = 3

#: Reference models that see no picture, the stronger first: it knows the words of the true caption.
_WORDS = ("bag-of-words", "blind")


@dataclass(frozen=True, slots=True)
class TellingItems:
    """Items under one heading.

    Attributes:
        title: the models that are right and wrong.
        positions: of the items in the section, at least one.
    """

    title: str
    positions: tuple[int, ...]


def telling_items(section: Section, rivals: Rivals) -> tuple[TellingItems, ...]:
    """Choose items of pairs by the best model's margins: the surest that it gets, and the worst that it fails.

    Those that it gets are items that a reference model of words alone fails, if there is one. Items of different values
    of the first look's tag come first. Empty for a task, and if the main metric has no value of an item.
    """
    best, main = rivals.ranking[0], section.main
    if section.record.shape is None or not all(main in sample.outcomes for sample in best.samples):
        return ()
    scores = np.array([sample.scores for sample in best.samples], np.float32)
    order = worst_first([margins(scores, section.record.true)])
    right = [item for item in reversed(order) if best.samples[item].outcomes[main] == 1]
    wrong = [item for item in order if best.samples[item].outcomes[main] == 0]
    title = f"{best.label} is right"
    for name in _WORDS:
        rival = next((entry for entry in section.entries if entry.run.result.model.name == name), None)
        if rival is None or rival is best:
            continue
        if lost := [item for item in right if rival.samples[item].outcomes.get(main) == 0]:
            right, title = lost, f"{title}, {rival.label} is wrong"
            break
    groups = ((title, right), (f"{best.label} is wrong", wrong))
    return tuple(TellingItems(name, _spread(section, items)) for name, items in groups if items)


def _spread(section: Section, items: Sequence[int]) -> tuple[int, ...]:
    """Return the first items of different values of the tag, then the first of the others."""
    tag = first_breakdown({section.entries[0].label: section.record}, section.name)
    first_of: dict[str | None, int] = {}
    for item in items:
        first_of.setdefault(section.samples[item].tags.get(tag or ""), item)
    return tuple(dict.fromkeys((*first_of.values(), *items)))[:_MOST]
