"""Checkpoints that land in a folder while a model trains: each is measured once, all into one run folder.

A checkpoint is taken when its files are at rest, and one that cannot be read is named and left out until it changes.
The records in the run folder are all that is known of the past, so a process that is killed loses its current
checkpoint's work alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import has_magic
from itertools import takewhile
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from tellapart.data.progress import Progress
from tellapart.data.rows import read_object
from tellapart.data.strict_json import decode_text, read_whole
from tellapart.errors import DataError, ModelError, RunError, ScoreError, UnknownNameError, first_line, quote
from tellapart.evaluation.evaluate import Prepared
from tellapart.evaluation.run import Settings, expect_same_run, holds, resolve, run, run_record
from tellapart.evaluation.verified import read_result
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import Result
from tellapart.records.run_folder import FOLLOWED, RESULTS, beside, find_runs, natural_key, write_text_file

#: The checkpoints in a folder: open_clip's, and those of transformers' Trainer.
_FORMS = ("epoch_[0-9]*.pt", "checkpoint-[0-9]*")

#: Seconds in which the files of a checkpoint must not change, to count as written.
_REST = 2.0

_UNITS = {"s": 1, "m": 60, "h": 3600}

#: Files, each with its size and its time of change.
_Files = tuple[tuple[str, int, int], ...]


def parse_seconds(text: str | float, parameter: str = "every") -> float:
    """Return a time in seconds: a number of them, or a text with a unit, `30s`, `10m` or `2h`.

    >>> parse_seconds("10m"), parse_seconds("1.5h"), parse_seconds(3)
    (600.0, 5400.0, 3.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(text).strip())
    seconds = float(match[1]) * _UNITS.get(match[2], 1) if match else 0.0
    if not 0 < seconds < float("inf"):
        raise RunError(f"{parameter}={quote(text)}: give a time such as 30s, 10m or 2h")
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """The checkpoints to follow, and when: as `tellapart.evaluate` takes them.

    `form` is a model's name with `{}` for the path of a checkpoint; None for transformers' folders, and for open_clip's
    files with its `params.txt` in the folder or above it. `prefix` begins the checkpoints' names in results.
    """

    place: str
    form: str | None = None
    every: float = 600.0
    until: int | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        if self.form is not None and "{}" not in self.form:
            raise RunError(
                f"models={quote(self.form)} with follow={quote(self.place)}: write {{}} for a checkpoint's path, as in "
                "'open_clip:ViT-B-32-gelu@{}'"
            )
        if Path(self.absolute).is_file():
            raise RunError(f"follow={quote(self.place)} is a file; give its folder, or a pattern with * in quotes")
        if self.until is not None and self.until < 1:
            raise RunError(f"until={self.until}: give a number of checkpoints from 1 on")

    @property
    def absolute(self) -> str:
        """The place, absolute."""
        return str(Path(self.place).expanduser().absolute())

    def find_checkpoints(self) -> dict[str, Path]:
        """Return the checkpoints that are there, by their names in results, in the order of the numbers in them."""
        parts = Path(self.absolute).parts
        fixed = len(tuple(takewhile(lambda part: not has_magic(part), parts)))
        root = Path(*parts[:fixed])
        patterns = ["/".join(parts[fixed:])] if fixed < len(parts) else _FORMS
        paths = [path for pattern in patterns for path in root.glob(pattern) if not path.name.startswith(".")]
        named: dict[str, Path] = {}
        for path in sorted(paths, key=lambda path: natural_key(path.as_posix())):
            inside = path.relative_to(root)
            name = self.prefix + (inside.with_suffix("") if path.is_file() else inside).as_posix()
            if (other := named.setdefault(name, path)) != path:
                fault = f"{other.name} and {path.name} would both be {name!r}; give a pattern that takes one of them"
                raise RunError(f"follow={quote(self.place)}: {fault}, such as '{root}/*{path.suffix}'")
        return named

    def name_model(self, path: Path) -> str:
        """Return the name by which `-m` opens a checkpoint."""
        if self.form is not None:
            return self.form.replace("{}", str(path))
        if path.is_dir():
            return f"{'local-dir' if (path / 'open_clip_config.json').is_file() else 'hf'}:{path}"
        for params in (path.parent / "params.txt", path.parent.parent / "params.txt"):
            lines = decode_text(read_whole(params), params).splitlines() if params.is_file() else []
            values = dict(line.split(": ", 1) for line in lines if ": " in line)
            if "model" in values:
                quick = "-quickgelu" if values.get("force_quick_gelu") == "True" else ""
                return f"open_clip:{values['model'].removesuffix(quick)}{quick}@{path}"
        raise RunError(
            f"follow={quote(self.place)}: {path.name} does not say its architecture, and no params.txt of open_clip's "
            "training lies above it; add models='open_clip:ARCHITECTURE@{}'"
        )


def follow_checkpoints(
    follower: Follower,
    settings: Settings,
    out: Path,
    *,
    store: EmbeddingStore,
    command: str = "",
    progress: Callable[[str], Progress] | None = None,
    left_out: Callable[[str], None] = lambda _: None,
) -> Iterator[str]:
    """Measure checkpoints as they land, each once, until there are `until`, or for ever; yield the name of each.

    The first one's record lies in the run folder, those of the others in folders beside it, as of a run of several
    models. A checkpoint that is measured is not looked at again, not even if it is gone. `left_out` is called with a
    sentence on each that cannot be read, once for each state of its files.
    """
    benchmarks, _ = resolve(replace(settings, models=(), names=()), store)
    contents: dict[str, str] = {}
    names = [benchmark.name for benchmark in benchmarks]
    done = _take_up_folder(follower, settings, names, out, command, contents)
    rest = min(_REST, follower.every)
    seen: dict[str, tuple[_Files, float]] = {}
    refused: dict[str, _Files] = {}
    while follower.until is None or len(done) < follower.until:
        paths = follower.find_checkpoints()
        files_of = {name: files for name, path in paths.items() if name not in done and (files := _list_files(path))}
        now, before = monotonic(), seen
        seen = {name: (files, now) for name, files in files_of.items() if files != refused.get(name)}
        seen |= {name: before[name] for name in seen.keys() & before if before[name][0] == seen[name][0]}
        ready = next((name for name in seen if now - seen[name][1] >= rest), None)
        if ready is None:
            sleep(rest if seen else follower.every)
            continue
        asked = replace(settings, models=(follower.name_model(paths[ready]),), names=(ready,))
        # The run folder of the first checkpoint holds the others.
        first = read_result(out) if (out / RESULTS).is_file() else None
        folder = out if first is None or ready == first.model.name else beside(out, ready)

        expect = partial(_expect_same_set, out=out, first=first, name=ready)
        try:
            (result,) = run(asked, folder, store=store, command=command, progress=progress, expect=expect).values()
        except (DataError, ModelError, ScoreError, UnknownNameError) as error:
            refused[ready] = files_of[ready]
            left_out(f"{paths[ready]}: {first_line(error)}")
            continue
        _expect_same_sets(contents, result, folder)
        done.add(ready)
        yield ready


def _expect_same_set(prepared: Prepared[Any, Any], *, out: Path, first: Result | None, name: str) -> None:
    """Refuse a set that has changed, in clusters or tags, too, since the first checkpoint was measured on it."""
    try:
        if first is not None:
            holds(out, first, prepared)
    except RunError as error:
        raise RunError(f"{prepared.benchmark.name} changed between checkpoints, before {name}: {error}") from error


def _expect_same_sets(contents: dict[str, str], result: Result, folder: Path) -> None:
    """Refuse a set that changed between two checkpoints: the curve compares them, item by item."""
    for name, record in result.benchmarks.items():
        if contents.setdefault(name, record.fingerprint) != record.fingerprint:
            raise RunError(
                f"{name} changed between checkpoints: {result.model.name} was measured on other content than one "
                f"before it; name another out=, or delete {folder}"
            )


def _take_up_folder(
    follower: Follower, settings: Settings, names: Sequence[str], out: Path, command: str, contents: dict[str, str]
) -> set[str]:
    """Mark the run folder as that of these checkpoints; return those that it holds already.

    `contents`, benchmark -> fingerprint, is filled by their records.
    """
    marker, runs = out / FOLLOWED, find_runs(out) if (out / RESULTS).is_file() else []
    of = read_object(marker).get("checkpoints") if marker.is_file() else None
    if (runs or of) and of != follower.absolute:
        raise RunError(
            f"{out} holds {f'the checkpoints of {of}' if of else 'another run'}, not those of {follower.absolute}; "
            "name another out="
        )
    write_text_file(marker, json.dumps({"checkpoints": follower.absolute}) + "\n")
    now = run_record(out, seed=settings.seed, command=command, settings=settings, place=settings.place)
    done = set()
    for folder in runs:
        result = read_result(folder)
        expect_same_run(folder, result, result.model, now)
        _expect_same_sets(contents, result, folder)
        if result.benchmarks.keys() >= set(names):
            done.add(result.model.name)
    return done


def _list_files(path: Path) -> _Files:
    """List the files of a checkpoint; empty if it is gone, or changes meanwhile."""
    try:
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        states = [(file.as_posix(), file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((name, state.st_size, state.st_mtime_ns) for name, state in states)
