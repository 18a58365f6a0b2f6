"""The vocabulary against EqBen's Figure 14, and the held-out rule."""

import json
import re
from itertools import product

import pytest

from facts import raises
from tellapart.benchmarks.demo import DEMO_FOLDER
from tellapart.errors import UnknownNameError
from tellapart_render.captions import grammar
from tellapart_render.meshes.materials import PALETTE, surface
from tellapart_render.meshes.objects import SHAPES, shape
from tellapart_render.scenes.quadruple import Key, draw
from tellapart_render.scenes.scene import Scene, Thing
from tellapart_render.training_rows import foils, truths

# Figure 14, the rows of Eq-Kubric, transcribed word for word.
LOCATED = [
    "green turtle toy", "white animal dog toy", "black power pressure cooker", "great white shark model",
    "white ramekin porcelain", "pink damask bath towel", "white porcelain teapot", "grey elephant toy",
    "bald eagle toy", "brown bull", "blue gloves", "brown hat", "white gaming mouse", "black keyboard", "black boot",
    "white gift box with red straps", "red scissors", "vintage metal alarm clock", "black frypan",
    "stainless steel milk frother", "red coffee mug", "purple doll house wooden sofa", "black sneaker",
    "white canvas shoe", "black laptop", "black and red gameboy", "blue and black backpack", "red high heel",
    "stainless steel toaster", "white drug bottle", "fabric basket", "school bus toy", "black and yellow hammer",
    "green doll house wooden refrigerator",
]  # fmt: skip
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


def test_verbs_locations_sizes_and_counts_are_those_of_figure_14():
    assert grammar.VERBS == ("is", "is located", "is placed")
    assert {words for group in grammar.LOCATIONS.values() for words in group} == {
        "in front of", "behind", "on the left of", "on the left side of", "on the left hand of", "on the right of",
        "on the right side of", "on the right hand of", "on the top of", "above",
    }  # fmt: skip
    assert grammar.SIZES == ("small", "large")
    assert grammar.COUNTS == (1, 2, 3, 4, 5)
    assert grammar.PLACES == ("in the scene", "on the platform")


def test_the_whole_vocabulary_is_the_figure_word_for_word():
    assert sorted(each.phrase() for each in grammar.FIGURE_14.located) == sorted(LOCATED)
    assert len(LOCATED) == 34
    assert list(grammar.FIGURE_14.categories) == list(FIGURE)
    for name, words in FIGURE.items():
        assert sorted(each.phrase() for each in grammar.FIGURE_14.categories[name]) == sorted(words.split(", ")), name
    everything = {*LOCATED, *(phrase for words in FIGURE.values() for phrase in words.split(", "))}
    assert sorted(each.phrase() for each in grammar.FIGURE_14.objects) == sorted(everything)
    assert all(each.listed for each in grammar.FIGURE_14.objects)
    assert not grammar.FIGURE_14.held_out


def test_every_object_of_the_figure_can_be_drawn_in_its_colour():
    for each in grammar.FIGURE_14.objects:
        parts = shape(each.shape).parts
        assert each.colour in {"", "metallic", *PALETTE}
        assert all(surface(each.shape, part.slot, each.colour).colour is not None for part in parts)
        if each.colour in PALETTE:
            assert each.colour in each.phrase().split() or each.shape == "school bus"


def test_the_demo_lists_of_the_figure_what_its_card_says_and_nothing_else():
    everything = {*LOCATED, *(phrase for words in FIGURE.values() for phrase in words.split(", "))}
    card = json.loads((DEMO_FOLDER / "card.json").read_text(encoding="utf-8"))
    assert sorted(each.phrase() for each in grammar.OBJECTS if each.listed) == card["grammar"]["from_figure_14"]
    assert {each.phrase() for each in grammar.OBJECTS if each.listed} <= everything
    assert {each.phrase() for each in grammar.OBJECTS if not each.listed}.isdisjoint(everything)


def test_names_that_are_plurals_stay_as_they_are_and_mice_are_mice():
    named = {each.phrase(): each for each in grammar.FIGURE_14.objects}
    assert [name for name, each in named.items() if each.plural] == ["blue gloves", "red scissors"]
    assert named["red scissors"].phrase(3) == "red scissors"
    assert named["white gaming mouse"].phrase(2) == "white gaming mice"


def test_every_object_has_a_shape_a_colour_and_a_name_of_its_own():
    assert len({each.phrase() for each in grammar.OBJECTS}) == len(grammar.OBJECTS)
    for each in grammar.OBJECTS:
        assert each.shape in SHAPES
        assert each.colour in PALETTE or each.colour == ""


def test_a_colour_word_in_a_name_is_the_colour_that_is_drawn():
    for group in grammar.CATEGORIES.values():
        for each in group:
            assert {word for word in each.phrase().split() if word in PALETTE} == {each.colour}


def test_held_out_pairs_are_a_quarter_and_leave_every_shape_and_colour_in_training():
    varied = [each for group in grammar.CATEGORIES.values() for each in group]
    assert {(each.shape, each.colour) for each in varied} >= grammar.HELD_OUT
    assert 0.2 <= sum(each.held_out for each in varied) / len(varied) <= 0.3
    kept = [each for each in grammar.OBJECTS if not each.held_out]
    assert {each.shape for each in kept} == {each.shape for each in grammar.OBJECTS}
    assert {each.colour for each in kept} - {""} == set(PALETTE)


def test_templates_read_as_in_figures_14_and_16():
    assert (
        grammar.relation_caption("large brown bowl", "is", "above", "small white ramekin porcelain")
        == "The large brown bowl is above the small white ramekin porcelain."
    )
    ramekin, mug = grammar.noun("white ramekin porcelain"), grammar.noun("red coffee mug")
    assert grammar.count_caption(2, ramekin, "on the platform", existential=False) == (
        "2 white ramekin porcelains are on the platform."
    )
    assert grammar.count_caption(1, mug, "in the scene", existential=True) == "There is 1 red coffee mug in the scene."
    assert (
        grammar.count_caption(4, mug, "in the scene", existential=True) == "There are 4 red coffee mugs in the scene."
    )


def test_an_unknown_object_is_named_with_what_there_is():
    with raises(UnknownNameError, "object", "noun"):
        grammar.noun("golden mug")


RELATION = {words: relation for relation, group in grammar.LOCATIONS.items() for words in group}
SENTENCE = re.compile(
    r"The (small |large )?(?P<a>.+?) (?:{verbs}) (?P<where>{where}) the (small |large )?(?P<b>.+)\.".format(
        verbs="|".join(sorted(grammar.VERBS, key=len, reverse=True)), where="|".join(RELATION)
    )
)
PLURAL = {each.phrase(2): each for each in grammar.WORDS.values()} | grammar.WORDS
COUNT = re.compile(r"(?:There (?:is|are) )?(\d) (.+?) (?:(?:is|are) )?(?:{})\.".format("|".join(grammar.PLACES)))


def is_named(thing: Thing, phrase: str) -> bool:
    """Whether a phrase may be said of a thing: one of its names has all words of the phrase."""
    own = [each for each in grammar.WORDS.values() if (each.shape, each.colour) == (thing.shape, thing.colour)]
    return any(set(phrase.split()) <= set(each.phrase().split()) for each in own)


def fits_size(thing: Thing, word: str | None) -> bool:
    return word is None or (thing.size < 1.0) == (word.strip() == "small")


def seen_relations(one: Thing, other: Thing) -> set[str]:
    """The relation by the larger offset; what stands on something is beside nothing."""
    x, y, z = (a - b for a, b in zip(one.position, other.position, strict=True))
    if z > 0.001:
        return {"top"}
    if z < -0.001:
        return set()
    if abs(x) > abs(y):
        return {"right" if x > 0 else "left"}
    return {"behind" if y > 0 else "front"}


def holds(caption: str, scene: Scene) -> bool:
    """Whether a caption is true of a scene."""
    counted = COUNT.fullmatch(caption)
    if counted:
        groups = [group.split(" ", maxsplit=1) for group in f"{counted[1]} {counted[2]}".split(" and ")]
        seen = [sum(is_named(thing, PLURAL[name].phrase()) for thing in scene.things) for _, name in groups]
        return seen == [int(number) for number, _ in groups]
    match = SENTENCE.fullmatch(caption)
    assert match, caption
    size_a, a, where, size_b, b = match.groups()
    return any(
        is_named(one, a)
        and is_named(other, b)
        and fits_size(one, size_a)
        and fits_size(other, size_b)
        and RELATION[where] in seen_relations(one, other)
        for one, other in product(scene.things, scene.things)
        if one is not other
    )


@pytest.fixture(scope="module")
def quadruples():
    return [
        draw(Key("test", 21, aspect, index, wording=wording, held_out=held))
        for aspect in grammar.ASPECTS
        for index in range(20)
        for wording, held in (("minimal", "no"), ("minimal", "yes"), ("paper", "no"))
    ]


@pytest.mark.parametrize("aspect", grammar.ASPECTS)
def test_every_paraphrase_is_true_and_every_foil_false(aspect, quadruples):
    for quadruple in quadruples:
        if quadruple.key.aspect != aspect:
            continue
        for side, scene in enumerate(quadruple.scenes):
            for text in truths(quadruple, side):
                assert holds(text, scene), text
            for foil in foils(quadruple, side):
                assert not holds(foil.text, scene), (foil, scene.things)


def test_the_own_caption_comes_first_and_the_other_sides_caption_is_a_foil(quadruples):
    for quadruple in quadruples:
        for side in (0, 1):
            assert truths(quadruple, side)[0] == quadruple.captions[side]
            assert quadruple.captions[1 - side] in {foil.text for foil in foils(quadruple, side)}


def test_no_text_of_a_training_scene_names_a_held_out_pair(quadruples):
    forbidden = [each for each in grammar.WORDS.values() if (each.shape, each.colour) in grammar.HELD_OUT]
    for quadruple in (q for q in quadruples if q.key.held_out == "no"):
        for side in (0, 1):
            for text in (*truths(quadruple, side), *(foil.text for foil in foils(quadruple, side))):
                for each in forbidden:
                    # "green round plate" must not be found inside a longer name.
                    assert not re.search(
                        rf"\b(?:the|small|large|\d) (?:{each.phrase()}|{each.phrase(2)})\b", text.lower()
                    )


def test_all_kinds_of_foil_occur(quadruples):
    kinds = {foil.kind for quadruple in quadruples for side in (0, 1) for foil in foils(quadruple, side)}
    assert kinds == {"pair", "count", "object", "subject", "location", "swap", "size", "binding"}


def test_texts_of_a_scene_do_not_repeat(quadruples):
    for quadruple in quadruples:
        texts = truths(quadruple, 0) + [foil.text for foil in foils(quadruple, 0)]
        assert len(set(texts)) == len(texts)
