"""The vocabulary against EqBen's Figure 14, the held-out rule, and the captions of training rows."""

import json
import re
import shutil
from collections.abc import Iterable
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from facts import raises
from tellapart.benchmarks.minimal_pairs import DEMO_FOLDER
from tellapart.errors import DataError, UnknownNameError
from tellapart_render import training_rows
from tellapart_render.captions import grammar
from tellapart_render.captions.grammar import LOCATIONS, OBJECTS, PLACES, count_caption, relation_caption
from tellapart_render.meshes.materials import PALETTE, surface
from tellapart_render.meshes.objects import SHAPES, shape
from tellapart_render.scenes.quadruple import Key, Quadruple, draw
from tellapart_render.scenes.scene import Scene, Thing, corners, project
from tellapart_render.training_rows import draw_whereabouts, foils, meaning, mirror, reword, truths

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
EVERYTHING = {*LOCATED, *(phrase for words in FIGURE.values() for phrase in words.split(", "))}


def phrases(nouns: Iterable[grammar.Noun]) -> list[str]:
    return sorted(noun.phrase() for noun in nouns)


def test_the_vocabulary_is_that_of_figure_14_word_for_word():
    assert grammar.VERBS == ("is", "is located", "is placed")
    assert {words for group in grammar.LOCATIONS.values() for words in group} == {
        "in front of", "behind", "on the left of", "on the left side of", "on the left hand of", "on the right of",
        "on the right side of", "on the right hand of", "on the top of", "above",
    }  # fmt: skip
    assert (grammar.SIZES, grammar.COUNTS) == (("small", "large"), (1, 2, 3, 4, 5))
    assert grammar.PLACES == ("in the scene", "on the platform")
    figure = grammar.FIGURE_14
    assert phrases(figure.located) == sorted(LOCATED) and len(LOCATED) == 34
    groups = {name: phrases(nouns) for name, nouns in figure.categories.items()}
    assert [*groups.items()] == [(name, sorted(words.split(", "))) for name, words in FIGURE.items()]
    assert phrases(figure.objects) == sorted(EVERYTHING)
    assert all(each.listed for each in figure.objects) and not figure.held_out


def test_objects_of_the_figure_can_be_drawn_in_their_colours_and_have_right_plurals():
    for each in grammar.FIGURE_14.objects:
        parts = shape(each.shape).parts
        assert each.colour in {"", "metallic", *PALETTE}
        assert all(surface(each.shape, part.slot, each.colour).colour is not None for part in parts)
        if each.colour in PALETTE:
            assert each.colour in each.phrase().split() or each.shape == "school bus"
    named = {each.phrase(): each for each in grammar.FIGURE_14.objects}
    assert [name for name, each in named.items() if each.plural] == ["blue gloves", "red scissors"]
    assert named["red scissors"].phrase(3) == "red scissors"
    assert named["white gaming mouse"].phrase(2) == "white gaming mice"
    assert not grammar.split_phrase("toy", "school bus", "box", "").plural
    plurals = {"small battery": "small batteries", "toy": "toys", "red berry": "red berries", "toy human": "toy humans"}
    plurals |= {"steak knife": "steak knives", "toy fireman": "toy firemen", "bookshelf": "bookshelves"}
    plurals |= {"red ottoman": "red ottomans", "toy hero": "toy heroes", "camera lens": "camera lenses"}
    assert {one: grammar.split_phrase("thing", one, "box", "").phrase(2) for one in plurals} == plurals


def test_the_demo_lists_of_the_figure_what_its_card_says_and_nothing_else():
    card = json.loads((DEMO_FOLDER / "card.json").read_text(encoding="utf-8"))
    listed = phrases(each for each in grammar.OBJECTS if each.listed)
    assert listed == card["grammar"]["from_figure_14"] == sorted({*phrases(grammar.OBJECTS)} & EVERYTHING)


def test_objects_have_shapes_colours_and_names_and_a_colour_in_a_name_is_the_one_drawn():
    assert len({*phrases(grammar.OBJECTS)}) == len(grammar.OBJECTS)
    assert all(each.shape in SHAPES and each.colour in {"", *PALETTE} for each in grammar.OBJECTS)
    for each in chain(*grammar.CATEGORIES.values()):
        assert {word for word in each.phrase().split() if word in PALETTE} == {each.colour}


def test_held_out_pairs_are_a_quarter_and_leave_every_shape_and_colour_in_training():
    varied = [*chain(*grammar.CATEGORIES.values())]
    assert {(each.shape, each.colour) for each in varied} >= grammar.HELD_OUT
    assert 0.2 <= sum(each.held_out for each in varied) / len(varied) <= 0.3
    kept = [each for each in grammar.OBJECTS if not each.held_out]
    assert {each.shape for each in kept} == {each.shape for each in grammar.OBJECTS}
    assert {each.colour for each in kept} - {""} == set(PALETTE)


def test_templates_read_as_in_the_figures_and_an_unknown_object_is_named():
    said = relation_caption("large brown bowl", "is", "above", "small white ramekin porcelain")
    assert said == "The large brown bowl is above the small white ramekin porcelain."
    ramekin, mug = grammar.noun("white ramekin porcelain"), grammar.noun("red coffee mug")
    two = count_caption(2, ramekin, "on the platform", existential=False)
    assert two == "2 white ramekin porcelains are on the platform."
    said = [count_caption(count, mug, "in the scene", existential=True) for count in (1, 4)]
    assert said == ["There is 1 red coffee mug in the scene.", "There are 4 red coffee mugs in the scene."]
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
    for quadruple in (q for q in quadruples if q.key.aspect == aspect):
        for side, scene in enumerate(quadruple.scenes):
            assert [text for text in truths(quadruple, side) if not holds(text, scene)] == []
            assert [foil for foil in foils(quadruple, side) if holds(foil.text, scene)] == []


def test_the_mates_caption_is_a_foil_and_foils_are_of_all_kinds_and_do_not_repeat(quadruples):
    kinds = set()
    for quadruple, side in product(quadruples, (0, 1)):
        true, false = truths(quadruple, side), foils(quadruple, side)
        texts = [foil.text for foil in false]
        assert true[0] == quadruple.captions[side] and quadruple.captions[1 - side] in texts
        assert len({*true, *texts}) == len(true) + len(texts)
        kinds |= {foil.kind for foil in false}
    assert kinds == {"pair", "count", "object", "subject", "location", "swap", "size", "binding"}


def test_no_text_of_a_training_scene_names_a_held_out_pair(quadruples):
    forbidden = [each for each in grammar.WORDS.values() if (each.shape, each.colour) in grammar.HELD_OUT]
    # "green round plate" must not be found inside a longer name.
    names = "|".join(each.phrase(count) for each in forbidden for count in (1, 2))
    named = re.compile(rf"\b(?:the|small|large|\d) (?:{names})\b")
    for quadruple, side in product([q for q in quadruples if q.key.held_out == "no"], (0, 1)):
        texts = (*truths(quadruple, side), *(foil.text for foil in foils(quadruple, side)))
        assert [text for text in texts if named.search(text.lower())] == []


# Training rows: what they call false is false, and a mirrored picture has mirrored words.

SCENES = Path(__file__).parents[2] / "examples" / "eqsim_ablation" / "smoke_scenes"


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = shutil.copytree(SCENES, tmp_path_factory.mktemp("rows") / "scenes")
    lines = (folder / "pairs.jsonl").read_text().splitlines(keepends=True)
    (folder / "pairs.jsonl").write_text("".join(lines[::6]))  # two of each aspect
    assert training_rows.main([str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def rows(scenes):
    return [json.loads(line) for line in (scenes / "rows.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def said(rows):
    """The rows in the grammar's own words."""
    return [row for number, row in enumerate(rows) if number % 4 < 2]


def test_each_picture_and_its_mirror_image_have_three_wordings_and_three_places(rows):
    assert len(rows) == 6 * 2 * 2 * 3 * 2
    assert len({row["image"] for row in rows}) == 6 * 2 * 2
    for number, row in enumerate(rows):
        (mate,) = (rows[place] for place in row["negative_images"])
        assert (mate["negative_images"], mate["cluster"]) == ([number], row["cluster"])
        assert mate["image"] != row["image"]


def test_no_false_caption_is_true_and_no_row_names_what_the_demo_holds_out(rows, said):
    for row in rows:
        assert row["negative_captions"]
        assert not {row["caption"], rows[row["negative_images"][0]]["caption"]} & set(row["negative_captions"])
    for row in said:
        true = {row["caption"], rows[row["negative_images"][0]]["caption"]}
        # Sizes are no part of a meaning, so foils of another size are compared as they are written.
        other = [text for text in row["negative_captions"] if "small" not in text and "large" not in text]
        assert not {meaning(text) for text in true} & {meaning(text) for text in other}
    held_out = phrases(each for each in grammar.DEMO.objects if grammar.DEMO.holds_out(each))
    texts = {text for row in rows for text in (row["caption"], *row["negative_captions"])}
    assert held_out and not [phrase for phrase in held_out for text in texts if f" {phrase} " in f" {text}"]


def test_a_mirrored_picture_has_mirrored_words(scenes, said):
    original = {(row["image"], meaning(row["caption"])) for row in said if row["image"].startswith("images/")}
    for row in said:
        if row["image"].startswith("mirrored/"):
            name = row["image"].replace("mirrored/", "images/")
            assert (name, meaning(mirror(row["caption"]))) in original
    name = "location-000_0.webp"
    first, second = (np.asarray(Image.open(scenes / part / name)) for part in ("images", "mirrored"))
    np.testing.assert_array_equal(first[:, ::-1], second)


def test_the_same_rows_come_again(scenes):
    before = (scenes / "rows.jsonl").read_bytes()
    training_rows.write_training_rows(scenes)
    assert (scenes / "rows.jsonl").read_bytes() == before


def test_a_set_of_another_grammar_is_refused(scenes, tmp_path):
    other = shutil.copytree(scenes, tmp_path / "other")
    card = json.loads((other / "card.json").read_text())
    card["recipe"]["seed"] = 4
    (other / "card.json").write_text(json.dumps(card))
    with raises(DataError, "attribute-000", "grammar"):
        training_rows.write_training_rows(other)
    (other / "card.json").write_text("{}")
    with raises(DataError, "builder", "'scenes'"):
        training_rows.write_training_rows(other)


BESIDE = ("attribute", "counting", "location")


def _all_places(quadruple: Quadruple, flip: bool) -> list[set[str]]:
    """What `draw_whereabouts` may call true of each side, found by drawing many times."""
    drawn = [draw_whereabouts(quadruple, flip, np.random.default_rng(seed)) for seed in range(20)]
    return [{caption for caption, _ in captions} for captions in zip(*drawn, strict=True)]


@pytest.mark.parametrize("aspect", BESIDE)
def test_the_places_hold_the_middle_of_the_outline_and_are_mirrored_with_the_picture(aspect):
    for index in range(2):
        quadruple = draw(Key("test", 5, aspect, index))
        for side, captions in enumerate(_all_places(quadruple, flip=False)):
            middles = []
            for thing in quadruple.scenes[side].things:
                outline = project(corners(thing), quadruple.scenes[side].camera)[:, :2]
                middles.append((outline.min(axis=0) + outline.max(axis=0)) / 2)
            for caption in captions:
                *_, column, row = caption.removesuffix(".").split()
                cell = 2 / training_rows.GRID
                left, top = -1 + (int(column) - 1) * cell, 1 - (int(row) - 1) * cell
                assert any(left <= x <= left + cell and top - cell <= y <= top for x, y in middles)

    def mirrored(caption):
        *name, column, row = caption.removesuffix(".").split()
        return " ".join([*name, str(training_rows.GRID + 1 - int(column)), row]) + "."

    quadruple = draw(Key("test", 5, aspect, 0))
    plain, flipped = _all_places(quadruple, flip=False), _all_places(quadruple, flip=True)
    assert [{mirrored(caption) for caption in side} for side in plain] == flipped


@pytest.mark.parametrize("aspect", BESIDE)
def test_what_is_false_is_true_of_neither_picture(aspect):
    for index in range(2):
        quadruple = draw(Key("test", 5, aspect, index))
        first, second = _all_places(quadruple, flip=False)
        for _, false in draw_whereabouts(quadruple, False, np.random.default_rng(index)):
            assert len(false) == len(set(false)) > 2
            assert not set(false) & (first | second)


nouns = st.sampled_from(OBJECTS)
wordings = st.integers(0, 10_000).map(lambda seed: training_rows.draw_synonyms(np.random.default_rng(seed)))
locations = st.sampled_from([(relation, form) for relation, forms in LOCATIONS.items() for form in forms])


@given(nouns, nouns, st.sampled_from(grammar.VERBS), locations, wordings)
def test_rewording_a_relation_keeps_its_meaning(first, second, verb, location, wording):
    text = relation_caption(first.phrase(), verb, location[1], second.phrase())
    assert meaning(reword(text, wording)) == meaning(text)


@given(nouns, nouns, locations, locations)
def test_two_relations_mean_the_same_only_if_their_locations_are_synonyms(first, second, one, other):
    assume(first != second)
    meanings = [meaning(relation_caption(first.phrase(), "is", form, second.phrase())) for _, form in (one, other)]
    assert (meanings[0] == meanings[1]) == (one[0] == other[0])


@given(nouns, nouns, locations)
def test_mirroring_swaps_left_and_right_alone_and_a_converse_means_the_same(first, second, location):
    text = relation_caption(first.phrase(), "is", location[1], second.phrase())
    assume(first != second)
    assert mirror(mirror(text)) == text
    assert (meaning(mirror(text)) == meaning(text)) == (location[0] not in {"left", "right"})
    converse = {"left": "right", "right": "left", "front": "behind", "behind": "front"}.get(location[0])
    texts = [relation_caption(second.phrase(), "is", form, first.phrase()) for form in LOCATIONS.get(converse, ())]
    assert {meaning(other) for other in texts} <= {meaning(text)}


@given(nouns, st.integers(1, 5), st.sampled_from(PLACES), st.booleans(), wordings)
def test_rewording_a_count_keeps_number_and_object(each, count, place, existential, wording):
    text = count_caption(count, each, place, existential=existential)
    again = reword(text, wording)
    assert meaning(again) == meaning(text)
    assert again in {
        count_caption(count, each, where, existential=there) for where in PLACES for there in (True, False)
    }


@given(nouns, st.integers(1, 5), st.integers(1, 5))
def test_counts_mean_the_same_only_if_they_are_equal(each, one, other):
    meanings = [meaning(count_caption(count, each, "in the scene", existential=True)) for count in (one, other)]
    assert (meanings[0] == meanings[1]) == (one == other)


@given(nouns, nouns, st.sampled_from(grammar.SIZES), st.sampled_from(grammar.SIZES), locations)
def test_size_words_do_not_change_the_meaning(first, second, small, large, location):
    sized = relation_caption(f"{small} {first.phrase()}", "is", location[1], f"{large} {second.phrase()}")
    assert meaning(sized) == meaning(relation_caption(first.phrase(), "is", location[1], second.phrase()))
