"""Run folders and their samples: written whole, named for any file system, damaged and refused by name."""

import json
import os
import random
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import RunError
from tellapart.evaluation.run import Settings, run, run_record
from tellapart.evaluation.verified import read_result
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, Sample
from tellapart.records.run_folder import beside, file_name, find_runs, natural_key, write_result, write_text_file
from tellapart.records.samples import read_samples, write_samples


def result(model: str = "m") -> Result:
    record = ModelRecord(name=model, fingerprint="f", kind="similarity")
    return Result(run=run_record(Path(), seed=0, command=""), model=record, benchmarks={})


@given(st.text(min_size=1, max_size=200))
def test_any_name_becomes_one_that_any_file_system_takes(name):
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", file_name(name))


@pytest.mark.parametrize("name", ["con", "NUL", "com1", "lpt9.txt", "Aux", "con:x", "a" * 300])
def test_no_name_is_a_device_or_long(name):
    made = file_name(name)
    assert made.partition(".")[0].lower() not in {"con", "nul", "com1", "lpt9", "aux"} and len(made) <= 100
    assert file_name("clip") == "clip" and file_name("CLIP").lower() != "clip"
    assert file_name("\udce9") != file_name("\udcea")  # bytes of a path that are not UTF-8


def test_digits_of_another_script_are_sorted_as_text():
    assert sorted(["step10\u0663", "step10b", "step9"], key=natural_key) == ["step9", "step10b", "step10\u0663"]


@given(st.text(max_size=12), st.text(max_size=12))
def test_different_names_stay_different(one, other):
    assert (file_name(one).lower() == file_name(other).lower()) is (one == other)


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    write_text_file(tmp_path / "a.txt", "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with raises(RunError, "a.txt", "No space left", "device"):
        write_text_file(tmp_path / "a.txt", "new")
    assert os.listdir(tmp_path) == ["a.txt"]  # noqa: PTH208
    assert (tmp_path / "a.txt").read_text() == "old"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": 2, "news": 1}', ("results.json", "2", "1")),
        ('{"schema": 1}', ("results.json", "'run'")),
        ("[]", ("results.json", "record", "object")),
        ("", ("results.json", "JSON", "Expecting value", "1")),
    ],
)
def test_a_record_that_is_none_is_refused_by_field(tmp_path, text, said):
    (tmp_path / "results.json").write_text(text)
    with raises(RunError, said):
        read_result(tmp_path)


def test_an_unknown_field_is_refused(tmp_path):
    write_result(tmp_path, result())
    record = json.loads((tmp_path / "results.json").read_text())
    record["model"]["colour"] = "red"
    del record["sha256"]
    (tmp_path / "results.json").write_text(json.dumps(record))
    with raises(RunError, "'model.colour'"):
        read_result(tmp_path)


def test_a_run_is_found_with_the_models_beside_it_the_references_last(tmp_path):
    for folder, model in [(tmp_path, "m")] + [(beside(tmp_path, name), name) for name in ("oracle", "mine", "random")]:
        write_result(folder, result(model))
    assert [read_result(folder).model.name for folder in find_runs(tmp_path)] == ["m", "mine", "random", "oracle"]


def test_a_folder_of_runs_is_that_many_subjects_and_one_without_runs_is_refused(tmp_path):
    with raises(RunError, "--out", "run"):
        find_runs(tmp_path)
    for name in ("b", "a"):
        write_result(tmp_path / name, result(name))
        write_result(beside(tmp_path / name, "random"), result("random"))
    assert [folder.name for folder in find_runs(tmp_path)] == ["a", "b"]


def test_a_record_that_was_changed_is_refused_and_measured_again_once_its_checksum_is_taken_out(tmp_path):
    _ = run(Settings(models=("oracle",), limit="3"), tmp_path / "run", store=EmbeddingStore(None))
    path = tmp_path / "run" / "results.json"
    whole = read_result(tmp_path / "run")
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content))  # laid out otherwise, it is the same
    assert read_result(tmp_path / "run") == whole
    content["benchmarks"]["demo"]["metrics"]["group_score"]["value"] = 0.9
    path.write_text(json.dumps(content))
    with raises(RunError, "results.json", "delete", "tellapart verify"):
        read_result(tmp_path / "run")
    del content["sha256"]
    path.write_text(json.dumps(content))
    again = read_result(tmp_path / "run").benchmarks["demo"]
    assert again.metrics == whole.benchmarks["demo"].metrics and "1 differed" in again.notes[-1]


def sample(name: str = "a") -> Sample:
    return Sample(id=name, cluster=name, texts=("x\u2028y", 'z"\n'), scores=((0.1, 0.2),), outcomes={})


def test_samples_hold_any_text_and_missing_ones_are_named(tmp_path):
    write_samples(tmp_path, "folder:/a b", [sample("a"), sample("b")])
    assert read_samples(tmp_path, "folder:/a b") == [sample("a"), sample("b")]
    write_result(tmp_path, result())
    with raises(RunError, "samples/demo.jsonl", "missing", "run"):
        read_samples(tmp_path, "demo")


def test_samples_are_written_one_after_the_other(tmp_path):
    def yield_long() -> Iterator[Sample]:
        for k in range(2_000):
            yield Sample(id=str(k), cluster="", texts=("x" * 10_000,), outcomes={})

    tracemalloc.start()
    written = write_samples(tmp_path, "demo", yield_long())
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert written.lines == 2_000
    assert (tmp_path / "samples" / "demo.jsonl").stat().st_size > 20_000_000 > 10 * highest


def test_samples_that_were_cut_off_are_refused_wherever_the_cut_lies(tmp_path):
    write_samples(tmp_path, "demo", [sample("a"), sample("b")])
    path = tmp_path / "samples" / "demo.jsonl"
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for length in (0, 1, second - 1, second + 1, len(whole) - 1):
        path.write_bytes(whole[:length])
        with raises(RunError, "demo.jsonl", "line"):
            read_samples(tmp_path, "demo")


@pytest.mark.parametrize(
    ("damaged", "facts"), [('"id":7', ("'id'", "record")), ('"id":"c","id":"b"', ("JSON", "'id'", "object"))]
)
def test_a_damaged_line_and_a_key_that_is_repeated_in_one_are_named(tmp_path, damaged, facts):
    write_samples(tmp_path, "demo", [sample("a"), sample("b")])
    path = tmp_path / "samples" / "demo.jsonl"
    path.write_text(path.read_text().replace('"id":"b"', damaged))
    with raises(RunError, "demo.jsonl:2", *facts):
        read_samples(tmp_path, "demo")


def with_samples(folder: Path, count: int) -> Path:
    """Write a run whose record knows its samples, and return their file."""
    written = write_samples(folder, "demo", [sample(f"item-{k}") for k in range(count)])
    record = BenchmarkResult(title="", fingerprint="f", metrics={}, origin="", samples=written)
    write_result(folder, result().model_copy(update={"benchmarks": {"demo": record}}))
    return folder / "samples" / "demo.jsonl"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: [*lines, lines[1]], ("demo.jsonl", "4", "3", "SHA-256")),
        (lambda lines: lines[:2], ("demo.jsonl", "2", "3")),
        (lambda lines: [lines[0].replace("0.1", "0.3"), *lines[1:]], ("demo.jsonl", "SHA-256", "changed")),
        (lambda lines: [lines[1], lines[0], lines[2]], ("demo.jsonl", "SHA-256", "changed")),
    ],
)
def test_samples_that_are_not_what_the_run_wrote_are_refused(tmp_path, damage, message):
    path = with_samples(tmp_path, 3)
    assert [each.id for each in read_samples(tmp_path, "demo")] == ["item-0", "item-1", "item-2"]
    lines = damage(path.read_bytes().decode().split("\n")[:-1])
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    with raises(RunError, message):
        read_samples(tmp_path, "demo")
    with raises(RunError, message):
        read_samples(tmp_path, "demo", read_result(tmp_path).benchmarks["demo"])


def test_every_flipped_bit_of_samples_is_found(tmp_path):
    path = with_samples(tmp_path, 3)
    whole, draw = path.read_bytes(), random.Random(0)
    for _ in range(100):
        data = bytearray(whole)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        with raises(RunError, "demo.jsonl"):
            read_samples(tmp_path, "demo")


def test_samples_of_an_older_record_are_read_and_an_item_twice_is_refused(tmp_path):
    write_samples(tmp_path, "demo", [sample("a"), sample("b")])
    record = BenchmarkResult(title="", fingerprint="f", metrics={}, origin="")
    write_result(tmp_path, result().model_copy(update={"benchmarks": {"demo": record}}))
    assert len(read_samples(tmp_path, "demo")) == 2
    write_samples(tmp_path, "demo", [sample("a"), sample("b"), sample("a")])
    with raises(RunError, "demo.jsonl", "'a'"):
        read_samples(tmp_path, "demo")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_samples_that_are_no_file_are_refused(tmp_path, make):
    path = with_samples(tmp_path, 3)
    path.unlink()
    make(path)
    with raises(RunError, "samples/demo.jsonl", "not a file"):
        read_samples(tmp_path, "demo")
