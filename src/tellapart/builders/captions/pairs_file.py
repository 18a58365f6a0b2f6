"""Caption pairs without images: a JSONL file that the builders of images start from.

Each line holds `id`, `caption_0`, `caption_1`, `cluster` and how the pair came about. While it is made, what was decided
stands in `.NAME.journal` beside it, one line for each caption; the same call goes on after a Ctrl-C or a `kill -9`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

from tellapart.builders.builder import Rejected
from tellapart.builders.captions.counterfactuals import told
from tellapart.builders.captions.rewriting import counterfactuals
from tellapart.builders.captions.sources import SourceCaption, read_captions
from tellapart.builders.captions.stages import CaptionOptions, Stages, open_stages
from tellapart.builders.executor import Lost, Processes
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.validation import checked
from tellapart.errors import DataError, RunError

__all__ = ["PairsWritten", "write_caption_pairs"]

_BUILDER = "counterfactual-captions"


@dataclass(frozen=True, slots=True)
class PairsWritten:
    """What was written: the file, its pairs, the rejected captions by step and reason, and what an earlier call had decided.

    >>> PairsWritten(Path("pairs.jsonl"), 2, {("nouns", "the caption has no noun"): 1}, 0).pairs
    2
    """

    path: Path
    pairs: int
    rejected: dict[tuple[str, str], int]
    resumed: int


def write_caption_pairs(
    recipe: Path,
    out: Path,
    *,
    workers: int = 1,
    limit: int | None = None,
    block: int = 16,
    progress: Callable[[str, int, int], None] | None = None,
) -> PairsWritten:
    """Make the counterfactual captions of a recipe and write them as JSONL; filters and selections are left to the images' builder.

    Args:
        recipe: of the builder `counterfactual-captions`; its `images` are not read.
        out: a file that is not there yet.
        workers: processes; the file does not depend on them.
        limit: only the first so many captions.
        block: captions that are done together, for the sake of speed; the file does not depend on it.
        progress: told how far it is: the stage, what is done of it, the total.

    Raises:
        DataError: the recipe or the captions are not what they must be, the file is there already, or none is left.
        ModelError: a stage is not to be had, or cannot read a caption.
        RunError: the journal is of another recipe, or a worker died.

    >>> write_caption_pairs(Path("missing.toml"), Path("pairs.jsonl"))
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.toml: cannot be read (No such file or directory)
    """
    options, path = _options(recipe)
    if out.exists():
        raise DataError(f"{out} is there already; name another file, or delete it")
    captions = read_captions(path)[:limit]
    models = dict(open_stages(options, recipe.parent).models)
    facts = [options.model_dump(), hashlib.sha256(path.read_bytes()).hexdigest(), models]
    key = hashlib.sha256(json.dumps([*facts, metadata.version("tellapart")], sort_keys=True).encode()).hexdigest()
    journal = out.with_name(f".{out.name}.journal")
    decided = _decided(journal, key)
    resumed = done = sum(caption.id in decided for caption in captions)
    left = [caption for caption in captions if caption.id not in decided]
    blocks = [left[start : start + block] for start in range(0, len(left), block)]
    task = partial(_decide, options=options, home=recipe.parent, key=key)
    with journal.open("ab") as file, closing(Processes(workers).perform(task, blocks)) as answers:
        for some, rows in answers:
            if isinstance(rows, Lost):
                raise RunError(
                    f"caption {some[0].id!r}: {rows}; what is done is kept in {journal}: run it again to go on"
                )
            file.write(b"".join(map(_line, rows)))
            file.flush()  # to the kernel, so that a killed process loses no whole line
            decided |= {row["id"]: row for row in rows}
            done += len(rows)
            if progress:
                progress("captions", done, len(captions))
    return _finish(out, journal, [decided[caption.id] for caption in captions], resumed)


def _options(recipe: Path) -> tuple[CaptionOptions, Path]:
    read = read_recipe_file(recipe)
    if read.builder != _BUILDER:
        raise DataError(f"{recipe}: caption pairs are made by the builder {_BUILDER!r}, not {read.builder!r}")
    options = checked(CaptionOptions, read.options, f"{recipe}: [options]")
    return options, recipe.parent / options.captions


@lru_cache(maxsize=1)
def _stages(options: CaptionOptions, home: Path, key: str) -> Stages:  # noqa: ARG001
    """Open the stages once a process; another key means other files."""
    return open_stages(options, home)


def _decide(captions: Sequence[SourceCaption], options: CaptionOptions, home: Path, key: str) -> list[dict[str, Any]]:
    """Return of each caption its pair as a row, or the step and reason of its rejection."""
    rows: list[dict[str, Any]] = []
    found = counterfactuals([caption.text for caption in captions], _stages(options, home, key), options)
    for caption, one in zip(captions, found, strict=True):
        if isinstance(one, Rejected):
            rows.append({"id": caption.id, "step": one.step, "reason": one.reason})
        else:
            pair = {"id": caption.id, "caption_0": caption.text, "caption_1": one.text, "cluster": caption.cluster}
            rows.append(pair | told(one))
    return rows


def _decided(journal: Path, key: str) -> dict[str, dict[str, Any]]:
    """Read what was decided, without a last line that was cut; begin a journal where there is none."""
    whole = journal.read_bytes().rpartition(b"\n")[0] if journal.exists() else b""
    if not whole:
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.write_bytes(_line({"recipe": key}))
        return {}
    first, *rows = [json.loads(line) for line in whole.split(b"\n")]
    if first != {"recipe": key}:
        raise RunError(
            f"{journal} was begun with another recipe, other inputs or another version; delete it to begin anew"
        )
    os.truncate(journal, len(whole) + 1)
    return {row["id"]: row for row in rows}


def _finish(out: Path, journal: Path, rows: list[dict[str, Any]], resumed: int) -> PairsWritten:
    rejected: dict[tuple[str, str], int] = {}
    for row in rows:
        if "step" in row:
            why = (row["step"], row["reason"])
            rejected[why] = rejected.get(why, 0) + 1
    pairs = [row for row in rows if "step" not in row]
    if not pairs:
        said = ", ".join(f"{step}: {reason} {n}" for (step, reason), n in rejected.items())
        raise DataError(f"none of {len(rows)} captions has a counterfactual ({said}); nothing is written")
    whole = out.with_name(f".{out.name}.whole")
    whole.write_bytes(b"".join(map(_line, pairs)))
    whole.replace(out)
    journal.unlink()
    return PairsWritten(out, len(pairs), rejected, resumed)


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"
