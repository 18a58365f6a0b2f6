"""A metric's declared facts, its averages and tables over items, and its streaming form."""

import copy
import pickle
from dataclasses import replace

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
from tellapart.metrics.metric import fits, read_scores
from tellapart.metrics.per_item import PerItem, by_tag, mean
from tellapart.metrics.registry import METRICS, defined_for, one_name_each
from tellapart.metrics.streaming import StreamingMetric, class_name, metric_class
from tellapart.metrics.tabulate import tabulate

PAIR = [[[0.9, 0.1], [0.2, 0.8]]]
MATRICES = ["text_score", "image_score", "group_score", "i2t", "t2i", "ipos_2t", "ineg_2t", "tpos_2i", "tneg_2i"]
DEVIATIONS = ["v1", "v2_text", "v2_image"]


def test_the_registry_holds_the_metrics_of_the_papers_under_their_own_names():
    valse = ["choice_score", "acc", "p_c", "p_f", "min_pc_pf", "pairwise"]
    shapes = ["itt", "individual_score", "pair_score", "set_score", "match_score", "match_score_of_probabilities"]
    assert list(METRICS) == [*MATRICES, *valse, *shapes, *DEVIATIONS]
    assert all(name == metric.name for name, metric in METRICS.items())
    graded = {"acc", "min_pc_pf", "individual_score", "pair_score", *DEVIATIONS}
    assert {name for name, metric in METRICS.items() if not metric.binary} == graded
    # An item's outcome by scores does not depend on the others.
    assert not any(metric.together for metric in METRICS.values())


@pytest.mark.parametrize(
    ("shape", "kind", "names"),
    [
        ((2, 2), "similarity", [*MATRICES, "match_score", *DEVIATIONS]),
        ((2, 2), "logit", [*MATRICES, "match_score", *DEVIATIONS]),
        ((2, 2), "probability", [*MATRICES, "match_score", "match_score_of_probabilities", *DEVIATIONS]),
        ((1, 2), "probability", ["choice_score", "acc", "p_c", "p_f", "min_pc_pf", "pairwise"]),
        ((1, 2), "logit", ["choice_score", "pairwise"]),
        ((1, 5), "similarity", ["choice_score"]),
        ((4, 1), "similarity", ["choice_score"]),
        ((1, 1), "similarity", []),
        ((3, 4), "probability", []),
        ((3, 3), "logit", ["individual_score", "set_score", "match_score"]),
        ((3, 3), "probability", ["individual_score", "set_score", "match_score", "match_score_of_probabilities"]),
        ((7, 7), "probability", ["individual_score", "set_score"]),
    ],
)
def test_a_metric_not_defined_for_a_shape_or_kind_does_not_exist_for_it(shape, kind, names):
    assert [metric.name for metric in defined_for(shape, kind)] == names


def test_two_names_of_one_metric_have_one_value_on_every_item_and_are_shown_once():
    aliases = {name: metric.same_as for name, metric in METRICS.items() if metric.same_as}
    assert aliases == {"i2t": "text_score", "t2i": "image_score", "pairwise": "choice_score"}
    assert (METRICS["text_score"].source[:10], METRICS["i2t"].source[:5]) == ("Winoground", "BiVLC")
    levels = np.random.default_rng(0).integers(0, 3, size=(2000, 2, 2)) / 4
    for name, original in aliases.items():
        scores = levels[:, :1] if METRICS[name].defined_for((1, 2)) else levels
        np.testing.assert_array_equal(METRICS[name].per_item(scores), METRICS[original].per_item(scores))
        assert METRICS[name].chance(scores.shape[1:]) == METRICS[original].chance(scores.shape[1:])
    assert list(one_name_each(METRICS)) == [name for name in METRICS if name not in aliases]


def test_metrics_and_measured_items_have_their_facts():
    square, texts = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.2, 0.8]]]), np.array([[[0.9, 0.8, 0.8]]])
    group, deviation = METRICS["group_score"].measure(square), METRICS["v1"].measure(square)
    assert group.strict.tolist() == [1, 0] and group.neutral is not None and group.neutral.tolist() == [1, 1 / 2]
    facts = [(one.name, one.chance, one.binary, one.bounds, one.deviation, one.reduce) for one in (group, deviation)]
    assert facts == [("group_score", 1 / 6, True, (0, 1), False, None), ("v1", None, False, None, True, None)]
    decisions = [METRICS[name].measure(np.array([[[0.9, 0.1]]])).binary for name in ("acc", "p_c", "p_f")]
    assert decisions == [False, True, True]
    assert deviation.neutral is None and METRICS["itt"].measure(texts, true=2).chance == 1 / 3
    strict = np.zeros(3)
    assert PerItem(name="a", strict=strict).ties.tolist() == [False] * 3
    assert PerItem(name="a", strict=strict, neutral=np.array([0.0, 0.5, 0.0])).ties.tolist() == [False, True, False]
    pairs = PerItem(name="a", strict=np.zeros((3, 2)), neutral=np.array([[0.0, 0.0], [0.0, 0.5], [0.5, 0.5]]))
    assert pairs.ties.tolist() == [False, True, True]
    for metric in METRICS.values():
        copy = pickle.loads(pickle.dumps(metric))  # noqa: S301
        assert (copy.name, repr(copy.strict)) == (metric.name, repr(metric.strict))
    assert [fits("nx1", shape) for shape in ((1, 1), (2, 1), (9, 1), (2, 2))] == [False, True, True, False]
    assert METRICS["text_score"].check(PAIR, "similarity", ["a"]).dtype == np.float32
    assert read_scores(np.array([[[3, 1]]]), "choice_score", ("1xm",)).dtype == np.float32
    unbounded = replace(METRICS["group_score"], bounds=(0.0, float("inf")))
    assert (unbounded.finite_bounds, METRICS["group_score"].finite_bounds) == (None, (0.0, 1.0))


@pytest.mark.parametrize("name", ["acc", "p_c", "p_f", "min_pc_pf"])
def test_a_metric_with_a_threshold_takes_probabilities_alone(name):
    with raises(MetricError, name, "probabilities", "similarities"):
        METRICS[name].check([[[0.9, 0.1]]], "similarity")
    with raises(MetricError, "scores", "logits"):
        METRICS[name].check([[[0.9, 0.1]]], "logit")
    for pair in ([31.0, 29.5], [0.5, 1.5], [1.5, 0.5], [-0.5, 0.5], [0.5, -0.5]):
        with raises(ScoreError, name, "[0, 1]", "1", pair):
            METRICS[name].per_item([[[0.0, 1.0]], [pair]])


def test_scores_that_are_not_finite_name_up_to_ten_items():
    scores = np.tile(np.array(PAIR), (30, 1, 1))
    scores[::2, 0, 1] = np.nan
    scores[1, 1, 1] = -np.inf
    ids = [f"q{item}" for item in range(30)]
    with raises(ScoreError, "16", "30", "q0, q1, q2, q4, q6, q8, q10, q12, q14, q16", "6"):
        METRICS["text_score"].check(scores, "similarity", ids)
    with raises(ScoreError, "16", "30", "0, 1, 2, 4"):
        METRICS["text_score"].per_item(scores)


TAGS = st.lists(st.dictionaries(st.sampled_from(["type", "subset"]), st.sampled_from(["a", "b", ""])), max_size=12)


@given(TAGS)
def test_an_item_belongs_to_the_one_value_it_carries_or_to_none(tags):
    masks = by_tag(tags)
    assert set(masks) == {tag for carried in tags for tag, value in carried.items() if value}
    for tag, values in masks.items():
        assert list(values) == sorted(values)
        for item, carried in enumerate(tags):
            assert [value for value, mask in values.items() if mask[item]] == [*filter(None, [carried.get(tag)])]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.randoms(use_true_random=False))
def test_a_mean_does_not_depend_on_the_order_of_items(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert (mean(values), float(mean(values))) == (mean(shuffled), pytest.approx(np.mean(values), abs=1e-3))
    two = np.stack([values, values], axis=1)
    np.testing.assert_array_equal(mean(two), [mean(values), mean(values)])


def test_the_metric_of_some_items_is_their_mean_or_reduced_and_a_macro_mean_that_of_a_tags_values():
    values = np.array([[1.0, 0.0], [1.0, 1.0]])
    assert PerItem(name="a", strict=values[:, 1]).over(values[:, 1]) == 0.5
    least = PerItem(name="a", strict=values, reduce=lambda means: means.min(axis=-1))
    assert least.over(values) == 0.5
    assert not least.binary
    assert not least.deviation
    tags = [{"id": str(k), "type": "ab"[k % 2]} for k in range(4)]
    assert (list(by_tag(tags)), list(by_tag(tags, most=3))) == (["id", "type"], ["type"])
    assert list(by_tag(tags, most=4)) == ["id", "type"]
    right = PerItem(name="accuracy", strict=np.array([1.0, 0.0, 1.0, 1.0]), chance=0.5, binary=True)
    tags = [{"type": kind, "set": "all"} for kind in ("swap", "swap", "swap", "add")]
    table = tabulate([right], list("abcd"), tags)
    assert set(table.by) == {"set", "type"} and set(table.macro) == {"type"}
    assert table.macro["type"].metrics["accuracy"].value == pytest.approx((2 / 3 + 1) / 2)
    # Components: hits and claims; three components would hide a mistake of axes, as would as many items as components.
    strict = np.array([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    table = tabulate(
        [PerItem(name="precision", strict=strict, binary=True, reduce=ratio)],
        list("abcde"),
        [{"kind": k} for k in "xxxyy"],
    )
    parts = [*table.by["kind"].values(), table.macro["kind"], table]
    assert [part.metrics["precision"].value for part in parts] == pytest.approx([0.5] * 4)


def ratio(means: np.ndarray) -> np.ndarray:
    return means[..., 0] / means[..., 1]


def test_a_part_of_items_that_depend_on_each_other_is_measured_again():
    values = np.array([1.0, 2.0, 6.0, 7.0, 9.0])

    def among(mask: np.ndarray) -> PerItem | None:
        own = values[mask]
        if len(own) < 2:
            return None
        facts = {"chance": float(len(own)), "touched": own == own.max(), "among": among}
        return PerItem(name="rise", strict=own - own.min(), **facts)

    every = among(np.ones(5, dtype=bool))
    assert every is not None
    whole, split = (
        tabulate([every], list("aabbc"), [{"kind": kind} for kind in kinds]) for kinds in ("xxyyz", "xxyyy")
    )
    rise = whole.metrics["rise"]
    assert (rise.value, rise.chance, rise.ties) == (4.0, 5.0, 1)
    of_kind = {name: part.metrics["rise"].value for name, part in whole.by["kind"].items() if part.metrics}
    assert of_kind == {"x": 0.5, "y": 0.5}  # not 0.5 and 5.5, the means of their values among all
    assert "rise" not in whole.macro["kind"].metrics  # it is not defined for z
    four = split.macro["kind"].metrics["rise"]
    assert four.value == pytest.approx((0.5 + 4 / 3) / 2)
    assert (four.chance, four.n, four.clusters, four.ties, four.tie_neutral) == (2.5, 5, 3, 2, None)


def test_a_macro_mean_of_components_lays_out_each_values_items():
    strict = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 4.0], [1.0, 4.0]])
    one = PerItem(name="ratio", strict=strict, neutral=strict * 2, official=strict * 3, reduce=ratio)
    table = tabulate([one], list("abcd"), [{"kind": kind} for kind in "xyxy"])
    assert table.by["kind"]["x"].metrics["ratio"].value == pytest.approx(1.0)
    macro = table.macro["kind"].metrics["ratio"]
    assert (macro.value, macro.ties) == (pytest.approx((1.0 + 4 / 6) / 2), 4)


def test_a_mean_of_items_in_clusters_says_how_many_independent_items_it_is_worth():
    right = np.array([1.0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0])
    one = PerItem(name="accuracy", strict=right, binary=True)
    pairs = PerItem(name="least", strict=np.stack([right, right], axis=1), reduce=lambda means: means.min(axis=-1))
    tags = [{"kind": kind} for kind in "xxxxyyyyxxyy"]
    table = tabulate([one, pairs], list("aaaabbbbcccc"), tags)
    assert table.metrics["accuracy"].effective == pytest.approx(3.2727, abs=1e-3)
    assert table.metrics["least"].effective is None
    assert table.macro["kind"].metrics["accuracy"].effective is None
    alone = tabulate([one], list("abcdefghijkl"), tags).metrics["accuracy"]
    assert (alone.effective, alone.reason) == (None, None)
    few = tabulate([PerItem(name="depth", strict=right)], list("aaaabbbbcccc"), tags).metrics["depth"]
    assert few.low is None and few.reason is not None and "3 clusters" in few.reason


@pytest.mark.parametrize(("groups", "first"), [("aaaaaa", {"by_group", "accuracy"}), ("aabbbb", {"accuracy"})])
def test_a_mean_over_its_groups_stands_beside_means_over_items(groups, first):
    right = np.array([1.0, 1, 1, 0, 0, 0])
    grouped = PerItem(name="by_group", strict=right, binary=True, groups=groups)
    plain = PerItem(name="accuracy", strict=right, binary=True)
    table = tabulate([grouped, plain], list("uvwxyz"), [{"kind": kind} for kind in "yxxxxx"])
    means = [right[[group == name for group in groups]].mean() for name in {*groups}]
    assert table.metrics["by_group"].value == pytest.approx(np.mean(means))
    assert table.metrics["accuracy"].value == 0.5
    # A part without some of the groups has no mean over them.
    of_kind = {kind: set(part.metrics) for kind, part in table.by["kind"].items()}
    assert of_kind == {"x": {"by_group", "accuracy"}, "y": first}
    alone = tabulate([grouped], list("uvwxyz"), [{"kind": "x"}] * 6)
    assert alone.metrics == {"by_group": table.metrics["by_group"]} == alone.by["kind"]["x"].metrics


def test_a_tag_of_more_than_64_values_is_no_breakdown_and_progress_counts_every_average():
    one = PerItem(name="depth", strict=np.random.default_rng(0).normal(size=130))
    tags = [{"name": str(k % 65), "part": str(k % 64)} for k in range(130)]
    table = tabulate([one], list(map(str, range(130))), tags)
    assert set(table.by) == {"part"}
    assert table.metrics == tabulate([one], list(map(str, range(130))), [{}] * 130, seed=0).metrics
    one = PerItem(name="depth", strict=np.random.default_rng(0).normal(size=60))
    seen: list[tuple[str, int, int]] = []
    tags = [{"kind": "ab"[k % 2]} for k in range(60)]
    tabulate([one], list(map(str, range(60))), tags, progress=lambda *state: seen.append(state))
    assert seen == [("intervals", done, 180) for done in (0, 60, 90, 120)]


def drawn(n: int, shape: tuple[int, int], seed: int = 0):
    return np.random.default_rng(seed).integers(0, 4, (n, *shape)).astype(np.float32) / 4


def shape_of(name: str) -> tuple[int, int]:
    metric, shapes = METRICS[name], ((2, 2), (1, 3), (3, 1), (1, 2), (4, 4))
    return next(shape for shape in shapes if metric.defined_for(shape, metric.true_texts(shape[1])))


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
    alone, together, other = (ta.metrics.TextScore() for _ in range(3))
    alone.update(scores)
    other.update(scores, [k // 10 for k in range(200)])
    together.merge(other)
    one, clustered = alone.compute(), together.compute()
    assert (clustered.clusters, one.clusters, clustered.value) == (20, 200, one.value)
    assert clustered.high - clustered.low > one.high - one.low


def test_an_array_that_is_filled_again_is_measured_as_it_was_and_any_cluster_is_no_item_without_one():
    scores, metric = drawn(40, (2, 2)), ta.metrics.TextScore()
    batch = np.empty((10, 2, 2), np.float32)
    for part in np.split(scores, 4):
        batch[:] = part
        metric.update(batch)
    assert metric.compute().value == ta.text_score(scores).mean() != ta.text_score(batch).mean()

    def measured(*names: str | None) -> StreamingMetric:
        metric = metric_class("GroupScore")()
        for name in names:
            metric.update(np.eye(2), None if name is None else [name])
        return metric

    merged = measured("item 0", "item 0", None)
    merged.merge(measured("item 0", "item 3", None))
    assert (merged.compute().n, merged.compute().clusters) == (6, 4)
    together = metric_class("GroupScore")()
    together.update(np.stack([np.eye(2)] * 3), [None, "item 0", None])  # an item of no cluster is one by itself
    assert together.compute().clusters == 3


@pytest.mark.parametrize(
    ("update", "error", "said"),
    [
        (np.zeros((2, 1, 2)), MetricError, ("text_score", "scores")),
        ("x", ScoreError, ("text_score", "scores", "real")),
        ([[[1.0, float("nan")], [0, 0]]], ScoreError, "NaN"),
        (None, ScoreError, ("text_score", "scores", "real")),
        ([[[1.0, 0.0], [1.0]]], ScoreError, ("text_score", "scores")),
        ([[1.0, 0.0], [[1.0, 0.0]]], ScoreError, ("text_score", "scores")),
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
    small, large = metric_class("MatchScore")(), metric_class("MatchScore")()
    small.update(np.eye(2))
    large.update(np.eye(3))
    with raises(MetricError, "(3, 3)", "(2, 2)"):
        small.merge(large)


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
    batch = torch.tensor(scores[:20])
    metric.update(batch)
    batch.zero_()  # a loop fills its tensor again
    other = copy.deepcopy(metric)
    other.reset()
    other.update(scores[20:])
    metric.merge_state(other)
    assert metric.compute() == pytest.approx(plain.compute().value)
    assert metric.value() == pickle.loads(pickle.dumps(metric)).value() == plain.compute()  # noqa: S301
    assert ta.metrics.V1().torchmetrics().higher_is_better is None
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
