"""A set of classes refuses what no model could be right about."""

from __future__ import annotations

import pytest

from facts import raises
from tellapart.data.task_records import ClassificationSet, ClassifiedImage, check_templates
from tellapart.errors import DataError

CATS = (ClassifiedImage("0", "0.png", 0), ClassifiedImage("1", "1.png", 1))


def test_every_class_is_put_into_every_template_and_braces_in_a_name_stay() -> None:
    found = ClassificationSet("s", ("cat", "{0}"), ("a {}.", "{}!"), CATS)
    assert found.prompts == (("a cat.", "a {0}."), ("cat!", "{0}!"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"classes": ("cat",)}, ("s", "1", "classes")),
        ({"classes": ("cat", " ")}, ("s", "class 1", "name")),
        ({"classes": ("cat", "cat")}, ("classes", "'cat'")),
        ({"templates": ()}, ("s", "template", "a photo of a {}")),
        ({"templates": ("a photo",)}, ("s", "template 1", "{}", "'a photo'")),
        ({"templates": ("{}", "{} {}")}, ("s", "template 2", "{}")),
        ({"templates": ("{}", "{}")}, ("s", "template", "repeated")),
        ({"pictures": ()}, ("s", "rows")),
        ({"pictures": (CATS[0], CATS[0])}, ("s", "'0'", "repeated")),
        ({"pictures": (ClassifiedImage("7", "7.png", 2),)}, ("s", "7", "2", "2", "0")),
    ],
)
def test_a_set_that_cannot_be_measured_is_refused(
    changes: dict[str, tuple[object, ...]], said: str | tuple[str, ...]
) -> None:
    fields = {"classes": ("cat", "dog"), "templates": ("{}",), "pictures": CATS} | changes
    with raises(DataError, said):
        ClassificationSet("s", **fields)  # type: ignore[arg-type]


def test_the_refusal_of_a_template_names_its_file() -> None:
    with raises(DataError, "templates.txt", "1"):
        check_templates(("{0}",), "templates.txt")
