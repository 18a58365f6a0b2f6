"""Outcomes that a lower precision flips are counted as two runs show them, and near ties."""

from collections.abc import Sequence

import numpy as np
import pytest

from facts import raises
from tellapart import catalog
from tellapart.errors import RunError
from tellapart.evaluation.distributed import run_in_ranks
from tellapart.evaluation.run import Settings, _describe_flips, compare_precisions, run
from tellapart.evaluation.verified import read_result
from tellapart.models.options import ModelOptions
from tellapart.models.reference import Oracle
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import Sample


def sample(number: int, scores: Sequence[Sequence[float]], right: float, cluster: str = "") -> Sample:
    outcomes = {"text_score": right, "v1": scores[0][0] - scores[0][1]}
    return Sample(id=str(number), cluster=cluster or str(number), scores=scores, outcomes=outcomes)


def test_flips_are_counted_both_ways_and_only_of_decisions():
    exact = [sample(k, [[0.5, 0.25 + k / 100], [0.0, 0.75]], 1.0) for k in range(8)]
    exact[3] = sample(3, [[0.5, 0.5625], [0.0, 0.75]], 0.0)
    lower = list(exact)
    lower[2] = sample(2, [[0.25, 0.27], [0.0, 0.75]], 0.0)  # 0.23 from a tie in float32
    lower[3] = sample(3, [[0.5, 0.49], [0.0, 0.75]], 1.0)  # 0.0625 from one
    found = compare_precisions(lower, exact, dtype="bfloat16", seed=4)
    assert list(found.flips) == ["text_score"]  # v1 is a size
    flips = found.flips["text_score"]
    assert (flips.n, flips.gained, flips.lost, flips.flipped, flips.p) == (8, 1, 1, 2, 1.0)
    assert flips.low is not None and flips.high is not None and 0 < flips.low < 0.25 < flips.high < 1
    assert found.farthest_from_tie == pytest.approx(0.23)
    assert found.largest_difference == pytest.approx(0.25) and (found.items, found.seed) == (8, 4)


def test_without_a_flip_there_is_a_bound_and_no_distance():
    exact = [sample(k, [[0.5, 0.25]], 1.0) for k in range(100)]
    found = compare_precisions(exact, exact, dtype="float16")
    flips = found.flips["text_score"]
    assert (flips.flipped, flips.low, found.farthest_from_tie, found.largest_difference) == (0, 0.0, None, 0.0)
    assert flips.high == pytest.approx(0.037, abs=1e-3)


def test_items_of_one_cluster_widen_the_interval():
    def wide(clusters: int) -> float:
        exact = [sample(k, [[0.5, 0.25]], 1.0, f"c{k % clusters}") for k in range(40)]
        lower = [
            sample(k, [[0.2, 0.25]], 0.0, f"c{k % clusters}") if k % 10 == 0 else one for k, one in enumerate(exact)
        ]
        flips = compare_precisions(lower, exact, dtype="bfloat16").flips["text_score"]
        return flips.high - flips.low

    assert wide(10) > wide(40)


def test_a_p_that_the_drawn_sign_flips_only_bound_is_written_as_a_bound():
    exact = [sample(k, [[0.5, 0.25]], 1.0, f"c{k // 2}") for k in range(60)]
    lower = [sample(k, [[0.2, 0.25]], 0.0, f"c{k // 2}") for k in range(60)]
    found = compare_precisions(lower, exact, dtype="bfloat16")
    assert found.flips["text_score"].p == 1 / 10_001
    assert "p <= 0.0001" in _describe_flips(found)


def test_margins_of_items_with_several_true_texts_are_between_true_and_false_ones():
    exact = [sample(0, [[0.9, 0.5, 0.4, 0.1]], 1.0), sample(1, [[0.9, 0.5, 0.4, 0.1]], 1.0)]
    lower = [exact[0], sample(1, [[0.9, 0.3, 0.4, 0.1]], 0.0)]
    found = compare_precisions(lower, exact, dtype="bfloat16", true=2)
    assert found.farthest_from_tie == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"dtype": "float32", "check": 10}, ("check=10", "float32")),
        ({"dtype": "bfloat16", "check": 0}, ("check=0", "bfloat16", "float32")),
        ({"dtype": "bfloat16", "flips": 0.1}, ("flips=0.1", "bfloat16", "auto")),
        ({"dtype": "auto", "flips": 1.5}, ("flips=1.5", "0", "1")),
    ],
)
def test_a_check_needs_items_and_another_dtype_and_flips_are_a_share_of_auto(settings, facts, tmp_path):
    with raises(RunError, *facts):
        run(Settings(models=("oracle",), **settings), tmp_path / "run", store=EmbeddingStore(None))


def test_a_model_without_a_dtype_is_not_scored_twice(tmp_path, monkeypatch):
    def same_in_all(options: ModelOptions) -> Oracle:
        assert options.dtype in {"float32", "bfloat16"}
        return Oracle()

    monkeypatch.setitem(catalog._ADDED["model"], "same", same_in_all)
    settings = Settings(models=("same",), limit="3", dtype="bfloat16", check=2)
    folder, *_ = run(settings, tmp_path / "run", store=EmbeddingStore(None))
    result = read_result(folder)
    assert result.benchmarks["demo"].precision is None and result.run.check == 2
    with raises(RunError, "check", "2", "unset"):
        run(Settings(models=("same",), limit="3", dtype="bfloat16"), folder, store=EmbeddingStore(None))
    assert np.isfinite(result.benchmarks["demo"].seconds)


def test_auto_is_float32_on_a_machine_without_a_faster_dtype(tmp_path, monkeypatch):
    monkeypatch.setattr("tellapart.evaluation.run.fastest_dtype", lambda _device: "float32")
    settings = Settings(models=("oracle",), limit="3", dtype="auto")
    folder, *_ = run(settings, tmp_path / "run", store=EmbeddingStore(None))
    result = read_result(folder)
    record = result.benchmarks["demo"]
    assert (result.model.dtype, result.run.check, record.precision) == (None, None, None)
    assert any("auto" in note and "float32" in note and "cpu" in note for note in record.notes)


def test_auto_is_not_chosen_in_several_ranks(tmp_path, monkeypatch):
    for variable, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "GROUP_RANK": "0"}.items():
        monkeypatch.setenv(variable, value)
    for variable in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(variable, "1")
    settings = Settings(models=("oracle",), dtype="auto")
    with raises(RunError, "auto", "2 ranks", "check="):
        run_in_ranks(settings, tmp_path / "run", store=EmbeddingStore(None))
