"""The vocabulary against EqBen's Figure 14, and the held-out rule."""

from __future__ import annotations

import pytest

from tellapart.build.rendered.grammar import (
    CATEGORIES,
    COUNTS,
    HELD_OUT,
    LOCATIONS,
    OBJECTS,
    PLACES,
    SIZES,
    VERBS,
    counting,
    noun,
    relating,
)
from tellapart.build.rendered.materials import PALETTE
from tellapart.build.rendered.objects import SHAPES
from tellapart.errors import UnknownNameError

# Figure 14, the rows of Eq-Kubric, without what `demo.LEFT_OUT` names.
FIGURE = {
    "location": (
        "white porcelain teapot|white ramekin porcelain|brown hat|black keyboard|white gift box with red straps|"
        "vintage metal alarm clock|black frypan|stainless steel milk frother|red coffee mug|"
        "purple doll house wooden sofa|black laptop|stainless steel toaster|white drug bottle|fabric basket|"
        "green doll house wooden refrigerator|black power pressure cooker"
    ),
    "towel": "blue stripe towel|red stripe towel|green stripe towel|grey wash towel",
    "hat": "black hat|grey hat|brown hat",
    "plate": (
        "green square saucer plate|red square saucer plate|yellow square saucer plate|green round plate|"
        "brown round plate|blue round plate"
    ),
    "plant container": "blue plant container|yellow plant container|red plant container",
    "bottle": "yellow drug bottle|red drug bottle|blue drug bottle|purple bottle",
    "bowl": ("yellow bowl|brown bowl|blue bowl|white bowl|grey dog bowl|pink dog bowl|blue plastic dog bowl"),
}


def test_verbs_locations_sizes_and_counts_are_those_of_figure_14() -> None:
    assert VERBS == ("is", "is located", "is placed")
    assert {words for group in LOCATIONS.values() for words in group} == {
        "in front of",
        "behind",
        "on the left of",
        "on the left side of",
        "on the left hand of",
        "on the right of",
        "on the right side of",
        "on the right hand of",
        "on the top of",
        "above",
    }
    assert SIZES == ("small", "large")
    assert COUNTS == (1, 2, 3, 4, 5)
    assert PLACES == ("in the scene", "on the platform")


@pytest.mark.parametrize("row", sorted(FIGURE))
def test_every_kept_object_of_figure_14_is_there_and_marked_as_listed(row: str) -> None:
    for phrase in FIGURE[row].split("|"):
        assert noun(phrase).listed, phrase
        if row in CATEGORIES:
            assert noun(phrase) in CATEGORIES[row]


def test_objects_marked_as_listed_are_in_figure_14() -> None:
    figure = {phrase for row in FIGURE.values() for phrase in row.split("|")} | {"school bus toy"}
    assert {each.phrase() for each in OBJECTS if each.listed} == figure


def test_every_object_has_a_shape_a_colour_and_a_name_of_its_own() -> None:
    assert len({each.phrase() for each in OBJECTS}) == len(OBJECTS)
    for each in OBJECTS:
        assert each.shape in SHAPES
        assert each.colour in PALETTE or each.colour == ""


def test_a_colour_word_in_a_name_is_the_colour_that_is_drawn() -> None:
    for group in CATEGORIES.values():
        for each in group:
            assert {word for word in each.phrase().split() if word in PALETTE} == {each.colour}


def test_held_out_pairs_are_a_quarter_and_leave_every_shape_and_colour_in_training() -> None:
    varied = [each for group in CATEGORIES.values() for each in group]
    assert {(each.shape, each.colour) for each in varied} >= HELD_OUT
    assert 0.2 <= sum(each.held_out for each in varied) / len(varied) <= 0.3
    kept = [each for each in OBJECTS if not each.held_out]
    assert {each.shape for each in kept} == set(SHAPES)
    assert {each.colour for each in kept} - {""} == set(PALETTE)


def test_templates_read_as_in_figures_14_and_16() -> None:
    assert (
        relating("large brown bowl", "is", "above", "small white ramekin porcelain")
        == "The large brown bowl is above the small white ramekin porcelain."
    )
    ramekin, mug = noun("white ramekin porcelain"), noun("red coffee mug")
    assert counting(2, ramekin, "on the platform", existential=False) == (
        "2 white ramekin porcelains are on the platform."
    )
    assert counting(1, mug, "in the scene", existential=True) == "There is 1 red coffee mug in the scene."
    assert counting(4, mug, "in the scene", existential=True) == "There are 4 red coffee mugs in the scene."


def test_an_unknown_object_is_named_with_what_there_is() -> None:
    with pytest.raises(
        UnknownNameError, match=r"noun\('golden mug'\): no such object; the objects are .*red coffee mug"
    ):
        noun("golden mug")
