"""The surveys that there are, by name."""

from __future__ import annotations

from tellapart.annotate.bivlc import AMBIGUITY, BEST_IMAGE, IMAGE_TO_TEXT, TEXT_TO_IMAGE
from tellapart.annotate.coco_cf import COCO_CF, ERROR_CATEGORY
from tellapart.annotate.survey import Survey
from tellapart.annotate.vlue import BOX, CAPTION, EXPRESSION, QUESTION, STATEMENT
from tellapart.annotate.winoground import MATCH
from tellapart.catalog import nearest
from tellapart.errors import UnknownNameError

__all__ = ["SURVEYS", "find_survey"]

SURVEYS = {
    survey.name: survey
    for survey in (
        COCO_CF,
        ERROR_CATEGORY,
        BEST_IMAGE,
        AMBIGUITY,
        IMAGE_TO_TEXT,
        TEXT_TO_IMAGE,
        MATCH,
        CAPTION,
        STATEMENT,
        QUESTION,
        BOX,
        EXPRESSION,
    )
}


def find_survey(name: str) -> Survey:
    """Return the survey of that name.

    Raises:
        UnknownNameError: no such name.

    >>> find_survey("i2t").source
    'BiVLC appendix H.1, human baseline'
    >>> find_survey("cocof")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: no survey 'cocof'; did you mean 'coco-cf'?; there are ambiguity, best-image, box, caption, coco-cf, error-category, expression, i2t, match, question, statement, t2i
    """
    if name not in SURVEYS:
        raise UnknownNameError(f"no survey {name!r}{nearest(name, SURVEYS)}; there are {', '.join(sorted(SURVEYS))}")
    return SURVEYS[name]
