"""Files of predictions: the field that they are read from, what is refused, and thoughts, which are not read."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prediction_doors import ARRAYS, RECORDS

from facts import check_facts, raises
from pictures import plain
from sets import write_file
from tellapart.api.analyses import items
from tellapart.api.evaluate import score
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import as_benchmark
from tellapart.board.submissions.worker import read_sent
from tellapart.data.answer_text import watch_reading
from tellapart.data.task_records import BinaryQuestionSet, ClassificationSet, Record, StatementSet
from tellapart.errors import RunError, ScoreError
from tellapart.evaluation.verified import read_result
from tellapart.models.generative.answers import parse_box
from tellapart.models.generative.prompts import CAPTION, GROUNDING_SENTENCE, NLVR2, SHORT_ANSWER, Prompt
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.registry import TASKS
from tellapart.tasks.task import Session

#: Task, the name of a field of gold answers, these as a file of the task's records has them, and a wrong last one.
GOLD: list[tuple[str, str, list[Any], Any]] = [
    ("yes-no", "label", ["yes", "no", "yes", "no"], "yes"),
    ("yes-no", "answer", ["Yes", "No", "Yes", "No"], "Yes"),
    ("yes-no", "label", [1, 0, 1, 0], 1),
    ("nlvr2", "label", ["True", "True", "False", "False"], "True"),
    ("grounding", "bbox", [list(row.gold) for row in RECORDS["grounding"].rows], [0, 0, 1, 1]),
    ("vqa", "answer", ["two"] * 4, "7"),
    ("vqa2", "answer", ["two", "3", "two", "3"], "7"),
    ("captions", "caption", ["a cat sits", "it", "a cow sits", "it"], "a mug"),
    ("classification", "label", ["Cat", "dog", "owl", "cat"], "dog"),
    ("choice", "answer", ["1", "2", "1", "2"], "1"),
]


def benchmark(task: str, records: Any = None) -> Benchmark:
    """The records of a task, or these, as a benchmark."""
    records = records or RECORDS[task]
    return Benchmark(name=f"made-{task}", title="made", items=0, source="here", task=task, load=lambda _place: records)


def ids_of(task: str) -> list[str]:
    return ["0/1", "0/2", "1/1", "1/2"] if task in ("choice", "pairing") else list("0123")


@pytest.mark.parametrize(("task", "field", "gold", "wrong"), GOLD, ids=[f"{task}-{field}" for task, field, *_ in GOLD])
def test_the_gold_answers_are_never_taken_by_themselves(task, field, gold, wrong, tmp_path):
    made = benchmark(task)

    def rows(name: str, values: Sequence[object]) -> Path:
        held = [{"id": id_, name: value} for id_, value in zip(ids_of(task), values, strict=True)]
        return write_file(tmp_path / f"{name}.json", held)

    with raises(ScoreError, field, f"{field}.json", "gold", "columns={'prediction': '" + field + "'}"):
        score(made, rows(field, gold))
    for path, columns in ((rows(field, gold), {"prediction": field}), (rows("prediction", gold), None)):
        record = score(made, path, columns=columns).result().benchmarks[made.name]
        assert record.field == path.stem
        assert record.metrics[next(iter(record.metrics))].value > 0.5
    assert score(made, rows(field, [*gold[:3], wrong])).result().benchmarks[made.name].field == field  # a model's


#: A fault of a file of predictions -> the rows made of whole ones, and the facts of its refusal.
#: Faults of a file of predictions: the rows made of whole ones, and the facts of its refusal.
FAULTS: list[tuple[Callable[[list[dict[str, Any]]], Any], tuple[str, ...]]] = [
    (lambda rows: rows[1:], ("1", "4")),
    (lambda rows: [*rows, rows[0]], ("row 4", "second")),
    (lambda rows: [*rows, rows[0] | {"id": "zzz"}], ("1", "zzz")),
    (lambda rows: [*rows, *(rows[0] | {"id": f"x{k:02}"} for k in range(20))], ("20", "x09", "10 more")),
    (lambda rows: [rows[0] | {"prediction": None}, *rows[1:]], ("row 0", "'prediction'", "null")),
    (lambda rows: [rows[0] | {"prediction": {"x": 1}}, *rows[1:]], ("row 0", "'prediction'", "'x'")),
    (lambda rows: [rows[0] | {"prediction": [1, 2, True]}, *rows[1:]], ("row 0", "'prediction'", "True")),
    (lambda rows: [{"prediction": rows[0]["prediction"]}, *rows[1:]], ("row 0", "'id'")),
    (lambda rows: {row["id"]: row["prediction"] for row in rows}, ("list", "objects")),
    (lambda rows: ["yes"], ("row 0", "list", "'yes'")),
]


@pytest.mark.parametrize(("change", "facts"), FAULTS, ids=range(len(FAULTS)))
@pytest.mark.parametrize(("task", "gold"), {task: (task, gold) for task, _, gold, _ in GOLD}.values())
def test_a_file_that_does_not_fit_is_refused(task, gold, change, facts, tmp_path):
    whole = [{"id": id_, "prediction": value} for id_, value in zip(ids_of(task), gold, strict=True)]
    path = write_file(tmp_path / "p.json", change(whole))
    with raises(ScoreError, *facts, path):
        TASKS[task].read(path, RECORDS[task])


@pytest.mark.parametrize(("task", "whole"), ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_do_not_fit_are_refused(task, whole, tmp_path):
    rows, columns, _ = whole
    row_ids, column_ids, scores = whole.values()
    path, size = tmp_path / "s.npz", len(row_ids)
    for changes, facts in (
        ({rows: None}, (rows, "array")),
        ({columns: None}, (columns, "array")),
        ({"scores": None}, ("scores",)),
        ({"scores": scores[:, 1:]}, (size, len(column_ids), str(scores[:, 1:].shape))),
        ({"scores": np.full_like(scores, np.nan)}, ("finite",)),
        ({"scores": np.full_like(scores, np.inf)}, ("finite",)),
        ({rows: np.arange(size)}, (rows, "(n,)", "int64", f"({size},)")),
        ({rows: ["0", *["1"] * (size - 1)]}, (size - 2, rows, "1")),
        ({rows: [*row_ids[:-1], "7"]}, ("1", size, row_ids[-1], "7")),
        ({columns: [*column_ids[:-1], "zzz"]}, (column_ids[-1], "zzz")),
    ):
        np.savez(path, **{name: array for name, array in (whole | changes).items() if array is not None})
        with raises(ScoreError, *facts, path):
            TASKS[task].read(path, RECORDS[task])
    with raises(ScoreError, "'.txt'"):
        TASKS[task].read(tmp_path / "s.txt", RECORDS[task])


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv"])
@pytest.mark.parametrize(
    ("model", "gold"), [("answer", "label"), ("response", "answer"), ("output", "label"), ("prediction", "answer")]
)
def test_a_file_with_two_candidates_is_read_from_the_one_that_is_named(suffix, model, gold, tmp_path):
    made = benchmark("yes-no")
    rows = [{"id": row.id, model: "Yes there is.", gold: row.gold} for row in RECORDS["yes-no"].rows]
    path = write_file(tmp_path / f"said{suffix}", rows)
    with raises(ScoreError, path, repr(model), repr(gold), "columns={'prediction': 'NAME'}"):
        score(made, path)
    record = score(made, path, columns={"prediction": model}).result().benchmarks[made.name]
    assert (record.field, record.metrics["a_acc"].value) == (model, 0.5)
    with raises(ScoreError, path, "'guess'", model, gold):
        score(made, path, columns={"prediction": "guess"})


def test_classes_that_differ_in_case_alone_are_read_apart(tmp_path):
    rows = tuple(Record(str(k), (f"{k}.png",), (), k) for k in range(2))
    letters = ClassificationSet("letters", rows, ("A", "a"), ("the letter {}",))
    path = write_file(tmp_path / "a.csv", [{"id": k, "prediction": name} for k, name in enumerate("Aa")])
    with watch_reading():
        assert TASKS["classification"].read(path, letters).placed.first.tolist() == [0, 1]


def test_a_null_prediction_is_a_missing_one(tmp_path):
    made, path = benchmark("nlvr2"), tmp_path / "a.jsonl"
    write_file(path, [{"id": row.id, "prediction": None, "label": row.gold} for row in RECORDS["nlvr2"].rows])
    with raises(ScoreError, "'prediction' (empty in every row)", "'label'", path="a.jsonl"):
        score(made, path)
    with raises(ScoreError, "null", path="a.jsonl", line=1, field="prediction"):
        score(made, path, columns={"prediction": "prediction"})
    write_file(path, [{"id": k, "prediction": None if k == 2 else True, "label": None} for k in range(4)])
    with raises(ScoreError, "null", path="a.jsonl", line=3, field="prediction"):
        score(made, path)


def test_a_name_that_nothing_reads_is_refused(tmp_path):
    made, path = benchmark("classification"), tmp_path / "scores.npz"
    np.savez(path, **ARRAYS["classes.npz"][1])
    assert score(made, path).result().benchmarks[made.name].field == "scores"
    with raises(ScoreError, path, "scores", "columns={'prediction': 'answer'}"):
        score(made, path, columns={"prediction": "answer"})
    with raises(RunError, "columns", "table:"):
        score(made, path, columns={"image_0": "left"})


def test_the_first_line_names_the_field_and_the_record_is_verified_from_it(command, tmp_path):
    gold = [{"sentence": f"S {k}.", "images": [f"{k}a.jpg", f"{k}b.jpg"], "label": str(k % 2 == 0)} for k in range(4)]
    write_file(tmp_path / "vlue" / "nlvr2_vlue_test.json", gold)
    write_file(tmp_path / "p.jsonl", [{"id": str(k), "answer": "Yes", "label": k % 2 == 0} for k in range(4)])
    given = ("score", "vlue-nlvr2", "--data", "vlue", "--scores", "p.jsonl", "--out", "run")
    check_facts(command(*given, code=2).err, "p.jsonl", "'label'", "'answer'", "--columns prediction=NAME")
    ran = command(*given, "--columns", "prediction=answer", code=0)
    assert ran.out.splitlines()[0] == "vlue-nlvr2: read from field answer"
    assert "read from field answer" in (tmp_path / "run" / "report.html").read_text()
    assert read_result(tmp_path / "run").benchmarks["vlue-nlvr2"].metrics["accuracy"].value == 0.5
    assert "0 different, 0 cannot be checked" in command("verify", "run").out
    other = command(*given, "--columns", "prediction=label", code=2)  # the same file, read from another field
    check_facts(other.err, "run", "vlue-nlvr2", "'answer'", "--out")


def test_items_of_files_are_read_from_a_named_field_too(tmp_path, capsys):
    rows = (Record(str(k), (f"{k}a.png", f"{k}b.png"), (f"Dog {k}.",), k % 2 == 0) for k in range(12))
    made = benchmark("nlvr2", StatementSet("many", tuple(rows)))
    as_benchmark(made)
    folder = tmp_path / "systems"
    for system in range(6):
        said = [{"id": k, "answer": (k + system) % 5 > 1, "label": k % 2 == 0} for k in range(12)]
        write_file(folder / f"model{system}.jsonl", said)
    with raises(ScoreError, "'label'", "'answer'"):
        items(scores=folder, benchmark=made.name)
    found = items(scores=folder, benchmark=made.name, columns={"prediction": "answer"})
    assert set(found.outcomes.fields.values()) == {"answer"}
    found.show()
    assert "read from field answer" in capsys.readouterr().out.splitlines()[0]


def test_a_board_which_knows_no_gold_answer_takes_what_its_blank_records_hold(tmp_path):
    """Records are published without labels: all of them say `yes`, and so may a model."""
    blank = BinaryQuestionSet("cups", tuple(Record(str(k), (f"{k}.png",), ("A cup?",), "yes") for k in range(4)))
    path = write_file(tmp_path / "sent.jsonl", [{"id": k, "answer": "yes"} for k in range(4)])
    assert read_sent(path, blank, "yes-no") == ["yes"] * 4
    both = write_file(tmp_path / "both.jsonl", [{"id": k, "answer": "yes", "label": "no"} for k in range(4)])
    with raises(ScoreError, "'answer'", "'label'"):
        read_sent(both, blank, "yes-no")


# Thoughts of reasoning models: no reader of answers reads them, whether a file holds them or a model writes them.

#: A thought that holds the other answer of every task.
THOUGHT = (
    "<think>Yes or no? True or false? 1 or 2, A or B? 1;2. [0, 0, 9, 9]. I think no: false, 2, B, a dog.</think>\n"
)
#: Task -> the answers of a model to its records.
SPOKEN: dict[str, tuple[str, ...]] = {
    "yes-no": ("Yes", "yes.", "No", "No, none"),
    "nlvr2": ("True", "true.", "False", "no"),
    "vqa": ("two", "2", "a two", "three"),
    "open": ("two", "{two}", "three", "{2}"),
    "vqa2": ("two", "3", "2", "four"),
    "captions": ("a cat sits", "it", "a mug", "an owl"),
    "grounding": ("[10, 5, 20, 20]", "[20, 5, 21, 20]", "[1, 1, 5, 5]", "[2, 2, 5, 5]"),
}
#: Also of tasks that are answered in files alone, or with two answers an item.
FILED = SPOKEN | {
    "choice": ("1", "a red cup 0", "(2)", "both"),
    "classification": ("cat", "Dog.", "dog", "a cow"),
    "pairing": ("1;2", "2;1", "1;2", "1;2"),
}


def records_of(task: str) -> Any:
    return RECORDS["vqa" if task == "open" else task]


def outcomes(task: str, predictions) -> dict[str, list[float]]:
    measured = TASKS[task].measure(records_of(task), predictions)
    return {one.name: one.strict.tolist() for units in measured for one in units.values}


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv"])
@pytest.mark.parametrize("task", FILED)
def test_a_file_of_every_task_that_is_answered_in_words_is_read_without_its_thoughts(task, suffix, tmp_path):
    assert {name for name, one in TASKS.items() if one.output in ("text", "label", "box")} <= {*FILED}
    found = []
    for thought in ("", THOUGHT, "I begin without a mark: no." + THOUGHT.removeprefix("<think>")):
        said = zip(ids_of(task), FILED[task], strict=True)
        rows = [{"id": key, "prediction": f"{thought}{answer}"} for key, answer in said]
        path = write_file(tmp_path / f"answers{suffix}", rows)
        with watch_reading() as thoughts:
            found.append(outcomes(task, TASKS[task].read(path, records_of(task))))
        assert (thoughts.stripped, thoughts.cut) == (4 * bool(thought), 0)
    assert found[0] == found[1] == found[2]


class Says:
    """Gives answers that it was given, in turn."""

    name, fingerprint, kind = "says", "says-1", "probability"

    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[list[int], str]] = []  # the red of each picture's first pixel, and the prompt

    def task_prompt(self, task: str) -> Prompt:
        return {"vqa": SHORT_ANSWER, "nlvr2": NLVR2, "caption": CAPTION, "grounding": GROUNDING_SENTENCE}[task]

    def answer(self, images, prompts: Sequence[str], *, max_new_tokens: int = 32) -> list[str]:
        self.asked += [([int(p[0, 0, 0]) for p in own], words) for own, words in zip(images, prompts, strict=True)]
        return [self.answers.pop(0) for _ in prompts]

    def read_box(self, answer: str, pixels: np.ndarray):
        height, width = pixels.shape[:2]
        return parse_box(answer, (100, 100), (width, height))


#: Task -> the words that a model is asked, of those that the record holds.
#: Task -> the words that a model is asked, of those that the record holds.
WORDS: dict[str, Callable[[Sequence[str]], str]] = {
    "captions": lambda _: CAPTION.text,
    "grounding": lambda texts: GROUNDING_SENTENCE.fill(text=texts[0]),
    "nlvr2": lambda texts: NLVR2.fill(sentence=texts[0]),
    "yes-no": lambda texts: texts[0],
    "open": lambda texts: texts[0],
}


@pytest.mark.parametrize("batch_size", [1, 2, 32])
@pytest.mark.parametrize("task", SPOKEN)
def test_a_model_is_asked_about_the_pictures_of_each_record_by_the_words_of_the_task_and_read_without_thoughts(
    task, batch_size
):
    records, answers = records_of(task), SPOKEN[task]
    told: list[tuple[str, int, int]] = []
    session = Session(
        pictures=lambda name: plain((ord(name[0]), 7, 9), (9, 9)),
        store=EmbeddingStore(None),
        batch_size=batch_size,
        progress=lambda *now: told.append(now),
    )
    words = WORDS.get(task, lambda texts: f"{texts[0]}\nAnswer the question using a single word or phrase.")
    found = []
    for thought in ("", THOUGHT):
        model: Any = Says([f"{thought}{answer}" for answer in answers])
        with watch_reading() as thoughts:
            predictions = TASKS[task].runner(model)(model, records, session)
            found.append(outcomes(task, predictions))
        assert thoughts.stripped == 4 * bool(thought)
        assert model.asked == [([ord(name[0]) for name in row.images], words(row.texts)) for row in records.rows]
        assert TASKS[task].output != "text" or thought or tuple(predictions) == answers
        assert told[-1] == ("answers", 4, 4)
    assert found[0] == found[1]


def test_an_answer_that_names_no_box_is_a_box_without_area_and_wrong():
    model: Any = Says(["[0, 10, 10, 50]", "none", "[10, 10, 20, 50]", "it is there"])
    model.box_picture = lambda pixels: np.full_like(pixels, 77)  # what is shown; a box is of the picture itself
    session = Session(pictures=lambda _: plain(size=(200, 50)), store=EmbeddingStore(None))
    found = TASKS["grounding"].runner(model)(model, RECORDS["grounding"], session)
    assert found == [(0, 5, 20, 20), (0, 0, 0, 0), (20, 5, 20, 20), (0, 0, 0, 0)]
    assert [shown for shown, _ in model.asked] == [[77]] * 4
    assert outcomes("grounding", found)["box_accuracy"] == [1, 0, 1, 0]


def test_the_record_and_its_notes_count_thoughts(command, tmp_path):
    write_file(tmp_path / "rows.json", [{"image": f"{k}.png", "label": k % 2} for k in range(6)])
    question = 'id = "{row}"\nimages = "{image}"\nquestion = "A cup?"\nanswer = "{label}"\n'
    head = 'name = "o"\ntitle = "o"\nsource = "o"\nfiles = ["rows.json"]\n'
    write_file(tmp_path / "own.toml", f"{head}[[question]]\n{question}")

    def scored(*said: str, out: str) -> Any:
        rows = [{"id": k, "prediction": answer} for k, answer in enumerate([*said, "<think>I think it is a yes"])]
        return command("score", "own.toml", "--scores", write_file(tmp_path / "said.json", rows), "--out", out)

    assert scored(*(f"{THOUGHT}{['no', 'yes'][k % 2]}" for k in range(5)), out="run").code == 0
    ((_, record),) = read_result(tmp_path / "run").benchmarks.items()
    assert (record.thoughts, record.thoughts_cut) == (6, 1)
    assert record.metrics["a_acc"].value == pytest.approx(5 / 6)
    assert [note.split()[0] for note in record.notes] == ["6", "1", "1"]
    assert all(note in command("show", "run").out for note in record.notes)
    refused = scored(*["<think>I think"] * 5, out="cut")
    assert refused.code != 0 and "said.json" in refused.err and "thought" in refused.err
    # A label that a thought swallowed is named.
    path = write_file(tmp_path / "p.jsonl", [{"id": 0, "prediction": "True."}, {"id": 1, "prediction": "<think>It is"}])
    with raises(ScoreError, "p.jsonl:2", "'prediction'", "thought"):
        TASKS["nlvr2"].read(path, RECORDS["nlvr2"])
