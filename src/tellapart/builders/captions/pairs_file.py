"""Caption pairs without images: a JSONL file that the builders of images start from.

Each line holds `id`, `caption_0`, `caption_1`, `cluster` and how the pair was made. Until the file is finished, every
decided caption is a line of `.NAME.journal` in its folder; the same call goes on after a Ctrl-C or a `kill -9`. Each
line of the journal has a digest: a changed line is decided again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

from tellapart.builders.builder import Rejected
from tellapart.builders.caption_files import SourceCaption, file_digest, read_captions
from tellapart.builders.captions.rewriting import counterfactuals
from tellapart.builders.captions.stages import CaptionOptions, Stages, open_stages
from tellapart.builders.executor import Lost, ProcessExecutor
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.atomic import atomic_file
from tellapart.data.progress import Progress
from tellapart.data.validation import validate_table
from tellapart.errors import DataError, RunError, plain

_BUILDER = "counterfactual-captions"

#: Bytes before the row in a line of the journal: the first of its SHA-256's digits, and a space.
_DIGEST = 17

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PairsWritten:
    """A written file, its pairs, the rejected captions by step and reason, and how many an earlier call had decided."""

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
    progress: Progress | None = None,
) -> PairsWritten:
    """Write the counterfactual captions of a recipe as JSONL; filters and selections are left to the images'
    builder.
    """
    options, path = _read_options(recipe)
    if out.exists():
        raise DataError(f"{out} is there already; name another file, or delete it")
    captions = read_captions(path)[:limit]
    models = dict(open_stages(options, recipe.parent).models)
    facts = [options.model_dump(), *file_digest(path).values(), models, metadata.version("tellapart")]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    journal = journal_of(out)
    decided = _read_journal(journal, key)
    resumed = done = sum(caption.id in decided for caption in captions)
    waiting = [caption for caption in captions if caption.id not in decided]
    blocks = [waiting[start : start + block] for start in range(0, len(waiting), block)]
    task = partial(_decide_captions, options=options, home=recipe.parent, key=key)
    with journal.open("ab") as file, closing(ProcessExecutor(workers).perform(task, blocks)) as results:
        for group, rows in results:
            if isinstance(rows, Lost):
                raise RunError(
                    f"caption {group[0].id!r}: {rows}; the finished part is kept in {journal}: run it again to go on"
                )
            file.write(b"".join(map(_journal_line, rows)))
            file.flush()  # to the kernel, so that a killed process loses no full line
            decided |= {row["id"]: row for row in rows}
            done += len(rows)
            if progress:
                progress("captions", done, len(captions))
    return _finish_file(out, journal, [decided[caption.id] for caption in captions], resumed)


def journal_of(out: Path) -> Path:
    """Return the path of the journal next to the file, until that is written."""
    return out.with_name(f".{out.name}.journal")


def count_decided(journal: Path) -> int:
    """Return how many captions a journal holds; 0 if the journal is missing."""
    return max(0, journal.read_bytes().count(b"\n") - 1) if journal.is_file() else 0  # the first line is the recipe's


def _read_options(recipe: Path) -> tuple[CaptionOptions, Path]:
    content = read_recipe_file(recipe)
    if content.builder != _BUILDER:
        raise DataError(f"{recipe}: caption pairs are made by the builder {_BUILDER!r}, not {content.builder!r}")
    options = validate_table(CaptionOptions, content.options, f"{recipe}: [options]")
    return options, recipe.parent / options.captions


@lru_cache(maxsize=1)
def _open_stages(options: CaptionOptions, home: Path, key: str) -> Stages:  # noqa: ARG001
    """Open the stages once a process; another key means other files."""
    return open_stages(options, home)


def _decide_captions(
    captions: Sequence[SourceCaption], options: CaptionOptions, home: Path, key: str
) -> list[dict[str, Any]]:
    """Return of each caption its pair as a row, or the step and reason of its rejection."""
    rows: list[dict[str, Any]] = []
    rewritings = counterfactuals([caption.text for caption in captions], _open_stages(options, home, key), options)
    for caption, rewriting in zip(captions, rewritings, strict=True):
        if isinstance(rewriting, Rejected):
            rows.append({"id": caption.id, "step": rewriting.step, "reason": rewriting.reason})
        else:
            pair = {"id": caption.id, "caption_0": caption.text, "caption_1": rewriting.text}
            rows.append(pair | {"cluster": caption.cluster} | rewriting.to_record())
    return rows


def _read_journal(journal: Path, key: str) -> dict[str, dict[str, Any]]:
    """Read the decided captions, without damaged lines and a last one that was cut; begin one if there is none."""
    finished = journal.read_bytes().rpartition(b"\n")[0] if journal.exists() else b""
    if not finished:
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.write_bytes(_journal_line({"recipe": key}))
        return {}
    first, *lines = finished.split(b"\n")
    if first + b"\n" != _journal_line({"recipe": key}):
        raise RunError(
            f"{journal} was begun with another recipe, other inputs or another version, or is damaged in its first "
            "line; delete it to begin again"
        )
    os.truncate(journal, len(finished) + 1)
    rows = [json.loads(line[_DIGEST:]) if _is_whole(line) else None for line in lines]
    if None in rows:
        number, many = rows.index(None) + 2, rows.count(None)
        _log.warning("%s:%d is damaged: %d captions are decided again", plain(str(journal)), number, many)
    return {row["id"]: row for row in rows if row is not None}


def _finish_file(out: Path, journal: Path, rows: list[dict[str, Any]], resumed: int) -> PairsWritten:
    rejected = Counter((row["step"], row["reason"]) for row in rows if "step" in row)
    pairs = [row for row in rows if "step" not in row]
    if not pairs:
        reasons = ", ".join(f"{step}: {reason} {n}" for (step, reason), n in rejected.items())
        raise DataError(f"none of {len(rows)} captions has a counterfactual ({reasons}); nothing is written")
    with atomic_file(out) as draft:
        draft.write_bytes(b"".join(map(_to_line, pairs)))
    journal.unlink()
    return PairsWritten(out, len(pairs), dict(rejected), resumed)


def _to_line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _journal_line(row: dict[str, Any]) -> bytes:
    """Return a row behind its digest."""
    line = _to_line(row)
    return _digest_line(line[:-1]) + line


def _is_whole(line: bytes) -> bool:
    return line[:_DIGEST] == _digest_line(line[_DIGEST:])


def _digest_line(line: bytes) -> bytes:
    return hashlib.sha256(line).hexdigest()[: _DIGEST - 1].encode() + b" "
