"""Runs are verified: what differs from samples, files and sets is named, and a forged number is shown at no door."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from runs import remeasure

import tellapart as ta
from facts import check_facts, raises
from pictures import draw
from sets import put, record, write_file
from tellapart import EmbeddingStore, read_result
from tellapart.api.analyses import Verified
from tellapart.errors import MissingDependencyError, RunError
from tellapart.evaluation import verify
from tellapart.evaluation.run import run_record
from tellapart.evaluation.verify import verify_run
from tellapart.models.memory.external import write_scores
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, Sample, Value
from tellapart.records.run_folder import read_stored, write_result
from tellapart.records.samples import write_samples


def states(verified: Verified, state: str) -> list[str]:
    return [row["fact"] for row in verified.rows() if row["state"] == state]


def change_record(folder: Path, **changes) -> None:
    """Change facts of the set in a record, and write a checksum that fits."""
    result = read_result(folder)
    records = {name: record.model_copy(update=changes) for name, record in result.benchmarks.items()}
    write_result(folder, result.model_copy(update={"benchmarks": records}))


def sign(folder: Path, value: float = 0.25) -> None:
    """Change a number, and write a checksum that fits."""
    metrics = read_result(folder).benchmarks["demo"].metrics
    changed = metrics["group_score"].model_copy(update={"value": value})
    change_record(folder, metrics={**metrics, "group_score": changed})


def rename(folder: Path, name: str) -> None:
    result = read_result(folder)
    write_result(folder, result.model_copy(update={"model": result.model.model_copy(update={"name": name})}))


def edit_record(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what the file of a record holds, and leave its checksum."""
    record = json.loads((folder / "results.json").read_text())
    change(record)
    (folder / "results.json").write_text(json.dumps(record))


def edit_samples(folder: Path, change: Callable[[str], str]) -> None:
    path = folder / "samples" / "demo.jsonl"
    path.write_text(change(path.read_text()))


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    return ta.evaluate("oracle", "demo", limit=10, out=tmp_path_factory.mktemp("verified") / "run").folder


@pytest.fixture
def run(measured, tmp_path) -> Path:
    return shutil.copytree(measured, tmp_path / "run")


SAMPLES, MANY = "samples/demo.jsonl", 20
LOST = ('"group_score":1.0', '"group_score":0.0', 1)


@pytest.mark.parametrize(
    ("change", "different", "unchecked", "facts"),
    [
        (lambda _: None, [], [], "equal"),
        (sign, ["group_score"], [], ("0.25", "1 different", "not known: times")),
        (lambda run: edit_record(run, lambda of: of["model"].update(name="better")), ["results.json"], ["model"], ()),
        (lambda run: edit_record(run, lambda record: record.pop("sha256")), [], ["results.json"], ()),
        (lambda run: change_record(run, title="Winoground"), ["title"], [], "demo: title: different"),
        (lambda run: change_record(run, fingerprint="0" * 64), ["fingerprint"], [], ("recorded", "the set gives")),
        (lambda run: change_record(run, published_items=399), ["published_items"], [], "399"),
        (lambda run: change_record(run, limited_from=40_000), ["limited_from"], [], ()),
        (lambda run: change_record(run, fingerprint="imported-1", origin="mteb"), [], MANY, ()),
        (lambda run: edit_samples(run, lambda text: text.replace(*LOST)), [SAMPLES, "outcomes of items"], [], ()),
    ],
)
def test_what_differs_is_named(change, different, unchecked, facts, run, command):
    change(run)
    verified = ta.verify(run)
    assert (states(verified, "different"), verified.passed) == (different, not different)
    left = states(verified, "cannot be checked")
    assert len(left) == verified.unchecked > MANY if unchecked == MANY else left == unchecked
    done, strict = command("verify", run), command("verify", run, "--strict")
    assert (done.code, done.err, strict.code) == (bool(different), "", bool(different or left))
    check_facts(done.out, facts)


@pytest.mark.parametrize(
    "cut", [lambda text: text[: text.index("\n") + 1], lambda text: text[:-40], lambda _: "", None]
)
def test_samples_that_were_cut_fail_a_verification(cut, run, command):
    edit_samples(run, cut) if cut else (run / SAMPLES).unlink()
    done = command("verify", run)
    assert (done.code, done.err) == (1, "")
    check_facts(done.out, f"{SAMPLES}: different")


def test_samples_of_forged_outcomes_are_refused_where_items_are_read(run):
    other = ta.evaluate("random", "demo", limit=10)
    edit_samples(run, lambda text: text.replace(*LOST))
    opened = ta.open_run(run)
    for read in (opened.items, opened.write_report, lambda: ta.compare(run, other)):
        with raises(RunError, "demo.jsonl", "SHA-256"):
            read()
    check_facts(ta.compare(run, run, gate=True).rows[0].reason, ("demo.jsonl", "SHA-256"))


def test_both_values_are_given_in_python_and_as_json(run, command):
    done = command("verify", "run", "--json")
    assert done.json["passed"] and done.json["runs"][0]["run"] == "run"
    assert len(states(ta.verify(run), "equal")) > 20
    sign(run)
    (row,) = (row for row in ta.verify(run).rows() if row["state"] == "different")
    assert (row["recorded"], row["measured"], row["why"], row["model"]) == (0.25, 1.0, "value", "oracle")
    assert command("verify", "run", "--json").code == 1


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize(("asked", "said"), [("choice", ("2", "1")), ("pairing", ("2;1", "1;2"))])
def test_a_run_of_answers_in_words_is_verified(asked, said, right, made_set, tmp_path):
    pairs = made_set(n=24, shape=(2 if asked == "pairing" else 1, 2))
    answers = [
        {"id": f"item-{k}/{order}", "prediction": said[k * order % 3 > 0] if right else "perhaps"}
        for k in range(24)
        for order in (1, 2)
    ]
    file = write_file(tmp_path / "asked.jsonl", answers)
    ta.score(f"{asked}:folder:{pairs}", file, name="mine", out=tmp_path / "run")
    for name, metric in read_result(tmp_path / "run").benchmarks[f"{asked}:folder:set"].metrics.items():
        low, high = np.array([metric.low, metric.high], dtype=float)
        assert (-1 if "bias" in name else 0) <= low <= high <= 1
    assert states(ta.verify(tmp_path / "run"), "different") == []


RATED = """name = "rated"
title = "Rated cups"
source = "drawn here"
files = ["rows.csv"]
folders = ["."]

[[rating]]
id = "{row}"
image = "{size}.png"
text = "{row} cups"
ratings = ["{size}"]
"""


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, range(24)),
        ({"limit": 6}, range(0, 24, 4)),
        ({"items": "ids.txt"}, (1, 3, 8, 20)),
        ({"items": "ids.txt", "limit": 2}, (1, 8)),
    ],
)
def test_a_part_of_a_tasks_records_is_verified_by_their_ids(options, ids, tmp_path):
    for size in range(6):
        Image.new("RGB", (8, 8), (40 * size, 0, 0)).save(tmp_path / f"{size}.png")
    (tmp_path / "rows.csv").write_text("size\n" + "".join(f"{k % 5 + k // 20}\n" for k in range(24)))
    (tmp_path / "rated.toml").write_text(RATED)
    (tmp_path / "ids.txt").write_text("3\n1\n8\n20\n")
    options |= {"items": tmp_path / options["items"]} if "items" in options else {}
    run = ta.evaluate("random", str(tmp_path / "rated.toml"), out=tmp_path / "run", cache=False, **options)
    assert run.items()["id"] == [str(number) for number in ids]
    assert [row for row in ta.verify(tmp_path / "run").rows() if row["state"] != "equal"] == []
    change_record(tmp_path / "run", limited_from=25, fingerprint="records-0")
    assert states(ta.verify(tmp_path / "run"), "different") == ["limited_from", *["fingerprint"] * (not options)]


def test_a_part_that_was_selected_in_python_is_no_difference(made_set, tmp_path):
    pairs = ta.load_pairs(made_set())
    ta.evaluate("oracle", pairs.select(range(len(pairs) - 1)), out=tmp_path / "run", cache=False)
    assert [row["fact"] for row in ta.verify(tmp_path / "run").rows() if row["state"] != "equal"] == ["limited_from"]
    assert states(ta.verify(tmp_path / "run"), "different") == []
    edit_record(tmp_path / "run", lambda record: record["run"].update(command="tellapart run"))
    assert states(ta.verify(tmp_path / "run"), "different") == ["results.json", "limited_from"]


def test_a_group_that_is_named_as_a_record_is_no_record_of_a_part():
    rows = [SimpleNamespace(id=str(number)) for number in range(4)]
    ready: Any = SimpleNamespace(records=SimpleNamespace(rows=rows), available=4)
    result: Any = SimpleNamespace(benchmarks={"nlvr2": SimpleNamespace(limited_from=4)})
    units = ("statement", "2"), ("sentence", "1")
    samples = [Sample(id=name, cluster="s", unit=unit, outcomes={}) for unit, name in units]
    assert verify._find_places(ready, result, "nlvr2", samples) == [2]


def test_measured_values_that_are_all_1_are_verified_as_measured(tmp_path):
    # An interval of outcomes would be another one: the number is no share of right answers.
    query = {"query": "a house", "candidates": ["a.png", "b.png"], "people": [1, 2]}
    asked = write_file(tmp_path / "asked.jsonl", [{"id": str(k), **query} for k in range(12)])
    given = write_file(tmp_path / "scores.jsonl", [{"id": str(k), "scores": [1, 0]} for k in range(12)])
    run = ta.score(f"ranking:{asked}", given, name="mine", out=tmp_path / "run")
    stored = run.result().benchmarks["ranking:asked.jsonl"].metrics
    assert stored["kendall"].value == 1
    again = remeasure(run.folder, "ranking:asked.jsonl").metrics
    assert [(value.low, value.high) for value in again.values()] == [(of.low, of.high) for of in stored.values()]


IDS, AGAINST = [f"i{k}" for k in range(6)], "samples against mine.npz"


@pytest.fixture
def scored(tmp_path) -> Path:
    """A run of a file of scores of a folder of pairs, one of them published with the false text first."""
    rows = [
        record(id=id_, images=[f"{id_}.png"], texts=["one", "two", "six"], true=[k % 2]) for k, id_ in enumerate(IDS)
    ]
    folder = put(tmp_path / "set", rows, images={f"{id_}.png": draw(k, size=8) for k, id_ in enumerate(IDS)})
    values = np.random.default_rng(0).random((6, 1, 3), np.float32)
    write_scores(ta.Scores(IDS, values, "similarity"), tmp_path / "mine.npz")
    return ta.score(f"folder:{folder}", tmp_path / "mine.npz", out=tmp_path / "run").folder


def write_zeros(path: Path) -> Path:
    """Write another file of scores in a file's place."""
    write_scores(ta.Scores(IDS, np.zeros((6, 1, 3)), "similarity"), path)
    return path


@pytest.mark.parametrize("files", ["here", "gone"])
def test_samples_are_compared_with_the_file_of_scores(files, scored):
    if files == "gone":
        (scored.parent / "set").rename(scored.parent / "elsewhere")
    verified = ta.verify(scored)
    assert AGAINST in states(verified, "equal") and verified.passed
    path = next((scored / "samples").glob("*.jsonl"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["scores"][0][2] -= 0.001  # moves no outcome
    write_file(path, lines)
    assert AGAINST in states(ta.verify(scored), "different")


def test_another_file_of_scores_and_none_are_told_apart(scored):
    file = scored.parent / "mine.npz"
    file.rename(scored.parent / "moved.npz")
    assert states(ta.verify(scored), "cannot be checked") == [AGAINST]
    write_zeros(file)
    assert states(ta.verify(scored), "different") == [AGAINST]


@pytest.mark.parametrize("place", ["run", "."])
def test_a_file_of_scores_that_moved_is_found_by_option_and_beside_the_run(place, scored):
    file, moved = scored.parent / "mine.npz", scored.parent / "moved.npz"
    file.rename(moved)
    assert AGAINST in states(ta.verify(scored, scores=moved), "equal")
    away = scored.parent / "deep" / "er"
    away.mkdir(parents=True)
    scored.rename(away / "run")
    assert states(ta.verify(away / "run"), "cannot be checked").count(AGAINST) == 1
    shutil.copy(moved, away / place / "mine.npz")
    assert AGAINST in states(ta.verify(away / "run"), "equal")


def test_an_older_record_names_the_model_of_a_packed_file_by_its_first_suffix(scored):
    result = read_result(scored)
    write_result(scored, result.model_copy(update={"model": result.model.model_copy(update={"name": "mine.npz"})}))
    file = next(iter(result.benchmarks.values())).file
    change_record(scored, file=file.model_copy(update={"path": "mine.npz.gz"}))
    assert "model" in states(ta.verify(scored), "equal")


def test_a_named_file_of_scores_is_hashed_once_and_again_in_the_next_verification(scored, monkeypatch):
    file, hashed, plain = scored.parent / "mine.npz", list[Path](), verify.locate

    def locate(path: Path, *more: Any, **how: Any) -> Any:
        hashed.append(path)
        return plain(path, *more, **how)

    monkeypatch.setattr(verify, "locate", locate)
    assert AGAINST in states(ta.verify(scored, scores=file), "equal")
    assert hashed.count(file) == 1
    write_zeros(file)
    assert AGAINST in states(ta.verify(scored, scores=file), "different")


def test_a_named_file_of_scores_that_is_another_differs_and_an_idle_one_is_refused(command, scored):
    other = write_zeros(scored.parent / "other.npz")
    check_facts(command("verify", scored, "--scores", other, code=1).out, "mine.npz", "other.npz", "SHA-256")
    run = ta.evaluate("oracle", "demo", limit=3)
    for runs, file, facts in (
        ([scored], scored.parent / "gone.npz", "gone.npz"),
        ([run], other, "other.npz"),
        ([scored, run], other, ("other.npz", "2 runs")),
    ):
        with raises(RunError, facts):
            ta.verify(*runs, scores=file)


@pytest.mark.parametrize(
    ("model", "change", "different"),
    [
        ("oracle", lambda page: page.write_text(page.read_text().replace("100.00", "99.99")), []),
        ("oracle", lambda page: rename(page.parent, "random"), ["model"]),
        ("demo-encoder", lambda page: rename(page.parent, "better"), ["model"]),
    ],
)
def test_a_page_that_is_not_of_its_record_is_named(model, change, different, command):
    command("run", "-m", model, "--limit", "4", "--out", "a")
    assert {"model", "report.html"} <= {*states(ta.verify("a"), "equal")}
    change(Path("a/report.html"))
    done = command("verify", "a", code=1)
    check_facts(done.out, f"{len(different) + 1} different", "report.html: different", "tellapart show")
    command("show", "a")
    assert states(ta.verify("a"), "different") == different
    done = command("verify", "a", "--strict")
    assert done.code == bool(different)
    check_facts(done.out, f"{len(different)} different", *(f"'{model}'" for _ in different))


@pytest.mark.parametrize(("fact", "false"), [("fingerprint", "ids-0"), ("title", "Winoground")])
def test_a_false_fact_of_the_set_of_a_score_file_is_named(scored, fact, false):
    assert not ta.verify(scored).unchecked
    change_record(scored, **{fact: false})
    assert states(ta.verify(scored), "different") == [fact]
    (scored.parent / "set").rename(scored.parent / "elsewhere")  # the samples have the ids
    assert states(ta.verify(scored), "different") == ["fingerprint"][: fact == "fingerprint"]
    assert "items of the set" in states(ta.verify(scored), "cannot be checked")


def test_samples_are_compared_with_the_set(scored):
    path = scored.parent / "set" / "pairs.jsonl"
    path.write_text(path.read_text().replace('"six"', '"seven"', 2))
    verified = ta.verify(scored)
    assert states(verified, "different") == ["items of the set"]
    assert "2 of 6" in verified["why"][verified["fact"].index("items of the set")]


def test_scores_of_an_unknown_name_and_a_folder_without_a_run_are_refused(scored, tmp_path):
    result = read_result(scored)
    asked = result.run.model_copy(update={"command": "tellapart score folder:set --scores mine.npz"})
    write_result(scored, result.model_copy(update={"run": asked}))
    assert "model" in states(ta.verify(scored), "equal")
    rename(scored, "better")
    assert states(ta.verify(scored), "different") == ["model"]
    file = read_result(scored).benchmarks["folder:set"].file
    change_record(scored, file=file.model_copy(update={"path": "scores.csv.gz"}))
    for name in ("scores", "scores.csv"):  # as now, and as before packed files had the plain ones' names
        rename(scored, name)
        assert "model" in states(ta.verify(scored), "equal")
    (tmp_path / "empty").mkdir()
    with raises(RunError, tmp_path / "empty"):
        ta.verify(tmp_path / "empty")


def test_a_name_that_the_command_gave_is_listed_among_what_is_not_known(command):
    command("run", "-m", "oracle", "--name", "mine", "--limit", "4", "--out", "a")
    check_facts(command("verify", "a", "--strict", code=0).out, "not known", "'mine'", "'oracle'", "command")


def longer(image: object, text: str) -> int:
    return len(text)


longer.fingerprint = "mine:1"


def test_a_model_is_known_by_its_fingerprint(tmp_path):
    ta.evaluate(longer, "demo", limit=4, out=tmp_path, names="mine")
    verified = ta.verify(tmp_path)
    assert verified.passed and not verified.unchecked and "'mine'" in verified.runs[0].unknown[1]
    with EmbeddingStore(None) as store:
        store.put_numbers("mine:1", {"00" * 32: np.ones(3, np.float32)})
        store.put_model("a key", {"name": "longer", "fingerprint": "mine:1", "kind": "similarity"})
        for name, state in (("longer", "equal"), ("gpt-9", "cannot be checked")):
            rename(tmp_path, name)
            model = verify_run(tmp_path, store).checks[1]
            assert (model.fact, model.state) == ("model", state)
    check_facts(model.why, "'longer'", "'gpt-9'")
    rename(tmp_path, "oracle")  # which a foreign fingerprint cannot bear
    assert states(ta.verify(tmp_path), "different") == ["model"]


def test_no_message_on_an_archive_names_the_folder_it_was_unpacked_into(command, tmp_path):
    command("run", "-m", "oracle", "--limit", "10", "--out", "a")
    Path("a/samples/demo.jsonl").write_text("")
    shutil.make_archive("a", "zip", ".", "a")
    for done in (command("verify", "a.zip"), command("show", "a.zip"), command("compare", "a.zip", "a.zip")):
        assert done.code in (1, 2)
        check_facts(done.out + done.err, "a.zip")
        assert tempfile.gettempdir() not in (done.out + done.err).replace(str(tmp_path), "")


FORGED, SHOWN = 0.98765, ("98.77", "98.76", "98765", ">98.8<", "0.988")


def forge(folder: Path, change) -> None:
    """Change a record of the demo, and take its checksum out."""
    edit_record(folder, lambda record: (change(record["benchmarks"]["demo"]), record.pop("sha256", None)))


def raise_number(record: dict[str, Any]) -> None:
    record["metrics"]["group_score"] |= {"value": FORGED, "low": 0.97, "high": 0.99}
    record["by"]["aspect"]["counting"]["metrics"]["group_score"]["value"] = FORGED
    record["macro"]["aspect"]["metrics"]["group_score"]["value"] = FORGED


@pytest.fixture(scope="module")
def forged(tmp_path_factory) -> Path:
    """`runs/random`, forged, and `runs/oracle`, which nobody touched."""
    runs = tmp_path_factory.mktemp("forged") / "runs"
    for model in ("random", "oracle"):
        ta.evaluate(model, "demo", limit=40, out=runs / model)
    forge(runs / "random", raise_number)
    return runs


def show_run(runs: Path, _out: Path) -> str:
    run: Any = ta.show(runs / "random")
    page = run.write_report().path.read_text("utf-8")
    run.show()
    return f"{run!r}{run.to_json()}{page}{run.value('group_score')}"


MAP = {"benchmarks": "demo", "metrics": "group_score", "tag": "aspect"}


def export_board(runs: Path, out: Path) -> str:
    ta.board_export(out / "site", runs=runs, items=0, comparisons=2)
    return "".join(path.read_text("utf-8") for path in (out / "site").rglob("*.html"))


@pytest.mark.parametrize(
    "door",
    [
        show_run,
        lambda runs, out: repr(ta.open_run(Path(shutil.make_archive(str(out / "run"), "zip", runs / "random")))),
        lambda runs, out: ta.plot("heatmap", runs, out / "heat.svg", **MAP).read_text(),
        export_board,
        lambda runs, _: "".join(ta.table(runs, form) for form in ("markdown", "latex", "csv", "json")),
        lambda runs, out: ta.plot("bars", runs, out / "bars.svg").read_text(),
        lambda runs, _: str(ta.push(runs / "random", "me/mine", dry_run=True).files.files),
        lambda runs, _: ta.compare(runs / "oracle", runs / "random", gate=True).model_dump_json(),
        lambda runs, _: str(ta.convert(runs / "random", to="lm-eval")),
        lambda runs, _: repr(ta.compare(runs / "random", runs / "oracle")),
        lambda runs, _: read_result(runs / "random").model_dump_json(exclude={"run"}),
    ],
)
def test_a_forged_number_is_shown_at_no_door(forged, tmp_path, door, capsys, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    try:
        text = door(forged, tmp_path) + capsys.readouterr().out
    except MissingDependencyError as missing:
        pytest.skip(str(missing))
    assert len(text) > 100
    assert not [number for number in SHOWN if number in text]


def test_the_numbers_of_a_forged_record_are_those_of_its_samples(forged, tmp_path):
    ta.evaluate("random", "demo", limit=40, out=tmp_path / "random")
    then, now = (read_result(folder).benchmarks["demo"] for folder in (tmp_path / "random", forged / "random"))
    assert (now.metrics, now.by, now.macro, now.curves) == (then.metrics, then.by, then.macro, then.curves)
    assert (now.tied_items, now.tied_comparisons) == (then.tied_items, then.tied_comparisons)
    assert "no checksum" in now.notes[-1] and "3 differed" in now.notes[-1]


def test_what_the_samples_do_not_give_is_left_out_or_refused(tmp_path):
    ta.evaluate("random", "demo", limit=10, out=tmp_path)
    forge(tmp_path, lambda record: record["metrics"].update(bleu_4=record["metrics"]["group_score"]))
    record = read_result(tmp_path).benchmarks["demo"]
    assert "bleu_4" not in record.metrics and "bleu_4" in record.notes[-1]
    path = tmp_path / SAMPLES
    text = path.read_text()
    path.unlink()
    with raises(RunError, "checksum", "not verified", "demo.jsonl"):
        ta.open_run(tmp_path).value("group_score")
    path.write_text(text.replace('"group_score":0.0', '"group_score":1.0'))
    forge(tmp_path, lambda record: record.pop("samples"))
    with raises(RunError, "demo.jsonl", "10 items"):
        read_result(tmp_path)
    path.unlink()
    with raises(RunError, "checksum", "not verified", "demo.jsonl"):
        ta.open_run(tmp_path).value("group_score")


def test_a_run_that_goes_on_does_not_sign_a_forged_number(made_set, tmp_path):
    ta.evaluate("random", "demo", limit=40, out=tmp_path / "run")
    forge(tmp_path / "run", raise_number)
    ta.evaluate("random", f"folder:{made_set(n=1)}", limit=40, out=tmp_path / "run")
    stored = read_stored(tmp_path / "run")
    assert stored.checksum == "right" and len(stored.result.benchmarks) == 2
    assert stored.result.benchmarks["demo"].metrics["group_score"].value < 0.5


def task_run(folder: Path, value: float) -> None:
    """Write a run of a task: two statements, one of them right, and a stated accuracy."""
    stated = Value(value=value, method="wilson", n=2, clusters=2, average="micro: items", chance=0.5)
    samples = [
        Sample(id=id_, cluster=id_, unit="statement", output=True, gold="True", outcomes={"accuracy": right})
        for id_, right in (("a", 1.0), ("b", 0.0))
    ]
    record = BenchmarkResult(
        title="", fingerprint="f", task="nlvr2", output="label", origin="", metrics={"accuracy": stated},
        samples=write_samples(folder, "demo", samples),
    )  # fmt: skip
    model = ModelRecord(name="m", fingerprint="f")
    write_result(folder, Result(run=run_record(Path(), seed=0, command=""), model=model, benchmarks={"demo": record}))


def test_the_numbers_of_a_task_come_from_its_outcomes(tmp_path):
    task_run(tmp_path, FORGED)
    assert read_result(tmp_path).benchmarks["demo"].metrics["accuracy"].value == FORGED  # signed by whoever wrote it
    assert [row["fact"] for row in ta.verify(tmp_path).rows() if row["state"] == "different"][:1] == ["accuracy"]
    forge(tmp_path, lambda _: None)
    assert read_result(tmp_path).benchmarks["demo"].metrics["accuracy"].value == 0.5


def test_a_board_leaves_out_what_it_cannot_measure_again(tmp_path):
    pytest.importorskip("fastapi", reason="a board needs the extra 'board'")
    from boards import open_board

    ta.evaluate("random", "demo", limit=40, out=tmp_path / "random")
    forge(tmp_path / "random", raise_number)
    (tmp_path / "random" / SAMPLES).unlink()
    problems: list[str] = []
    client, _ = open_board(tmp_path, problems.append)
    assert len(problems) == 1 and "not verified" in problems[0]
    assert "98.77" not in client.get("/").text
