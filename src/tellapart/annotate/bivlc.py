"""BiVLC's surveys: the best of several generated images, the filter of ambiguous items, and the human baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tellapart.annotate.survey import Answer, Ask, Earlier, Study, Survey, Unit
from tellapart.annotate.units import caption_units, image_units, misfit
from tellapart.data.pairset import PairSet

__all__ = ["AMBIGUITY", "BEST_IMAGE", "IMAGE_TO_TEXT", "TEXT_TO_IMAGE"]

_SOURCE = "BiVLC appendix H"
_LOOKS = "Flaws in how a picture looks do not count: odd faces, arms or hands are accepted."


def _candidates(pairs: PairSet, _earlier: Earlier | None) -> list[Unit]:
    if pairs.shape[0] < 2 or pairs.shape[1] != 1:
        raise misfit("best-image", pairs, "one text and two or more candidate images")
    # None of the candidates is known to be right.
    return [unit.model_copy(update={"truth": ""}) for unit in image_units("best-image", pairs)]


def _votes(study: Study, answers: Sequence[Answer]) -> dict[str, Counter[str]]:
    votes: dict[str, Counter[str]] = {}
    for answer in answers:
        if not answer.skipped:
            votes.setdefault(answer.unit, Counter())[answer.values["image"]] += 1
    return {unit.id: votes[unit.id] for unit in study.units if unit.id in votes}


def _best(study: Study, answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """The image with most votes of each item, if it alone has them and "none" has fewer."""
    rows = []
    for id_, votes in _votes(study, answers).items():
        unit = study.unit_of[id_]
        (first, most), *rest = votes.most_common()
        alone = not rest or rest[0][1] < most
        image = unit.options[int(first)] if alone and first != "none" else None
        named = {unit.options[int(vote)] if vote != "none" else vote: count for vote, count in sorted(votes.items())}
        rows.append({"id": unit.item, "text": unit.texts[0], "image": image, "votes": named})
    return rows


def _kept(study: Study, answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """For each item, whether for every caption more people chose its image than anything else."""
    votes = _votes(study, answers)
    kept: dict[str, bool] = {}
    for unit in study.units:
        if unit.id in votes:
            own = votes[unit.id].pop(unit.truth, 0)
            clear = own > max(votes[unit.id].values(), default=0)
            kept[unit.item] = kept.get(unit.item, True) and clear
    return [{"id": item, "ambiguous": not clear} for item, clear in kept.items()]


BEST_IMAGE = Survey(
    name="best-image",
    title="the best of several generated images for a caption, or none",
    source=f"{_SOURCE}.1, step 3",
    instructions=(
        "Choose an image that shows what the description says. If several do, choose any of them; if none does, "
        "choose None.",
        "Everything that the description says must be in the image.",
        _LOOKS,
    ),
    asks=(Ask("image", "choice", "Which image shows what the description says?", ("none",), options=True),),
    units=_candidates,
    views={
        "as given": lambda label: label,
        "one or none": lambda label: label if label == "none" else "one",  # how BiVLC's Table 7 compares people
    },
    records=_best,
)

AMBIGUITY = Survey(
    name="ambiguity",
    title="which image fits the caption, or both: items that people cannot tell apart are filtered",
    source=f"{_SOURCE}.1, step 4",
    instructions=(
        "Choose the image that matches the description best. If both match it equally well, choose Both.",
        _LOOKS,
    ),
    asks=(Ask("image", "choice", "Which image matches the description best?", ("both",), options=True),),
    units=lambda pairs, _earlier: image_units("ambiguity", pairs),
    records=_kept,
)

IMAGE_TO_TEXT = Survey(
    name="i2t",
    title="human baseline, image to text: which caption fits the image best",
    source=f"{_SOURCE}.1, human baseline",
    instructions=("Choose the description that matches the image best.", "Mind the order of the words."),
    asks=(Ask("caption", "choice", "Which description matches the image best?", options=True),),
    units=lambda pairs, _earlier: caption_units("i2t", pairs),
)

TEXT_TO_IMAGE = Survey(
    name="t2i",
    title="human baseline, text to image: which image fits the caption best",
    source=f"{_SOURCE}.1, human baseline",
    instructions=("Choose the image that matches the description best.", _LOOKS),
    asks=(Ask("image", "choice", "Which image matches the description best?", options=True),),
    units=lambda pairs, _earlier: image_units("t2i", pairs),
)
