"""Runs for tests: measured by a model, or from a table of scores."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.evaluation.run import Settings, run
from tellapart.evaluation.verified import read_result
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.samples import read_samples


def measured(out: Path, model: str, *folders: Path, **settings) -> Path:
    """Measure a model on folders of pairs; return its run folder."""
    names = tuple(f"folder:{folder}" for folder in folders)
    return next(iter(run(Settings(models=(model,), benchmarks=names, **settings), out, store=EmbeddingStore(None))))


def score_file(path: Path, scores: Mapping[str, Any]) -> Path:
    """Write scores `(image, text)` by the item's id as a table."""
    cells = ((name, item, i, t) for name, item in scores.items() for i, t in np.ndindex(np.shape(item)))
    rows = [f"{name},{i},{t},{float(item[i][t])!r}" for name, item, i, t in cells]
    path.write_text("\n".join(["id,image,text,score", *rows]) + "\n")
    return path


def copied_scores(folder: Path, path: Path) -> Path:
    """Write the scores of a run's samples as a table."""
    (name,) = read_result(folder).benchmarks
    return score_file(path, {sample.id: sample.scores for sample in read_samples(folder, name)})
