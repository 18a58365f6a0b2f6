"""Import other tools' results as runs, marked: no item is known, and ties count otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from tellapart.errors import RunError
from tellapart.records.result import IMPORTED, BenchmarkResult, Metrics, ModelRecord, Result, RunRecord, Value
from tellapart.records.run_folder import RESULTS, write_result
from tellapart.report.interchange.foreign import ForeignResult, Part, read_foreign

__all__ = ["import_results"]


def import_results(files: Sequence[Path], out: Path, *, command: str, model: str | None = None) -> Result:
    """Read result files of one model, and write them as a run folder without samples.

    Args:
        files: of CLIP_benchmark or mteb; several parts of a set (SugarCrepe's) are put together.
        out: the run folder, which must not hold a run.
        command: the command line that the record names.
        model: the model's name, where the files do not say it or say it in several ways.

    Raises:
        RunError: a file is not such a result, the files are of several models or hold the same set twice, or the
            folder holds a run already.
    """
    if (out / RESULTS).exists():
        raise RunError(f"{out} holds a run already; name a new folder")
    contents = [(path, read_foreign(path, model)) for path in files]
    if not contents:
        raise RunError("no file was named; name result files of CLIP_benchmark or mteb")
    models = list(dict.fromkeys(content.model for _, content in contents))
    if len(models) > 1:
        raise RunError(f"these files are of several models ({', '.join(models)}); import each into a run of its own")
    by_benchmark: dict[str, list[tuple[Path, ForeignResult]]] = {}
    for path, content in contents:
        by_benchmark.setdefault(content.benchmark, []).append((path, content))
    result = Result(
        run=RunRecord(
            started=datetime.now().astimezone().isoformat(timespec="seconds"),
            seed=0,
            command=command,
            versions={content.tool: content.version or "not said" for _, content in contents},
        ),
        model=ModelRecord(name=models[0], fingerprint=f"{IMPORTED}{contents[0][1].tool}"),
        benchmarks={name: _record(own) for name, own in by_benchmark.items()},
    )
    write_result(out, result)
    return result


def _record(contents: Sequence[tuple[Path, ForeignResult]]) -> BenchmarkResult:
    first = contents[0][1]
    parts: dict[Part, Mapping[str, float]] = {}
    for path, one in contents:
        if one.tool != first.tool or parts.keys() & one.metrics.keys() or (parts and None in {*parts, *one.metrics}):
            raise RunError(f"{path}: {one.benchmark} is in two of these files; name one of them")
        parts |= one.metrics
    digests = b"".join(hashlib.sha256(path.read_bytes()).digest() for path, _ in contents)
    return BenchmarkResult(
        title=f"{first.benchmark}, measured by {first.tool}",
        fingerprint=f"{IMPORTED}{hashlib.sha256(digests).hexdigest()}",
        task=first.task,
        metrics=_metrics(parts, first.tool),
        by=_by(parts, first.tool),
        origin=", ".join(path.name for path, _ in contents),
        notes=(
            f"imported from {first.tool} {first.version}".rstrip()
            + ": no outcome of an item, no interval and no number of items "
            "is known; it gives a tie to whichever comes first (argmax), here a tie is never right",
        ),
    )


def _metrics(parts: Mapping[Part, Mapping[str, float]], tool: str) -> dict[str, Value]:
    """Return the numbers over all the set; of parts the plain mean, as their numbers of items are not known."""
    if None in parts:
        return {name: _value(number, f"as {tool} averages") for name, number in parts[None].items()}
    tag = next(part[0] for part in parts if part is not None)
    shared = [name for name in next(iter(parts.values())) if all(name in one for one in parts.values())]
    average = f"macro: {len(parts)} values of {tag}"
    return {name: _value(sum(one[name] for one in parts.values()) / len(parts), average) for name in shared}


def _by(parts: Mapping[Part, Mapping[str, float]], tool: str) -> dict[str, dict[str, Metrics]]:
    groups: dict[str, dict[str, Metrics]] = {}
    for part, numbers in parts.items():
        if part is not None:
            values = {name: _value(number, f"as {tool} averages") for name, number in numbers.items()}
            groups.setdefault(part[0], {})[part[1]] = Metrics(metrics=values)
    return groups


def _value(number: float, average: str) -> Value:
    return Value(value=number, method="imported", n=0, clusters=0, average=average)
