"""The surveys by name: Winoground's, COCO-Counterfactuals' and BiVLC's are declared here, VLUE's in `vlue`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tellapart.annotate.survey import Ask, Earlier, Study, Survey, SurveyAnswer, SurveyUnit
from tellapart.annotate.units import caption_units, image_units, match_units, shape_error
from tellapart.annotate.vlue import BOX, CAPTION, EXPRESSION, QUESTION, STATEMENT
from tellapart.catalog import nearest
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, UnknownNameError

_MATCH = Survey(
    name="match",
    title="does the caption fit the image: yes or no, for every image with every caption",
    source="Winoground (Thrush et al. 2022) section 4.1",
    instructions=(
        "Say whether the caption is true of the image.",
        "Mind the order of the words: who does what, and what is where.",
    ),
    asks=(Ask("match", "choice", "Is the caption true of the image?", ("yes", "no")),),
    units=lambda pairs, _earlier: match_units("match", pairs),
    judged=True,
)

#: COCO-Counterfactuals' Table 7, in its order.
_CATEGORIES = (
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

_COCO_CF = Survey(
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
    judged=True,
)


def _misjudged_units(pairs: PairSet, earlier: Earlier | None) -> list[SurveyUnit]:
    """Return a unit for each image whose caption somebody did not choose."""
    assert earlier is not None  # noqa: S101  (`deal` checked it)
    captions = {item.id: item.texts for item in pairs.items}
    wrong: dict[str, list[str]] = {}
    for answer in earlier.answers:
        unit = earlier.study.unit_of[answer.unit]
        if not answer.skipped and answer.values["caption"] != unit.truth:
            wrong.setdefault(unit.id, []).append(answer.values["caption"])
    units = []
    for id_, chosen in wrong.items():
        unit = earlier.study.unit_of[id_]
        if unit.item not in captions:
            raise DataError(f"survey error-category: {pairs.name} has no item {unit.item!r} of the earlier study")
        others = [caption for index, caption in enumerate(unit.options) if str(index) != unit.truth]
        texts = [f"Its caption: {unit.options[int(unit.truth)]}", *(f"Another caption: {other}" for other in others)]
        update = {"texts": texts, "options": [], "truth": "", "earlier": {"chosen": chosen}}
        units.append(unit.model_copy(update=update))
    return units


_ERROR_CATEGORY = Survey(
    name="error-category",
    title="why people did not choose the image's caption, by category",
    source="COCO-Counterfactuals appendix A.3.1, Table 7",
    instructions=(
        "People were asked which of two captions fits this image, and did not choose its own.",
        "Choose the reason that explains it best.",
    ),
    asks=(Ask("category", "choice", "What went wrong?", _CATEGORIES),),
    units=_misjudged_units,
    after="coco-cf",
)

_BIVLC = "BiVLC appendix H"
_LOOKS = "Flaws in how a picture looks do not count: odd faces, arms or hands are accepted."


def _candidate_units(pairs: PairSet, _earlier: Earlier | None) -> list[SurveyUnit]:
    if pairs.shape[0] < 2 or pairs.shape[1] != 1:
        raise shape_error("best-image", pairs, "one text and two or more candidate images")
    # None of the candidates is known to be right.
    return [unit.model_copy(update={"truth": ""}) for unit in image_units("best-image", pairs)]


def _count_votes(study: Study, answers: Sequence[SurveyAnswer]) -> dict[str, Counter[str]]:
    votes: dict[str, Counter[str]] = {}
    for answer in answers:
        if not answer.skipped:
            votes.setdefault(answer.unit, Counter())[answer.values["image"]] += 1
    return {unit.id: votes[unit.id] for unit in study.units if unit.id in votes}


def _best_images(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    """Return the image with most votes of each item, if it alone has them and "none" has fewer."""
    rows = []
    for id_, votes in _count_votes(study, answers).items():
        unit = study.unit_of[id_]
        (first, most), *rest = votes.most_common()
        alone = not rest or rest[0][1] < most
        image = unit.options[int(first)] if alone and first != "none" else None
        counts = {unit.options[int(vote)] if vote != "none" else vote: count for vote, count in sorted(votes.items())}
        rows.append({"id": unit.item, "text": unit.texts[0], "image": image, "votes": counts})
    return rows


def _find_ambiguity(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    """Return for each item whether, for some caption, no more people chose its image than anything else."""
    votes = _count_votes(study, answers)
    clear: dict[str, bool] = {}
    for unit in study.units:
        if unit.id in votes:
            own = votes[unit.id].pop(unit.truth, 0)
            most = own > max(votes[unit.id].values(), default=0)
            clear[unit.item] = clear.get(unit.item, True) and most
    return [{"id": item, "ambiguous": not most} for item, most in clear.items()]


_BEST_IMAGE = Survey(
    name="best-image",
    title="the best of several generated images for a caption, or none",
    source=f"{_BIVLC}.1, step 3",
    instructions=(
        "Choose an image that shows what the description says. If several do, choose any of them; if none does, "
        "choose None.",
        "Everything that the description says must be in the image.",
        _LOOKS,
    ),
    asks=(Ask("image", "choice", "Which image shows what the description says?", ("none",), options=True),),
    units=_candidate_units,
    views={
        "as given": lambda label: label,
        "one or none": lambda label: label if label == "none" else "one",  # how BiVLC's Table 7 compares people
    },
    records=_best_images,
)

_AMBIGUITY = Survey(
    name="ambiguity",
    title="which image fits the caption, or both: items that people cannot tell apart are filtered",
    source=f"{_BIVLC}.1, step 4",
    instructions=(
        "Choose the image that matches the description best. If both match it equally well, choose Both.",
        _LOOKS,
    ),
    asks=(Ask("image", "choice", "Which image matches the description best?", ("both",), options=True),),
    units=lambda pairs, _earlier: image_units("ambiguity", pairs),
    judged=True,
    records=_find_ambiguity,
)

_IMAGE_TO_TEXT = Survey(
    name="i2t",
    title="human baseline, image to text: which caption fits the image best",
    source=f"{_BIVLC}.1, human baseline",
    instructions=("Choose the description that matches the image best.", "Mind the order of the words."),
    asks=(Ask("caption", "choice", "Which description matches the image best?", options=True),),
    units=lambda pairs, _earlier: caption_units("i2t", pairs),
    judged=True,
)

_TEXT_TO_IMAGE = Survey(
    name="t2i",
    title="human baseline, text to image: which image fits the caption best",
    source=f"{_BIVLC}.1, human baseline",
    instructions=("Choose the image that matches the description best.", _LOOKS),
    asks=(Ask("image", "choice", "Which image matches the description best?", options=True),),
    units=lambda pairs, _earlier: image_units("t2i", pairs),
    judged=True,
)

SURVEYS = {
    survey.name: survey
    for survey in (
        *(_COCO_CF, _ERROR_CATEGORY),
        *(_BEST_IMAGE, _AMBIGUITY, _IMAGE_TO_TEXT, _TEXT_TO_IMAGE),
        *(_MATCH, CAPTION, STATEMENT, QUESTION, BOX, EXPRESSION),
    )
}


def find_survey(name: str) -> Survey:
    """Return the survey of that name.

    >>> find_survey("i2t").source
    'BiVLC appendix H.1, human baseline'
    """
    if name not in SURVEYS:
        raise UnknownNameError(f"no survey {name!r}{nearest(name, SURVEYS)}; there are {', '.join(sorted(SURVEYS))}")
    return SURVEYS[name]


def annotate_ls() -> list[Mapping[str, str]]:
    """Return name, title and source of every survey.

    >>> {"name", "title", "source"} == set(annotate_ls()[0])
    True
    """
    return [{"name": survey.name, "title": survey.title, "source": survey.source} for survey in SURVEYS.values()]
