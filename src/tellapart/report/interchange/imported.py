"""Other tools' results as records: shown, drawn and tabulated beside ours, and marked, for no item is known and ties count otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from tellapart.errors import RunError
from tellapart.records.result import IMPORTED, BenchmarkResult, Metrics, ModelRecord, Result, RunRecord, Value
from tellapart.records.run_folder import RESULTS, write_result
from tellapart.report.interchange.foreign import Foreign, read_foreign

__all__ = ["import_results", "imported_result"]


def import_results(files: Sequence[Path], out: Path, *, command: str, model: str | None = None) -> Result:
    """Read result files of one model, and write them as a run folder without samples.

    Args:
        files: of CLIP_benchmark or mteb; several parts of a set (SugarCrepe's) are put together.
        out: the run folder, which must not hold a run.
        command: what the record says it was made by.
        model: the model's name, where the files do not say it or say it in several ways.

    Raises:
        RunError: a file is not such a result, the files are of several models or hold the same set twice, or the
            folder holds a run already.

    >>> import_results([], Path("runs/imported"), command="")
    Traceback (most recent call last):
    tellapart.errors.RunError: no file was named; name result files of CLIP_benchmark or mteb
    """
    if (out / RESULTS).exists():
        raise RunError(f"{out} holds a run already; name a new folder")
    found = [read_foreign(path, model) for path in files]
    contents = [path.read_bytes() for path in files]
    result = imported_result(found, files, contents, command=command)
    write_result(out, result)
    return result


def imported_result(
    found: Sequence[Foreign], files: Sequence[Path], contents: Sequence[bytes], *, command: str
) -> Result:
    """Put what files of one model say into a record.

    Args:
        found, files, contents: what each file says, where it lay, its bytes.
        command: what the record says it was made by.

    Raises:
        RunError: no file, several models, or the same set or part of it twice.

    >>> said = Foreign("mteb", "2.1", "m", "winoground", "pairs", {None: {"text_score": 0.5}})
    >>> result = imported_result([said], [Path("Winoground.json")], [b""], command="tellapart import")
    >>> result.benchmarks["winoground"].metrics["text_score"].method
    'imported'
    """
    if not found:
        raise RunError("no file was named; name result files of CLIP_benchmark or mteb")
    models = list(dict.fromkeys(one.model for one in found))
    if len(models) > 1:
        raise RunError(f"these files are of several models ({', '.join(models)}); import each into a run of its own")
    benchmarks = {}
    for name in dict.fromkeys(one.benchmark for one in found):
        own = [place for place, one in enumerate(found) if one.benchmark == name]
        digest = hashlib.sha256(b"".join(hashlib.sha256(contents[place]).digest() for place in own)).hexdigest()
        benchmarks[name] = _record([found[place] for place in own], [files[place] for place in own], digest)
    versions = {one.tool: one.version or "not said" for one in found}
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    return Result(
        run=RunRecord(started=started, seed=0, command=command, versions=versions),
        model=ModelRecord(name=models[0], fingerprint=f"{IMPORTED}{found[0].tool}"),
        benchmarks=benchmarks,
    )


def _record(found: Sequence[Foreign], files: Sequence[Path], digest: str) -> BenchmarkResult:
    first = found[0]
    parts: dict[tuple[str, str] | None, Mapping[str, float]] = {}
    for one, path in zip(found, files, strict=True):
        if one.tool != first.tool or parts.keys() & one.metrics.keys() or (parts and None in {*parts, *one.metrics}):
            raise RunError(f"{path}: {one.benchmark} stands in two of these files; name one of them")
        parts |= one.metrics
    return BenchmarkResult(
        title=f"{first.benchmark}, measured by {first.tool}",
        fingerprint=f"{IMPORTED}{digest}",
        task=first.task,
        metrics=_metrics(parts, first.tool),
        by=_by(parts, first.tool),
        origin=", ".join(path.name for path in files),
        notes=(
            f"imported from {first.tool} {first.version}".rstrip()
            + ": no outcome of an item, no interval and no number of items "
            "is known; it gives a tie to whichever comes first (argmax), here a tie is never right",
        ),
    )


def _metrics(parts: Mapping[tuple[str, str] | None, Mapping[str, float]], tool: str) -> dict[str, Value]:
    """Return the numbers over all the set; of parts the plain mean, for how many items each has is not said."""
    if None in parts:
        return {name: _value(number, f"as {tool} averages") for name, number in parts[None].items()}
    tag = next(part[0] for part in parts if part is not None)
    shared = [name for name in next(iter(parts.values())) if all(name in one for one in parts.values())]
    average = f"macro: {len(parts)} values of {tag}"
    return {name: _value(sum(one[name] for one in parts.values()) / len(parts), average) for name in shared}


def _by(parts: Mapping[tuple[str, str] | None, Mapping[str, float]], tool: str) -> dict[str, dict[str, Metrics]]:
    found: dict[str, dict[str, Metrics]] = {}
    for part, numbers in parts.items():
        if part is not None:
            values = {name: _value(number, f"as {tool} averages") for name, number in numbers.items()}
            found.setdefault(part[0], {})[part[1]] = Metrics(metrics=values)
    return found


def _value(number: float, average: str) -> Value:
    return Value(value=number, method="imported", n=0, clusters=0, average=average)
