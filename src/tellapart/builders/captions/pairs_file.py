"""Caption pairs without images: a JSONL file that the builders of images start from.

Each line holds `id`, `caption_0`, `caption_1`, `cluster` and how the pair was made. Until the file is finished, every
decided caption is in a journal beside it; the same call goes on after a Ctrl-C or a `kill -9`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from tellapart.builders.builder import Rejected
from tellapart.builders.caption_files import SourceCaption, file_digest, read_captions
from tellapart.builders.captions.counterfactuals import counterfactuals
from tellapart.builders.captions.stages import CaptionOptions, open_stages
from tellapart.builders.executor import ProcessExecutor
from tellapart.builders.journal import Journal, journal_of
from tellapart.builders.pipeline import decide
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.atomic import atomic_file
from tellapart.data.progress import Progress
from tellapart.errors import DataError

_BUILDER = "counterfactual-captions"


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
    """Write a recipe's counterfactual captions as JSONL; filters and selections are left to the builder of images."""
    content = read_recipe_file(recipe)
    if content.builder != _BUILDER:
        raise DataError(f"{recipe}: caption pairs are made by the builder {_BUILDER!r}, not {content.builder!r}")
    options = CaptionOptions.model_validate(content.options)  # which are checked already
    path = recipe.parent / options.captions
    if out.exists():
        raise DataError(f"{out} is there already; name another file, or delete it")
    captions = read_captions(path)[:limit]
    models = dict(open_stages(options, recipe.parent).models)
    facts = {"options": options.model_dump(mode="json"), **file_digest(path), "models": models}
    facts["version"] = metadata.version("tellapart")
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    task = partial(_decide_captions, options=options, home=recipe.parent)
    with Journal(journal_of(out), key, facts) as journal:
        executor, report = ProcessExecutor(workers), progress or (lambda *_: None)
        outcomes, resumed = decide(journal, captions, executor, task, report, noun="captions", block=block)
        written = _write_pairs(out, [*outcomes.values()], resumed)
        journal.remove()
    return written


def _decide_captions(
    captions: Sequence[SourceCaption], options: CaptionOptions, home: Path
) -> list[Rejected | dict[str, Any]]:
    """Return the pair of each caption as a row, or its rejection."""
    decisions: list[Rejected | dict[str, Any]] = []
    rewritings = counterfactuals([caption.text for caption in captions], open_stages(options, home), options)
    for caption, rewriting in zip(captions, rewritings, strict=True):
        if isinstance(rewriting, Rejected):
            decisions.append(rewriting)
        else:
            pair = {"id": caption.id, "caption_0": caption.text, "caption_1": rewriting.text}
            decisions.append(pair | {"cluster": caption.cluster} | rewriting.to_record())
    return decisions


def _write_pairs(out: Path, decisions: Sequence[Rejected | dict[str, Any]], resumed: int) -> PairsWritten:
    rejected = Counter((outcome.step, outcome.reason) for outcome in decisions if isinstance(outcome, Rejected))
    pairs = [outcome for outcome in decisions if not isinstance(outcome, Rejected)]
    if not pairs:
        reasons = ", ".join(f"{step}: {reason} {n}" for (step, reason), n in rejected.items())
        raise DataError(f"none of {len(decisions)} captions has a counterfactual ({reasons}); nothing is written")
    with atomic_file(out) as draft:
        draft.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in pairs), "utf-8", newline="")
    return PairsWritten(out, len(pairs), dict(rejected), resumed)
