"""Other tools' logs of items: read as they judged, with their aggregates, and compared as runs are."""

import gzip
import json
import re
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import tellapart as ta
from facts import raises
from sets import write_file
from tellapart.board.records import Board, BoardSettings
from tellapart.errors import RunError

LOGS = Path(__file__).parent / "logs"


def _alternate(step: int) -> Path:
    (path,) = (LOGS / f"alternate-{step}").glob("samples_*.jsonl")
    return path


def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _alternate(3).read_text().splitlines()]


def _sheet(path: Path, *, hits: bool = True, right: object = 1) -> Path:
    book = openpyxl.Workbook()
    book.active.append(["index", "question", "answer", "prediction", "category", *(["hit"] if hits else [])])
    for k in range(6):
        kind = "colour" if k < 3 else "size"
        book.active.append([k, f"Which {k}?", "A", "AB"[k % 2], kind, *([(0, right)[k % 2]] if hits else [])])
    book.save(path)
    return path


def _rewards(path: Path, **columns) -> Path:
    rows = {"model": "reward", "subset": ["easy", "easy", "hard"], "id": [1, 2, 3], "results": [1, 1, 0]}
    rows |= {"scores_chosen": [0.5, [1.5], 0.1], "scores_rejected": [0.1, [0.2], 0.9]}
    return write_file(path, rows | columns)


def test_a_log_has_the_aggregates_of_its_tool(tmp_path):
    for log, model, stated in (
        (LOGS / "a.eval", "mockllm/model", {"inspect:match": 0.5, "inspect:includes": 0.5}),
        (LOGS / "b.eval", "mockllm/model", {"inspect:match": 0.375, "inspect:includes": 0.375}),
        (_alternate(3), "alternate-3", {"lm-eval:exact_match": 0.875}),
        (_alternate(5), "alternate-5", {"lm-eval:exact_match": 0.375}),
    ):
        result = ta.import_results(log, tmp_path / log.name)
        (record,) = result.benchmarks.values()
        assert result.model.name == model
        assert {name: value.value for name, value in record.metrics.items()} == pytest.approx(stated)
        assert all(value.n == 8 and value.low is not None for value in record.metrics.values())
        assert not any("another mean" in note for note in record.notes)


@pytest.mark.parametrize(("name", "value"), [("match", 1), ("colour", {"colour": 1}), ("colour", {"colour": 0})])
def test_a_mean_of_inspect_that_is_not_that_of_its_items_is_noted(name, value, tmp_path):
    samples = [{"id": k, "input": "?", "target": "A", "scores": {"match": {"value": value}}} for k in range(4)]
    scores = [{"name": name, "scorer": "match", "metrics": {"accuracy": {"name": "accuracy", "value": 1}}}]
    # Of several ways to reduce an item's answers, the mean's is like ours, wherever it stands.
    scores = [
        scores[0] | {"reducer": "mean"},
        scores[0] | {"reducer": "mode", "metrics": {"": {"name": "mean", "value": 7}}},
    ]
    log = {"eval": {"model": "m", "task": "t"}, "status": "success", "samples": samples, "results": {"scores": scores}}
    (record,) = ta.import_results(write_file(tmp_path / "log.json", log), tmp_path / "run").benchmarks.values()
    noted = [note for note in record.notes if "another mean" in note]
    assert len(noted) == (record.metrics.popitem()[1].value < 1)


def _questions(path: Path, grades: dict[str, list[object]], *, ids: str = "", **facts) -> Path:
    """Write a log of Inspect: of each scorer the grades of samples 0, 1, ...; epochs by the fields of `facts`."""
    samples = []
    for k in range(len(next(iter(grades.values())))):
        asked = [{"id": f"{ids}{k}", "role": "user", "content": f"Which {k}?"}]
        scores = {name: {"value": of[k]} for name, of in grades.items() if of[k] != "error"}
        samples.append({"id": k, "epoch": 1, "input": asked, "target": "A", "choices": ["x", "y"], "scores": scores})
    log = {"eval": {"model": f"model {ids}", "task": "t"}, "status": "success", "samples": samples, "results": None}
    return write_file(path, {**log, **facts})


def test_answers_that_a_scorer_of_inspect_did_not_judge_are_counted_and_no_part_of_its_mean(tmp_path):
    nan = float("nan")  # Inspect's `Score.unscored()`
    grades = {"match": ["C", "I", "P", "yes", "0.25", "c"], "judge": [nan, "error", None, 1, 0, {"tone": 1}]}
    (record,) = ta.import_results(_questions(tmp_path / "log.json", grades), tmp_path / "run").benchmarks.values()
    values = {name: (value.value, value.n) for name, value in record.metrics.items()}
    expected = {"inspect:judge": (0.5, 2), "inspect:judge/tone": (1.0, 1), "inspect:match": (2.75 / 5, 5)}
    assert values == expected
    notes = {note.split()[0]: note for note in record.notes if "did not judge" in note}
    assert notes.keys() == expected.keys() and "5 of 6" in notes["inspect:judge/tone"]
    assert "4 of 6" in notes["inspect:judge"] and "1 of 6" in notes["inspect:match"]
    assert "sample 5 'c'" in notes["inspect:match"]
    assert not any("left out" in note for note in record.notes)
    log = _questions(tmp_path / "words.json", {"match": ["C", "I"], "tone": ["warm", "cold"], "none": [nan, nan]})
    (record,) = ta.import_results(log, tmp_path / "words").benchmarks.values()
    assert [*record.metrics] == ["inspect:match"] and "left out: inspect:tone, inspect:none" in record.notes


@pytest.mark.parametrize(("lowest", "note"), [(0.0, "-0.25 to 10.25"), (-12.0, "-12.25 to -1.75")])
def test_grades_on_another_scale_are_no_shares_and_a_gate_states_a_fall_of_them(lowest, note, tmp_path):
    old = [lowest + k % 11 for k in range(40)]
    new = [grade + (0.25 if k % 2 else -0.25) for k, grade in enumerate(old)]
    for name, grades in (("old", old), ("new", new)):
        log = _questions(tmp_path / f"{name}.json", {"grade": grades}, ids=name)
        (record,) = ta.import_results(log, tmp_path / name).benchmarks.values()
    assert any("no share" in line and note in line for line in record.notes)
    (row,) = ta.compare(tmp_path / "old", tmp_path / "new", gate=True).rows
    assert 0 < row.could_see < 1


def test_items_that_both_runs_have_a_judgement_of_are_compared(tmp_path):
    # The ids of messages differ in every run of Inspect, and are no part of the question.
    grades = {"a": ["C", "C", "I", "C", "error"], "b": ["I", "C", "I", float("nan"), "C"]}
    for name, of in grades.items():
        other = {"match": of, "judge": ["C"] * 5}
        ta.import_results(_questions(tmp_path / f"{name}.json", other, ids=name), tmp_path / name)
    rows = {row.metric: row for row in ta.compare(tmp_path / "a", tmp_path / "b").two.rows}
    row = rows["inspect:match"]
    assert (row.n, row.a, row.b, row.only_a, row.only_b) == (3, 2 / 3, 1 / 3, 1, 0)
    assert rows["inspect:judge"].n == 5


def test_each_pair_of_many_models_has_its_number_of_items(tmp_path, command):
    grades = {"a": ["C", "C", "I", "C", "I"], "b": ["I", "C", "I", "I", "C"], "c": ["C", "C", "I", float("nan"), "C"]}
    for name, of in grades.items():
        ta.import_results(_questions(tmp_path / f"{name}.json", {"match": of}, ids=name), tmp_path / name)
    out = command("compare", *(str(tmp_path / name) for name in grades), code=0).out
    rows = [line.split() for line in out.splitlines() if line[1:4] == " - "]
    assert {" ".join(row[:3]): row[3] for row in rows} == {"2 - 1": "5", "3 - 1": "4", "3 - 2": "4"}
    assert "(5 items)" not in out


@pytest.mark.parametrize("other", [{"choices": ["y", "x"]}, {"target": "B"}])
def test_other_choices_or_another_right_answer_are_another_question(other, tmp_path):
    for name, change in (("a", {}), ("b", other)):
        log = json.loads(_questions(tmp_path / "log.json", {"match": ["C", "I"]}, ids=name).read_text())
        changed = [sample | change for sample in log["samples"]]
        ta.import_results(write_file(tmp_path / f"{name}.json", log | {"samples": changed}), tmp_path / name)
    with raises(RunError, "inspect:t", "other items"):
        ta.compare(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("tool", ["inspect", "lm-eval"])
def test_a_log_of_a_part_of_a_set_says_so(tool, tmp_path):
    if tool == "inspect":
        facts = {"model": "m", "task": "t", "dataset": {"samples": 20}}
        log = _questions(tmp_path / "log.json", {"match": ["C"] * 8}, eval=facts)
    else:
        log = _unnamed(tmp_path / "samples_cats.jsonl")
        counts = {"results": {"cats": {}}, "n-samples": {"cats": {"original": 20, "effective": 8}}}
        write_file(tmp_path / "results.json", counts)
    (record,) = ta.import_results(log, tmp_path / "run", model="m").benchmarks.values()
    assert (record.limited_from, record.limited_to) == (20, 8)


def test_a_judgement_that_one_filter_lacks_moves_no_other_answer(tmp_path):
    # Two answers an item by two filters; the first answer's bleu is NaN in the strict one.
    nan, more = float("nan"), {"metrics": ["exact_match", "bleu"]}
    judged = [("strict", 0.0, nan), ("loose", 1.0, 0.5), ("strict", 1.0, 0.5), ("loose", 1.0, 0.5)]
    rows = [
        row | more | {"filter": of, "exact_match": match, "bleu": bleu} for row in _rows() for of, match, bleu in judged
    ]
    log = write_file(tmp_path / "samples_cats.jsonl", rows)
    (record,) = ta.import_results(log, tmp_path / "run", model="m").benchmarks.values()
    values = {name.partition(":")[2]: value.value for name, value in record.metrics.items()}
    assert values == {"exact_match,strict": 0.5, "exact_match,loose": 1.0, "bleu,strict": 0.5, "bleu,loose": 0.5}
    assert any("bleu,strict did not judge 8 of 16" in note for note in record.notes)
    assert not any("left out" in note for note in record.notes)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        # lm-eval writes a picture with its address in memory, and hashes that, too.
        ({"doc": {"i": "<P at 0x7F1>", "q": 1}}, {"doc": {"i": "<P at 0x8E2>", "q": 1}, "doc_hash": "other"}, True),
        ({"doc": {"i": "<P at 0x7F1>", "q": 1}}, {"doc": {"i": "<P at 0x7F1>", "q": 2}}, False),
        # lmms-eval hashes no document; its `input` has the question.
        ({"doc_hash": sha256(b"null").hexdigest(), "input": "a"}, {"doc_hash": sha256(b"null").hexdigest()}, False),
        ({"target": "yes"}, {"target": "no"}, False),
    ],
)
def test_the_question_of_a_row_is_its_document(first, second, same, tmp_path):
    prints = []
    for number, changed in enumerate((first, second)):
        rows = [row | {"input": "b"} | changed for row in _rows()]
        log = write_file(tmp_path / f"samples_cats_{number}.jsonl", rows)
        (record,) = ta.import_results(log, tmp_path / str(number), model="m").benchmarks.values()
        prints.append(record.fingerprint)
    assert (prints[0] == prints[1]) is same


def test_logs_of_one_set_are_compared_item_by_item_and_those_of_other_items_are_not(tmp_path):
    for step in (3, 5):
        ta.import_results(_alternate(step), tmp_path / str(step))
    (row,) = ta.compare(tmp_path / "3", tmp_path / "5").two.rows
    assert (row.n, row.a, row.b, row.only_a - row.only_b) == (8, 0.875, 0.375, 4)
    assert ta.compare(tmp_path / "3", tmp_path / "5", gate=True).rows[0].metric == "lm-eval:exact_match"
    assert "not tested" not in ta.table([tmp_path / "3", tmp_path / "5"])
    changed = [line | {"doc_hash": "0" * 64} for line in _rows()]
    ta.import_results(write_file(tmp_path / "samples_cats.jsonl", changed), tmp_path / "b", model="other")
    with raises(RunError, "lm-eval:cats", "other items", "import both with one version"):
        ta.compare(tmp_path / "3", tmp_path / "b")


def test_a_log_of_an_early_lm_eval_is_one_of_lm_eval(tmp_path):
    rows = [{name: of for name, of in row.items() if name not in ("metrics", "filter")} for row in _rows()]
    log = write_file(tmp_path / "samples_cats.jsonl", rows)
    early = ta.import_results(log, tmp_path / "run", model="m").benchmarks
    late = ta.import_results(_alternate(3), tmp_path / "late").benchmarks
    assert early["lm-eval:cats"].metrics == late["lm-eval:cats"].metrics
    assert early["lm-eval:cats"].fingerprint == late["lm-eval:cats"].fingerprint
    # It writes a row for each filter, and not which: a mean of both would be no number of lm-eval's.
    with raises(RunError, "doc_id 0", "several rows", "0.4.7", field="doc_id"):
        ta.import_results(write_file(log, [*rows, *rows]), tmp_path / "twice", model="m")


def test_the_first_metric_of_a_log_is_the_main_one_in_every_process(tmp_path):
    names = [f"m{k}" for k in range(8)]  # as a set they would have this order in one process of 40,320
    rows = [row | {"metrics": names} | dict.fromkeys(names, row["exact_match"]) for row in _rows()]
    log = write_file(tmp_path / "samples_cats.jsonl", rows)
    runs = [ta.import_results(log, tmp_path / name, model=name) and tmp_path / name for name in "ab"]
    compared = ta.compare(*runs)
    assert compared["metric"] == [f"lm-eval:{name}" for name in names]
    assert compared.verdicts[0].metric == "lm-eval:m0"
    board = Board(BoardSettings(runs=(tmp_path,)))
    board.read_in(pytest.fail)
    (benchmark,) = board.tables.benchmarks.values()
    assert (benchmark.headline, benchmark.metric) == (tuple(compared["metric"]), "lm-eval:m0")


def test_the_order_of_items_is_nothing(tmp_path):
    log = write_file(tmp_path / "samples_cats_2026-01-01T00-00-00.jsonl", _rows()[::-1])
    one = ta.import_results(_alternate(3), tmp_path / "a")
    other = ta.import_results(log, tmp_path / "b", model="alternate-3")
    a, b = (result.benchmarks["lm-eval:cats"] for result in (one, other))
    assert (a.fingerprint, a.metrics, a.samples) == (b.fingerprint, b.metrics, b.samples)


@pytest.mark.parametrize(
    ("directions", "low"),
    [
        ({"cats": {"exact_match": True, "my_error": False}}, "my_error"),
        (None, "brier_score"),  # known without a statement
        *(({"cats": ["exact_match"]}, None), (["cats"], None)),  # no object: it says nothing
    ],
)
def test_a_metric_that_is_best_low_is_left_out_and_named(directions, low, tmp_path):
    # A comparison would call the model with more errors the better one.
    rows = [line | ({"metrics": [*line["metrics"], low], low: 0.5} if low else {}) for line in _rows()]
    log = write_file(tmp_path / "samples_cats_2026-01-01T00-00-00.jsonl", rows)
    results = {"results": {"cats": {}}, "higher_is_better": directions}
    write_file(tmp_path / "results_2026.json", results if directions else {})
    (record,) = ta.import_results(log, tmp_path / "run", model="mine").benchmarks.values()
    assert set(record.metrics) == {"lm-eval:exact_match"}
    assert low is None or any(f"{low} (lower is better)" in note for note in record.notes)


def test_a_sheet_of_vlmevalkit(tmp_path):
    result = ta.import_results(_sheet(tmp_path / "Qwen3-VL_MMBench_DEV_EN_gpt-4_result.xlsx"), tmp_path / "run")
    record = result.benchmarks["vlmevalkit:MMBench_DEV_EN_gpt-4"]
    assert (result.model.name, record.metrics["vlmevalkit:hit"].value) == ("Qwen3-VL", 0.5)
    by = {name: group.metrics["vlmevalkit:hit"].value for name, group in record.by["category"].items()}
    assert by == pytest.approx({"colour": 1 / 3, "size": 2 / 3})


def test_a_model_of_vlmevalkit_whose_name_has_an_underscore(tmp_path):
    name = "InternVL2_5-8B"
    for place, model in ((f"{name}/T20260101_G1", None), (name, None), ("any", name)):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        sheet = _sheet(tmp_path / place / f"{name}_MMBench_DEV_EN_result.xlsx")
        result = ta.import_results(sheet, tmp_path / f"run of {sheet.parent.name}", model=model)
        assert (result.model.name, *result.benchmarks) == (name, "vlmevalkit:MMBench_DEV_EN")


@pytest.mark.parametrize("form", ["{date}_samples_cats.jsonl", "samples_cats_{date}.jsonl.gz"])
def test_a_log_has_the_model_of_the_results_of_its_date(form, tmp_path):
    dates = ("20260101_000000", "20260202_000000") if form[0] == "{" else ("2026-01-01T00-00-00", "2026-02-02T00-00-00")
    for date in dates:
        results = {"results": {"cats": {"exact_match,none": 0.875}}, "model_name": date}
        write_file(tmp_path / f"{date}_results_{date}.json", results)
    data, name = _alternate(3).read_bytes(), form.format(date=dates[1])
    log = write_file(tmp_path / name, gzip.compress(data) if name.endswith(".gz") else data)
    assert ta.import_results(log, tmp_path / "run").model.name == dates[1]


def test_answers_of_an_item_are_averaged_within_a_filter_and_nan_is_no_judgement(tmp_path):
    judged = [("strict", 0.0), ("flexible", 1.0), ("strict", 1.0), ("flexible", 1.0)]
    more = {"metrics": ["exact_match", "bleu"], "bleu": float("nan")}
    rows = [row | more | {"filter": name, "exact_match": value} for row in _rows() for name, value in judged]
    log = write_file(tmp_path / "samples_cats.jsonl", rows)
    stated = {"exact_match,strict": 0.75, "exact_match,flexible": 1.0, "exact_match_stderr,none": "N/A"}
    write_file(tmp_path / "results.json", {"results": {"cats": stated}})
    (record,) = ta.import_results(log, tmp_path / "run", model="m").benchmarks.values()
    assert any(note.startswith("lm-eval states lm-eval:exact_match,strict as 0.75") for note in record.notes)
    values = {name: (value.value, value.n) for name, value in record.metrics.items()}
    assert values == {"lm-eval:exact_match,strict": (0.5, 8), "lm-eval:exact_match,flexible": (1.0, 8)}
    (entry,) = json.loads(ta.convert(tmp_path / "run", to="lm-eval").text)["results"].values()
    assert (entry["lm-eval:exact_match,strict"], entry["lm-eval:exact_match,flexible"]) == (0.5, 1.0)
    assert entry["lm-eval:exact_match_stderr,strict"] > 0 and not any(name.endswith(",none") for name in entry)
    assert "left out: bleu" in record.notes


def test_scores_of_rewardbench(tmp_path):
    record = ta.import_results(_rewards(tmp_path / "reward.json"), tmp_path / "run").benchmarks["rewardbench"]
    assert record.metrics["rewardbench:results"].value == pytest.approx(2 / 3)
    assert set(record.by["subset"]) == {"easy", "hard"}


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (lambda folder: _sheet(folder / "m_set.xlsx", hits=False), ("hit", "_result")),
        (lambda folder: _sheet(folder / "m_SET.xlsx", right="nan"), (":3", "0 or 1", "nan")),
        (lambda folder: _sheet(folder / "llava_v1.5_7b_MMBench_result.xlsx"), ("model=NAME",)),
        (lambda folder: _rewards(folder / "r.json", results=[1]), ("one length",)),
        (lambda folder: _rewards(folder / "r.json", id=[1, 1, 2], prompt=["a", "b", "c"]), ("easy/1", "two questions")),
        (lambda folder: _rewards(folder / "r.json", model=""), ("model=NAME",)),
        (lambda folder: _rewards(folder / "r.json", results=[1, None, 0]), ("row 1", "0 or 1", "None")),
        (lambda folder: _rewards(folder / "r.json", results=[1, 0, 7]), ("row 2", "0 or 1", "7")),
        (lambda folder: _rewards(folder / "r.json", scores_chosen=[1, "x", 2]), ("row 1", "two numbers")),
        (
            lambda folder: write_file(folder / "cut.eval", (LOGS / "a.eval").read_bytes()[:9000]),
            ("cut.eval", "Inspect"),
        ),
        (
            lambda folder: _encrypt(write_file(folder / "a.eval", (LOGS / "a.eval").read_bytes())),
            ("a.eval", "Inspect", "encrypted"),
        ),
        (lambda folder: _encrypt(_sheet(folder / "m_SET.xlsx")), ("m_SET.xlsx", "sheet", "encrypted")),
        (lambda folder: _headed(folder / "x.eval", [1]), ("'header'", "an object", "[1]")),
        (lambda folder: shutil.copy(_alternate(3), folder / "samples_cats.jsonl"), ("model=NAME",)),
        (lambda folder: _unjudged(folder / "samples_cats.jsonl"), ("exact_match", ":2")),
        (lambda folder: _all_low(folder / "samples_crows.jsonl"), ("likelihood_diff, pct_stereotype", "best low")),
        (lambda folder: _torn(folder, samples=[7]), ("sample 0", "an object", "7")),
        (lambda folder: _torn(folder, samples=7), ("'samples'", "a list", "7")),
        (lambda folder: _torn(folder, results={"scores": {"a": 1}}), ("'scores'", "a list")),
        (lambda folder: _torn(folder, samples=[{"id": 4, "scores": {"m": 1}}]), ("sample 4", "'m'", "an object")),
        (lambda folder: _torn(folder, samples=[{"id": 4, "epoch": 1}] * 2), ("sample 4", "twice", "epoch 1")),
        (lambda folder: _torn(folder, eval={}), ("model=NAME",)),
        (lambda folder: _questions(folder / "x.json", {"m": ["X"]}), ("no item", "inspect:m", "sample 0 'X'")),
        (lambda folder: _lacking(folder / "samples_cats.jsonl", "doc_id"), (":3", "'doc_id'", "missing")),
        (lambda folder: _lacking(folder / "samples_cats.jsonl", "metrics"), (":3", "'metrics'", "missing")),
    ],
)
def test_a_log_that_does_not_serve_is_refused(make, facts, tmp_path):
    with raises(RunError, *facts):
        ta.import_results(make(tmp_path), tmp_path / "run")
    assert not (tmp_path / "run" / "results.json").exists()


def _encrypt(path: Path) -> Path:
    """Set the flag of a password in the list of a zip's files."""
    path.write_bytes(re.sub(rb"(PK\x01\x02.{4}).", b"\\1\1", path.read_bytes(), flags=re.DOTALL))
    return path


def _headed(path: Path, header: object) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
    return path


def _torn(folder: Path, **changed) -> Path:
    return _questions(folder / "torn.json", {"match": ["C"]}, **changed)


def _lacking(path: Path, field: str) -> Path:
    rows = _rows()
    del rows[2][field]
    return write_file(path, rows)


def _unnamed(path: Path) -> Path:
    return shutil.copy(_alternate(3), path)


def _all_low(path: Path) -> Path:
    low = dict.fromkeys(("likelihood_diff", "pct_stereotype"), 0.5)
    rows = [{name: of for name, of in row.items() if name != "exact_match"} | low for row in _rows()]
    results = {"results": {"crows": {}}, "higher_is_better": {"crows": dict.fromkeys(low, False)}}
    write_file(path.parent / "results.json", results)
    return write_file(path, [row | {"metrics": [*low]} for row in rows])


def _unjudged(path: Path) -> Path:
    return write_file(path, _alternate(3).read_text().replace('"exact_match": 1.0', '"exact_match": null'))
