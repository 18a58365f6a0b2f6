"""Metrics that take scores batch by batch give what the whole gives, alone and as torchmetrics' own."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tellapart as ta
from facts import raises
from tellapart.data.pairset import Outline
from tellapart.data.scores import Scores
from tellapart.errors import MetricError, ScoreError
from tellapart.evaluation.evaluate import measure
from tellapart.metrics.registry import METRICS
from tellapart.metrics.streaming import StreamingMetric, class_name, metric_class


def drawn(n: int, shape: tuple[int, int], seed: int = 0):
    return np.random.default_rng(seed).integers(0, 4, (n, *shape)).astype(np.float32) / 4


def shape_of(name: str) -> tuple[int, int]:
    metric, shapes = METRICS[name], ((2, 2), (1, 3), (3, 1), (1, 2), (4, 4))
    return next(shape for shape in shapes if metric.defined_for(shape, metric.true_texts(shape)))


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_of_the_registry_gives_what_a_run_records(name):
    kind = "probability" if "probability" in METRICS[name].kinds else "similarity"
    scores = drawn(40, shape_of(name))
    ids = tuple(map(str, range(40)))
    truths = ((0, 1),) * 40 if METRICS[name].one_false else ()
    outline = Outline(ids, scores.shape[1:], ids, ({},) * 40, truths)
    whole = measure(Scores(ids, scores, kind), outline).metrics[name]
    metric = metric_class(class_name(name))(kind=kind)
    for part in np.split(scores, [1, 7, 30]):
        metric.update(part.astype(np.float64).tolist())
    assert metric.compute() == whole
    metric.reset()
    with raises(MetricError, "items", "measure"):
        metric.compute()


@given(st.lists(st.integers(0, 20), min_size=1, max_size=4), st.integers(0, 99))
def test_merging_parts_is_measuring_the_whole(sizes, seed):
    scores = drawn(sum(sizes) + 1, (2, 2), seed)
    whole, merged, start = ta.metrics.GroupScore(), ta.metrics.GroupScore(), 0
    whole.update(scores)
    for size in [*sizes, 1]:
        part = ta.metrics.GroupScore()
        if size:
            part.update(scores[start : start + size])
        start += size
        merged.merge(part)
    assert merged.compute() == whole.compute()


def test_clusters_widen_the_interval_and_are_kept_by_a_merge():
    scores = np.repeat(drawn(20, (2, 2)), 10, axis=0)
    alone, together = ta.metrics.TextScore(), ta.metrics.TextScore()
    alone.update(scores)
    other = ta.metrics.TextScore()
    other.update(scores, [k // 10 for k in range(200)])
    together.merge(other)
    one, clustered = alone.compute(), together.compute()
    assert (clustered.clusters, one.clusters, clustered.value) == (20, 200, one.value)
    assert clustered.high - clustered.low > one.high - one.low


def test_a_cluster_of_any_name_is_no_item_without_one():
    def measured(*names: str | None) -> StreamingMetric:
        metric = metric_class("GroupScore")()
        for name in names:
            metric.update(np.eye(2), None if name is None else [name])
        return metric

    merged = measured("item 0", "item 0", None)
    merged.merge(measured("item 0", "item 3", None))
    assert (merged.compute().n, merged.compute().clusters) == (6, 4)


def test_items_of_another_shape_are_not_merged():
    small, large = metric_class("MatchScore")(), metric_class("MatchScore")()
    small.update(np.eye(2))
    large.update(np.eye(3))
    with raises(MetricError, "(3, 3)", "(2, 2)"):
        small.merge(large)


@pytest.mark.parametrize(
    ("update", "error", "said"),
    [
        (np.zeros((2, 1, 2)), MetricError, ("text_score", "scores")),
        ("x", ScoreError, ("text_score", "scores", "real")),
        ([[[1.0, float("nan")], [0, 0]]], ScoreError, "NaN"),
        (None, ScoreError, ("text_score", "scores", "real")),
        ([[[1.0, 0.0], [1.0]]], ScoreError, ("text_score", "scores")),
    ],
)
def test_wrong_scores_are_refused(update, error, said):
    with raises(error, said):
        ta.metrics.TextScore().update(update)


def test_other_shapes_clusters_and_kinds_are_refused():
    assert pickle.loads(pickle.dumps(ta.metrics.ChoiceScore)) is metric_class("ChoiceScore")  # noqa: S301
    metric = metric_class("ChoiceScore")()
    metric.update(drawn(2, (1, 3)))
    with raises(MetricError, "(1, 2)", "(1, 3)"):
        metric.update(drawn(2, (1, 2)))
    with raises(MetricError, "1", "2", "clusters"):
        metric.update(drawn(2, (1, 3)), ["a"])
    with raises(MetricError, "kind='similarity'", "scores", "probability"):
        metric_class("Acc")()
    with raises(MetricError, "items"):
        metric.merge(ta.metrics.TextScore())


@pytest.fixture
def torchmetrics():
    pytest.importorskip("torch")
    from tellapart.models.torch.backend import import_torch

    import_torch()  # first: torchmetrics imports the torchvision beside it
    return pytest.importorskip("torchmetrics")


@pytest.mark.slow
def test_as_torchmetrics_own_it_is_a_metric_with_state_that_merges(torchmetrics):
    import torch

    scores = drawn(60, (2, 2))
    plain = ta.metrics.GroupScore()
    plain.update(scores)
    metric = ta.metrics.GroupScore().torchmetrics()
    assert isinstance(metric, torchmetrics.Metric)
    assert metric.higher_is_better is True and metric.is_differentiable is False
    metric.update(torch.tensor(scores[:20]))
    other = copy.deepcopy(metric)
    other.reset()
    other.update(scores[20:])
    metric.merge_state(other)
    assert metric.compute() == pytest.approx(plain.compute().value)
    assert metric.value() == plain.compute()
    # What two processes hold is gathered, and brought together, by torchmetrics itself.
    gathered = ta.metrics.GroupScore().torchmetrics()
    gathered.distributed_available_fn = lambda: True
    gathered.dist_sync_fn = lambda tensor, group=None: [tensor, torch.tensor(scores[20:])]
    gathered.update(scores[:20])
    assert gathered.compute() == pytest.approx(plain.compute().value)
    collection = torchmetrics.MetricCollection([ta.metrics.TextScore().torchmetrics(), metric])
    collection.reset()
    collection.update(torch.tensor(scores))
    assert set(collection.compute()) == {"TextScore", "GroupScore"}
