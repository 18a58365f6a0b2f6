"""Units of a pair set: each image with all captions, each caption with all images, or each image with each caption."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tellapart.annotate.survey import SurveyUnit
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet, describe
from tellapart.errors import DataError

_WORD = re.compile(r"\w+")


def altered_words(first: str, second: str) -> tuple[str, str] | None:
    """Return the word in which two captions differ, in each of them; None if they differ in more, or in number.

    Words are in lower case and without marks, so that a tokeniser's `do n't` is not a change.

    Source: COCO-Counterfactuals, whose captions are made by the change of one noun (its "altered subjects").

    >>> altered_words("A woman cuts a cake.", "A baker cuts a cake .")
    ('woman', 'baker')
    >>> altered_words("A cat on a mat", "A mat on a cat") is None
    True
    """
    words = [_WORD.findall(caption.lower()) for caption in (first, second)]
    if len(words[0]) != len(words[1]):
        return None
    changed = [pair for pair in zip(*words, strict=True) if pair[0] != pair[1]]
    return (changed[0][0], changed[0][1]) if len(changed) == 1 else None


def shape_error(survey: str, pairs: PairSet, needed: str) -> DataError:
    """Return the error of a survey that does not fit a pair set's shape."""
    return DataError(f"survey {survey} asks of items with {needed}; {pairs.name} has {describe(pairs.shape)} each")


def caption_units(survey: str, pairs: PairSet) -> list[SurveyUnit]:
    """Return a unit for each image: which of the captions fits it?

    >>> from pathlib import Path
    >>> pairs = PairSet("s", (Item(id="a", images=("0.png", "1.png"), texts=("x", "y")),), Path("."))
    >>> [(unit.id, unit.truth) for unit in caption_units("i2t", pairs)]
    [('a/image 0', '0'), ('a/image 1', '1')]
    """
    images, texts = pairs.shape
    if texts < 2 or images not in (1, texts):
        raise shape_error(survey, pairs, "two or more texts, and one image or one for each text")
    return [
        SurveyUnit(
            **_item_fields(item), id=f"{item.id}/image {i}", images=[image], options=list(item.texts), truth=str(i)
        )
        for item in pairs.items
        for i, image in enumerate(item.images)
    ]


def image_units(survey: str, pairs: PairSet) -> list[SurveyUnit]:
    """Return a unit for each caption: which of the images fits it?"""
    images, texts = pairs.shape
    if images < 2 or texts not in (1, images):
        raise shape_error(survey, pairs, "two or more images, and one text or one for each image")
    return [
        SurveyUnit(
            **_item_fields(item),
            id=f"{item.id}/text {t}",
            texts=[text],
            options=list(item.images),
            option_kind="images",
            truth=str(t),
        )
        for item in pairs.items
        for t, text in enumerate(item.texts)
    ]


def match_units(survey: str, pairs: PairSet) -> list[SurveyUnit]:
    """Return a unit for each image with each caption: do they fit?"""
    if 1 not in pairs.shape and pairs.shape[0] != pairs.shape[1]:
        raise shape_error(survey, pairs, "one image, one text, or as many images as texts")
    return [
        SurveyUnit(
            **_item_fields(item),
            id=f"{item.id}/image {i} text {t}",
            images=[image],
            texts=[text],
            truth="yes" if i == t else "no",
        )
        for item in pairs.items
        for i, image in enumerate(item.images)
        for t, text in enumerate(item.texts)
    ]


def single_images(pairs: PairSet) -> Iterator[SurveyUnit]:
    """Yield a unit for each distinct image of the set, under the first item that has it."""
    known: set[str] = set()
    for item in pairs.items:
        for i, image in enumerate(item.images):
            if image not in known:
                known.add(image)
                yield SurveyUnit(**_item_fields(item), id=f"{item.id}/image {i}", images=[image])


def _item_fields(item: Item) -> dict[str, Any]:
    """Return the fields that every unit takes over from its item."""
    altered = altered_words(*item.texts) if len(item.texts) == 2 else None
    return {"item": item.id, "cluster": item.cluster, "tags": dict(item.tags), "altered": list(altered or ())}
