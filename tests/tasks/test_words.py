"""Tasks that are answered in words: captions, questions with answers of people, and yes or no."""

import csv
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import remeasure
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from facts import check_facts, raises
from pictures import film, plain
from published import published
from sets import write_file
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.published_tasks import (
    read_coco_captions,
    read_karpathy_captions,
    read_questions,
)
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.data.task_records import BinaryQuestionSet, CaptionSet, QuestionSet, Record, linked_images, read_gold
from tellapart.errors import DataError, MetricError, ScoreError
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.evaluation.verified import read_result
from tellapart.metrics.answers import soft_accuracy
from tellapart.metrics.captions import bleu, caption_scores
from tellapart.metrics.tabulate import tabulate
from tellapart.models.find import find_model
from tellapart.models.scoring.score import Scored
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.pairs import TRUE_TEXTS
from tellapart.tasks.predictions import parse_text, read_predictions
from tellapart.tasks.task import Session, Units
from tellapart.tasks.words import (
    VQA,
    YES_NO,
    measure_captions,
    measure_one_answer,
    measure_people,
    measure_yes_no,
)

METRICS = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"]
WORDS = st.lists(
    st.sampled_from(["a", "dog", "cat", "runs", "sits", "on", "the", "red", "mat", "two"]), max_size=8
).map(" ".join)


def made(references: Sequence[Sequence[str]], images: Sequence[str] | None = None) -> CaptionSet:
    """Images with their captions; a name may stand for several."""
    names = images or [f"{k}.jpg" for k in range(len(references))]
    rows = (Record(str(k), (names[k],), (), tuple(texts)) for k, texts in enumerate(references))
    return CaptionSet("made", tuple(rows))


def table(records: CaptionSet, predictions: Sequence[str]) -> dict[str, Any]:
    (units,) = measure_captions(records, predictions)
    return tabulate(units.values, [unit.cluster for unit in units.units], [unit.tags for unit in units.units]).metrics


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.tuples(WORDS, st.lists(WORDS.filter(bool), min_size=1, max_size=3)), min_size=2, max_size=6))
def test_the_task_gives_the_corpuss_numbers(rows):
    said, references = zip(*rows, strict=True)
    corpus = caption_scores(*({str(k): text for k, text in enumerate(texts)} for texts in (said, references))).corpus()
    found = table(made(references), said)
    assert list(found) == list(corpus) == METRICS
    for name, value in corpus.items():
        assert (found[name].value, found[name].n) == (pytest.approx(value, rel=1e-12, abs=1e-15), len(rows))


def test_the_interval_of_bleu_is_of_sets_of_images_drawn_anew():
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(30)]
    references = [[" ".join(rng.choice(words, 9)) for _ in range(3)] for _ in range(60)]
    said = [own[0] if k % 2 else " ".join(rng.choice(words, 9)) for k, own in enumerate(references)]
    found = table(made(references), said)["bleu_4"]
    assert found.low < found.value < found.high
    # The same by hand: BLEU of 2,000 draws of the images.
    scores = caption_scores(*(dict(enumerate(texts)) for texts in (said, references)))
    drawn = [bleu(scores.bleu_statistics[rng.integers(0, 60, 60)].sum(axis=0))[3] for _ in range(2000)]
    assert np.quantile(drawn, [0.025, 0.975]) == pytest.approx([found.low, found.high], abs=0.03)


def test_equal_images_are_resampled_together_and_a_single_one_is_refused():
    records = made([["a dog"], ["a cat"], ["two men"]], ["a.jpg", "a.jpg", "b.jpg"])
    assert table(records, ["a dog", "a cat", "men"])["cider"].clusters == 2
    with raises(MetricError, "CIDEr", "0", "image"):
        measure_captions(made([["The mat is red."]]), ["the mat is red"])


def test_cocos_published_results_file_is_read_by_its_image_ids(command, score_file, tmp_path):
    path = published("pycocoevalcap", "captions_val2014_fakecap_results.json")
    rows = json.loads(path.read_text())
    assert len(rows) == 1000
    gold = [{"image_id": row["image_id"], "id": k, "caption": row["caption"]} for k, row in enumerate(rows)]
    images = [{"id": row["image_id"]} for row in rows]
    write_file(tmp_path / "coco_karpathy_test_gt.json", {"annotations": gold, "images": images})
    given = ("coco-captions", "--scores", path, "--data", tmp_path)
    check_facts(command("score", *given).err, path, "'caption'", "gold")  # these are the gold captions
    metrics = score_file(given[0], path, *given[3:], "--columns", "prediction=caption")["metrics"]
    assert {name: metrics[name]["value"] for name in METRICS[:5]} == pytest.approx(dict.fromkeys(METRICS[:5], 1.0))
    assert metrics["cider"]["value"] == pytest.approx(10, abs=0.1)
    assert [metrics[name]["n"] for name in ("bleu_4", "cider")] == [1000, 1000]


def test_karpathys_images_are_known_by_cocos_numbers_in_either_file(tmp_path):
    name, texts = "val2014/COCO_val2014_000000000042.jpg", ["a man", "one man"]
    rows = [{"image_id": 42, "id": k, "caption": text} for k, text in enumerate(texts)]
    for file, content in (
        ("coco_karpathy_test.json", [{"image": name, "caption": texts}]),
        ("coco_karpathy_test_gt.json", {"annotations": rows, "images": [{"id": 42}]}),
    ):
        write_file(tmp_path / file, content)
        found = find_benchmark("coco-captions", Locations(tmp_path)).records()
        assert found.rows == (Record("42", (name,), (), ("a man", "one man")),)


@pytest.mark.parametrize(
    ("read", "found", "said"),
    [
        (read_coco_captions, {"annotations": []}, ("'annotations'", "rows")),
        (read_coco_captions, {"images": []}, ("'annotations'", "rows")),
        (read_coco_captions, {"annotations": [{"image_id": "42", "caption": "a"}]}, ("0", "'image_id'")),
        (read_coco_captions, {"annotations": [{"image_id": 42, "caption": ""}]}, ("0", "'caption'")),
        (read_coco_captions, {"annotations": [["a"]]}, ("0", "object", "row")),
        *(
            (read_karpathy_captions, [{"image": image, "caption": ["a"]}], ("0", "'image'", "COCO"))
            for image in ("a.png", "COCO_val2014_42.png", "cat.jpg", "COCO_val2014_x42.jpg")
        ),
    ],
)
def test_a_file_in_cocos_format_that_does_not_fit_and_an_image_without_its_number_are_refused(
    tmp_path, read, found, said
):
    with raises(DataError, "gt.json", said):
        read(write_file(tmp_path / "gt.json", found))


# Questions as tasks: one gold answer and pairs of questions, ten people's answers, and models that are asked.


def asked(*rows: tuple[str, str, str]) -> QuestionSet:
    """Questions of (question, image, answer)."""
    return QuestionSet("made", tuple(Record(str(k), (i,), (q,), (a,)) for k, (q, i, a) in enumerate(rows)))


def by_metric(found: Sequence[Units]) -> dict[str, list[float]]:
    return {one.name: one.strict.tolist() for units in found for one in units.values}


def test_the_published_questions_have_3966_pairs_that_no_blind_model_wins_and_pairs_of_shared_images_are_one_cluster():
    records = read_questions(published("vlue", "vqa_vlue_test.json"))
    words = [question.texts[0].lower().strip() for question in records.rows]
    usual = defaultdict[str, Counter[str]](Counter)
    for text, answer in zip(words, records.gold, strict=True):
        usual[text][answer] += 1
    questions, pairs = measure_one_answer(records, [usual[text].most_common(1)[0][0] for text in words])
    assert (len(questions.units), len(pairs.units)) == (11_942, 3_966)
    assert questions.values[0].strict.mean() > 0.49
    assert pairs.values[0].strict.sum() == pairs.values[0].chance == 0
    right = by_metric(measure_one_answer(records, records.gold))
    expected = {"exact_match": (11_942, 1.0), "exact_match_cleaned": (11_942, 1.0), "pair_accuracy": (3_966, 1.0)}
    assert {name: (len(column), min(column)) for name, column in right.items()} == expected
    assert len({unit.cluster for unit in questions.units}) == 4_895
    groups = defaultdict[str, set[str]](set)
    for unit in pairs.units:
        groups[unit.cluster].update(unit.images)
    shown = [image for images in groups.values() for image in images]
    assert len(shown) == len(set(shown)) and len(groups) == 963  # no image stands in two groups


def test_an_answer_is_compared_with_and_without_the_normaliser_and_a_pair_needs_both():
    records = asked(("One cup?", "a", "yes"), ("How many?", "b", "2"), ("What?", "c", "a cup"), ("Who?", "d", "man"))
    found = by_metric(measure_one_answer(records, [" yes ", "Two.", "cup", "woman"]))
    assert found == {"exact_match": [1, 0, 0, 0], "exact_match_cleaned": [1, 1, 1, 0]}  # no pairs: no such metric
    records = asked(("One cup?", "a", "yes"), ("one cup?", "b", "no"), ("Two?", "c", "no"), ("Two?", "d", "yes"))
    pairs = measure_one_answer(records, ["yes", "no", "no", "no"])[1]
    assert pairs.values[0].strict.tolist() == [1.0, 0.0]
    expected = [("0+1", ["yes", "no"], "yes, no"), ("2+3", ["no", "no"], "no, yes")]
    assert [(unit.id, unit.output, unit.gold) for unit in pairs.units] == expected


def test_people_are_measured_as_the_official_script_and_as_xvlm_do():
    people = (("yes",) * 10, ("2",) * 3 + ("3",) * 7, ("red",) * 9 + ("a red",))
    rows = tuple(Record(str(k), ("a",), ("?",), given) for k, given in enumerate(people))
    said = ["Yes.", "two", "red"]
    found = by_metric(measure_people(QuestionSet("v", rows), said))
    assert found["soft_accuracy"] == soft_accuracy(said, people).tolist() == [0.0, 0.9, 1.0]
    assert found["soft_accuracy_xvlm"] == soft_accuracy(said, people, "xvlm").tolist()
    assert found["soft_accuracy_xvlm"][0] == 1.0


@given(
    st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from("abcde"), st.sampled_from(["yes", "no"])), min_size=1)
)
def test_pairs_are_never_won_by_an_answer_that_looks_at_the_question_alone(rows):
    for answer in ("yes", "no"):
        found = by_metric(measure_one_answer(asked(*rows), [answer] * len(rows)))
        assert not any(found.get("pair_accuracy", []))


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=8))
def test_linked_images_are_the_connected_ones(pairs):
    group = linked_images([(str(one), str(other)) for one, other in pairs])
    ends = np.array(pairs).reshape(-1, 2).T
    _, label = connected_components(coo_matrix((np.ones(len(pairs)), tuple(ends)), shape=(8, 8)), directed=False)
    for one, other in product(group, repeat=2):
        assert (group[one] == group[other]) == (label[int(one)] == label[int(other)])
    assert all(group[one] <= one for one in group)


@pytest.mark.parametrize("joined", [False, True])
def test_vqa2_is_read_from_its_two_files_or_from_xvlms_one(tmp_path, joined):
    image, row = "val2014/COCO_val2014_000000000042.jpg", {"question_id": 9, "question": "One cup?"}
    if joined:
        write_file(tmp_path / "vqa_val.json", [row | {"image": image, "answer": ["yes"] * 10, "dataset": "vqa"}])
    else:
        answers = [{"answer": "yes", "answer_id": k, "answer_confidence": "yes"} for k in range(1, 11)]
        asked, answered = row | {"image_id": 42}, {"question_id": 9, "image_id": 42, "answers": answers}
        write_file(tmp_path / "v2_OpenEnded_mscoco_val2014_questions.json", {"questions": [asked]})
        write_file(tmp_path / "v2_mscoco_val2014_annotations.json", {"annotations": [answered]})
    records = find_benchmark("vqa2", Locations(tmp_path)).records()
    assert records.rows == (Record("9", (image,), ("One cup?",), ("yes",) * 10),)
    assert by_metric(measure_people(records, ["yes"])) == {"soft_accuracy": [1.0], "soft_accuracy_xvlm": [1.0]}


def test_empty_answers_are_counted_and_a_file_of_nothing_else_is_refused(tmp_path):
    records = asked(("One cup?", "a", "yes"), ("How many?", "b", "2"))
    path = write_file(tmp_path / "p.csv", "id,prediction\n0,\n1,2\n")
    assert VQA.read(path, records) == ["", "2"]
    assert VQA.notes(records, ["", "2"]) == ("1 of 2 answers are empty",)
    write_file(path, "id,prediction\n0,\n1, \n")
    with raises(ScoreError, "p.csv", "empty"):
        VQA.read(path, records)


def test_a_whole_number_is_an_id_however_json_writes_it(tmp_path):
    def read(text: str, *ids: str) -> list[str]:
        path = write_file(tmp_path / "answers.jsonl", text)
        return read_predictions(path, ids, parse_text, "question", lambda number, value: False)

    both = '{"question_id": 100.0, "answer": "yes"}\n{"question_id": 101, "answer": "no"}\n'
    assert read(both, "100", "101") == ["yes", "no"]
    for wrong, shown in (("100.5", "100.5"), ("true", "True"), ("[1]", "[1]")):
        with raises(ScoreError, "answers.jsonl:1", "id", "whole number", shown):
            read(f'{{"id": {wrong}, "answer": "yes"}}\n', "100")
    with raises(ScoreError, "answers.jsonl:1", "'id'", "'question_id'"):
        read('{"answer": "yes"}\n', "100")


# Yes-or-no quadruples: every number against a count by hand, and what an answer in words says.

GROUPS = 40


def quadruples() -> BinaryQuestionSet:
    rows = (
        Record(f"{k}/q{q}i{i}", (f"{k}{i}.png",), (f"q{q} of {k}?",), "yes" if q == i else "no", group=str(k))
        for k, q, i in product(range(GROUPS), (0, 1), (0, 1))
    )
    return BinaryQuestionSet("made", tuple(rows))


def binary(gold: Sequence[str]) -> BinaryQuestionSet:
    """One question about a picture for each gold answer."""
    rows = (Record(str(k), (f"{k}.png",), ("A cup?",), one) for k, one in enumerate(gold))
    return BinaryQuestionSet("made", tuple(rows))


def values(records: BinaryQuestionSet, answers: list[str]) -> dict[str, tuple[list[float], float | None]]:
    measured = (one for units in measure_yes_no(records, answers) for one in units.values)
    return {one.name: (one.strict.tolist(), one.chance) for one in measured}


def test_ungrouped_yes_or_no_has_popes_five_numbers():
    """Against a count by hand, with the script's reading: what it cannot read it takes as yes."""
    drawn = random.Random(1)
    gold = [drawn.choice(("yes", "no")) for _ in range(60)]
    answers = [drawn.choice(("Yes.", "No, there is none.", "A cup", "It is not")) for _ in gold]
    units = measure_yes_no(binary(gold), answers)
    assert len(units) == 1  # a sample an answer, with all of its outcomes
    found = tabulate_units(units).metrics
    said = [("yes", "no")[one[:2] in ("No", "It")] for one in answers]
    true = sum(one == right == "yes" for one, right in zip(said, gold, strict=True))
    precision, recall = true / said.count("yes"), true / gold.count("yes")
    by_hand = {"precision": precision, "recall": recall, "f1": 2 * precision * recall / (precision + recall)}
    by_hand |= {"yes_rate": said.count("yes") / 60, "accuracy": np.mean(np.array(said) == gold)}
    assert {name: found[f"pope_{name}"].value for name in by_hand} == pytest.approx(by_hand)
    assert found["pope_f1"].low < found["pope_f1"].value < found["pope_f1"].high
    assert found["pope_accuracy"].chance == 0.5 and found["pope_f1"].n == 60
    assert not any(name.startswith("pope") for name in values(quadruples(), ["no"] * 160))


def test_an_answer_of_neither_is_a_yes_by_popes_rule_and_the_note_says_by_which_it_counted():
    records, answers = binary(["yes", "no"] * 20), ["maybe", "**No**"] * 20
    found = tabulate_units(measure_yes_no(records, answers)).metrics
    expected = {"pope_accuracy": 1, "pope_f1": 1, "pope_yes_rate": 0.5, "a_acc": 0.5, "unreadable": 0.5}
    expected |= {"pope_accuracy_official": 0.5, "pope_f1_official": 2 / 3, "pope_yes_rate_official": 1}
    assert {name: found[name].value for name in expected} == pytest.approx(expected)
    (note,) = YES_NO.notes(records, answers)
    assert note.startswith("20 of 40 ") and "wrong in `a_acc`" in note and "in `pope_*` 20 of them count as yes" in note
    (note,) = YES_NO.notes(records, ["It is not there", *answers[1:]])
    assert "in `pope_*` 19 of them" in note


@pytest.mark.parametrize("suffix", [".json", ".csv"])
def test_labels_answer_questions_of_yes_and_no_whatever_their_form(suffix, tmp_path):
    yes: list[Any] = ["True", "true.", "1.", "1", "**TRUE**", "1.0", *([True, 1.0, 1] if suffix == ".json" else [])]
    no: list[Any] = ["False", "0.", "FALSE", "0", "`false`", "0.0", *([False, 0.0, 0] if suffix == ".json" else [])]
    records = binary(["yes"] * len(yes) + ["no"] * len(no))
    path = write_file(tmp_path / f"said{suffix}", [{"id": k, "label": form} for k, form in enumerate([*yes, *no])])
    answers = YES_NO.read(path, records)
    found = tabulate_units(measure_yes_no(records, answers)).metrics
    assert [found[name].value for name in ("a_acc", "a_acc_strict", "pope_accuracy", "unreadable")] == [1, 1, 1, 0]
    assert YES_NO.notes(records, answers) == ()


def test_the_four_accuracies_are_those_of_a_count_by_hand():
    drawn = random.Random(0)
    answers = [drawn.choice(("Yes, it is", "no", "maybe")) for _ in range(4 * GROUPS)]
    found = values(quadruples(), answers)
    letters = np.array([answer[:1].lower() for answer in answers]).reshape(GROUPS, 2, 2)  # (group, question, image)
    right = letters == [["y", "n"], ["n", "y"]]
    counts = {"a_acc": (right, 0.5), "q_acc": (right.all(2), 0.25), "i_acc": (right.all(1), 0.25)}
    for name, (of, chance) in (counts | {"g_acc": (right.all((1, 2)), 0.0625)}).items():
        assert (sum(found[name][0]), len(found[name][0]), found[name][1]) == (of.sum(), of.size, chance), name
    unread, gold = answers.count("maybe"), [row.gold for row in quadruples().rows]
    strict = sum(answer == right_one == "no" for answer, right_one in zip(answers, gold, strict=True))
    assert (sum(found["unreadable"][0]), sum(found["a_acc_strict"][0])) == (unread, strict)
    note = f"{unread} of 160 answers name neither option, and count as wrong, such as 'maybe'; expected: yes, no"
    assert YES_NO.notes(quadruples(), answers) == (note,)


def test_a_pair_that_asks_one_question_of_each_image_has_group_and_answer_accuracy_alone():
    rows = (Record(str(k), (f"{k}.png",), (f"{k // 2}? {k}",), "ab"[k % 2], group=str(k // 2)) for k in range(4))
    found = values(BinaryQuestionSet("mmvp", tuple(rows)), ["a", "b", "a", "a"])
    assert found["g_acc"] == ([1, 0], 0.25) and {"q_acc", "i_acc"}.isdisjoint(found)


def test_groups_that_share_a_cluster_in_any_member_are_one_and_bear_the_tags_of_all_members():
    rows = (
        Record(f"{k}{n}", (f"{picture}.png",), ("q?",), ("no", "yes")[n], f"{k}", picture, {"n": f"{n}", "k": "x"})
        for k, pair in enumerate(("ca", "bc", "de"))
        for n, picture in enumerate(pair)
    )
    *_, groups = measure_yes_no(BinaryQuestionSet("made", tuple(rows)), ["yes"] * 6)
    assert groups.noun == "group" and [unit.cluster for unit in groups.units] == ["a", "a", "d"]
    assert [unit.tags for unit in groups.units] == [{"k": "x"}] * 3


def test_chance_of_a_part_is_that_of_its_groups():
    places = [(n, k) for n in (2, 4) for k in range(n)]
    rows = (Record(f"{n}{k}", (f"{n}{k}.png",), ("q?",), "yes", str(n), tags={"size": str(n)}) for n, k in places)
    found = tabulate_units(measure_yes_no(BinaryQuestionSet("made", tuple(rows)), ["no"] * 6))
    chances = {size: part.metrics["g_acc"].chance for size, part in found.by["size"].items()}
    assert chances == {"2": 1 / 4, "4": 1 / 16}
    assert found.metrics["g_acc"].chance == found.macro["size"].metrics["g_acc"].chance == (1 / 4 + 1 / 16) / 2


@pytest.mark.parametrize("bad", ["maybe", "c", "", "2"])
def test_a_gold_answer_is_one_of_two(bad):
    with raises(ValueError, "yes", "no", "true", "false", "1", "0", "A", "B", "first", "second"):
        read_gold(bad)
    with raises(DataError, "0", "question", "answer"):
        BinaryQuestionSet("s", (Record("0", ("a.png",), ("?",), bad),))


def test_texts_alone_are_compared_from_both_sides_and_from_one():
    every = np.array([*product(range(3), repeat=3)], np.float32)[:, None, :]
    items = tuple(
        Item(id=str(k), images=("no.png",), texts=(f"a cup {k}", f"no cup {k}", f"one cup {k}"), true=(0, 2))
        for k in range(len(every))
    )
    scored = Scored(Scores([item.id for item in items], every, "similarity"))
    (measured,) = TRUE_TEXTS.measure(PairSet("t", items, Path()), scored)
    expected = {"tot": [float(a > b and a > c) for [[a, b, c]] in every]}
    expected |= {"tot_one_sided": [float(a > b) for [[a, b, _]] in every]}
    assert {one.name: one.strict.tolist() for one in measured.values} == expected
    assert [one.chance for one in measured.values] == [1 / 3, 1 / 2]
    pairs, model = PairSet("t", items[:3], Path()), find_model("demo-encoder")
    session = Session(pictures=lambda _: b"", store=EmbeddingStore(None))
    scores = TRUE_TEXTS.runner(model)(model, pairs, session).scores.values
    vectors = model.encode_texts([text for item in pairs.items for text in item.texts]).reshape(3, 3, -1)
    vectors = vectors / np.linalg.norm(vectors, axis=2, keepdims=True)
    sides = np.einsum("ktd,kud->ktu", vectors, vectors)[:, (0, 0, 2), (2, 1, 1)]  # true ones are 0 and 2
    np.testing.assert_allclose(scores[:, 0], sides, rtol=1e-5)


class Shape(NamedTuple):
    """Rows of a user's file, the table that declares them, the first metric, and which text belongs to which image.

    `right` is of a row of the exported file: of its item, image and text.
    """

    rows: Callable[[int], Any]
    table: str
    metric: str
    right: Callable[..., bool]


MANY = range(8)
TRUE_OR_FALSE = Shape(
    lambda k: {"image": f"{k % 4}.png", "good": [f"cup {k}", f"a cup {k}"], "bad": f"plate {k} here"},
    'images = "{image}"\ntexts = ["{good.0}", "{bad}", "{good.1}"]\ntrue = [0, 2]',
    "itt", lambda item, image, text: text in (0, 2),
)  # fmt: skip
SHAPES = {
    "true": TRUE_OR_FALSE,
    # Of the two true texts; the others are each with the false one.
    "texts": TRUE_OR_FALSE._replace(metric="tot", right=lambda item, image, text: text == 0),
    "anywhere": Shape(
        lambda k: {"image": f"{k % 4}.png", "keys": [f"{n} of {k}" for n in range(4)], "label": k % 4},
        'images = "{image}"\ntexts = "{keys}"\ntrue = "{label}"',
        "choice_score", lambda item, image, text: text == item % 4,
    ),
    "images": Shape(
        lambda k: {"keys": [f"{(k + n) % 4}.png" for n in range(3)], "text": f"cup {k}", "label": k % 3},
        'images = "{keys}"\ntexts = "{text}"\ntrue = "{label}"',
        "choice_score", lambda item, image, text: image == item % 3,
    ),
    "ordered": Shape(
        lambda k: {"image": f"{k % 4}.png", "keys": [f"{n} of {k}" for n in range(3)]},
        'images = "{image}"\ntexts = "{keys}"',
        "ordering_score", lambda item, image, text: text == 0,
    ),
    "square": Shape(
        lambda k: {"images": [f"{n}.png" for n in range(4)], "texts": [f"{n} of {k}" for n in range(4)]},
        'images = "{images}"\ntexts = "{texts}"',
        "set_score", lambda item, image, text: image == text,
    ),
    "films": Shape(
        lambda k: {"texts": ["darker now", f"brighter {k}"]},
        'images = ["down.mp4", "up.mp4"]\ntexts = "{texts}"',
        "group_score", lambda item, image, text: image == text,
    ),
    "questions": Shape(
        lambda k: [f"q{k // 2 % 2}?", f"{k % 2}.png", "Yes" if k // 2 % 2 == k % 2 else "No", k // 4],
        'images = "{1}"\nquestion = "{0}"\nanswer = "{2}"\ngroup = "{3}"',
        "g_acc", lambda item: item % 4 in (0, 3),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHAPES)
def test_every_shape_goes_from_a_users_file_to_the_report(kind, command, tmp_path):
    shape, asks = SHAPES[kind], kind == "questions"
    for k in range(4):
        write_file(tmp_path / "images" / f"{k}.png", plain(60 * k, (4, 4)))
    for name, greys in {"down": (200, 150, 100, 50), "up": (50, 100, 150, 200)}.items() if kind == "films" else ():
        frames = (np.full((32, 32, 3), grey, np.uint8) for grey in greys)
        film(tmp_path / "images" / f"{name}.mp4", frames, "libx264", rate=25)
    write_file(tmp_path / "rows.json", [shape.rows(k) for k in range(4 * len(MANY) if asks else len(MANY))])
    start = 'name = "o"\ntitle = "o"\nsource = "o"\nfiles = ["rows.json"]\n' + "ordered = true\n" * (kind == "ordered")
    write_file(tmp_path / "own.toml", f'{start}[[{"question" if asks else "item"}]]\nid = "{{row}}"\n{shape.table}\n')
    own = "texts:own.toml" if kind == "texts" else "own.toml"
    command("export", own, "--to", "out.csv", code=0)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("good", "bad"):
        for row in rows:
            places = [int(row[part]) for part in (("id",) if asks else ("id", "image", "text"))]
            right = shape.right(*places) == (name == "good")
            score = places[-1] * (-1 if name == "good" else 1) if kind == "ordered" else float(right)
            row.update({"prediction": ("no", "yes")[right]} if asks else {"score": str(score)})
        write_file(tmp_path / f"{name}.csv", rows)
        words = () if asks else ("--kind", "similarity")
        command("score", own, "--scores", f"{name}.csv", "--name", name, "--out", f"runs/{name}", *words, code=0)
    for name, expected in (("good", 1), ("bad", 0)):
        ((benchmark, record),) = read_result(tmp_path / "runs" / name).benchmarks.items()
        assert record.metrics[shape.metric].value == expected
        if kind not in ("questions", "texts"):  # from the run's samples, without the file of scores
            assert remeasure(tmp_path / "runs" / name, benchmark).metrics[shape.metric].value == expected
    assert shape.metric in str(command("compare", "runs/good", "runs/bad", "--json", code=0).json)
    assert "| good |" in command("table", "runs/good", "runs/bad", code=0).out
    command("plot", "bars", "runs/good", "--out", "bars.svg", code=0)
    assert "<svg" in (tmp_path / "bars.svg").read_text()
    command("show", "runs/good", code=0)
    assert "own.toml" in (tmp_path / "runs/good/report.html").read_text("utf-8")
    if kind not in ("questions", "texts", "ordered"):  # no oracle knows an order
        command("run", "-b", own, "-m", "oracle", "--out", "runs/own", code=0)
        assert read_result(tmp_path / "runs/own").benchmarks[benchmark].metrics[shape.metric].value == 1
    if kind in ("films", "texts"):  # a dual encoder reads films frame by frame, and texts without images
        command("run", "-b", own, "-m", "demo-encoder", "--out", "runs/encoder", code=0)
        assert read_result(tmp_path / "runs/encoder").benchmarks[benchmark].metrics[shape.metric].n == len(MANY)
