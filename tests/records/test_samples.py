"""Samples of a run: written and read line by line, and refused by name where they are not what the run wrote."""

import os
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from facts import raises
from tellapart.errors import RunError
from tellapart.evaluation.run import run_record
from tellapart.evaluation.verified import read_result
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, Sample
from tellapart.records.run_folder import write_result
from tellapart.records.samples import read_samples, write_samples


def result() -> Result:
    record = ModelRecord(name="m", fingerprint="f", kind="similarity")
    return Result(run=run_record(Path(), seed=0, command=""), model=record, benchmarks={})


def sample(name: str = "a") -> Sample:
    return Sample(id=name, cluster=name, texts=("x\u2028y", 'z"\n'), scores=((0.1, 0.2),), outcomes={})


def test_samples_hold_any_text(tmp_path):
    write_samples(tmp_path, "folder:/a b", [sample("a"), sample("b")])
    assert read_samples(tmp_path, "folder:/a b") == [sample("a"), sample("b")]


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


def test_missing_samples_are_named(tmp_path):
    write_result(tmp_path, result())
    with raises(RunError, "samples/demo.jsonl", "missing", "run"):
        read_samples(tmp_path, "demo")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_samples_that_are_no_file_are_refused(tmp_path, make):
    path = with_samples(tmp_path, 3)
    path.unlink()
    make(path)
    with raises(RunError, "samples/demo.jsonl", "not a file"):
        read_samples(tmp_path, "demo")
