"""COCO-Counterfactuals' human study: which caption fits the image; and what went wrong where people chose another one."""

from __future__ import annotations

from tellapart.annotate.survey import Ask, Earlier, Survey, Unit
from tellapart.annotate.units import caption_units
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError

__all__ = ["COCO_CF", "ERROR_CATEGORY"]

#: Table 7's, in its order.
CATEGORIES = (
    "a subject or object is missing",
    "fine-grained details are missing",
    "one altered word is a kind of the other",
    "the image and its caption are fine",
    "wrong spatial relationship",
    "wrong number of objects",
    "both altered subjects are in the image",
    "an attribute is on the wrong thing",
    "something else",
)

COCO_CF = Survey(
    name="coco-cf",
    title="which caption fits the image; both or neither may",
    source="COCO-Counterfactuals section 4.1 and appendix B.3",
    instructions=(
        "Choose the caption that describes the image best.",
        "If both hold, choose the one that says more or is more exact. Choose Both only if they describe the image "
        "equally well, and Neither if none of them describes it.",
    ),
    asks=(Ask("caption", "choice", "Which caption describes the image best?", ("both", "neither"), options=True),),
    units=lambda pairs, _earlier: caption_units("coco-cf", pairs),
)


def _errors(pairs: PairSet, earlier: Earlier | None) -> list[Unit]:
    """A unit for each image whose own caption somebody did not choose."""
    assert earlier is not None  # noqa: S101  (`deal` checked it)
    captions = {item.id: item.texts for item in pairs.items}
    wrong: dict[str, list[str]] = {}
    for answer in earlier.answers:
        unit = earlier.study.unit_of[answer.unit]
        if not answer.skipped and answer.values["caption"] != unit.truth:
            wrong.setdefault(unit.id, []).append(answer.values["caption"])
    units = []
    for id_, answers in wrong.items():
        unit = earlier.study.unit_of[id_]
        if unit.item not in captions:
            raise DataError(f"survey error-category: {pairs.name} has no item {unit.item!r} of the earlier study")
        others = [caption for place, caption in enumerate(unit.options) if str(place) != unit.truth]
        texts = [f"Its caption: {unit.options[int(unit.truth)]}", *(f"Another caption: {other}" for other in others)]
        update = {"texts": texts, "options": [], "truth": "", "earlier": {"chosen": answers}}
        units.append(unit.model_copy(update=update))
    return units


ERROR_CATEGORY = Survey(
    name="error-category",
    title="why people did not choose the image's caption, by category",
    source="COCO-Counterfactuals appendix A.3.1, Table 7",
    instructions=(
        "People were asked which of two captions fits this image, and did not choose its own.",
        "Choose the reason that explains it best.",
    ),
    asks=(Ask("category", "choice", "What went wrong?", CATEGORIES),),
    units=_errors,
    after="coco-cf",
)
