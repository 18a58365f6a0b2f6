"""Scores to numbers: every number is what its per-item values say, and comes back from the samples alone."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import remeasure

from facts import raises
from tellapart import Benchmark, Outline
from tellapart.data.scores import ScoreKind, Scores
from tellapart.errors import MetricError, ScoreError
from tellapart.evaluation.evaluate import evaluate_predictions, measure, prepare_listed
from tellapart.evaluation.run import run_record
from tellapart.metrics.tabulate import MOST_VALUES, Tabulated
from tellapart.models.scoring.score import Scored
from tellapart.records.result import ModelRecord, Result
from tellapart.records.run_folder import write_result
from tellapart.records.samples import read_samples, write_samples


def outline(n: int, shape: tuple[int, int] = (2, 2), **changes: object) -> Outline:
    ids = tuple(f"i{k}" for k in range(n))
    fields = {"ids": ids, "shape": shape, "clusters": ids, "tags": ({},) * n} | changes
    return Outline(**fields)


def drawn(n: int, shape: tuple[int, int] = (2, 2), *, seed: int = 0, coarse: bool = False) -> np.ndarray:
    values = np.random.default_rng(seed).random((n, *shape))
    return np.round(values, 1) if coarse else values


def scores(values: np.ndarray, kind: ScoreKind = "similarity") -> Scores:
    return Scores([f"i{k}" for k in range(len(values))], values, kind)


def numbers(found: Tabulated) -> tuple[object, ...]:
    return found.metrics, found.by, found.macro, found.curves


@st.composite
def measured_sets(draw: st.DrawFn) -> tuple[Scores, Outline]:
    n = draw(st.integers(1, 30))
    shape = draw(st.sampled_from([(2, 2), (1, 2), (1, 5), (2, 1)]))
    kind: ScoreKind = draw(st.sampled_from(["similarity", "logit", "probability"]))
    values = drawn(n, shape, seed=draw(st.integers(0, 99)), coarse=draw(st.booleans()))
    places = range(n)
    tags = tuple({"type": "ab"[k % 2]} | ({"size": "big"} if k % 3 else {}) for k in places)
    clusters = tuple(f"c{k // 2}" for k in places) if draw(st.booleans()) else tuple(f"i{k}" for k in places)
    return scores(values, kind), outline(n, shape, tags=tags, clusters=clusters)


def kept(folder: Path, made: Scores, listed: Outline) -> Result:
    """Write the run folder that these scores come to."""
    benchmark = Benchmark(
        name="made", title="made", items=len(listed.ids), shape=listed.shape, source="", licence="", citation="",
        load=lambda _place: pytest.fail("no file is needed"), files=("pairs",), known=lambda: listed,
    )  # fmt: skip
    found = evaluate_predictions(prepare_listed(benchmark), Scored(made), origin="here", seed=3)
    model = ModelRecord(name="m", fingerprint="f", kind=made.kind)
    result = Result(run=run_record(Path(), seed=3, command=""), model=model, benchmarks={"made": found.result})
    write_samples(folder, "made", found.samples)
    write_result(folder, result)
    return result


@settings(max_examples=15)
@given(measured_sets())
def test_measuring_a_run_folders_samples_again_gives_its_record(made):
    with tempfile.TemporaryDirectory() as folder:
        record = kept(Path(folder), *made).benchmarks["made"]
        again = remeasure(Path(folder), "made")
        assert numbers(again) == (record.metrics, record.by, record.macro, record.curves)


@settings(max_examples=50)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=4, max_size=4))
def test_every_float32_score_survives_the_samples_file_to_the_last_bit(four):
    values = np.array(four, np.float32).reshape(1, 2, 2)
    with tempfile.TemporaryDirectory() as folder:
        kept(Path(folder), scores(values), outline(1))
        (sample,) = read_samples(Path(folder), "made")
        assert np.array(sample.scores, np.float32).tobytes() == values.tobytes()


def test_the_seed_moves_bootstrapped_intervals_only_and_clusters_are_what_is_resampled():
    made, listed = scores(drawn(40)), outline(40)
    one, other = measure(made, listed, seed=1).metrics, measure(made, listed, seed=2).metrics
    assert one == measure(made, listed, seed=1).metrics
    moved = {name for name in one if one[name] != other[name]}
    assert {"v1", "v2_text", "v2_image"} <= moved
    assert not moved & {"text_score", "image_score", "group_score"}  # Wilson's interval draws nothing
    assert all(one[name].value == other[name].value for name in one)
    values = np.repeat(drawn(25, seed=2), 4, axis=0)  # four copies of each scene's scores
    alone = measure(scores(values), outline(100)).metrics["text_score"]
    scenes = outline(100, clusters=tuple(f"c{k // 4}" for k in range(100)))
    together = measure(scores(values), scenes).metrics["text_score"]
    assert (together.value, together.clusters, together.n) == (alone.value, 25, 100)
    assert None not in (alone.low, alone.high, together.low, together.high)
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_the_number_of_a_value_is_that_of_its_items_and_macro_weighs_values_where_micro_weighs_items():
    tags = tuple({"type": "swap"} if k < 10 else {"type": "add"} if k < 30 else {} for k in range(40))
    values = drawn(40)
    found = measure(scores(values), outline(40, tags=tags))
    assert found.by["type"]["swap"].metrics == measure(scores(values), outline(40).select(range(10))).metrics
    assert [found.by["type"][value].metrics["text_score"].n for value in ("swap", "add")] == [10, 20]
    made, listed = scores(drawn(40, coarse=True)), outline(40, tags=tuple({"type": "ab"[k % 2]} for k in range(40)))
    order = np.random.default_rng(1).permutation(40).tolist()
    assert numbers(measure(made, listed.select(order))) == numbers(measure(made, listed))
    right, wrong = [[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]
    tags = ({"type": "many"},) * 30 + ({"type": "few"},) * 10 + ({},) * 5
    found = measure(scores(np.array([right] * 30 + [wrong] * 10 + [right] * 5)), outline(45, tags=tags))
    micro, macro = found.metrics["text_score"], found.macro["type"].metrics["text_score"]
    assert (micro.value, micro.n, micro.average) == (35 / 45, 45, "micro: items")
    assert (macro.value, macro.n, macro.average) == (0.5, 40, "macro: 2 values of type")
    made = scores(drawn(400, seed=5))
    found = measure(made, outline(400, tags=tuple({"type": "abcd"[k % 4]} for k in range(400))))
    micro, macro = found.metrics["text_score"], found.macro["type"].metrics["text_score"]
    assert macro.value == pytest.approx(micro.value)
    assert micro.low is not None and micro.high is not None and macro.low is not None and macro.high is not None
    assert (macro.low, macro.high) == (pytest.approx(micro.low, abs=0.01), pytest.approx(micro.high, abs=0.01))


@pytest.mark.parametrize(("value", "low_is"), [(1.0, False), (0.0, True)])
def test_a_macro_mean_without_spread_still_has_a_width(value, low_is):
    matrix = np.eye(2) if value else 1 - np.eye(2)
    tags = tuple({"type": "ab"[k % 2]} for k in range(30))
    found = measure(scores(np.array([matrix] * 30)), outline(30, tags=tags)).macro["type"].metrics["group_score"]
    assert found.value == value
    assert found.high - found.low > 0.05
    assert (found.low == 0) is low_is


@pytest.mark.slow
@pytest.mark.parametrize("values", [MOST_VALUES, MOST_VALUES + 1])
def test_a_tag_with_more_values_than_a_table_holds_is_no_breakdown(values):
    tags = tuple({"video": str(k)} for k in range(values))
    found = measure(scores(drawn(values)), outline(values, tags=tags))
    assert ("video" in found.by) is ("video" in found.macro) is (values == MOST_VALUES)


def test_a_shape_without_a_metric_and_an_item_without_scores_are_refused():
    with raises(MetricError, "metric", "3", "2", "similarity"):
        measure(scores(drawn(2, (3, 2))), outline(2, (3, 2)))
    with raises(ScoreError, "1", "3", "i2"):
        measure(scores(drawn(2)), outline(3))
