"""Training rows of rendered scenes: what they call false is false, and a mirrored picture has mirrored words."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from facts import raises
from tellapart.errors import DataError
from tellapart_render.captions.grammar import (
    DEMO,
    LOCATIONS,
    OBJECTS,
    PLACES,
    SIZES,
    VERBS,
    count_caption,
    relation_caption,
)
from tellapart_render.scenes.quadruple import Aspect, Key, Quadruple, draw
from tellapart_render.scenes.scene import corners, project
from tellapart_render.training_rows import (
    GRID,
    draw_synonyms,
    draw_whereabouts,
    main,
    meaning,
    mirror,
    reword,
    write_training_rows,
)

SCENES = Path(__file__).parents[2] / "examples" / "eqsim_ablation" / "smoke_scenes"


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = shutil.copytree(SCENES, tmp_path_factory.mktemp("rows") / "scenes")
    lines = (folder / "pairs.jsonl").read_text().splitlines(keepends=True)
    (folder / "pairs.jsonl").write_text("".join(lines[::6]))  # two of each aspect
    assert main([str(folder)]) == 0
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
        (mate,) = row["negative_images"]
        assert rows[mate]["negative_images"] == [number]
        assert rows[mate]["cluster"] == row["cluster"]
        assert rows[mate]["image"] != row["image"]


def test_no_false_caption_is_true_of_the_picture_or_of_its_mate(rows, said):
    for row in rows:
        assert row["negative_captions"]
        assert not {row["caption"], rows[row["negative_images"][0]]["caption"]} & set(row["negative_captions"])
    for row in said:
        true = {row["caption"], rows[row["negative_images"][0]]["caption"]}
        # Sizes are no part of a meaning, so foils of another size are compared as they are written.
        other = [text for text in row["negative_captions"] if "small" not in text and "large" not in text]
        assert not {meaning(text) for text in true} & {meaning(text) for text in other}


def test_no_row_names_a_combination_that_the_demo_holds_out(rows):
    phrases = [each.phrase() for each in DEMO.objects if DEMO.holds_out(each)]
    assert phrases
    texts = {text for row in rows for text in (row["caption"], *row["negative_captions"])}
    assert not [phrase for phrase in phrases for text in texts if f" {phrase} " in f" {text}"]


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
    write_training_rows(scenes)
    assert (scenes / "rows.jsonl").read_bytes() == before


def test_a_set_of_another_grammar_is_refused(scenes, tmp_path):
    other = shutil.copytree(scenes, tmp_path / "other")
    card = json.loads((other / "card.json").read_text())
    card["recipe"]["seed"] = 4
    (other / "card.json").write_text(json.dumps(card))
    with raises(DataError, "attribute-000", "grammar"):
        write_training_rows(other)
    (other / "card.json").write_text("{}")
    with raises(DataError, "builder", "'scenes'"):
        write_training_rows(other)


def _drawn(aspect: Aspect, index: int) -> Quadruple:
    return draw(Key("test", 5, aspect, index))


def _all_places(quadruple: Quadruple, flip: bool) -> list[set[str]]:
    """What `draw_whereabouts` may call true of each side, found by drawing many times."""
    found = [set(), set()]
    for seed in range(20):
        for side, (caption, _) in enumerate(draw_whereabouts(quadruple, flip, np.random.default_rng(seed))):
            found[side].add(caption)
    return found


@pytest.mark.parametrize("aspect", ["attribute", "counting", "location"])
def test_the_column_and_the_row_hold_the_middle_of_the_outline(aspect):
    for index in range(2):
        quadruple = _drawn(aspect, index)
        for side, captions in enumerate(_all_places(quadruple, flip=False)):
            middles = []
            for thing in quadruple.scenes[side].things:
                outline = project(corners(thing), quadruple.scenes[side].camera)[:, :2]
                middles.append((outline.min(axis=0) + outline.max(axis=0)) / 2)
            for caption in captions:
                *_, column, row = caption.removesuffix(".").split()
                left, top = -1 + (int(column) - 1) * 2 / GRID, 1 - (int(row) - 1) * 2 / GRID
                assert any(left <= x <= left + 2 / GRID and top - 2 / GRID <= y <= top for x, y in middles)


@pytest.mark.parametrize("aspect", ["attribute", "counting", "location"])
def test_a_mirrored_picture_has_the_columns_from_the_other_side(aspect):
    def mirrored(caption):
        *name, column, row = caption.removesuffix(".").split()
        return " ".join([*name, str(GRID + 1 - int(column)), row]) + "."

    quadruple = _drawn(aspect, 0)
    plain, flipped = _all_places(quadruple, flip=False), _all_places(quadruple, flip=True)
    assert [{mirrored(caption) for caption in side} for side in plain] == flipped


@pytest.mark.parametrize("aspect", ["attribute", "counting", "location"])
def test_what_is_false_is_true_of_neither_picture(aspect):
    for index in range(2):
        quadruple = _drawn(aspect, index)
        first, second = _all_places(quadruple, flip=False)
        for _, false in draw_whereabouts(quadruple, False, np.random.default_rng(index)):
            assert len(false) == len(set(false)) > 2
            assert not set(false) & (first | second)


nouns = st.sampled_from(OBJECTS)
wordings = st.integers(0, 10_000).map(lambda seed: draw_synonyms(np.random.default_rng(seed)))
locations = st.sampled_from([(relation, form) for relation, forms in LOCATIONS.items() for form in forms])


@given(nouns, nouns, st.sampled_from(VERBS), locations, wordings)
def test_rewording_a_relation_keeps_its_meaning(first, second, verb, location, wording):
    text = relation_caption(first.phrase(), verb, location[1], second.phrase())
    assert meaning(reword(text, wording)) == meaning(text)


@given(nouns, nouns, locations, locations)
def test_two_relations_mean_the_same_only_if_their_locations_are_synonyms(first, second, one, other):
    assume(first != second)
    meanings = [meaning(relation_caption(first.phrase(), "is", form, second.phrase())) for _, form in (one, other)]
    assert (meanings[0] == meanings[1]) == (one[0] == other[0])


@given(nouns, nouns, locations)
def test_mirroring_swaps_left_and_right_and_nothing_else(first, second, location):
    text = relation_caption(first.phrase(), "is", location[1], second.phrase())
    assume(first != second)
    assert mirror(mirror(text)) == text
    assert (meaning(mirror(text)) == meaning(text)) == (location[0] not in {"left", "right"})


@given(nouns, nouns, locations)
def test_a_relation_and_its_converse_mean_the_same(first, second, location):
    assume(first != second)
    converse = {"left": "right", "right": "left", "front": "behind", "behind": "front"}.get(location[0])
    assume(converse is not None)
    texts = [relation_caption(first.phrase(), "is", location[1], second.phrase())]
    texts += [relation_caption(second.phrase(), "is", form, first.phrase()) for form in LOCATIONS[converse]]
    assert len({meaning(text) for text in texts}) == 1


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


@given(nouns, nouns, st.sampled_from(SIZES), st.sampled_from(SIZES), locations)
def test_size_words_do_not_change_the_meaning(first, second, small, large, location):
    sized = relation_caption(f"{small} {first.phrase()}", "is", location[1], f"{large} {second.phrase()}")
    assert meaning(sized) == meaning(relation_caption(first.phrase(), "is", location[1], second.phrase()))
