"""List the catalogue's benchmarks, models, losses and builders, a row each: the function of `tellapart ls`."""

from __future__ import annotations

from itertools import chain
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
    if what not in _KINDS:
        hint = nearest(what, _KINDS) or ";"
        raise UnknownNameError(f"nothing to list under {what!r}{hint} use benchmarks, models, losses or builders")
    options = {"data": None if data is None else str(data), "task": task, "media": media}
    options |= {"year": year, "language": language}
    wanted = {name: value for name, value in options.items() if value is not None}
    if wanted and what != "benchmarks":
        named = ", ".join(f"{name}={value!r}" for name, value in wanted.items())
        raise UnknownNameError(f"{named}: only benchmarks have these; list benchmarks, or leave {named} out")
    wanted.pop("data", None)
    place = locations(data)
    rows = [_describe(_KINDS[what], name, place) for name in names(_KINDS[what])]
    for name, value in wanted.items():
        facts = [row["languages"] or () if name == "language" else (row[name],) for row in rows]
        # A year is a number in a row, and a text among the options.
        row_values = [[str(fact) for fact in row_facts if fact] or ["unknown"] for row_facts in facts]
        all_values = sorted(set(chain.from_iterable(row_values)))
        if value not in all_values:
            hint = nearest(value, all_values) or ";"
            raise UnknownNameError(f"{name}={value!r}: no such benchmark{hint} there are {', '.join(all_values)}")
        rows = [row for row, values in zip(rows, row_values, strict=True) if value in values]
    return rows


#: What is listed -> its kind in the catalogue.
_KINDS = {"benchmarks": "benchmark", "models": "model", "losses": "loss", "builders": "builder"}

_ABOUT = (
    *("name", "title", "items", "task", "shape", "true", "official"),
    *("media", "languages", "year", "source", "licence", "citation", "images", "cluster", "ties", "tie_rule"),
)


def _describe(kind: str, name: str, place: Locations) -> dict[str, Any]:
    """Return a name's row; if its module cannot be loaded for any reason, the row has the error."""
    row: dict[str, Any] = {"name": name}
    if kind == "model":
        role = "default" if name == DEFAULT_MODEL else "reference" if name in REFERENCES else "installed"
        row |= {"role": role, "kind": None, "fingerprint": None}
    try:
        if kind == "benchmark":
            return _describe_benchmark(name, place)
        if kind == "model":
            described: Any = find_model(name)
            row |= {"kind": described.kind, "fingerprint": described.fingerprint}
        else:
            described = find_loss(name).function if kind == "loss" else load(kind, name)
        return row | {"about": (described.__doc__ or "").strip().split("\n")[0]}
    except Exception as error:
        row = dict.fromkeys((*_ABOUT, "files")) | row if kind == "benchmark" else row
        return row | {"title" if kind == "benchmark" else "about": f"cannot be loaded: {error}"}


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
