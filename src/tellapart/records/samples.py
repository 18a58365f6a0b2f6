"""The samples of a run, `samples/<benchmark>.jsonl`: one item a line, written and read line by line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from tellapart.data.arguments import as_path
from tellapart.data.strict_json import collector_paused, decode_text, first_repeated, parse_json, read_whole
from tellapart.data.validation import first_problem
from tellapart.errors import RunError, quote
from tellapart.records.result import BenchmarkResult, Sample, SamplesFile
from tellapart.records.run_folder import RESULTS, SAMPLES, UNREADABLE, file_name, read_stored, write_blocks

_SAMPLE = TypeAdapter(Sample)


def samples_path(folder: Path, benchmark: str) -> Path:
    """Return the file of a benchmark's items in a run folder, as `file_name` names it."""
    return folder / SAMPLES / f"{file_name(benchmark)}.jsonl"


def write_samples(folder: Path, benchmark: str, samples: Iterable[Sample]) -> SamplesFile:
    """Write `samples/<benchmark>.jsonl`, one item a line, in the benchmark's order; return its entry in the record."""
    digest, lines = hashlib.sha256(), 0

    def encode() -> Iterator[bytes]:
        nonlocal lines
        for sample in samples:
            # `true` is left out if it is empty, as in most sets: the true entry then comes first.
            line = _SAMPLE.dump_json(sample, exclude=None if sample.true else {"true"}) + b"\n"
            digest.update(line)
            lines += 1
            yield line

    write_blocks(samples_path(folder, benchmark), encode())
    return SamplesFile(lines=lines, sha256=digest.hexdigest())


@collector_paused()
def read_samples(folder: Path | str, benchmark: str, record: BenchmarkResult | None = None) -> list[Sample]:
    """Read every raw score and per-item outcome of one benchmark of a run.

    Args:
        folder: the run folder.
        benchmark: its name in the record.
        record: the benchmark's; if not given, it is read from the folder, should that have one.

    Raises:
        RunError: the file is missing, is not the one that the record was written with, or a line is no sample.

    >>> folder = getfixture("tmp_path")
    >>> _ = write_samples(folder, "demo", [Sample(id="a", cluster="a", scores=((0.9, 0.1),), outcomes={"acc": 1.0})])
    >>> [(sample.id, sample.outcomes["acc"]) for sample in read_samples(folder, "demo")]
    [('a', 1.0)]
    """
    folder = as_path(folder, "folder")
    path = samples_path(folder, benchmark)
    if not path.exists():
        raise RunError(f"{path} is missing; the run was cut off, or the folder was copied in part")
    if record is None and (folder / RESULTS).is_file():
        record = read_stored(folder).result.benchmarks.get(benchmark)
    if record is None or record.samples is None:
        return _read_strictly(path)
    if not path.is_file():  # a pipe or a device may have no end
        raise RunError(f"{path} is not a file; measure the run again, or copy the folder again")
    try:
        with path.open("rb") as file:
            _expect_unchanged(path, file, record.samples)
            file.seek(0)
            return _parse_lines(path, file)
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror})") from error


def _read_strictly(path: Path) -> list[Sample]:
    """Read a file that no record describes."""
    text = decode_text(read_whole(path, error=RunError), path, error=RunError)
    if not text.endswith("\n"):
        raise _cut_off(path)
    lines = text.split("\n")[:-1]  # not splitlines: a caption may hold U+2028
    for number, line in enumerate(lines, start=1):
        parse_json(line, f"{path}:{number}", error=RunError)  # pydantic's reader takes the last value of a key
    samples = _parse_lines(path, lines)
    if twice := first_repeated((sample.unit, sample.id) for sample in samples):
        raise RunError(
            f"{path} holds {twice[0]} {quote(twice[1])} twice; measure the run again, or copy the folder again"
        )
    return samples


def _parse_lines(path: Path, lines: Iterable[str | bytes]) -> list[Sample]:
    samples = []
    for number, line in enumerate(lines, start=1):
        try:
            samples.append(_SAMPLE.validate_json(line))
        except ValidationError as error:
            raise RunError(f"{path}:{number} {UNREADABLE}: {first_problem(error)}") from error
    return samples


def _expect_unchanged(path: Path, file: BinaryIO, then: SamplesFile) -> None:
    """Check that a file has the lines that the run wrote: these need no further check."""
    digest, lines, line = hashlib.sha256(), 0, b""
    for line in file:
        digest.update(line)
        lines += 1
    if not line.endswith(b"\n"):
        raise _cut_off(path)
    if (sha256 := digest.hexdigest()) != then.sha256 or lines != then.lines:
        change = f"has {lines} lines where the run wrote {then.lines}" if lines != then.lines else "was changed"
        raise RunError(
            f"{path} {change}: its SHA-256 is {sha256[:12]}, its record names {then.sha256[:12]}; measure the run "
            "again, or copy the folder again"
        )


def _cut_off(path: Path) -> RunError:
    return RunError(f"{path} is cut off in its last line; measure the run again, or copy the full folder")
