"""A set of classes refuses what no model could be right about."""

from __future__ import annotations

import pytest

from tellapart.data.classification import ClassificationSet, ClassifiedImage, check_templates
from tellapart.errors import DataError

CATS = (ClassifiedImage("0", "0.png", 0), ClassifiedImage("1", "1.png", 1))


def test_every_class_is_put_into_every_template_and_braces_in_a_name_stay() -> None:
    found = ClassificationSet("s", ("cat", "{0}"), ("a {}.", "{}!"), CATS)
    assert found.prompts == (("a cat.", "a {0}."), ("cat!", "{0}!"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"classes": ("cat",)}, "s has 1 classes; it needs two or more"),
        ({"classes": ("cat", " ")}, "s: class 1 has no name"),
        ({"classes": ("cat", "cat")}, "two classes are called 'cat', so no model can tell them apart"),
        ({"templates": ()}, "s: no template; give one a line, such as: a photo of a {}."),
        ({"templates": ("a photo",)}, "s: template 1 must hold {} once, for the class's name; got 'a photo'"),
        ({"templates": ("{}", "{} {}")}, "s: template 2 must hold {} once"),
        ({"templates": ("{}", "{}")}, "s: a template is repeated, and would count twice"),
        ({"pictures": ()}, "s holds no rows"),
        ({"pictures": (CATS[0], CATS[0])}, "s: id '0' is repeated"),
        ({"pictures": (ClassifiedImage("7", "7.png", 2),)}, "s: picture '7' is of class 2; there are 2, from 0"),
    ],
)
def test_a_set_that_cannot_be_measured_is_refused(changes: dict[str, tuple[object, ...]], said: str) -> None:
    fields = {"classes": ("cat", "dog"), "templates": ("{}",), "pictures": CATS} | changes
    with pytest.raises(DataError, match=said.replace("{", r"\{").replace("}", r"\}")):
        ClassificationSet("s", **fields)  # type: ignore[arg-type]


def test_the_refusal_of_a_template_names_its_file() -> None:
    with pytest.raises(DataError, match=r"^templates.txt: template 1 must hold"):
        check_templates(("{0}",), "templates.txt")
