"""Listings of `tellapart ls`: benchmarks, with which of their files are there, models, losses and builders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.catalog import DEFAULT_MODEL, REFERENCES, load, names, nearest
from tellapart.errors import TellapartError, UnknownNameError
from tellapart.metrics.registry import defined_for
from tellapart.models.find import find_model, name_forms
from tellapart.report.numbers import plain, thousands
from tellapart.report.terminal import console, print_lines, table
from tellapart.tasks.registry import find_task, headline
from tellapart.train.losses.loss import find_loss

__all__ = ["listing", "print_listing"]


def listing(what: str, locations: Locations | None = None) -> list[dict[str, Any]]:
    """Return one row a benchmark, model, loss or builder.

    Args:
        what: `benchmarks`, `models`, `losses` or `builders`.
        locations: where the benchmarks' files are.

    Raises:
        UnknownNameError: `what` is none of these.

    >>> [row["name"] for row in listing("benchmarks")][:2]
    ['demo', 'winoground']
    """
    rows: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "benchmarks": partial(_benchmark_rows, locations or Locations()),
        "models": _model_rows,
        "losses": partial(_about_rows, "loss"),
        "builders": partial(_about_rows, "builder"),
    }
    if what not in rows:
        hint = nearest(what, rows) or ";"
        raise UnknownNameError(f"nothing to list under {what!r}{hint} use benchmarks, models, losses or builders")
    return rows[what]()


_ABOUT = (
    *("name", "title", "items", "task", "shape", "true", "official"),
    *("source", "licence", "citation", "images", "cluster", "ties"),
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


def print_listing(what: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print what `listing` returned.

    >>> print_listing("models", listing("models")[1:2])  # doctest: +ELLIPSIS
    name     role        kind          about...
    """
    columns = _COLUMNS[what]
    lines = table(*columns)
    for row in rows:
        cells = {**row, "shape": _shape_of(row), "metrics": _few(_first_metrics(row))}
        cells["items"] = thousands(row["items"]) if row.get("items") else ""
        if what == "benchmarks" and row["files"] is None:
            cells["licence"] = row["title"]
        lines.add_row(*(plain(str(cells[column] or "")) for column in columns))
    console().print(lines)
    if notes := _notes(what, rows):
        print_lines("", *notes)


_COLUMNS = {
    "benchmarks": ("name", "shape", "items", "metrics", "licence", "files"),
    "models": ("name", "role", "kind", "about"),
    "losses": ("name", "about"),
    "builders": ("name", "about"),
}


def _notes(what: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if what == "models":
        return ["also, by what it is made of:", *(f"  {form}: {meaning}" for form, meaning in name_forms().items())]
    if what != "benchmarks":
        return []
    notes = [
        "also: folder:PATH, a pair set of your own; FILE.toml, a set that it declares; pairing:NAME, a set of 2x2",
        "pairs asked in words; texts:NAME, the texts alone of a set with two true ones; ranking:FILE, rankings by",
        "people; classes:DIR, a folder of pictures for each class",
    ]
    for row in rows:
        if row["files"] and row["missing"]:
            where = f"; {row['files']}" if row["hub"] else ""
            notes.append(f"{row['name']} needs {_few(row['needs'])} (images: {row['images']}){where}: {row['source']}")
    return notes


def _shape_of(row: Mapping[str, Any]) -> str:
    """Return images by texts of an item; for a task, the kind of its output."""
    return "x".join(map(str, row["shape"])) if row.get("shape") else str(row.get("output") or "")


def _first_metrics(row: Mapping[str, Any]) -> tuple[str, ...]:
    if row.get("official"):
        return tuple(row["official"])
    if row.get("shape"):
        return headline({metric.name for metric in defined_for(row["shape"], "similarity", row["true"])})
    return headline(row.get("metrics") or ())


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
