"""Runs for tests: measured by a model, from a table of scores, or again from a run's samples alone."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tellapart import EmbeddingStore, read_result, read_samples
from tellapart.evaluation.evaluate import remeasure_samples
from tellapart.evaluation.run import Settings, run
from tellapart.metrics.tabulate import Tabulated
from tellapart.records.run_folder import read_stored


def measured(out: Path, model: str, *folders: Path, **settings) -> Path:
    """Measure a model on folders of pairs; return its run folder."""
    names = tuple(f"folder:{folder}" for folder in folders)
    return next(iter(run(Settings(models=(model,), benchmarks=names, **settings), out, store=EmbeddingStore(None))))


def rankings(folder: Path, names: Sequence[str], people: Sequence[int]) -> str:
    """Write rankings of a pair set's images, as a task: people's choice among the next ones of them."""
    rows = [
        {
            "id": name,
            "query": f"a red cup left of bowl {name}",
            "candidates": [f"images/{(k + j) % 12}_0.png" for j in range(len(people))],
            "people": list(people),
        }
        for k, name in enumerate(names)
    ]
    (folder / "rankings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"ranking:{folder / 'rankings.jsonl'}"


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


def remeasure(folder: Path, benchmark: str) -> Tabulated:
    """Return the numbers of a benchmark, which are those of the record."""
    result = read_stored(folder).result
    record = result.benchmarks[benchmark]
    return remeasure_samples(benchmark, record, read_samples(folder, benchmark, record), seed=result.run.seed).table
