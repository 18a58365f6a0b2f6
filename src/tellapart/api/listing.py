"""Every name that the catalogue has, in rows: the function of `tellapart ls`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tellapart.benchmarks.arguments import locations
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
        "benchmarks": lambda: _list_rows(
            "benchmark", partial(_describe_benchmark, place=locations(data)),
            lambda _: dict.fromkeys((*_ABOUT, "files")), "title",
        ),
        "models": lambda: _list_rows("model", _describe_model, _name_model),
        "losses": lambda: _list_rows(
            "loss", lambda name: {"name": name, "about": _first_line(find_loss(name).function)}, lambda _: {}
        ),
        "builders": lambda: _list_rows(
            "builder", lambda name: {"name": name, "about": _first_line(load("builder", name))}, lambda _: {}
        ),
    }  # fmt: skip
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
        column = "languages" if name == "language" else name
        values = [row[column] if name == "language" else [row[column]] for row in found]
        typed_values = [[str(part) for part in part_of or () if part] or ["unknown"] for part_of in values]
        there = sorted({one for listed in typed_values for one in listed})
        if value not in there:
            hint = nearest(value, there) or ";"
            raise UnknownNameError(f"{name}={value!r}: no such benchmark{hint} there are {', '.join(there)}")
        found = [row for row, listed in zip(found, typed_values, strict=True) if value in listed]
    return found


_ABOUT = (
    *("name", "title", "items", "task", "shape", "true", "official"),
    *("media", "languages", "year", "source", "licence", "citation", "images", "cluster", "ties", "tie_rule"),
)


def _list_rows(
    kind: str, describe: Callable[[str], dict[str, Any]], lost: Callable[[str], dict[str, Any]], field: str = "about"
) -> list[dict[str, Any]]:
    """Return a row for each name of a kind: whatever fails in another package, all others are listed."""
    rows: list[dict[str, Any]] = []
    for name in names(kind):
        try:
            rows.append(describe(name))
        except Exception as error:
            rows.append(lost(name) | {"name": name, field: f"cannot be loaded: {error}"})
    return rows


def _describe_benchmark(name: str, place: Locations) -> dict[str, Any]:
    benchmark = find_benchmark(name, place)
    hub, task = benchmark.hub, find_task(benchmark.task, benchmark.name)
    missing = benchmark.missing()
    files = "embedded" if not benchmark.files else "here" if not missing else ""
    if not files and hub is not None:
        files = "in the hub's cache" if hub.cached_folder() else "on the hub, gated" if hub.gated else "on the hub"
    try:
        benchmark.expect()
        runs = True
    except TellapartError:
        runs = False
    return {key: getattr(benchmark, key, None) for key in _ABOUT} | {
        "metrics": [metric.name for metric in task.metrics_for(benchmark.shape, benchmark.true)],
        "output": task.output,
        "needs": list(benchmark.files),
        "missing": list(missing),
        "files": files or "with --data",
        "runs": runs,
        "hub": None if hub is None else {"repo": hub.repo, "revision": hub.revision, "gated": hub.gated},
    }


def _name_model(name: str) -> dict[str, Any]:
    role = "default" if name == DEFAULT_MODEL else "reference" if name in REFERENCES else "installed"
    return {"name": name, "role": role, "kind": None, "fingerprint": None}


def _describe_model(name: str) -> dict[str, Any]:
    model = find_model(name)
    return _name_model(name) | {"kind": model.kind, "fingerprint": model.fingerprint, "about": _first_line(model)}


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().split("\n")[0]
