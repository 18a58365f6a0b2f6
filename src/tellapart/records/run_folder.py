"""The run folder: `results.json`, `samples/<benchmark>.jsonl`, `report.html`, each written atomically."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from tellapart.catalog import REFERENCES
from tellapart.data.atomic import atomic_file
from tellapart.data.validation import Problem
from tellapart.errors import RunError
from tellapart.records.result import SCHEMA, Record, Result, Sample

__all__ = [
    "BESIDE",
    "RESULTS",
    "beside",
    "file_name",
    "find_runs",
    "read_record",
    "read_result",
    "read_samples",
    "write_result",
    "write_samples",
    "write_text_file",
]

RESULTS = "results.json"

#: Where the models lie that a run measured beside its subject: each in a run folder of its own.
BESIDE = "beside"

R = TypeVar("R", bound=Record)
_UNREADABLE = "is not a record this version reads"


def file_name(name: str) -> str:
    """Turn a model's or benchmark's name into one that any file system takes; different names stay different.

    >>> file_name("demo"), file_name("folder:/data/my pairs") == file_name("folder:/data/my_pairs")
    ('demo', False)
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")
    if plain == name:
        return name
    return f"{plain[-60:]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def beside(folder: Path, model: str) -> Path:
    """Return the run folder of a model that is measured beside a run's subject."""
    return folder / BESIDE / file_name(model)


def write_text_file(path: Path, text: str) -> None:
    """Write a text file atomically.

    Raises:
        RunError: the folder cannot be made, or the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error


def write_result(folder: Path, result: Result) -> None:
    """Write `results.json`.

    Raises:
        RunError: it cannot be written.
    """
    write_text_file(folder / RESULTS, result.model_dump_json(by_alias=True, indent=1) + "\n")


def read_result(folder: Path) -> Result:
    """Read a run folder's record.

    Raises:
        RunError: no such folder or record, a record of another schema, or one that is not what the schema says.

    >>> from tellapart.evaluation.run import EmbeddingStore, Settings, run
    >>> folder = getfixture("tmp_path") / "oracle"
    >>> _ = run(Settings(models=("oracle",), limit="3"), folder, store=EmbeddingStore(None))
    >>> read_result(folder).benchmarks["demo"].metrics["group_score"].value
    1.0
    """
    missing = f"{folder} has no {RESULTS}; name a run folder that `tellapart run --out` wrote"
    return read_record(folder / RESULTS, Result, missing=missing, refusal=_UNREADABLE)


def read_record(path: Path, record: type[R], *, missing: str, refusal: str) -> R:
    """Read a file that holds one record; `missing` and `refusal` are the messages of the first and the last error.

    Raises:
        RunError: no such file, one of another schema, or one that is not what the schema says.
    """
    text = _read(path, missing)
    # The schema first: a newer record may hold fields that this version would call a mistake.
    if (schema := _schema(text)) is not None and schema != SCHEMA:
        raise RunError(f"{path} has schema {schema}, this version reads {SCHEMA}; update tellapart")
    return _validate(record, text, f"{path} {refusal}")


def _schema(text: str) -> int | None:
    try:
        schema = json.loads(text)["schema"]
    except (ValueError, TypeError, KeyError):
        return None  # no record at all, which its model reports
    return schema if isinstance(schema, int) else None


def find_runs(folder: Path) -> list[Path]:
    """List the runs to show for a folder: a run and the models beside it, else the runs directly inside, by name.

    Raises:
        RunError: there is none.
    """
    if (folder / RESULTS).is_file():
        return [folder, *sorted((path.parent for path in folder.glob(f"{BESIDE}/*/{RESULTS}")), key=_rank)]
    inside = sorted(path.parent for path in folder.glob(f"*/{RESULTS}"))
    if not inside:
        raise RunError(f"no run in {folder}; name a run folder that `tellapart run --out` wrote")
    return inside


def _rank(folder: Path) -> tuple[int, str]:
    """Sort models of other names first, then the reference models in their own order."""
    return REFERENCES.index(folder.name) if folder.name in REFERENCES else -1, folder.name


def write_samples(folder: Path, benchmark: str, samples: Iterable[Sample]) -> None:
    """Write `samples/<benchmark>.jsonl`, one item a line, in the benchmark's order."""
    lines = (sample.model_dump_json() + "\n" for sample in samples)
    write_text_file(_samples_path(folder, benchmark), "".join(lines))


def read_samples(folder: Path, benchmark: str) -> list[Sample]:
    """Read every raw score and per-item outcome of one benchmark of a run.

    Raises:
        RunError: the file is missing, or a line is not what the schema says.

    >>> folder = getfixture("tmp_path")
    >>> write_samples(folder, "demo", [Sample(id="a", cluster="a", scores=((0.9, 0.1),), outcomes={"pairwise": 1.0})])
    >>> [(sample.id, sample.outcomes["pairwise"]) for sample in read_samples(folder, "demo")]
    [('a', 1.0)]
    """
    path = _samples_path(folder, benchmark)
    text = _read(path, f"{path} is missing; the run was cut off, or the folder was copied in part")
    if not text.endswith("\n"):
        raise RunError(f"{path} is cut off in its last line; measure the run again, or copy the folder whole")
    lines = text.split("\n")[:-1]  # not splitlines: a caption may hold U+2028
    try:
        return [Sample.model_validate_json(line) for line in lines]
    except ValidationError:  # a second time, and slower, to name the line
        return [_validate(Sample, line, f"{path}:{number} {_UNREADABLE}") for number, line in enumerate(lines, start=1)]


def _samples_path(folder: Path, benchmark: str) -> Path:
    return folder / "samples" / f"{file_name(benchmark)}.jsonl"


def _read(path: Path, missing: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(missing) from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error


def _validate(record: type[R], text: str, refusal: str) -> R:
    try:
        return record.model_validate_json(text)
    except ValidationError as error:
        raise RunError(f"{refusal}: {Problem.first(error)}") from error
