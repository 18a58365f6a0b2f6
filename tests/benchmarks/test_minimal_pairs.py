"""Published sets of minimal pairs whose files follow rules of their own: from published and made files."""

import csv
import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from annotation_formats import ANSWERED, boxed
from numpy.typing import NDArray
from PIL import Image

from facts import raises
from pictures import draw
from published import published
from sets import write_file
from tellapart import Benchmark, Scores, find_benchmark
from tellapart.benchmarks import set_file
from tellapart.benchmarks.minimal_pairs import SUBSETS, same_words
from tellapart.data.rows import expect_count
from tellapart.errors import DataError
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.metrics.order_bias import order_bias
from tellapart.models.scoring.score import Scored
from tellapart.tasks.choice import read_both_orders, read_given_choices
from tellapart.tasks.pairs import ListedPairs, measure_pairs

# SugarCrepe: its older copy, and the published numbers of items, of both captions' words and of files of images.

At = Callable[..., Benchmark]
JPEG = draw(1, kind="JPEG")


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of one of BiVLC's tables."""
    with (published("bivlc") / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_the_older_copy_holds_an_item_more(at, tmp_path):
    files: dict[str, list[dict[str, str]]] = {subset: [] for subset in SUBSETS}
    for row in rows_of("SUGARCREPE_CORRECT_ViT-B-32"):
        fields = {key: row[key] for key in ("filename", "caption", "negative_caption")}
        files[f"{row['type']}_{row['subtype']}"].append(fields)
    for subset, rows in files.items():
        write_file(tmp_path / f"{subset}.json", {str(k): row for k, row in enumerate(rows)})
    assert len(at("sugarcrepe", tmp_path).outline().ids) == 7512


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("A cat, a dog.", "a DOG a cat", True),
        ("a cat and a dog", "a cat and dog", False),
        ("it's here", "its here", False),
        ("", "", True),
        ("एक बेटा और एक कुत्ता", "एक कुत्ता और एक बेटा", True),
        ("एक बेटा", "एक बेटी", False),  # a son, a daughter: they differ in a vowel sign alone
        ("un café", "un cafe\u0301", True),
        ("un cafe\u0301", "un cafe", False),
    ],
)
def test_the_same_words_are_so_whatever_order_case_and_punctuation(first, second, same):
    assert same_words(first, second) is same


@pytest.mark.parametrize(("name", "folder"), [("sugarcrepe", "."), ("valse", "visual7w")])
def test_images_are_read_from_the_folder_that_is_named_or_that_of_their_source(at, tmp_path, name, folder):
    pairs = at(name, published(name), tmp_path).records()
    reference = pairs.items[0].images[0]
    with raises(DataError, f"'{reference}'", "images="):
        pairs.pixels(reference)
    write_file(tmp_path / folder / reference, JPEG)
    assert at(name, published(name), tmp_path).records().pixels(reference).shape == (4, 4, 3)


# GPT-4V's published answers: a recount gives the published table, in both caption orders.

TABLE = {  # items, right with the true caption first, right with it second: SugarCrepe's gpt-4v-results/readme.md
    "swap_att": (666, 607, 593),
    "swap_obj": (246, 211, 198),
    "add_att": (692, 604, 666),
    "add_obj": (2062, 1859, 1918),
    "replace_att": (788, 734, 740),
    "replace_obj": (1652, 1578, 1604),
    "replace_rel": (1406, 1240, 1298),
}


@pytest.mark.parametrize("subset", TABLE)
def test_a_recount_gives_the_published_table(subset):
    folder = published("sugarcrepe", "gpt-4v-results")
    paths = [folder / f"{order}-first" / f"gpt4v-{subset}.json" for order in ("positive", "negative")]
    items, right_first, right_second = TABLE[subset]
    both = read_both_orders(*paths)
    bias = order_bias(*zip(*both.values(), strict=True))
    assert len(both) == items
    assert (bias.true_first.sum(), bias.true_second.sum()) == (right_first, right_second)
    assert bias.difference.sum() == right_first - right_second
    assert bias.both.sum() <= min(right_first, right_second)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"0": {**ANSWERED["0"], "correct": False}}, ("'0'", "'correct'", "False", "'a 0 b'")),
        ({**ANSWERED, "accuracy": 0.9}, ("'accuracy'", "0.9", "1.0000")),
        ({**ANSWERED, "accuracy": "1.0"}, ("'accuracy'", "'1.0'")),
        ({**ANSWERED, "accurracy": 1.0}, ("'accurracy'", "object")),
        ({"accuracy": 1.0}, "items"),
        ({"0": {**ANSWERED["0"], "answer": "(1)"}}, ("'0'", "'answer'")),
        ({"0": {**ANSWERED["0"], "caption": None}}, ("'0'", "'caption'", "None")),
        ([ANSWERED["0"]], ("object", "rows", "key")),
    ],
)
def test_a_bad_file_raises(tmp_path, found, message):
    with raises(DataError, "gpt4v-add_att.json", message):
        read_given_choices(write_file(tmp_path / "gpt4v-add_att.json", found))


# VALSE: the annotators' filter, and the forms that its fields take.


def test_a_list_of_foils_counts_by_its_first_and_another_number_of_agreeing_annotators_is_another_version(at, tmp_path):
    shutil.copytree(published("valse"), tmp_path / "valse")
    path = tmp_path / "valse" / "coreference-hard.json"
    rows = json.loads(path.read_text())
    foils = {f"coreference-hard/{key}": row.pop("foil") for key, row in rows.items()}
    for key, row in rows.items():
        row["foils"] = [foils[f"coreference-hard/{key}"], "another"]
    write_file(path, rows)
    items = {item.id: item for item in at("valse", tmp_path).records().items}
    assert all(items[name].texts[1] == foil for name, foil in foils.items() if name in items)
    assert len(foils.keys() & items.keys()) == 104
    for row in rows.values():
        row["mturk"]["caption"] = 3
    write_file(path, rows)
    with raises(DataError, "141", "104", "items"):
        at("valse", tmp_path).records()


# COCO-Counterfactuals: images in an archive, and files that are not whole.

NAME = "coco-counterfactuals"


def test_images_are_read_from_the_archive_as_it_is_and_a_damaged_one_is_an_error_of_the_data(at, tmp_path):
    lines = (published("coco_counterfactuals") / "metadata.jsonl").read_text()
    write_file(tmp_path / "data" / "examples.jsonl", lines)
    with zipfile.ZipFile(tmp_path / "data" / "images.zip", "w") as archive:
        archive.writestr("images/158956_0_img_0.jpg", JPEG)
    pairs = at(NAME, tmp_path).records()
    assert pairs.read_bytes("158956_0_img_0.jpg") == JPEG
    with raises(DataError, "'images/158956_0_img_1.jpg'", "images.zip"):
        pairs.read_bytes("158956_0_img_1.jpg")
    write_file(tmp_path / "pictures" / "158956_0_img_1.jpg", JPEG)
    assert at(NAME, tmp_path, tmp_path / "pictures").records().pixels("158956_0_img_1.jpg").shape == (4, 4, 3)
    (tmp_path / "data" / "images.zip").write_bytes(b"PK\x03\x04 cut short")
    with raises(DataError, "examples.jsonl:1", "'images[0]'", "images.zip"):
        at(NAME, tmp_path).records().read_bytes("158956_0_img_0.jpg")


@pytest.mark.slow
def test_a_file_that_was_cut_between_two_lines_is_refused(at, tmp_path):
    lines = (published("coco_counterfactuals") / "metadata.jsonl").read_text().splitlines()
    damaged = json.dumps(json.loads(lines[0]) | {"image_1": None})
    for rows, facts in (
        (lines[:-1], ("17,409", "benchmark", "17,410")),
        ([*lines[:-1], lines[0]], ("'158956_0'",)),
        ([damaged], ("metadata.jsonl:1", "'image_1'", "None")),
    ):
        write_file(tmp_path / "metadata.jsonl", "\n".join(rows))
        with raises(DataError, facts):
            at(NAME, tmp_path).records()


# BiVLC as published: its four result tables measure to its paper's numbers, and its files are read as they are.

COLUMNS = ("text_score_i0", "text_score_i1", "image_score_c0", "image_score_c1")
DIRECTIONS = ("ipos_2t", "ineg_2t", "tpos_2i", "tneg_2i")
PAPER = {  # per cent: I2T, T2I, Group
    "ViT-B-32": (75.83, 52.40, 49.06),
    "CLIP_COCO": (82.75, 63.89, 60.96),
    "CLIP_TROHN-Text": (78.18, 62.19, 57.48),
    "CLIP_TROHN-Img": (88.54, 71.84, 69.25),
}
DIRECTIONAL = {"ViT-B-32": (84.32, 89.50, 69.21, 82.82), "CLIP_TROHN-Img": (92.12, 95.33, 81.45, 90.15)}


def scores_with(outcomes: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Make scores whose four comparisons come out as given: (item, 4) -> (item, image, text)."""
    matrices = np.array([*permutations(range(4))], np.float32).reshape(-1, 2, 2)
    (a, b), (c, d) = matrices.transpose(1, 2, 0)
    right = np.stack([a > b, d > c, a > c, d > b], axis=1)
    return np.array([matrices[(right == wanted).all(axis=1)][0] for wanted in outcomes])


def scored(at: At, model: str) -> tuple[ListedPairs, Scored]:
    outcomes = np.array([[row[column] == "True" for column in COLUMNS] for row in rows_of(f"BiVLC_{model}")])
    outline = at("bivlc", published("bivlc")).outline()
    return ListedPairs(outline), Scored(Scores(outline.ids, scores_with(outcomes), "similarity"))


@pytest.mark.slow
@pytest.mark.parametrize("model", PAPER)
def test_the_published_outcomes_give_the_papers_table(at, model):
    found = tabulate_units(measure_pairs(*scored(at, model))).metrics
    expected = dict(zip(("i2t", "t2i", "group_score"), PAPER[model], strict=True))
    expected |= dict(zip(DIRECTIONS, DIRECTIONAL.get(model, ()), strict=False))
    assert {name: round(100 * found[name].value, 2) for name in expected} == expected
    assert (found["i2t"].value, found["t2i"].value) == (found["text_score"].value, found["image_score"].value)


@pytest.mark.slow
def test_the_printed_table_has_rows_by_type(at, command):
    scores = scored(at, "ViT-B-32")[1].scores
    np.savez("clip.npz", ids=np.array(scores.ids), scores=scores.values)
    command("score", "bivlc", "--scores", "clip.npz", "--out", "r", code=0)
    printed = command("show", "r", "--all").out
    for row in ("I2T 75.83", "T2I 52.40", "Group 49.06", "replace Group 57.27", "swap Group 13.65", "add Group 39.58"):
        name, _, value = row.rpartition(" ")
        assert re.search(rf"^{name} +{value} *$", printed, re.MULTILINE), row


def test_what_is_known_without_files_is_what_the_files_say_and_a_table_has_no_images(at):
    pairs = at("bivlc", published("bivlc")).records()
    known, read = find_benchmark("bivlc").outline(), pairs.outline
    assert (known.ids, known.shape, known.tags) == (read.ids, read.shape, read.tags)
    with raises(DataError, "0", "'images[0]'"):
        pairs.read_bytes(pairs.items[0].images[0])


@pytest.mark.parametrize("change", ["shuffled", "cut"])
def test_a_table_in_another_order_or_cut_short_is_refused(at, tmp_path, change):
    lines = (published("bivlc") / "BiVLC_ViT-B-32.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    rows = list(np.random.default_rng(0).permutation(lines[1:])) if change == "shuffled" else lines[1:-7]
    (tmp_path / "BiVLC_x.csv").write_text("".join([lines[0], *rows]), encoding="utf-8")
    with raises(DataError, "published order" if change == "shuffled" else ("2,926", "2,933")):
        at("bivlc", tmp_path).records()


# ARO: its boxes and its permutations.

ARO = {
    "aro-relation": "visual_genome_relation.json",
    "aro-attribution": "visual_genome_attribution.json",
    "aro-coco-order": "coco_order.json",
    "aro-flickr-order": "flickr30k_order.json",
}


@pytest.fixture
def few(monkeypatch) -> None:
    """Let three items be all that a benchmark has."""
    monkeypatch.setattr(set_file, "expect_count", lambda path, count, _published: expect_count(path, count, 3))


@pytest.mark.parametrize(
    ("name", "tags"), [("aro-relation", {"relation": "in"}), ("aro-attribution", {"attributes": "red_big"})]
)
def test_the_model_sees_the_box_alone_and_black_where_it_leaves_the_image(at, few, tmp_path, name, tags):
    write_file(tmp_path / ARO[name], [boxed(0), boxed(1), boxed(2, bbox_x=-2, bbox_w=30)])
    write_file(tmp_path / "images" / "5.png", draw(0, size=8))
    pairs = at(name, tmp_path).records()
    item, wide = pairs.items[1:]
    assert (item.id, item.shape, item.tags, item.cluster) == ("1", (1, 2), tags, "5.png")
    assert item.texts == ("the cup 1 is on the table", "the table is on the cup 1")
    assert (item.images, wide.images) == (("5.png#2,1,3,4",), ("5.png#-2,1,30,4",))
    whole = np.asarray(Image.open(io.BytesIO(draw(0, size=8))))
    assert (pairs.pixels(item.images[0]) == whole[1:5, 2:5]).all()
    shown = np.zeros((4, 30, 3))
    shown[:, 2:10] = whole[1:5]
    assert np.array_equal(pairs.pixels(wide.images[0]), shown)


@pytest.mark.parametrize("name", ["aro-coco-order", "aro-flickr-order"])
def test_a_caption_stands_among_four_permutations(at, few, tmp_path, name):
    rows = [{"image": "val2014/7.jpg", "caption_options": [f"{word} {k}" for word in "abcde"]} for k in range(3)]
    write_file(tmp_path / ARO[name], rows)
    item = at(name, tmp_path).records().items[2]
    assert (item.shape, item.texts, item.cluster) == ((1, 5), ("a 2", "b 2", "c 2", "d 2", "e 2"), "val2014/7.jpg")


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        ("aro-relation", [boxed(0, bbox_w=2.5)], ("0", "'bbox_w'")),
        ("aro-relation", [boxed(0, relation_name=None)], ("'relation_name'", "expected")),
        ("aro-relation", [boxed(0)], ("1", "benchmark", "3")),
        ("aro-relation", ["a"], ("0", "object", "row")),
        ("aro-coco-order", [{"image": "7.jpg", "caption_options": ["a", "b"]}] * 3, ("0", "(1, 5)", "(1, 2)")),
    ],
)
def test_a_wrong_row_is_named(at, few, tmp_path, name, rows, said):
    write_file(tmp_path / ARO[name], rows)
    with raises(DataError, said):
        at(name, tmp_path).records()
