"""Runs are verified: what differs from samples, files and sets is named, and a forged number is shown at no door."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image
from samples_again import remeasure

import tellapart as ta
from facts import check_facts, raises
from tellapart.api.analyses import Verified
from tellapart.errors import RunError
from tellapart.evaluation import verify
from tellapart.evaluation.run import run_record
from tellapart.evaluation.verified import read_result
from tellapart.evaluation.verify import verify_run
from tellapart.models.memory.external import write_scores
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, Sample, Value
from tellapart.records.run_folder import read_stored, write_result
from tellapart.records.samples import write_samples


def states(verified: Verified, state: str) -> list[str]:
    return [row["fact"] for row in verified.rows() if row["state"] == state]


def sign(folder: Path, value: float) -> None:
    """Change a number, and write a checksum that fits."""
    result = read_result(folder)
    demo = result.benchmarks["demo"]
    changed = {**demo.metrics, "group_score": demo.metrics["group_score"].model_copy(update={"value": value})}
    write_result(
        folder, result.model_copy(update={"benchmarks": {"demo": demo.model_copy(update={"metrics": changed})}})
    )


def break_checksum(folder: Path) -> None:
    record = json.loads((folder / "results.json").read_text())
    record["model"]["name"] = "better"
    (folder / "results.json").write_text(json.dumps(record))


def change_sample(folder: Path) -> None:
    path = folder / "samples" / "demo.jsonl"
    path.write_text(path.read_text().replace('"group_score":1.0', '"group_score":0.0', 1))


@pytest.mark.parametrize(
    ("change", "different"),
    [
        (lambda _: None, []),
        (lambda folder: sign(folder, 0.25), ["group_score"]),
        (break_checksum, ["results.json"]),
        (change_sample, ["samples/demo.jsonl", "outcomes of items"]),
    ],
)
def test_what_differs_is_named(change: Callable[[Path], None], different: list[str], tmp_path: Path) -> None:
    ta.evaluate("oracle", "demo", limit=10, out=tmp_path)
    change(tmp_path)
    verified = ta.verify(tmp_path)
    assert states(verified, "different") == different
    assert verified.passed is (not different)
    assert states(verified, "cannot be checked") == (["model"] if change is break_checksum else [])
    assert len(states(verified, "equal")) > 20


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("asked", ["choice", "pairing"])
def test_a_run_of_answers_in_words_is_verified(asked: str, right: bool, tmp_path: Path) -> None:
    items, answers = [], []
    for number in range(24):
        tags, texts = {"kind": str(number % 2)}, ("red", "blue")
        images = (f"{number}.png",) if asked == "choice" else (f"{number}.png", f"{number}b.png")
        items.append(json.dumps({"id": str(number), "images": images, "texts": texts, "tags": tags}))
        for image in images:
            Image.new("RGB", (8, 8)).save(tmp_path / image)
        for order in (1, 2):
            first = right and (number * order) % 3 > 0
            said = {"choice": ("1", "2"), "pairing": ("1;2", "2;1")}[asked][0 if first else 1]
            answers.append(json.dumps({"id": f"{number}/{order}", "prediction": said if right else "perhaps"}))
    (tmp_path / "asked.jsonl").write_text("\n".join(answers))
    (tmp_path / "pairs.jsonl").write_text("\n".join(items))
    ta.score(f"{asked}:folder:{tmp_path}", tmp_path / "asked.jsonl", name="mine", out=tmp_path / "run")
    for name, metric in read_result(tmp_path / "run").benchmarks[f"{asked}:folder:{tmp_path.name}"].metrics.items():
        low, high = np.array([metric.low, metric.high], dtype=float)
        assert (-1 if "bias" in name else 0) <= low <= high <= 1
    assert states(ta.verify(tmp_path / "run"), "different") == []


def test_measured_values_that_are_all_1_are_verified_as_measured(tmp_path: Path) -> None:
    # An interval of outcomes would be another one: the number is no share of right answers.
    query = {"query": "a house", "candidates": ["a.png", "b.png"], "people": [1, 2]}
    rows = [({"id": str(k), **query}, {"id": str(k), "scores": [1, 0]}) for k in range(12)]
    for name, lines in zip(("asked.jsonl", "scores.jsonl"), zip(*rows, strict=True), strict=True):
        (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
    run = tmp_path / "run"
    ta.score(f"ranking:{tmp_path / 'asked.jsonl'}", tmp_path / "scores.jsonl", name="mine", out=run)
    stored = read_result(run).benchmarks["ranking:asked.jsonl"].metrics
    again = remeasure(run, "ranking:asked.jsonl").metrics
    assert stored["kendall"].value == 1
    assert {name: (value.low, value.high) for name, value in again.items()} == {
        name: (value.low, value.high) for name, value in stored.items()
    }


def test_both_values_are_given(tmp_path: Path) -> None:
    ta.evaluate("oracle", "demo", limit=10, out=tmp_path)
    sign(tmp_path, 0.25)
    (row,) = (row for row in ta.verify(tmp_path).rows() if row["state"] == "different")
    assert (row["recorded"], row["measured"], row["why"], row["model"]) == (0.25, 1.0, "value", "oracle")


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    """A run of a file of scores of a folder of pairs, one of them published with the false text first."""
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [{"id": f"i{k}", "images": [f"{k}.png"], "texts": ["one", "two", "six"], "true": [k % 2]} for k in range(6)]
    (folder / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    from PIL import Image

    for k in range(6):
        Image.new("RGB", (8, 8), (k, 0, 0)).save(folder / f"{k}.png")
    values = np.random.default_rng(0).random((6, 1, 3), np.float32)
    write_scores(ta.Scores([f"i{k}" for k in range(6)], values, "similarity"), tmp_path / "mine.npz")
    return ta.score(f"folder:{folder}", tmp_path / "mine.npz", out=tmp_path / "run").folder


@pytest.mark.parametrize("files", ["here", "gone"])
def test_samples_are_compared_with_the_file_of_scores(files: str, scored: Path) -> None:
    if files == "gone":
        (scored.parent / "set").rename(scored.parent / "elsewhere")
    verified = ta.verify(scored)
    assert "samples against mine.npz" in states(verified, "equal") and verified.passed
    path = next((scored / "samples").glob("*.jsonl"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["scores"][0][2] -= 0.001  # moves no outcome
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert "samples against mine.npz" in states(ta.verify(scored), "different")


def test_another_file_of_scores_and_none_are_told_apart(scored: Path) -> None:
    file = scored.parent / "mine.npz"
    moved = scored.parent / "moved.npz"
    file.rename(moved)
    assert states(ta.verify(scored), "cannot be checked") == ["samples against mine.npz"]
    write_scores(ta.Scores([f"i{k}" for k in range(6)], np.zeros((6, 1, 3)), "similarity"), file)
    assert states(ta.verify(scored), "different") == ["samples against mine.npz"]


@pytest.mark.parametrize("place", ["run", "."])
def test_a_file_of_scores_that_moved_is_found_by_option_and_beside_the_run(place: str, scored: Path) -> None:
    file, moved = scored.parent / "mine.npz", scored.parent / "moved.npz"
    file.rename(moved)
    assert "samples against mine.npz" in states(ta.verify(scored, scores=moved), "equal")
    away = scored.parent / "deep" / "er"
    away.mkdir(parents=True)
    scored.rename(away / "run")
    assert states(ta.verify(away / "run"), "cannot be checked").count("samples against mine.npz") == 1
    shutil.copy(moved, away / place / "mine.npz")
    assert "samples against mine.npz" in states(ta.verify(away / "run"), "equal")


def test_a_named_file_of_scores_is_hashed_once_and_again_in_the_next_verification(
    scored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, hashed = scored.parent / "mine.npz", list[Path]()
    plain = verify.locate
    monkeypatch.setattr(
        verify, "locate", lambda path, *more, **how: [hashed.append(path), plain(path, *more, **how)][1]
    )
    assert "samples against mine.npz" in states(ta.verify(scored, scores=file), "equal")
    assert hashed.count(file) == 1
    write_scores(ta.Scores([f"i{k}" for k in range(6)], np.zeros((6, 1, 3)), "similarity"), file)
    assert "samples against mine.npz" in states(ta.verify(scored, scores=file), "different")


def test_a_named_file_of_scores_that_is_another_differs_and_an_idle_one_is_refused(command: Any, scored: Path) -> None:
    other = scored.parent / "other.npz"
    write_scores(ta.Scores([f"i{k}" for k in range(6)], np.zeros((6, 1, 3)), "similarity"), other)
    ran = command("verify", str(scored), "--scores", str(other))
    assert ran.code == 1
    check_facts(ran.out, "mine.npz", "other.npz", "SHA-256")
    with raises(RunError, "gone.npz"):
        ta.verify(scored, scores=scored.parent / "gone.npz")
    run = ta.evaluate("oracle", "demo", limit=3)
    with raises(RunError, "other.npz"):
        ta.verify(run, scores=other)
    with raises(RunError, "other.npz", "2 runs"):
        ta.verify(scored, run, scores=other)


def test_numbers_of_another_tool_cannot_be_checked(tmp_path: Path) -> None:
    ta.evaluate("oracle", "demo", limit=10, out=tmp_path)
    result = read_result(tmp_path)
    demo = result.benchmarks["demo"].model_copy(update={"fingerprint": "imported-1", "origin": "mteb"})
    write_result(tmp_path, result.model_copy(update={"benchmarks": {"demo": demo}}))
    verified = ta.verify(tmp_path)
    assert verified.passed and states(verified, "equal") == ["results.json", "model", "samples/demo.jsonl"]
    assert len(states(verified, "cannot be checked")) == verified.unchecked > 20


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with raises(RunError, tmp_path):
        ta.verify(tmp_path)


def test_the_command_exits_with_one_if_a_number_differs(command: Any, tmp_path: Path) -> None:
    command("run", "-m", "oracle", "--limit", "10", "--out", "a")
    done = command("verify", "a", "--json")
    assert done.json["passed"] and done.json["runs"][0]["run"] == "a"
    sign(Path("a"), 0.25)
    done = command("verify", "a")
    assert (done.code, command("verify", "a", "--json").code) == (1, 1)
    check_facts(done.out, "0.25", "2 different", "report.html")
    command("show", "a")
    check_facts(command("verify", "a").out, "0.25", "1 different", "not known: times")


def test_a_number_that_cannot_be_checked_fails_a_strict_verification_alone(command: Any) -> None:
    command("run", "-m", "oracle", "--limit", "10", "--out", "a")
    record = json.loads(Path("a/results.json").read_text())
    del record["sha256"]
    Path("a/results.json").write_text(json.dumps(record))
    assert (command("verify", "a").code, command("verify", "a", "--strict").code) == (0, 1)


def change_record(folder: Path, **changes: Any) -> None:
    """Change facts of the set in a record, and write a checksum that fits."""
    result = read_result(folder)
    records = {name: record.model_copy(update=changes) for name, record in result.benchmarks.items()}
    write_result(folder, result.model_copy(update={"benchmarks": records}))


def rename(folder: Path, name: str) -> None:
    result = read_result(folder)
    write_result(folder, result.model_copy(update={"model": result.model.model_copy(update={"name": name})}))


FALSE_FACTS: dict[str, Any] = {
    "title": "Winoground",
    "fingerprint": "0" * 64,
    "published_items": 400,
    "limited_from": 40_000,
}


@pytest.mark.parametrize("fact", FALSE_FACTS)
def test_a_false_fact_of_a_set_is_named_though_the_checksum_fits(command: Any, fact: str) -> None:
    assert command("run", "-m", "oracle", "--limit", "10", "--out", "a").code == 0
    assert command("verify", "a", "--strict").code == 0
    change_record(Path("a"), **{fact: FALSE_FACTS[fact]})
    command("show", "a")
    done = command("verify", "a")
    assert (done.code, states(ta.verify("a"), "different")) == (1, [fact])
    check_facts(done.out, f"demo: {fact}: different", "recorded", "the set gives")


@pytest.mark.parametrize("fact", ["fingerprint", "title"])
def test_a_false_fact_of_the_set_of_a_score_file_is_named(scored: Path, fact: str) -> None:
    assert not ta.verify(scored).unchecked
    false = {"fingerprint": "ids-0", "title": "Winoground"}
    change_record(scored, **{fact: false[fact]})
    assert states(ta.verify(scored), "different") == [fact]
    (scored.parent / "set").rename(scored.parent / "elsewhere")  # the samples have the ids
    assert states(ta.verify(scored), "different") == ["fingerprint"][: fact == "fingerprint"]
    assert "items of the set" in states(ta.verify(scored), "cannot be checked")


def test_samples_are_compared_with_the_set(scored: Path) -> None:
    path = scored.parent / "set" / "pairs.jsonl"
    path.write_text(path.read_text().replace('"six"', '"seven"', 2))
    verified = ta.verify(scored)
    assert states(verified, "different") == ["items of the set"]
    assert "2 of 6" in verified["why"][verified["fact"].index("items of the set")]


@pytest.mark.parametrize(("model", "name"), [("oracle", "better"), ("oracle", "random"), ("demo-encoder", "better")])
def test_a_renamed_model_does_not_pass_a_verification(command: Any, model: str, name: str) -> None:
    command("run", "-m", model, "--limit", "4", "--out", "a")
    assert "model" in states(ta.verify("a"), "equal")
    rename(Path("a"), name)
    assert states(ta.verify("a"), "different") == ["model", "report.html"]
    command("show", "a")
    done = command("verify", "a")
    assert done.code == 1
    check_facts(done.out, "model", f"'{model}'", f"'{name}'")


def test_scores_under_a_name_that_neither_file_nor_command_has_are_named(scored: Path) -> None:
    result = read_result(scored)
    asked = result.run.model_copy(update={"command": "tellapart score folder:set --scores mine.npz"})
    write_result(scored, result.model_copy(update={"run": asked}))
    assert "model" in states(ta.verify(scored), "equal")
    rename(scored, "better")
    assert states(ta.verify(scored), "different") == ["model"]


def test_a_name_that_the_command_gave_is_listed_among_what_is_not_known(command: Any) -> None:
    command("run", "-m", "oracle", "--name", "mine", "--limit", "4", "--out", "a")
    done = command("verify", "a", "--strict")
    assert done.code == 0
    check_facts(done.out, "not known", "'mine'", "'oracle'", "command")


def longer(image: object, text: str) -> int:
    return len(text)


longer.fingerprint = "mine:1"  # type: ignore[attr-defined]


def test_a_foreign_fingerprint_cannot_bear_a_reference_models_name(tmp_path: Path) -> None:
    ta.evaluate(longer, "demo", limit=4, out=tmp_path, names="mine")
    verified = ta.verify(tmp_path)
    assert verified.passed and not verified.unchecked and "'mine'" in verified.runs[0].unknown[1]
    rename(tmp_path, "oracle")
    assert states(ta.verify(tmp_path), "different") == ["model"]


def test_the_store_knows_a_model_by_its_fingerprint(tmp_path: Path) -> None:
    ta.evaluate(longer, "demo", limit=4, out=tmp_path)
    with EmbeddingStore(None) as store:
        store.put_vectors("mine:1", {"00" * 32: np.ones(3, np.float32)})
        store.put_model("a key", {"name": "longer", "fingerprint": "mine:1", "kind": "similarity"})
        model = verify_run(tmp_path, store).checks[1]
        assert (model.fact, model.state) == ("model", "equal")
        rename(tmp_path, "gpt-9")
        model = verify_run(tmp_path, store).checks[1]
        assert (model.fact, model.state) == ("model", "cannot be checked")
        check_facts(model.why, "'longer'", "'gpt-9'")


def test_an_edited_page_is_named(command: Any) -> None:
    command("run", "-m", "oracle", "--limit", "4", "--out", "a")
    page = Path("a/report.html")
    assert "report.html" in states(ta.verify("a"), "equal")
    page.write_text(page.read_text().replace("100.00", "99.99"))
    done = command("verify", "a")
    assert done.code == 1
    check_facts(done.out, "report.html: different", "tellapart show")
    command("show", "a")
    assert command("verify", "a", "--strict").code == 0


@pytest.mark.parametrize("cut", ["lines", "half a line", "all", "the file"])
def test_samples_that_were_cut_fail_a_verification(command: Any, cut: str) -> None:
    command("run", "-m", "oracle", "--limit", "10", "--out", "a")
    path = Path("a/samples/demo.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text({"lines": "".join(lines[:5]), "half a line": "".join(lines)[:-40]}.get(cut, ""))
    if cut == "the file":
        path.unlink()
    done = command("verify", "a")
    assert (done.code, done.err) == (1, "")
    check_facts(done.out, "samples/demo.jsonl: different", "demo.jsonl")


def test_no_message_on_an_archive_names_the_folder_it_was_unpacked_into(command: Any, tmp_path: Path) -> None:
    command("run", "-m", "oracle", "--limit", "10", "--out", "a")
    Path("a/samples/demo.jsonl").write_text("")
    shutil.make_archive("a", "zip", ".", "a")
    for done in (command("verify", "a.zip"), command("show", "a.zip"), command("compare", "a.zip", "a.zip")):
        assert done.code in (1, 2)
        check_facts(done.out + done.err, "a.zip")
        assert tempfile.gettempdir() not in (done.out + done.err).replace(str(tmp_path), "")


FORGED, SHOWN = 0.98765, ("98.77", "98.76", "98765", ">98.8<", "0.988")


def forge(folder: Path, change: Any, name: str = "results.json") -> None:
    """Change a record, and take its checksum out."""
    record = json.loads((folder / name).read_text())
    change(record["benchmarks"]["demo"])
    del record["sha256"]
    (folder / name).write_text(json.dumps(record))


def raise_number(record: dict[str, Any]) -> None:
    record["metrics"]["group_score"] |= {"value": FORGED, "low": 0.97, "high": 0.99}
    record["by"]["aspect"]["counting"]["metrics"]["group_score"]["value"] = FORGED
    record["macro"]["aspect"]["metrics"]["group_score"]["value"] = FORGED


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`runs/random`, forged, and `runs/oracle`, which nobody touched."""
    runs = tmp_path_factory.mktemp("forged") / "runs"
    for model in ("random", "oracle"):
        ta.evaluate(model, "demo", limit=40, out=runs / model)
    forge(runs / "random", raise_number)
    return runs


def show_run(runs: Path, _out: Path) -> str:
    run = ta.show(runs / "random")
    report = run.write_report()  # type: ignore[union-attr]
    assert report.path is not None
    run.show()
    return f"{run!r}{run.to_json()}{report.path.read_text('utf-8')}{run.value('group_score')}"  # type: ignore[union-attr]


def draw_bars(runs: Path, out: Path) -> str:
    return ta.plot("bars", runs, out / "bars.svg").read_text()


def draw_heat_map(runs: Path, out: Path) -> str:
    return ta.plot(
        "heatmap", runs, out / "heat.svg", benchmarks="demo", metrics="group_score", tag="aspect"
    ).read_text()


def export_board(runs: Path, out: Path) -> str:
    ta.board_export(out / "site", runs=runs, items=0, comparisons=2)
    return "".join(path.read_text("utf-8") for path in (out / "site").rglob("*.html"))


def push_run(runs: Path, _out: Path) -> str:
    return str(ta.push(runs / "random", "me/mine", dry_run=True).files.files)


def judge_run(runs: Path, _out: Path) -> str:
    return ta.compare(runs / "oracle", runs / "random", gate=True).model_dump_json()


@pytest.mark.parametrize(
    "door",
    [
        show_run,
        lambda runs, _: "".join(ta.table(runs, form) for form in ("markdown", "latex", "csv", "json")),
        draw_bars,
        draw_heat_map,
        push_run,
        judge_run,
        lambda runs, _: str(ta.convert(runs / "random", to="lm-eval")),
        lambda runs, _: repr(ta.compare(runs / "random", runs / "oracle")),
        lambda runs, _: read_result(runs / "random").model_dump_json(exclude={"run"}),
        export_board,
    ],
)
def test_a_forged_number_is_shown_at_no_door(
    forged: Path, tmp_path: Path, door: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    text = door(forged, tmp_path) + capsys.readouterr().out
    assert len(text) > 100
    assert not [number for number in SHOWN if number in text]


def test_the_numbers_of_a_forged_record_are_those_of_its_samples(forged: Path, tmp_path: Path) -> None:
    ta.evaluate("random", "demo", limit=40, out=tmp_path / "random")
    then, now = (read_result(folder).benchmarks["demo"] for folder in (tmp_path / "random", forged / "random"))
    assert (now.metrics, now.by, now.macro, now.curves) == (then.metrics, then.by, then.macro, then.curves)
    assert (now.tied_items, now.tied_comparisons) == (then.tied_items, then.tied_comparisons)
    assert "no checksum" in now.notes[-1] and "3 differed" in now.notes[-1]


def test_a_number_that_the_samples_do_not_give_is_left_out_and_named(tmp_path: Path) -> None:
    ta.evaluate("random", "demo", limit=10, out=tmp_path)
    forge(tmp_path, lambda record: record["metrics"].update(bleu_4=record["metrics"]["group_score"]))
    record = read_result(tmp_path).benchmarks["demo"]
    assert "bleu_4" not in record.metrics and "bleu_4" in record.notes[-1]


def test_without_samples_nothing_is_shown(tmp_path: Path) -> None:
    ta.evaluate("random", "demo", limit=10, out=tmp_path)
    (tmp_path / "samples" / "demo.jsonl").unlink()
    forge(tmp_path, lambda record: record.pop("samples"))
    with raises(RunError, "checksum", "not verified", "demo.jsonl"):
        ta.open_run(tmp_path).value("group_score")


def test_outcomes_that_do_not_follow_from_scores_are_refused(tmp_path: Path) -> None:
    ta.evaluate("random", "demo", limit=10, out=tmp_path)
    path = tmp_path / "samples" / "demo.jsonl"
    path.write_text(path.read_text().replace('"group_score":0.0', '"group_score":1.0'))
    forge(tmp_path, lambda record: record.pop("samples"))
    with raises(RunError, "demo.jsonl", "10 items"):
        read_result(tmp_path)


def test_a_run_that_goes_on_does_not_sign_a_forged_number(tmp_path: Path) -> None:
    ta.evaluate("random", "demo", limit=40, out=tmp_path)
    forge(tmp_path, raise_number)
    item = {"id": "a", "images": ["a.png"], "texts": ["one", "two"]}
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "pairs.jsonl").write_text(json.dumps(item))
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "set" / "a.png")
    ta.evaluate("random", f"folder:{tmp_path / 'set'}", limit=40, out=tmp_path)
    stored = read_stored(tmp_path)
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


def test_the_numbers_of_a_task_come_from_its_outcomes(tmp_path: Path) -> None:
    task_run(tmp_path, FORGED)
    assert read_result(tmp_path).benchmarks["demo"].metrics["accuracy"].value == FORGED  # signed by whoever wrote it
    assert [row["fact"] for row in ta.verify(tmp_path).rows() if row["state"] == "different"][:1] == ["accuracy"]
    forge(tmp_path, lambda _: None)
    assert read_result(tmp_path).benchmarks["demo"].metrics["accuracy"].value == 0.5


def test_a_board_leaves_out_what_it_cannot_measure_again(tmp_path: Path) -> None:
    from tellapart.board.app import create_app
    from tellapart.board.records import Board
    from tellapart.board.settings import BoardSettings

    ta.evaluate("random", "demo", limit=40, out=tmp_path / "random")
    forge(tmp_path / "random", raise_number)
    (tmp_path / "random" / "samples" / "demo.jsonl").unlink()
    problems: list[str] = []
    board = Board(BoardSettings(runs=(tmp_path,)))
    board.read_in(problems.append)
    page = TestClient(create_app(board)).get("/").text
    assert len(problems) == 1 and "not verified" in problems[0]
    assert "98.77" not in page
