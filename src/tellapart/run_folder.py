"""The run folder: `results.json`, `samples/<benchmark>.jsonl`, `report.html`. Every file is written whole or not at all."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tellapart.errors import RunError
from tellapart.result import SCHEMA, Result, Sample

__all__ = [
    "file_name",
    "find_runs",
    "read_result",
    "read_samples",
    "write_result",
    "write_samples",
    "write_whole",
]

RESULTS = "results.json"
Record = TypeVar("Record", bound=BaseModel)


def file_name(name: str) -> str:
    """Turn a model's or benchmark's name into one that any file system takes; different names stay different.

    >>> file_name("demo"), file_name("folder:/data/my pairs") == file_name("folder:/data/my_pairs")
    ('demo', False)
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")
    if plain == name:
        return name
    import hashlib

    return f"{plain[-60:]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def write_whole(path: Path, text: str) -> None:
    """Write a text file whole or not at all: to a neighbour first, which then takes its name.

    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     write_whole(Path(scratch) / "a.json", "{}")
    ...     (Path(scratch) / "a.json").read_text()
    '{}'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(draft).chmod(0o644)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def write_result(folder: Path, result: Result) -> None:
    """Write `results.json`.

    >>> write_result(Path("/proc/no/such"), Result.model_construct())
    Traceback (most recent call last):
    tellapart.errors.RunError: cannot write /proc/no/such/results.json: No such file or directory
    """
    try:
        write_whole(folder / RESULTS, result.model_dump_json(by_alias=True, indent=1) + "\n")
    except OSError as error:
        raise RunError(f"cannot write {folder / RESULTS}: {error.strerror}") from error


def read_result(folder: Path) -> Result:
    """Read a run folder's record.

    Raises:
        RunError: no such folder or record, a record of a newer schema, or one that is not what the schema says.

    >>> read_result(Path("no such run"))
    Traceback (most recent call last):
    tellapart.errors.RunError: no such run has no results.json; name a run folder that `tellapart run --out` wrote
    """
    path = folder / RESULTS
    text = _read(path, f"{folder} has no {RESULTS}; name a run folder that `tellapart run --out` wrote")
    result = _validated(Result, text, str(path))
    if result.schema_version != SCHEMA:
        raise RunError(f"{path} has schema {result.schema_version}, this version reads {SCHEMA}; update tellapart")
    return result


def find_runs(folder: Path) -> list[Path]:
    """List the run folders in a folder: itself if it is one, else those directly inside, by name.

    Raises:
        RunError: there is none.

    >>> find_runs(Path("no such run"))
    Traceback (most recent call last):
    tellapart.errors.RunError: no run in no such run; name a run folder that `tellapart run --out` wrote
    """
    if (folder / RESULTS).is_file():
        return [folder]
    inside = sorted(path.parent for path in folder.glob(f"*/{RESULTS}"))
    if not inside:
        raise RunError(f"no run in {folder}; name a run folder that `tellapart run --out` wrote")
    return inside


def write_samples(folder: Path, benchmark: str, samples: Iterable[Sample]) -> None:
    """Write `samples/<benchmark>.jsonl`, one item a line, in the benchmark's order.

    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     write_samples(Path(scratch), "demo", [Sample(id="a", cluster="a", scores=((0.5,),), outcomes={})])
    ...     [sample.id for sample in read_samples(Path(scratch), "demo")]
    ['a']
    """
    lines = (sample.model_dump_json() + "\n" for sample in samples)
    write_whole(_samples_path(folder, benchmark), "".join(lines))


def read_samples(folder: Path, benchmark: str) -> list[Sample]:
    """Read every raw score and per-item outcome of one benchmark of a run.

    Raises:
        RunError: the file is missing, or a line is not what the schema says.

    >>> read_samples(Path("no such run"), "demo")
    Traceback (most recent call last):
    tellapart.errors.RunError: no such run/samples/demo.jsonl is missing; the run was cut off, or the folder was copied in part
    """
    path = _samples_path(folder, benchmark)
    text = _read(path, f"{path} is missing; the run was cut off, or the folder was copied in part")
    lines = text.split("\n")[:-1]
    return [_validated(Sample, line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]


def _samples_path(folder: Path, benchmark: str) -> Path:
    return folder / "samples" / f"{file_name(benchmark)}.jsonl"


def _read(path: Path, missing: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(missing) from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error


def _validated(record: type[Record], text: str, where: str) -> Record:
    try:
        return record.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"]) or "the whole"
        raise RunError(f"{where} is not a record this version reads: {field}: {problem['msg']}") from error
