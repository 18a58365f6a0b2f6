"""A run in bfloat16 that is checked counts the outcomes in which it differs from a run in float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellapart.evaluation.run import Settings, run
from tellapart.evaluation.verified import read_result
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.backend import import_torch
from tellapart.records.run_folder import read_samples

pytest.importorskip("torch", reason="torch is not installed (the models extra)")
import_torch()

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_sample_is_scored_in_float32_too(
    checkpoints: Callable[[str], Path], picture_set: Callable[..., Any], tmp_path: Path
) -> None:
    name, pairs = f"open_clip:tiny-gelu@{checkpoints('tiny')}", picture_set(60)
    with EmbeddingStore(None) as store:
        low = Settings(models=(name,), benchmarks=(pairs,), dtype="bfloat16", check=40, seed=3)
        checked, *_ = run(low, tmp_path / "low", store=store)
        exact, *_ = run(Settings(models=(name,), benchmarks=(pairs,), seed=3), tmp_path / "exact", store=store)
    ((benchmark, record),) = read_result(checked).benchmarks.items()
    found = record.precision
    assert found is not None and (found.dtype, found.against, found.items, found.seed) == ("bfloat16", "float32", 40, 3)
    drawn = np.sort(np.random.default_rng(3).permutation(60)[:40])
    samples = [[list(read_samples(folder, benchmark))[k] for k in drawn] for folder in (checked, exact)]
    for metric, flips in found.flips.items():
        a, b = ([sample.outcomes[metric] for sample in each] for each in samples)
        assert (flips.gained, flips.lost) == (sum(np.greater(a, b)), sum(np.less(a, b)))
    scores = [np.array([sample.scores for sample in each]) for each in samples]
    assert (
        found.largest_difference == pytest.approx(np.abs(scores[0] - scores[1]).max()) and found.largest_difference > 0
    )
    assert "group_score" in found.flips
    note = next(note for note in record.notes if "bfloat16" in note)
    assert "40 items" in note and f"group_score {found.flips['group_score'].flipped}" in note
