"""Every name that the catalogue has, in rows: the function of `tellapart ls`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tellapart.benchmarks.arguments import locations
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.catalog import DEFAULT_MODEL, REFERENCES, load, names
from tellapart.data.arguments import PathGiven
from tellapart.errors import TellapartError, UnknownNameError, nearest
from tellapart.models.find import find_model
from tellapart.tasks.registry import find_task
from tellapart.training.losses.loss import find_loss

__all__ = ["ls"]


def ls(
    what: str,
    *,
    data: PathGiven | None = None,
    task: str | None = None,
    media: str | None = None,
    year: str | None = None,
    language: str | None = None,
) -> list[dict[str, Any]]:
    """Return one row a benchmark, model, loss or builder, those of plugins that are loaded too.

    Args:
        what: `benchmarks`, `models`, `losses` or `builders`.
        data: the folder of benchmarks' files.
        task, media, year, language: benchmarks of this task, of `images` or `videos`, cited with this year, in this
            language; `unknown` for those whose record has none.

    Raises:
        UnknownNameError: `what` is none of these, no benchmark has that value (the known ones are named), or such a
            value is named and benchmarks are not what is listed.

    >>> ls("benchmarks")[0]["name"]
    'demo'
    """
    rows: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "benchmarks": partial(_benchmark_rows, locations(data)),
        "models": _model_rows,
        "losses": partial(_about_rows, "loss"),
        "builders": partial(_about_rows, "builder"),
    }
    if what not in rows:
        hint = nearest(what, rows) or ";"
        raise UnknownNameError(f"nothing to list under {what!r}{hint} use benchmarks, models, losses or builders")
    given = {"task": task, "media": media, "year": year, "language": language}
    wanted = {name: value for name, value in given.items() if value is not None}
    if (wanted or data is not None) and what != "benchmarks":
        typed = wanted if data is None else {"data": str(data), **wanted}
        named = ", ".join(f"{name}={value!r}" for name, value in typed.items())
        raise UnknownNameError(f"{named}: only benchmarks have these; list benchmarks, or leave {named} out")
    found = rows[what]()
    for name, value in wanted.items():
        known = {number: _values_of(row, name) for number, row in enumerate(found)}
        there = sorted({one for values in known.values() for one in values})
        if value not in there:
            hint = nearest(value, there) or ";"
            raise UnknownNameError(f"{name}={value!r}: no such benchmark{hint} there are {', '.join(there)}")
        found = [row for number, row in enumerate(found) if value in known[number]]
    return found


def _values_of(row: dict[str, Any], name: str) -> list[str]:
    """Return a benchmark's values of a filter as they are typed; `unknown` if its record has none."""
    values = (row["languages"] or ()) if name == "language" else [row[name]] if row[name] else []
    return [str(value) for value in values or ["unknown"]]


_ABOUT = (
    *("name", "title", "items", "task", "shape", "true", "official"),
    *("media", "languages", "year", "source", "licence", "citation", "images", "cluster", "ties", "tie_rule"),
)


def _benchmark_rows(locations: Locations) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in names("benchmark"):
        try:
            rows.append(_benchmark_row(find_benchmark(name, locations)))
        except Exception as error:  # whatever fails in another package, all others are listed
            rows.append(dict.fromkeys(_ABOUT) | {"name": name, "title": f"cannot be loaded: {error}", "files": None})
    return rows


def _can_run(benchmark: Benchmark) -> bool:
    try:
        benchmark.expect()
    except TellapartError:
        return False
    return True


def _benchmark_row(benchmark: Benchmark) -> dict[str, Any]:
    hub = benchmark.hub
    missing = benchmark.missing()
    files = "embedded" if not benchmark.files else "here" if not missing else ""
    if not files and hub is not None:
        files = "in the hub's cache" if hub.cached_folder() else "on the hub, gated" if hub.gated else "on the hub"
    return {key: getattr(benchmark, key, None) for key in _ABOUT} | {
        "metrics": _metrics_of(benchmark),
        "output": find_task(benchmark.task, benchmark.name).output,
        "needs": list(benchmark.files),
        "missing": list(missing),
        "files": files or "with --data",
        "runs": _can_run(benchmark),
        "hub": None if hub is None else {"repo": hub.repo, "revision": hub.revision, "gated": hub.gated},
    }


def _metrics_of(benchmark: Benchmark) -> list[str]:
    task = find_task(benchmark.task, benchmark.name)
    return [metric.name for metric in task.metrics_for(benchmark.shape, benchmark.true)]


def _model_rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in names("model"):
        role = "default" if name == DEFAULT_MODEL else "reference" if name in REFERENCES else "installed"
        row = {"name": name, "role": role, "kind": None, "fingerprint": None}
        try:
            model = find_model(name)
        except Exception as error:  # as above
            rows.append(row | {"about": f"cannot be loaded: {error}"})
        else:
            rows.append(row | {"kind": model.kind, "fingerprint": model.fingerprint, "about": _first_line(model)})
    return rows


def _about_rows(kind: str) -> list[dict[str, Any]]:
    rows = []
    for name in names(kind):
        try:
            about = _first_line(find_loss(name).function if kind == "loss" else load(kind, name))
        except Exception as error:  # as above
            about = f"cannot be loaded: {error}"
        rows.append({"name": name, "about": about})
    return rows


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().split("\n")[0]
