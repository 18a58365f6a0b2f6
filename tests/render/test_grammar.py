"""The vocabulary against EqBen's Figure 14, and the held-out rule."""

from __future__ import annotations

import json

from facts import raises
from tellapart.benchmarks.demo import DEMO_FOLDER
from tellapart.errors import UnknownNameError
from tellapart_render.captions.grammar import (
    CATEGORIES,
    COUNTS,
    FIGURE_14,
    HELD_OUT,
    LOCATIONS,
    OBJECTS,
    PLACES,
    SIZES,
    VERBS,
    count_caption,
    noun,
    relation_caption,
)
from tellapart_render.meshes.materials import PALETTE, surface
from tellapart_render.meshes.objects import SHAPES, shape

# Figure 14, the rows of Eq-Kubric, transcribed word for word.
LOCATED = [
    "green turtle toy",
    "white animal dog toy",
    "black power pressure cooker",
    "great white shark model",
    "white ramekin porcelain",
    "pink damask bath towel",
    "white porcelain teapot",
    "grey elephant toy",
    "bald eagle toy",
    "brown bull",
    "blue gloves",
    "brown hat",
    "white gaming mouse",
    "black keyboard",
    "black boot",
    "white gift box with red straps",
    "red scissors",
    "vintage metal alarm clock",
    "black frypan",
    "stainless steel milk frother",
    "red coffee mug",
    "purple doll house wooden sofa",
    "black sneaker",
    "white canvas shoe",
    "black laptop",
    "black and red gameboy",
    "blue and black backpack",
    "red high heel",
    "stainless steel toaster",
    "white drug bottle",
    "fabric basket",
    "school bus toy",
    "black and yellow hammer",
    "green doll house wooden refrigerator",
]
FIGURE = {
    "towel": "blue stripe towel, red stripe towel, green stripe towel, grey wash towel",
    "hat": "black hat, grey hat, brown hat",
    "plate": "green square saucer plate, red square saucer plate, yellow square saucer plate, green round plate, "
    "brown round plate, blue round plate",
    "plant container": "blue plant container, yellow plant container, red plant container",
    "storage": "metallic mobile device storage, white mobile device storage, blue and white mobile device storage",
    "shoe": "brown shoe, green shoe, white running shoe, black shoe, pink shoe, purple running shoe, yellow shoe, "
    "blue shoe, red shoe",
    "bottle": "yellow drug bottle, red drug bottle, blue drug bottle, purple bottle",
    "bowl": "yellow bowl, brown bowl, blue bowl, white bowl, grey dog bowl, pink dog bowl, blue plastic dog bowl",
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


def test_the_whole_vocabulary_is_the_figure_word_for_word() -> None:
    assert sorted(each.phrase() for each in FIGURE_14.located) == sorted(LOCATED)
    assert len(LOCATED) == 34
    assert list(FIGURE_14.categories) == list(FIGURE)
    for name, words in FIGURE.items():
        assert sorted(each.phrase() for each in FIGURE_14.categories[name]) == sorted(words.split(", ")), name
    everything = {*LOCATED, *(phrase for words in FIGURE.values() for phrase in words.split(", "))}
    assert sorted(each.phrase() for each in FIGURE_14.objects) == sorted(everything)
    assert all(each.listed for each in FIGURE_14.objects)
    assert not FIGURE_14.held_out


def test_every_object_of_the_figure_can_be_drawn_in_its_colour() -> None:
    for each in FIGURE_14.objects:
        parts = shape(each.shape).parts
        assert each.colour in {"", "metallic", *PALETTE}
        assert all(surface(each.shape, part.slot, each.colour).colour is not None for part in parts)
        if each.colour in PALETTE:
            assert each.colour in each.phrase().split() or each.shape == "school bus"


def test_the_demo_lists_of_the_figure_what_its_card_says_and_nothing_else() -> None:
    everything = {*LOCATED, *(phrase for words in FIGURE.values() for phrase in words.split(", "))}
    card = json.loads((DEMO_FOLDER / "card.json").read_text(encoding="utf-8"))
    assert sorted(each.phrase() for each in OBJECTS if each.listed) == card["grammar"]["from_figure_14"]
    assert {each.phrase() for each in OBJECTS if each.listed} <= everything
    assert {each.phrase() for each in OBJECTS if not each.listed}.isdisjoint(everything)


def test_names_that_are_plurals_stay_as_they_are_and_mice_are_mice() -> None:
    named = {each.phrase(): each for each in FIGURE_14.objects}
    assert [name for name, each in named.items() if each.plural] == ["blue gloves", "red scissors"]
    assert named["red scissors"].phrase(3) == "red scissors"
    assert named["white gaming mouse"].phrase(2) == "white gaming mice"


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
    assert {each.shape for each in kept} == {each.shape for each in OBJECTS}
    assert {each.colour for each in kept} - {""} == set(PALETTE)


def test_templates_read_as_in_figures_14_and_16() -> None:
    assert (
        relation_caption("large brown bowl", "is", "above", "small white ramekin porcelain")
        == "The large brown bowl is above the small white ramekin porcelain."
    )
    ramekin, mug = noun("white ramekin porcelain"), noun("red coffee mug")
    assert count_caption(2, ramekin, "on the platform", existential=False) == (
        "2 white ramekin porcelains are on the platform."
    )
    assert count_caption(1, mug, "in the scene", existential=True) == "There is 1 red coffee mug in the scene."
    assert count_caption(4, mug, "in the scene", existential=True) == "There are 4 red coffee mugs in the scene."


def test_an_unknown_object_is_named_with_what_there_is() -> None:
    with raises(UnknownNameError, "object", "noun"):
        noun("golden mug")
