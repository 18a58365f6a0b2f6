"""The declared sets that ship, by their names: `sets/FILE.toml`, or a variant of one, `FILE/NAME`.

A set whose files follow rules that no template has names the functions that read it, as `module:function` of this room:
`load` (or `read`, of its files), `pictures` and `known`, with `arguments`. A user's file cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark, Hub, PaperTable
from tellapart.benchmarks.locations import Locations, first_file
from tellapart.benchmarks.set_file import read_set_file, read_set_table, set_benchmark

SETS = Path(__file__).parent / "sets"

#: What a declaration and a benchmark call by two names.
_RENAMED = {"digest": "rows", "clusters": "cluster", "folders": "usual"}


@cache
def __getattr__(name: str) -> Benchmark:
    """Return a set as if it were an attribute: the catalogue's lines need no other form."""
    file, _, variant = name.partition("/")
    path = SETS / f"{file}.toml"
    if file.startswith("_") or not path.is_file():
        raise AttributeError(f"no set {name!r} in {SETS}")
    table = read_set_table(path, variant)
    return _read_by_code(table) if {"load", "read"} & table.keys() else set_benchmark(read_set_file(path, variant))


def _read_by_code(table: dict[str, Any]) -> Benchmark:
    """Return the benchmark of a declaration that names functions."""
    code = {key: table.pop(key, None) for key in ("load", "read", "pictures", "known", "paper", "arguments", "hub")}
    facts: dict[str, Any] = {
        _RENAMED.get(key, key): tuple(fact) if isinstance(fact, list) else fact for key, fact in table.items()
    }
    if hub := code["hub"]:
        facts["hub"] = Hub(**hub | {"files": tuple(hub["files"])})
    if code["known"]:
        facts["known"] = _function(code["known"])
    if code["paper"]:
        facts["paper"] = PaperTable(**code["paper"])
    arguments = code["arguments"] or {}

    def call(target: str, place: Locations) -> Any:
        return _function(target)(place, declared, **arguments)

    def read(place: Locations) -> Any:
        return _function(code["read"])(
            *(first_file(place, declared.name, file) for file in declared.files), **arguments
        )

    facts["load"] = partial(call, code["load"]) if code["load"] else read
    if code["pictures"]:
        facts["pictures"] = partial(call, code["pictures"])
    declared = Benchmark(**facts)
    return declared


def _function(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(import_module(f"tellapart.benchmarks.{module}"), name)
    return function
