"""Declared sets: published and made files, sets of long texts and open questions, and mistakes in their tables."""

import csv
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, pairwise, permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from declared_set_files import MADE, MVP, SPEC, crop, image, made, paired_film, picture, retrieved
from PIL import Image
from pydantic import ValidationError

import tellapart as ta
from facts import raises
from published import published
from sets import write_file
from tellapart import Benchmark, EmbeddingStore, Scores, find_benchmark
from tellapart.benchmarks import set_file
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.set_file import SetFile, read_set_file, set_benchmark
from tellapart.benchmarks.shipped_sets import SETS
from tellapart.catalog import BENCHMARKS
from tellapart.data.task_records import PreferenceSet, QuestionSet, Record, read_choice
from tellapart.errors import DataError
from tellapart.evaluation.evaluate import evaluate, measure, prepare
from tellapart.metrics.ratings import preference_accuracy
from tellapart.models.reference import Oracle
from tellapart.models.scoring.score import Scored
from tellapart.records.result import ModelRecord, Result, RunRecord
from tellapart.records.run_folder import write_result
from tellapart.report.paper_tables.layouts import lay_out
from tellapart.tasks.pairs import ORDERED_TEXTS
from tellapart.tasks.ratings import measure_preferences
from tellapart.tasks.task import Units
from tellapart.tasks.words import OPEN, measure_open, measure_yes_no


def by_name(measured: Iterable[Units]) -> dict[str, np.ndarray]:
    """Return the values of each metric."""
    return {value.name: value.strict for units in measured for value in units.values}


def summarize(measured: Iterable[Units]) -> dict[str, tuple[int, float]]:
    """Return the number of values of each metric, and their mean."""
    return {name: (len(values), float(values.mean())) for name, values in by_name(measured).items()}


def test_a_shipped_set_is_one_file_of_at_most_80_lines():
    assert all(len(path.read_text("utf-8").splitlines()) <= 80 for path in SETS.glob("*.toml"))
    assert {*FILES.values()} == {path.stem for path in SETS.glob("*.toml")}


#: Sets with real files at hand, ARO's four, which are made in test_minimal_pairs.py, and those of which a few rows
#: are made below.
ELSEWHERE = re.compile(
    "sugarcrepe-pp$|cola$|vsr-|naturalbench-test$|coco-counterfactuals$|aro-|camerabench|vitatecs|vilma-|marvl-|tifa|"
    "seetrue|urban1k|docci|dci|iiw-|fg-ovd|auto-comp|vlms-|visualflip|counterbench|vb|geneval2|editreward"
)
#: Files of sets whose records are read by code.
CODED = {path.stem for path in SETS.glob("*.toml") if re.search(r"^(load|read) = ", path.read_text("utf-8"), re.M)}
#: Sets that ship -> their files.
FILES = {
    name: target.rpartition(":")[2].partition("/")[0] for name, target in BENCHMARKS.items() if "shipped_sets" in target
}
SHIPPED = [name for name, file in FILES.items() if file not in CODED and not ELSEWHERE.match(name)]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_a_made_file_in_the_form_of_the_real_one_is_read(name, tmp_path, at):
    n, shown = made(name, tmp_path)
    one = at(name, tmp_path)
    records = one.records()
    if one.task == "retrieval":
        assert (len(records.images), records.images[0]) == (n, shown)
        return
    if one.task == "ratings":
        first = records.rows[0]
        assert (len(records.rows), first.images[0], first.cluster) == (n, shown, "00000") and n == one.items
        assert (first.gold, first.tags) == ((1, 3, 4), {"generator": "DALLE_3"})
        return
    of_items = one.task in ("pairs", "ordered-texts")
    rows = records.items if of_items else records.rows
    other_rows = {"hallusionbench", "mmvp-vlm"}  # whose rows are not items
    assert len(rows) == (one.items or n) and (name in other_rows or not one.items or one.items == n)
    assert rows[0].images[0] == shown
    if of_items:
        assert (records.shape, records.true) == (one.shape, one.true)
    if shown.endswith(("image_0", "image_1", "Image_0", "/image")):
        assert one.read_image(records)(shown).startswith(b"\x89PNG")


def test_crepes_false_captions_are_a_list_that_a_table_holds_as_text(tmp_path):
    file, rows = "prod_vg_hard_negs_swap_complexity_4.csv", ['a "cup\'s"', "a\u00e9\n", "1", "[]", "a, b"]
    declared = (SETS / "crepe.toml").read_text("utf-8").split("[[variants]]")[0]
    head = f"files = ['{file}']\nname = 'crepe'\ntitle = 'x'\nsource"
    own = write_file(tmp_path / "crepe.toml", declared.replace("source", head, 1))
    write_file(tmp_path / file, [crop(k) | {"hard_negs": rows} for k in range(2)])
    item = find_benchmark(str(own)).records().items[1]
    assert (item.texts, item.cluster, item.tags) == (("a cup 1", *rows), "8", {"complexity": "4"})


def test_hallusionbenchs_accuracies_are_of_answers_figures_and_questions(tmp_path, at):
    made("hallusionbench", tmp_path)
    one = at("hallusionbench", tmp_path)
    questions = one.records()
    assert [question.id for question in questions.rows][:3] == ["VS/map/0/1/2", "VS/map/0/1/3", "VS/map/0/2/2"]
    # Of 1,427 questions 951 have a figure; of the last figure one question is there, and it counts.
    measured = summarize(measure_yes_no(questions, ["yes"] * 951))
    figures, asked = (defaultdict[str, list[bool]](list) for _ in range(2))
    for question in questions.rows:
        *set_, _figure, id_ = question.id.split("/")
        figures[question.images[0]].append(question.gold == "yes")
        # A question's words name its figure here, and still it is one question of both figures, by its id.
        asked["/".join((*set_, id_))].append(question.gold == "yes")
    assert len({(question.group, question.texts[0]) for question in questions.rows}) == 951
    assert measured["a_acc"] == (951, pytest.approx(sum(map(sum, figures.values())) / 951))
    assert measured["i_acc"] == (476, pytest.approx(sum(map(all, figures.values())) / 476))
    assert measured["q_acc"] == (476, pytest.approx(sum(map(all, asked.values())) / 476))
    assert one.official == ("a_acc", "i_acc", "q_acc")


@pytest.mark.slow
@pytest.mark.parametrize(("named", "mined"), [("open_clip:ViT-L-14/laion400m_e32", True), ("open_clip:x", False)])
def test_the_model_that_mined_naturalbenchs_pairs_is_marked(named, mined, tmp_path, monkeypatch):
    write_file(tmp_path / "metadata.json", [retrieved(k) for k in range(4)])
    for k, side in product(range(4), (0, 1)):
        write_file(tmp_path / "images" / f"{k}_{side}.jpg", picture(20 * k + side))
    one, model = shipped("naturalbench-retrieval", tmp_path), Oracle()
    monkeypatch.setattr(model, "name", named, raising=False)
    evaluation = evaluate(model, prepare(one, store=EmbeddingStore(None)))
    said = f"{named} chose these items where it failed: its authors leave it out, it does not compare"
    assert (said in evaluation.result.notes) is mined
    run = RunRecord(started="2026-11-23T07:00:00+00:00", seed=0, versions={}, command="run")
    record = ModelRecord(name=named, fingerprint="0")
    write_result(tmp_path / "r", Result(run=run, model=record, benchmarks={one.name: evaluation.result}))
    notes = lay_out([tmp_path / "r"]).notes
    assert any(note.startswith("chose the items of naturalbench-retrieval where it failed") for note in notes) is mined


def test_mmvps_labels_are_the_corrected_ones(tmp_path, at):
    made("mmvp", tmp_path)
    records = at("mmvp", tmp_path).records()
    answers = {one.id: one.gold for one in records.rows}
    assert [answers[id_] for id_ in ("97", "98", "99", "100", "279", "280")] == ["a", "b", "b", "a", "b", "a"]
    assert len(records.groups_by("group")) == 150 and records.groups_by("images") == ()


def test_mvps_answer_is_a_place_and_its_pair_two_films(tmp_path, at):
    made("mvp-mini", tmp_path)
    one = at("mvp-mini", tmp_path)
    records = one.records()
    assert [row.gold for row in records.rows[:4]] == ["a", "b", "b", "a"]
    assert "(A) right (B) left" in records.rows[2].texts[0]
    assert (len(records.groups_by("group")), one.official) == (8, ("g_acc", "a_acc"))
    # Right by our reader, which takes the first letter; its authors' takes the second that ends a word.
    found = by_name(measure_yes_no(records, [f"{row.gold.upper()}: the film with the spa" for row in records.rows]))
    expected = {"a_acc": 1, "g_acc": 1, "a_acc_official": 0.5, "g_acc_official": 0}
    assert {name: found[name].mean() for name in expected} == expected


def test_the_three_kubric_folders_of_eqben_mini_are_one_subset(tmp_path, at):
    folders = ("eqbenkubric_cnt", "eqbenkubric_loc", "eqbenkubric_attr", "eqbensd")
    rows = [{f"{side}{n}": f"{folder}/{n}.png" for n in (0, 1) for side in ("image", "caption")} for folder in folders]
    write_file(tmp_path / "all_select.json", rows)
    pairs = at("eqben-mini", tmp_path).records()
    assert Counter(item.tags["subset"] for item in pairs.items) == {"eqbenkubric": 3, "eqbensd": 1}


def test_half_truths_third_caption_makes_an_order(tmp_path, at):
    made("half-truths-order-coco-qwen", tmp_path)
    one = at("half-truths-order-coco-qwen", tmp_path)
    records = one.records()
    assert records.items[0].texts == ("a cup 0 and a dish", "a cup 0", "a cup 0 and a cat")
    scores = np.tile(np.float32([[[0.9, 0.5, 0.1]]]), (509, 1, 1))
    scores[:9, 0] = [0.5, 0.9, 0.1]  # the accuracy of half-truths-coco-qwen counts these as right
    scores[9:20, 0, 2] = 0.5
    scored = Scored(Scores([item.id for item in records.items], scores, "similarity"))
    (units,) = ORDERED_TEXTS.measure(records, scored)
    (value,) = units.values
    assert (value.name, float(value.strict.sum()), value.chance) == ("ordering_score", 509 - 20, pytest.approx(1 / 6))
    assert float(value.neutral.sum()) == pytest.approx(489 + 11 / 2)
    assert (one.task, one.official) == ("ordered-texts", ("ordering_score",))


def test_tempcompass_films_are_one_cluster_with_their_other_orders(tmp_path, at):
    made("tempcompass", tmp_path)
    asked = at("tempcompass", tmp_path).records().rows
    expected = [("0/order/1", "yes", "0"), ("0_reverse/action/0", "no", "0")]
    assert [(one.id, one.gold, one.cluster) for one in asked[2:4]] == expected
    assert asked[0].texts[0] == "Does 0 fall?\nPlease answer yes or no:"
    (tmp_path / "questions" / "yes_no.json").unlink()
    (tmp_path / "questions").rmdir()
    made("tempcompass-captions", tmp_path)
    pairs = at("tempcompass-captions", tmp_path).records()
    assert pairs.items[1].texts == ("It is: up 1", "It is: down 1") and pairs.items[1].truths == (1,)
    assert Counter(item.tags["aspect"] for item in pairs.items) == {"action": 501, "order": 1002}
    file = tmp_path / "questions" / "caption_matching.json"
    file.write_text(file.read_text().replace('"answer": "Option 2: It is: down 1"', '"answer": "Option 2: sideways"'))
    with raises(DataError, "{answer|after}", "'sideways'", "texts"):
        at("tempcompass-captions", tmp_path).records()


def test_vinogrounds_scores_are_of_pairs_and_of_all_four_questions(tmp_path, at):
    made("vinoground-group", tmp_path)
    records = at("vinoground-group", tmp_path).records()
    expected = [("textscore/0_pos", "0", "a"), ("textscore/0_neg", "0", "b"), ("textscore/1_pos", "1", "b")]
    assert [(row.id, row.group, row.gold) for row in records.rows[:3]] == expected
    assert Counter(row.tags["asked"] for row in records.rows) == {"textscore": 1000, "videoscore": 1000}
    wrong = [("a", "b")[row.gold == "a"] for row in records.rows]
    answers = [row.gold for row in records.rows]
    answers[0], answers[1000:] = wrong[0], [*answers[1000:1500], *wrong[1500:]]
    whole = by_name(measure_yes_no(records, answers))
    assert (len(whole["g_acc"]), float(whole["g_acc"].sum())) == (500, 249)
    made("vinoground-text", tmp_path)
    text = at("vinoground-text", tmp_path)
    both = by_name(measure_yes_no(text.records(), answers[:1000]))
    assert (len(both["g_acc"]), float(both["g_acc"].sum())) == (500, 499)
    assert text.official == ("g_acc", "a_acc")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"answer": "up"}, ("'{answer}'", "'up'")),
        ({"candidates": "left"}, ("'candidates'", "['...', \"...\"]", "'left'")),
        ({"candidates": "['left', 'left']"}, ("options", "different")),
    ],
)
def test_an_answer_that_is_no_option_is_said(wrong, says, tmp_path, at):
    made("mvp", tmp_path)
    write_file(tmp_path / MVP[0] / "full-00000-of-00001.parquet", [paired_film(0) | wrong])
    with raises(DataError, says):
        at("mvp", tmp_path).records()


@pytest.mark.slow
def test_vismins_four_questions_have_the_leaderboards_key(tmp_path, at):
    key = list(csv.DictReader(io.StringIO((published("vismin") / "vqa_solution.csv").read_text("utf-8"))))
    parts = {"object": 579, "attribute": 294, "counting": 589, "relation": 622}
    assert Counter(row["category"] for row in key) == parts
    made("vismin-vqa", tmp_path)
    records = at("vismin-vqa", tmp_path).records()
    columns = ("Text_Q0", "Text_Q1", "Image_Q0", "Image_Q1")
    expected = [row[column].lower() for row in key for column in columns]
    assert [one.gold for one in records.rows] == expected
    assert Counter(one.tags["category"] for one in records.rows[::4]) == Counter(row["category"] for row in key)
    assert len(records.groups_by("question")) == len(records.groups_by("images")) == 2084


@pytest.mark.parametrize(("order", "expected"), [((0, 1, 2, 3), [1, 1, 1]), ((1, 0, 2, 3), [0.5, 0.5, 0])])
def test_whatsups_three_scores_come_from_one_array(order, expected, tmp_path, at):
    places, texts = ("left_of", "right_of", "on", "under"), ("left", "right", "on", "under")
    rows = []
    for k, side in product(range(103), (2, 0, 3, 1)):  # in any order in the file
        options = [f"a cup {where} a chair {k}" for where in (texts[side], *texts[:side], *texts[side + 1 :])]
        rows.append({"image_path": f"data/x/cup{k}_{places[side]}_chair.jpeg", "caption_options": options})
    file = write_file(tmp_path / "controlled_images_dataset.json", rows)
    pairs = at("whatsup-a", tmp_path).records()
    assert pairs.items[0].images[0] == "controlled_images/cup0_left_of_chair.jpeg"
    assert pairs.items[0].texts[1] == "a cup right a chair 0"
    # Row by row, as the authors' code has it: the true caption first.
    assert pairs.rows is not None and pairs.rows[0].diagonal().tolist() == [4, 12, 0, 8]
    scores = np.eye(4)[list(order)][None].repeat(103, axis=0)
    metrics = measure(Scores([item.id for item in pairs.items], scores, "similarity"), pairs.outline).metrics
    assert [metrics[f"{name}_score"].value for name in ("individual", "pair", "set")] == expected
    del rows[5]
    write_file(file, rows)
    with raises(DataError, "cup1", "images", "captions"):
        at("whatsup-a", tmp_path).records()


def test_a_row_that_is_no_object_of_lists_is_refused_where_every_field_is_one(tmp_path):
    write_file(tmp_path / "rows.json", [{"red": [{"a": "x.png"}]}, [{"a": 1}]])
    head = 'name = "m"\ntitle = "m"\nsource = "m"\nfiles = ["rows.json"]\neach = "*"\n'
    item = '[[item]]\nid = "{row}"\nimages = "{a}"\ntexts = ["{each}", "no"]\n'
    with raises(DataError, "rows.json", "row 1", "object of lists", "[{'a': 1}]"):
        find_benchmark(str(write_file(tmp_path / "mine.toml", head + item))).records()


# Declared sets of long captions, boxes, answers in words and preferences, on a few made rows in the published form.


def declared(name: str) -> SetFile:
    """The declaration of a shipped set, of any number of rows."""
    file, _, variant = BENCHMARKS[name].partition(":")[2].partition("/")
    return read_set_file(SETS / f"{file}.toml", variant).model_copy(update={"items": None, "counts": {}})


def shipped(name: str, place: Path) -> Benchmark:
    """A shipped set of which a few rows are there."""
    return replace(set_benchmark(declared(name)), place=Locations(place))


DOCCI = [{"example_id": f"{k}", "split": split, "image_file": f"{k}.jpg", "description": f"Long {k}."}
         for k, split in enumerate(("test", "train", "test"))]  # fmt: skip


def dci(k: int) -> dict[str, Any]:
    return {"image": f"sa_{k}.jpg", "short_caption": f"A cup {k}", "extra_caption": "It is red.", "mask_data": {}}


def iiw(key: str, suffix: str) -> list[dict[str, str]]:
    return [{"IIW": f"Text {k}", key: f"sa_{k}{suffix}"} for k in (1, 2)]


TWO_IMAGES, TWO_TEXTS = ("sa_1.jpg", "sa_2.jpg"), ("Text 1", "Text 2")


@pytest.mark.parametrize(
    ("name", "files", "images", "captions"),
    [
        ("urban1k", {"caption/2.txt": "A street.\n", "caption/1.txt": "A house.\na second line"},
         ("1.jpg", "2.jpg"), ("A house.", "A street.")),
        ("docci", {"docci_descriptions.jsonlines": DOCCI}, ("0.jpg", "2.jpg"), ("Long 0.", "Long 2.")),
        ("dci", {f"annotations/{k}-data.json": dci(k) for k in (1, 2)}, TWO_IMAGES,
         ("A cup 1\nIt is red.", "A cup 2\nIt is red.")),
        ("iiw-400", {"datasets/IIW-400/data.jsonl": iiw("image/key", "")}, TWO_IMAGES, TWO_TEXTS),
        ("iiw-dci", {"DCI_Test/data.jsonl": iiw("image", ".jpg")}, TWO_IMAGES, TWO_TEXTS),
        ("iiw-docci", {"DOCCI_Test/data.jsonl": iiw("image", "")}, TWO_IMAGES, TWO_TEXTS),
    ],
)  # fmt: skip
def test_a_long_caption_belongs_to_its_image(name, files, images, captions, tmp_path):
    for file, content in files.items():
        write_file(tmp_path / file, content)
    gallery = shipped(name, tmp_path).records()
    assert (gallery.images, gallery.captions, gallery.pairs) == (images, captions, ((0, 0), (1, 1)))


def boxes(**changed) -> dict[str, Any]:
    cases = [{"id": 100 + k, "name": f"a {k} cup"} for k in range(12)]
    shared = {"image_id": 7, "bbox": [1.0, 0.0, 1.0, 2.0], "category_id": 100, "needs_revision": False} | changed
    annotations = [shared | {"id": k, "neg_category_ids": [*range(101, 101 + n)]} for k, n in enumerate((10, 2))]
    return {"images": [{"id": 7, "file_name": "val2017/7.png"}], "annotations": annotations, "categories": cases}


def test_fg_ovd_shows_the_box_of_an_object_with_its_ten_false_captions(tmp_path):
    write_file(tmp_path / "benchmarks/1_attributes.json", boxes())
    write_file(tmp_path / "val2017" / "7.png", picture(9))
    one = shipped("fg-ovd-hard", tmp_path)
    (item,) = one.records().items
    assert (item.id, item.images, item.cluster) == ("0", ("val2017/7.png#1,0,1,2",), "val2017/7.png")
    assert item.texts == tuple(f"a {k} cup" for k in range(11))
    shown = Image.open(io.BytesIO(one.records().read(item.images[0])))
    assert shown.size == (1, 2) and np.unique(np.asarray(shown)).tolist() == [9]
    write_file(tmp_path / "benchmarks/transparency.json", boxes())
    assert shipped("fg-ovd-transparency", tmp_path).records().shape == (1, 3)


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"bbox": [1, 2, 0, 4]}, ("'bbox'", "x, y, width and height", "[1, 2, 0, 4]")),
        ({"category_id": 5}, ("'category_id'", "ids of the objects in 'categories'")),
    ],
)
def test_a_box_or_id_that_is_none_names_the_row(changed, facts, tmp_path):
    write_file(tmp_path / "benchmarks/1_attributes.json", boxes(**changed))
    with raises(DataError, "1_attributes.json", facts):
        shipped("fg-ovd-hard", tmp_path).records()


def measured(records, answers: list[str]) -> dict[str, tuple[int, float]]:
    found = summarize(measure_open(records, answers))
    assert OPEN.output == "text" and found.keys() <= {metric.name for metric in OPEN.metrics}
    return found


def test_the_bias_of_an_answer_from_memory_is_counted(tmp_path):
    row = {"image": image(1), "prompt": "How many legs? Answer in braces.", "ground_truth": "5", "expected_bias": "4"}
    rows = [row | {"image_path": f"{k}.png", "topic": "Animals"} for k in range(4)]
    write_file(tmp_path / "main-00000-of-00001.parquet", rows)
    one = shipped("vlms-are-biased", tmp_path)
    records = one.records()
    asked = records.rows[0]
    assert (asked.images, asked.gold, asked.facts, asked.cluster) == (("0/image",), ("5",), {"biased": "4"}, "0.png")
    assert asked.tags == {"topic": "Animals"} and one.read_image(records)("0/image").startswith(b"\x89PNG")
    # Digits of a sentence are not joined: "5 of 4" is neither.
    found = measured(records, ["{4}", "It has four legs.", "{5}", "5 of 4"])
    assert found == {"answer_match": (4, 0.25), "bias_rate": (4, 0.5)}


def test_visualflip_counts_pairs_that_are_right_and_pairs_answered_alike(tmp_path):
    pair = {"question": "Which one?", "answer_original": "A", "answer_edited": "B", "category": "Attribute"}
    sides = ({"id": f"p{k}", "original_image": f"{k}/o.png", "edited_image": f"{k}/e.png"} for k in range(3))
    write_file(tmp_path / "manifest.jsonl", [pair | one for one in sides])
    records = shipped("visualflip", tmp_path).records()
    assert [row.images[0] for row in records.rows[:2]] == ["0/o.png", "0/e.png"]
    found = measured(records, ["A", "(B)", "b", "B", "", ""])
    assert found == {"answer_match": (6, 0.5), "group_match": (3, 1 / 3), "same_answer": (3, 1 / 3)}


def test_counterbench_counts_answers_that_turn_where_they_should(tmp_path):
    shared = {"question": "Is A left of B?", "category": "spatial", "subcategory": "left_right", "intervention": "swap"}
    rows = [
        {"id": f"p{k}", "original_image": f"{k}_o.png", "intervened_image": f"{k}_i.png", "should_change": k < 3}
        | {"answer_original": "yes", "answer_intervened": "no" if k < 3 else "yes"}
        for k in range(6)
    ]
    write_file(tmp_path / "counterbench_metadata.json", [shared | row for row in rows])
    one = shipped("counterbench", tmp_path)
    records = one.records()
    assert one.official == ("turned_match",)
    assert (records.rows[1].id, records.rows[1].images) == ("p0/intervened", ("0_i.png",))
    # Turned rightly, from a wrong answer; not turned; turned to a wrong answer. Stayed; stayed, and wrong; turned.
    answers = [("2", "No."), ("Yes", "yes"), ("yes", "2"), ("yes", "Yes"), ("no", "no"), ("yes", "no")]
    found = measured(records, [answer for pair in answers for answer in pair])
    by_hand = {"answer_match": (12, 6 / 12), "group_match": (6, 1 / 6), "same_answer": (3, 1 / 3)}
    assert found == by_hand | {"turned_match": (6, 3 / 6)}
    # An answer that is not read stays as it is in no case.
    assert measured(records, [""] * 12)["turned_match"] == (6, 0)
    # Of three images, two have one answer: right answers turn.
    golds = [("g", 2), ("g", 2), ("g", 3), ("h", 1), ("h", 1)]
    rows = [Record(f"{k}", (f"{k}.png",), ("How many?",), (f"{n}",), group=of) for k, (of, n) in enumerate(golds)]
    found = measured(QuestionSet("three", tuple(rows)), [f"{n}" for _, n in golds])
    assert (found["same_answer"], found["turned_match"]) == ((1, 0), (2, 1))


def test_vb_counts_what_a_model_leaves_and_what_it_is_sure_of(tmp_path):
    row = {"Status": "Done", "pic_base": "./Images/1.jpeg", "pic_flip": "/home/me/Images/2.jpeg", "indoor_outdoor": ""}
    row |= {"base_question": "Is the number readable?", "flip_question": "Is the number unreadable?"}
    rows = [row | {"ID": f"AV-{k:02}", "Status": "Done" if k < 100 else "Draft"} for k in range(101)]
    write_file(tmp_path / "Sheets/FINAL_Pictures_DB.csv", rows)
    records = shipped("vb", tmp_path).records()
    base, text_flip, image_flip = records.rows[:3]
    assert [row.images[0] for row in records.rows[:3]] == ["1.jpeg", "1.jpeg", "2.jpeg"]
    assert [row.gold for row in (base, text_flip, image_flip)] == [("NOT_VISIBLE",), ("VISIBLE",), ("VISIBLE",)]
    assert base.texts[0].startswith("Is the number readable?") and base.texts == image_flip.texts != text_flip.texts

    def said(label: str, confidence: object) -> str:
        return json.dumps({"label": label, "reason_code": "NONE", "confidence": confidence})

    answers = [said("NOT_VISIBLE", 0.5), said("VISIBLE", "80%"), said("VISIBLE", 100)]  # right, all three
    answers += [said("ABSTAIN", 0.6), "ABSTAIN", said("NOT_VISIBLE", 1.0)]  # left, left, wrong
    answers += ["NOT_VISIBLE", "", said("VISIBLE", None)]  # right without a confidence, not read, right without
    answers += [said("ABSTAIN", 1)] * (300 - len(answers))
    assert measured(records, answers) == {
        "answer_match": (300, pytest.approx(5 / 300)),
        "group_match": (100, pytest.approx(1 / 100)),
        "answered": (300, pytest.approx(7 / 300)),
        "right_if_answered": (7, pytest.approx(5 / 7)),
        "confident_match": (297, pytest.approx((0.5 + 0.8 + 1 + 0.25 * 293 + 0) / 297)),
    }
    left = measured(records, [said("ABSTAIN", 0.5)] * 300)
    assert "right_if_answered" not in left and (left["answered"], left["confident_match"]) == ((300, 0), (300, 0.25))
    # Models that leave other questions are compared on those that both answer.
    fewer = [*answers[:3], *[said("ABSTAIN", 1)] * 297]
    lines = {"some": answers, "fewer": fewer, "none": [said("ABSTAIN", 0.5)] * 300}
    runs = []
    for name, given in lines.items():
        rows = [{"id": row.id, "prediction": answer} for row, answer in zip(records.rows, given, strict=True)]
        runs.append(ta.score("vb", write_file(tmp_path / f"{name}.jsonl", rows), name=name, data=tmp_path))
    sizes = ta.compare(*runs[:2])
    assert dict(zip(sizes["metric"], sizes["n"], strict=True))["right_if_answered"] == 3
    assert ta.compare(*runs).models == [*lines] and all(ta.verify(run).passed for run in runs)


@pytest.mark.parametrize(
    ("name", "field", "words", "false"),
    [
        ("auto-comp-color", "colors", ["red", "orange"], "An orange cube and a red sphere"),
        ("auto-comp-position", "objects", ["cube", "sphere"], "A red sphere and an orange cube"),
    ],
)
def test_auto_comp_exchanges_two_words(name, field, words, false, tmp_path):
    row = {"num_objects": 2, "handmade_caption": "A red cube and an orange sphere", "handmade_image": image(1)}
    row |= {"llm_caption": "In a studio, a red cube lies", "llm_image": image(2), field: words}
    write_file(tmp_path / "train-00000-of-00001.parquet", [row, row | {"num_objects": 3}])
    (item,) = shipped(name, tmp_path).records().items
    assert (item.texts, item.images) == ((row["handmade_caption"], false), ("0/handmade_image",))
    with raises(DataError, f"field '{field}'", "different words of the text", "In a studio"):
        shipped(f"{name}-contextual", tmp_path).records()


def test_geneval2_asks_for_every_part_of_a_prompt(tmp_path):
    asked = [["How many cows are in the image?", "three"], ["Are the cows plastic?", "Yes"]]
    row = {"prompt": "three plastic cows", "atom_count": 3, "vqa_list": asked, "skills": ["count", "attribute"]}
    write_file(tmp_path / "geneval2_data.jsonl", [row, row])
    records = shipped("geneval2", tmp_path).records()
    first, second = records.rows[:2]
    assert (first.id, first.images[0], first.gold, first.tags["skill"]) == ("0/0", "0.png", ("three",), "count")
    assert (second.tags, second.group) == ({"skill": "attribute", "atoms": "3"}, "0")
    found = measured(records, ["3", "yes", "There are two.", "Yes."])
    assert found == {"answer_match": (4, 0.75), "group_match": (2, 0.5)}
    write_file(tmp_path / "geneval2_data.jsonl", [row | {"skills": ["count"]}, row])
    with raises(DataError, "expected a list of 2 entries, as 'vqa_list' has"):
        shipped("geneval2", tmp_path).records()


def test_editreward_bench_asks_which_edit_people_prefer(tmp_path):
    shared = {"instruction": "make it red", "source_image": image(0), "candidate_1": image(1), "candidate_2": image(2)}
    rankings = (("3pair", "x_0", "A>B"), ("3pair", "x_1", "C>A"), ("3pair", "x_2", "C>B"), ("2pair", "y_0", "A=B=Good"))
    rows = [shared | {"dataset": size, "id": id_, "ranking": ranking} for size, id_, ranking in rankings]
    write_file(tmp_path / "train-00000-of-00001.parquet", rows)
    one = shipped("editreward-bench", tmp_path)
    records = one.records()
    first = records.rows[0]
    assert (first.images, first.texts, first.group) == (("0/candidate_1", "0/candidate_2"), ("make it red",), "3pair/x")
    assert records.people.tolist() == [1, -1, -1, 0]
    scores = np.float32([(0.9, 0.5), (0.1, 0.5), (0.4, 0.5), (0.5, 0.45)])[:, :, None]
    scored = Scored(Scores([row.id for row in records.rows], scores, "similarity"))
    sizes = {"preference_accuracy": 4, "preference_accuracy_untied": 3, "preference_group": 1}
    assert summarize(measure_preferences(records, scored)) == {name: (n, 1) for name, n in sizes.items()}
    assert (one.task, one.official) == ("preference", ("preference_accuracy", "preference_group"))


def test_the_threshold_of_ties_is_the_best_of_all():
    rng = np.random.default_rng(0)
    for _ in range(50):
        above, people = rng.integers(-3, 4, 9) / 2, rng.integers(-1, 2, 9)
        sizes = {0.0, *np.abs(above)}
        by_hand = [np.where(np.abs(above) <= size, people == 0, above * people > 0).mean() for size in sizes]
        assert preference_accuracy(above, people).values.mean() == max(by_hand)


def test_a_ranking_is_read_by_the_order_of_its_letters():
    names = [f"{one}{sign}{other}" for (one, other), sign in product(("AB", "CA"), "<>=")]
    assert [read_choice(name) for name in names] == [-1, 1, 0, 1, -1, 0]
    for wrong in ("A>A", "A>B>C", "AvsB", ""):
        with raises(ValueError, "expected a ranking such as A>B, B>A or A=B"):
            read_choice(wrong)
    with raises(DataError, "people prefer no image of 1 pairs"):
        PreferenceSet("x", (Record("0", ("0", "1"), ("a",), 0),))


# The first records of every declared set are known, and no mistake in what its tables say leaves them as they are.

#: Name -> its records of the first rows that are made in the form of the real ones.
FIRST = json.loads(Path(__file__).with_name("declared_first_records.json").read_text("utf-8"))
#: Sets whose files can be made; of several variants with the same tables, one.
SPECS = [f"spec-{subset}-{way}" for subset in SPEC for way in ("i2t", "t2i")]
NAMES = [*(name for name in MADE if name != "genai-bench"), *SPECS, "whatsup-coco-one", "whatsup-vg-two"]

Records = list[dict[str, Any]]


def records_of(one: SetFile, groups: list[Any], place: Locations) -> Records | str:
    """What is made of the rows: items, questions, or images with their captions; or what is wrong."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(set_file, "_group_rows", lambda *_: iter(groups))
        try:
            loaded: Any = set_file._load_records(one, place)
        except DataError as error:
            return str(error)
    if one.gallery:
        return [{"images": [*loaded.images], "captions": [*loaded.captions], "pairs": [*map(list, loaded.pairs)]}]
    if one.question:
        return json.loads(json.dumps(loaded.content()["questions"]))
    fields = ("id", "images", "texts", "true", "cluster", "tags")
    return json.loads(json.dumps([{field: getattr(row, field) for field in fields} for row in loaded.items]))


@pytest.fixture(params=NAMES)
def rows(request, tmp_path) -> tuple[str, SetFile, list[Any], Locations]:
    """A set, its declaration, the first rows of its files, and where they lie."""
    name, place = request.param, Locations(tmp_path)
    made(name, tmp_path)
    one = declared(name)
    return name, one, list(islice(set_file._group_rows(one, place), 14))[-2:], place


@pytest.mark.few(10)
def test_the_first_records_are_these(rows):
    name, one, groups, place = rows
    assert records_of(one, groups, place) == FIRST[name]


def mistakes(one: SetFile) -> Iterator[tuple[str, SetFile]]:
    """Small mistakes in a set's tables: a value that another key has, neighbours exchanged, a value or table less."""
    kind = "item" if one.item else "question" if one.question else "gallery"
    tables = [*one.item, *one.question] or [one.gallery]
    for number, templates in enumerate(tables):
        own = templates.model_dump(exclude_none=True, exclude_defaults=True)
        for label, changed in changes(own):
            with suppress(ValidationError):  # else it is noticed when the file is read
                wrong = [*tables[:number], type(templates).model_validate(changed), *tables[number + 1 :]]
                update = {kind: wrong if kind != "gallery" else wrong[0]}
                yield f"{kind} {number}: {label}", one.model_copy(update=update)
        if len(tables) > 1:
            yield f"no {kind} {number}", one.model_copy(update={kind: tables[:number] + tables[number + 1 :]})


def changes(own: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    texts = {key: value for key, value in own.items() if isinstance(value, str)}
    for key, other in permutations(texts, 2):
        if texts[key] != texts[other]:
            yield f"{key} = {other}", own | {key: texts[other]}
    for key, value in own.items():
        if isinstance(value, list):
            for k, (left, right) in enumerate(pairwise(value)):
                yield f"{key}: {k} and {k + 1} exchanged", own | {key: [*value[:k], right, left, *value[k + 2 :]]}
        if isinstance(value, dict):
            for tag in value:
                yield f"no {key}.{tag}", own | {key: {name: text for name, text in value.items() if name != tag}}
        elif key in ("true", "cluster", "group", "under", "options"):
            yield f"no {key}", {name: each for name, each in own.items() if name != key}


@pytest.mark.few(10)
def test_no_mistake_in_its_tables_leaves_the_records_as_they_are(rows):
    name, one, groups, place = rows
    unnoticed = [label for label, wrong in mistakes(one) if records_of(wrong, groups, place) == FIRST[name]]
    assert unnoticed == []
