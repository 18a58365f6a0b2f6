"""Questions as tasks: one gold answer and pairs of questions, ten people's answers, and models that are asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import raises
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.vlue import read_questions
from tellapart.data.task_records import Question, QuestionSet, linked_images
from tellapart.errors import DataError, ScoreError
from tellapart.evaluation.evaluate import evaluate, prepare
from tellapart.metrics.answers import soft_accuracy
from tellapart.models.generative.prompts import SHORT_ANSWER
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.predictions import read_predictions, text
from tellapart.tasks.task import Units
from tellapart.tasks.words import VQA, measure_one_answer, measure_people

VLUE = Path(__file__).parents[2].parent / "shared" / "data" / "vlue" / "vqa_vlue_test.json"
ROWS = [
    {"question_id": 5, "question": "One cup?", "image": "a.png", "answer": "yes"},
    {"question_id": 6, "question": "one cup? ", "image": "b.png", "answer": "no"},
    {"question_id": 7, "question": "How many?", "image": "a.png", "answer": "2"},
]


def made(rows: Sequence[tuple[str, str, str]]) -> QuestionSet:
    """Questions of (question, image, answer)."""
    return QuestionSet("made", tuple(Question(str(k), q, i, (a,)) for k, (q, i, a) in enumerate(rows)))


def by_metric(found: Sequence[Units]) -> dict[str, list[float]]:
    return {one.name: one.strict.tolist() for units in found for one in units.values}


def published() -> QuestionSet:
    if not VLUE.is_file():
        pytest.skip("VLUE's annotation files are not beside this checkout")
    return read_questions(VLUE)


@pytest.fixture
def data(tmp_path: Path, draw: Callable[..., bytes]) -> Path:
    folder = tmp_path / "vlue"
    (folder / "images").mkdir(parents=True)
    (folder / "vqa_vlue_test.json").write_text(json.dumps(ROWS))
    for seed, name in enumerate(("a.png", "b.png")):
        (folder / "images" / name).write_bytes(draw(seed))
    return folder


@pytest.fixture
def draw() -> Callable[[int], bytes]:
    import io

    from PIL import Image

    def png(seed: int) -> bytes:
        stream = io.BytesIO()
        pixels = np.random.default_rng(seed).integers(0, 256, (4, 4, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(stream, "PNG")
        return stream.getvalue()

    return png


def test_the_published_questions_have_3966_pairs_that_no_blind_model_wins() -> None:
    records = published()
    usual: dict[str, Counter[str]] = {}
    for question, answer in zip(records.questions, records.gold, strict=True):
        usual.setdefault(question.question.lower().strip(), Counter())[answer] += 1
    blind = [usual[question.question.lower().strip()].most_common(1)[0][0] for question in records.questions]
    questions, pairs = measure_one_answer(records, blind)
    assert (len(questions.units), len(pairs.units)) == (11_942, 3_966)
    assert questions.values[0].strict.mean() > 0.49
    assert pairs.values[0].strict.sum() == pairs.values[0].chance == 0
    right = by_metric(measure_one_answer(records, records.gold))
    assert {name: (len(column), min(column)) for name, column in right.items()} == {
        "exact_match": (11_942, 1.0),
        "exact_match_cleaned": (11_942, 1.0),
        "pair_accuracy": (3_966, 1.0),
    }


def test_the_published_pairs_are_resampled_with_the_pairs_that_share_their_images() -> None:
    records = published()
    questions, pairs = measure_one_answer(records, records.gold)
    assert len({unit.cluster for unit in questions.units}) == 4_895
    groups: dict[str, set[str]] = {}
    for unit in pairs.units:
        groups.setdefault(unit.cluster, set()).update(unit.images)
    shown = [image for images in groups.values() for image in images]
    assert len(shown) == len(set(shown))  # no image stands in two groups
    assert len(groups) == 963


def test_an_answer_is_compared_letter_by_letter_and_after_the_normaliser() -> None:
    records = made([("One cup?", "a", "yes"), ("How many?", "b", "2"), ("What?", "c", "a cup"), ("Who?", "d", "man")])
    found = by_metric(measure_one_answer(records, [" yes ", "Two.", "cup", "woman"]))
    assert found == {"exact_match": [1, 0, 0, 0], "exact_match_cleaned": [1, 1, 1, 0]}  # no pairs: no such metric


def test_a_pair_is_right_only_where_both_answers_are() -> None:
    records = made([("One cup?", "a", "yes"), ("one cup?", "b", "no"), ("Two?", "c", "no"), ("Two?", "d", "yes")])
    pairs = measure_one_answer(records, ["yes", "no", "no", "no"])[1]
    assert pairs.values[0].strict.tolist() == [1.0, 0.0]
    assert [(unit.id, unit.output, unit.gold) for unit in pairs.units] == [
        ("0+1", ["yes", "no"], "yes, no"),
        ("2+3", ["no", "no"], "no, yes"),
    ]


def test_people_are_measured_as_the_official_script_and_as_xvlm_do() -> None:
    people = (("yes",) * 10, ("2",) * 3 + ("3",) * 7, ("red",) * 9 + ("a red",))
    rows = tuple(Question(str(k), "?", "a", given) for k, given in enumerate(people))
    said = ["Yes.", "two", "red"]
    found = by_metric(measure_people(QuestionSet("v", rows), said))
    assert found["soft_accuracy"] == soft_accuracy(said, people).tolist() == [0.0, 0.9, 1.0]
    assert found["soft_accuracy_xvlm"] == soft_accuracy(said, people, "xvlm").tolist()
    assert found["soft_accuracy_xvlm"][0] == 1.0


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from("abcde"), st.sampled_from(["yes", "no"])), min_size=1)
)
def test_pairs_are_never_won_by_an_answer_that_looks_at_the_question_alone(rows: list[tuple[str, str, str]]) -> None:
    records = made(rows)
    for answer in ("yes", "no"):
        found = by_metric(measure_one_answer(records, [answer] * len(rows)))
        assert not any(found.get("pair_accuracy", []))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), max_size=8))
def test_linked_images_are_the_connected_ones(pairs: list[tuple[str, str]]) -> None:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    group = linked_images(pairs)
    place = {image: k for k, image in enumerate("abcdefgh")}
    ends = np.array([[place[a], place[b]] for a, b in pairs]).reshape(-1, 2).T
    _, label = connected_components(coo_matrix((np.ones(len(pairs)), tuple(ends)), shape=(8, 8)), directed=False)
    for one in group:
        for other in group:
            assert (group[one] == group[other]) == (label[place[one]] == label[place[other]])
        assert group[one] <= one


def test_a_template_that_is_filled_in_is_measured_and_compared(
    command: Callable[..., Any], data: Path, tmp_path: Path
) -> None:
    template = tmp_path / "t.jsonl"
    command("export", "vlue-vqa", "--to", template, "--data", data)
    rows = [json.loads(line) for line in template.read_text().splitlines()]
    assert rows[1] == {"id": "6", "prediction": None, "question": "one cup? ", "image": "b.png"}
    answers = {"right": ["yes", "no", "2"], "wrong": ["yes", "yes", "Two."]}
    for name, said in answers.items():
        path = tmp_path / f"{name}.json"
        path.write_text(
            json.dumps(
                [{"question_id": int(row["id"]), "prediction": one} for row, one in zip(rows, said, strict=True)]
            )
        )
        found = command("score", "vlue-vqa", "--scores", path, "--data", data, "--out", tmp_path / name, "--json").json
        metrics = found["runs"][0]["benchmarks"]["vlue-vqa"]["metrics"]
        kept = {key: one["value"] for key, one in metrics.items()}
        assert kept == (
            {"exact_match": 1.0, "exact_match_cleaned": 1.0, "pair_accuracy": 1.0}
            if name == "right"
            else {"exact_match": 1 / 3, "exact_match_cleaned": 2 / 3, "pair_accuracy": 0.0}
        )
    compared = command("compare", tmp_path / "right", tmp_path / "wrong", "--json").json["rows"]
    assert [(row["metric"], row["only_a"], row["only_b"]) for row in compared] == [
        ("exact_match", 2, 0),
        ("pair_accuracy", 1, 0),
    ]


def test_the_samples_of_a_run_are_read_as_predictions_again(
    command: Callable[..., Any], data: Path, tmp_path: Path
) -> None:
    path = tmp_path / "p.csv"
    path.write_text("id,prediction\n5,yes\n6,yes\n7,2\n")
    command("score", "vlue-vqa", "--scores", path, "--data", data, "--out", tmp_path / "run")
    records = read_questions(data / "vqa_vlue_test.json")
    assert VQA.read(tmp_path / "run" / "samples" / "vlue-vqa.jsonl", records) == ["yes", "yes", "2"]


@pytest.mark.parametrize("joined", [False, True])
def test_vqa2_is_read_from_its_two_files_or_from_xvlms_one(tmp_path: Path, joined: bool) -> None:
    row = {"question_id": 9, "image_id": 42}
    answers = [{"answer": "yes", "answer_id": k, "answer_confidence": "yes"} for k in range(1, 11)]
    if joined:
        image = "val2014/COCO_val2014_000000000042.jpg"
        one = {"question_id": 9, "question": "One cup?", "image": image, "answer": ["yes"] * 10, "dataset": "vqa"}
        (tmp_path / "vqa_val.json").write_text(json.dumps([one]))
    else:
        asked, given_ = {"questions": [{**row, "question": "One cup?"}]}, {"annotations": [{**row, "answers": answers}]}
        (tmp_path / "v2_OpenEnded_mscoco_val2014_questions.json").write_text(json.dumps(asked))
        (tmp_path / "v2_mscoco_val2014_annotations.json").write_text(json.dumps(given_))
    records = find_benchmark("vqa2", Locations(tmp_path)).records()
    assert records.questions == (Question("9", "One cup?", "val2014/COCO_val2014_000000000042.jpg", ("yes",) * 10),)
    assert by_metric(measure_people(records, ["yes"])) == {"soft_accuracy": [1.0], "soft_accuracy_xvlm": [1.0]}


class Parrot:
    """Answers with the darkness of what it sees and the prompt's length."""

    name, fingerprint, kind = "parrot", "parrot-1", "probability"

    def task_prompt(self, task: str) -> Any:
        assert task == "vqa"
        return SHORT_ANSWER

    def answer(self, images: Any, prompts: Sequence[str], *, max_new_tokens: int = 32) -> list[str]:
        return [f"{int(own[0].sum())} {len(own)} {prompt}" for own, prompt in zip(images, prompts, strict=True)]


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_a_model_that_answers_is_asked_every_question_about_its_image(data: Path, batch_size: int) -> None:
    from PIL import Image

    ready = prepare(find_benchmark("vlue-vqa", Locations(data)), store=EmbeddingStore(None))
    told: list[tuple[str, int, int]] = []
    found = evaluate(Parrot(), ready, batch_size=batch_size, progress=lambda *now: told.append(now))
    sums = {name: int(np.asarray(Image.open(data / "images" / name)).sum()) for name in ("a.png", "b.png")}
    asked = "\nAnswer the question using a single word or phrase."
    assert [sample.output for sample in found.samples if sample.unit == "question"] == [
        f"{sums[row['image']]} 1 {row['question']}{asked}" for row in ROWS
    ]
    assert [now for now in told if now[0] == "answers"][-1] == ("answers", 3, 3)


def test_empty_answers_are_counted_and_a_file_of_nothing_else_is_refused(tmp_path: Path) -> None:
    records = made([("One cup?", "a", "yes"), ("How many?", "b", "2")])
    path = tmp_path / "p.csv"
    path.write_text("id,prediction\n0,\n1,2\n")
    assert VQA.read(path, records) == ["", "2"]
    assert VQA.notes(records, ["", "2"]) == ("1 of 2 answers are empty",)
    path.write_text("id,prediction\n0,\n1, \n")
    with raises(ScoreError, "p.csv", "empty"):
        VQA.read(path, records)


def test_several_answers_are_not_measured_as_one() -> None:
    records = QuestionSet("v", (Question("0", "?", "a", ("x", "y")),))
    with raises(DataError, "0", "2", "soft_accuracy"):
        measure_one_answer(records, ["x"])


def test_a_whole_number_is_an_id_however_json_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"question_id": 100.0, "answer": "yes"}\n{"question_id": 101, "answer": "no"}\n')
    assert read_predictions(path, ["100", "101"], text, "question", lambda number, value: False) == ["yes", "no"]
    for wrong in ("100.5", "true", "[1]"):
        path.write_text(f'{{"id": {wrong}, "answer": "yes"}}\n')
        with raises(ScoreError, f"{path}:1", "id", "whole number", wrong.title() if wrong == "true" else wrong):
            read_predictions(path, ["100"], text, "question", lambda number, value: False)
    path.write_text('{"answer": "yes"}\n')
    with raises(ScoreError, f"{path}:1", "'id'", "'question_id'"):
        read_predictions(path, ["100"], text, "question", lambda number, value: False)
