"""An item takes what the format says, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tellapart.data.item import Item

GOOD: dict[str, Any] = {"id": "a", "images": ("0.png",), "texts": ("x", "y")}


def test_an_item_keeps_its_texts_to_the_last_blank() -> None:
    texts = (" They 'll  sit ", "``\u2028", "\u00e9", "e\u0301")
    assert Item(id="a", images=("0.png",), texts=texts).texts == texts


def test_lists_are_taken_for_tuples_and_the_item_cannot_be_changed() -> None:
    item = Item.model_validate({"id": "a", "images": ["0.png"], "texts": ["x", "y"]})
    assert (item.images, item.texts) == (("0.png",), ("x", "y"))
    with pytest.raises(ValidationError, match="frozen"):
        item.id = "b"


def test_an_item_without_a_cluster_stands_for_itself() -> None:
    assert Item(**GOOD).cluster == "a"
    assert Item(**GOOD, cluster="video-7").cluster == "video-7"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"id": ""}, "id"),
        ({"id": 7}, "id"),
        ({"id": None}, "id"),
        ({"images": ()}, "images"),
        ({"images": ("",)}, "images.0"),
        ({"images": "0.png"}, "images"),
        ({"images": (0,)}, "images.0"),
        ({"texts": ()}, "texts"),
        ({"texts": "a cat"}, "texts"),
        ({"texts": ("a cat", "")}, "texts.1"),
        ({"texts": ("a cat", None)}, "texts.1"),
        ({"texts": ("a \ud800 cat",)}, "texts.0"),
        ({"tags": {"count": 2}}, "tags.count"),
        ({"tags": ["count"]}, "tags"),
        ({"cluster": 3}, "cluster"),
        ({"provenance": {"seed": object()}}, "provenance"),
        ({"captions": ("x",)}, "captions"),
    ],
)
def test_what_an_item_cannot_hold_is_refused_and_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Item(**{**GOOD, **changes})
    places = [".".join(str(part) for part in problem["loc"]) for problem in caught.value.errors()]
    assert any(place.startswith(field) for place in places), places


def test_provenance_holds_any_json_and_comes_back_as_it_was() -> None:
    provenance: dict[str, Any] = {"seed": 3, "score": 0.5, "none": None, "steps": [1, {"deep": [True]}]}
    item = Item(**GOOD, provenance=provenance)
    assert Item.model_validate_json(item.model_dump_json()) == item
    assert item.provenance == provenance
