"""Agreement of people, of benchmarks, and of people with a judge: against references, by laws and simulation."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from facts import raises
from tellapart.errors import MetricError
from tellapart.stats.agreement import alpha_with_interval, kappa_with_interval, percent_agreement
from tellapart.stats.benchmark_agreement import agree, items_to_tell_apart
from tellapart.stats.prediction_powered import prediction_powered

labelled = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=50)


@given(labelled)
def test_agreement_is_symmetric_and_full_with_oneself_and_kappa_is_scikit_learns(rows):
    first, second = (list(column) for column in zip(*rows, strict=True))
    assert percent_agreement(first, second) == percent_agreement(second, first)
    assert kappa_with_interval(first, second).value == kappa_with_interval(second, first).value
    assert percent_agreement(first, first) == 1
    assert kappa_with_interval(first, first).value == (1 if len(set(first)) > 1 else None)
    assume(len({*first, *second}) > 1)
    assert kappa_with_interval(first, second).value == pytest.approx(cohen_kappa_score(first, second))
    words = [["bad", "fair", "good", "odd"][code] for code in first], [f"{code}" for code in second]
    assert kappa_with_interval(*words).value == pytest.approx(cohen_kappa_score(*words))


@pytest.mark.parametrize(("people", "least"), [(2, -1.0), (3, -0.5), (5, -0.25)])
def test_alpha_does_not_reach_below_the_least_that_so_many_people_can_have(people, least):
    # One of 30 items with two labels: expected disagreement is so small that the bound was -6.30 of two people.
    found = alpha_with_interval([["a"] * people] * 29 + [["a"] * (people - 1) + ["b"]])
    assert (found.interval.low, found.interval.high) == (least, pytest.approx(1.0, abs=1e-4))


@given(
    st.integers(2, 4).flatmap(
        lambda people: st.lists(st.lists(st.sampled_from("abc"), min_size=people, max_size=4), min_size=10, max_size=30)
    )
)
def test_alpha_lies_in_its_interval(rows):
    found = alpha_with_interval(rows)
    assume(found.value is not None and found.interval.low is not None)
    assert -1 <= found.interval.low <= found.value <= found.interval.high <= 1


def test_by_hand_percent_agreement_is_a_share_and_kappa_is_not_below_minus_one():
    assert percent_agreement(["a", "b", "c"], ["a", "c", "c"]) == pytest.approx(2 / 3)
    first, second = ["a"] * 28 + ["a", "b"], ["a"] * 28 + ["b", "a"]
    assert kappa_with_interval(first, second).interval.low == -1.0


def rows(observers: tuple[str, ...]) -> list[list[str | None]]:
    longest = max(map(len, observers))
    return [
        [None if label == "." else label for label in item]
        for item in zip(*(observer.ljust(longest, ".") for observer in observers), strict=True)
    ]


# One string an annotator, one character an item, a dot where there is no label.
@pytest.mark.parametrize(
    ("observers", "alpha"),
    [
        # Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: A, B and C.
        pytest.param(("0100000010", "1110010000"), 0.095, id="binary, two observers"),
        pytest.param(("aabbdcccedda", "babbbccceddd"), 0.692, id="nominal, two observers"),
        pytest.param(("123321412...", "1233224125.3", ".3332342251.", "12332441251."), 0.743, id="four, missing"),
        # The example of Wikipedia's article on alpha.
        pytest.param((".....34121133.3", "1.213343.......", "..21344.21133.4"), 0.691, id="three, missing"),
    ],
)
def test_alpha_is_that_of_the_published_examples(observers, alpha):
    assert alpha_with_interval(rows(observers)).value == pytest.approx(alpha, abs=5e-4)


labels = st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=3, max_size=3), min_size=2, max_size=30)


def pairwise_alpha(table: list[list[str | None]]) -> float | None:
    """Alpha from its definition: mean disagreement of two labels within an item, and of any two labels."""
    own = [[label for label in row if label is not None] for row in table]
    own = [row for row in own if len(row) > 1]
    flat = [label for row in own for label in row]
    n = len(flat)
    observed = sum(
        (x != y) / (len(row) - 1) for row in own for i, x in enumerate(row) for j, y in enumerate(row) if i != j
    )
    expected = sum(x != y for i, x in enumerate(flat) for j, y in enumerate(flat) if i != j) / (n - 1)
    return None if expected == 0 else 1 - observed / expected


@given(labels)
def test_alpha_is_its_definition_over_pairs_of_labels(table):
    if all(sum(label is not None for label in row) < 2 for row in table):
        with raises(MetricError, "items", "labels", "annotators"):
            alpha_with_interval(table)
        return
    wanted = pairwise_alpha(table)
    found = alpha_with_interval(table)
    assert found.value == (None if wanted is None else pytest.approx(wanted))
    assert found.items == sum(sum(label is not None for label in row) > 1 for row in table)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("abc")), min_size=5, max_size=40))
def test_kappa_lies_in_its_interval(pairs):
    first, second = (list(column) for column in zip(*pairs, strict=True))
    found = kappa_with_interval(first, second)
    if found.value is None:
        assert found.interval.method == "none: one label"
    elif len(pairs) < 10:
        assert found.interval.low is None
        assert f"{len(pairs)} items" in found.interval.reason
    else:
        assert found.interval.low <= found.value + 1e-9
        assert found.value - 1e-9 <= found.interval.high <= 1 + 1e-9


@pytest.mark.slow
def test_the_intervals_cover_what_they_promise():
    """Two annotators who see the truth with probability 0.8, of two balanced labels: kappa and alpha tend to 0.36+."""
    rng = np.random.default_rng(7)
    truth = rng.integers(0, 2, (120, 60))
    said = [np.where(rng.random(truth.shape) < 0.8, truth, 1 - truth) for _ in range(2)]
    wanted, hits = 2 * (0.8**2 + 0.2**2) - 1, np.zeros(2)
    for labels in zip(*said, strict=True):
        first, second = (["no" if label else "yes" for label in own] for own in labels)
        found = kappa_with_interval(first, second), alpha_with_interval(list(zip(first, second, strict=True)))
        hits += [one.interval.low <= wanted <= one.interval.high for one in found]
    assert hits.min() >= 0.92 * 120, hits


def test_items_of_a_cluster_are_drawn_together_and_one_cluster_gives_no_interval():
    one = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "b"], ["a", "a"], ["b", "a"]] * 5
    alone, together = alpha_with_interval(one), alpha_with_interval(one * 4, [k % 30 for k in range(120)])
    free = alpha_with_interval(one * 4)
    width = [each.interval.high - each.interval.low for each in (alone, together, free)]
    assert width[1] == pytest.approx(width[0], rel=0.05)
    assert width[2] < 0.6 * width[1]
    found = alpha_with_interval([["a", "a"], ["a", "b"]], ["scene", "scene"])
    assert found.value is not None
    assert (found.interval.low, found.interval.method) == (None, "none: 1 cluster")


@pytest.fixture(scope="module")
def two_skills() -> np.ndarray:
    """Sixty models; the even benchmarks measure one skill, the odd ones another."""
    rng = np.random.default_rng(5)
    skills = rng.normal(size=(60, 2))
    return np.stack([skills[:, k % 2] + 0.3 * rng.normal(size=60) for k in range(6)], axis=1)


def test_correlations_are_scipys_of_ranks_and_unrelated_benchmarks_share_no_dimension(two_skills):
    found = agree(two_skills)
    np.testing.assert_allclose(found.spearman, stats.spearmanr(two_skills).statistic, atol=1e-12)
    assert (found.dimensions, found.shares.sum()) == (2, pytest.approx(1))
    assert found.shares[:2].sum() > 0.85
    assert {k % 2 for k in found.order[:3]} in ({0}, {1})
    assert found.nearest(0) in {2, 4}
    assert found.mean(1) == pytest.approx(np.delete(found.spearman[1], 1).mean())
    tied = np.round(two_skills, 1)
    np.testing.assert_allclose(agree(tied).spearman, stats.spearmanr(tied).statistic, atol=1e-12)
    np.testing.assert_allclose(agree(np.exp(two_skills)).spearman, agree(two_skills).spearman, atol=1e-12)
    found = [agree(np.random.default_rng(seed).normal(size=(80, 5))).dimensions for seed in range(20)]
    assert sum(number > 0 for number in found) <= 4  # 1 in 20 is expected


def test_as_many_items_as_said_rank_drawn_models_that_reliably():
    rng = np.random.default_rng(2)
    skill = rng.uniform(0.3, 0.7, size=4000)
    needed = items_to_tell_apart(rng.binomial(5000, skill) / 5000, 5000)
    few = rng.binomial(round(needed), skill) / round(needed)
    assert np.corrcoef(few, skill)[0, 1] ** 2 == pytest.approx(0.9, abs=0.01)


def _draw(seed: int, n: int = 60, others: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    people = (rng.random(n) < 0.8).astype(float)
    judge = np.where(rng.random(n) < 0.85, people, 1 - people)
    return people, judge, (rng.random(others) < 0.7).astype(float)


def test_the_estimate_is_that_of_ppi_python_and_a_perfect_judge_is_worth_all_items():
    """`ppi_mean_pointestimate` of ppi-python 0.2.3, on the same draws, gives 0.8100004272."""
    powered = prediction_powered(*_draw(7))
    assert powered.mean == pytest.approx(0.8100004272, abs=1e-9)
    assert powered.interval.low < powered.mean < powered.interval.high
    rng = np.random.default_rng(0)
    right = (rng.random(2100) < 0.6).astype(float)
    powered = prediction_powered(right[:100], right[:100], right[100:])
    assert powered.mean == pytest.approx(right.mean(), abs=0.02)
    assert powered.worth > 800
    powered = prediction_powered([1] * 19 + [0], [1] * 18 + [0, 0], [1] * 970 + [0] * 30)  # unbounded, 1.02
    assert powered.mean == powered.interval.high == 1


@given(st.integers(0, 1000))
def test_a_judge_without_information_and_single_items_as_clusters_change_nothing(seed):
    people, _, others = _draw(seed)
    powered = prediction_powered(people, np.zeros_like(people), np.zeros_like(others))
    assert (powered.mean, powered.weight, powered.worth) == (people.mean(), 0, len(people))
    people, judge, others = _draw(seed)
    alone = prediction_powered(people, judge, others)
    named = prediction_powered(people, judge, others, [f"a{k}" for k in range(60)], [f"b{k}" for k in range(400)])
    assert named.mean == alone.mean and named.interval.low == pytest.approx(alone.interval.low)


def test_items_in_clusters_make_the_estimate_wider_also_where_people_judged_a_part():
    people, judge, others = _draw(3, 120, 800)
    groups, rest = np.arange(120) // 4, np.arange(800) // 4
    tied = prediction_powered(np.repeat(people[:30], 4), np.repeat(judge[:30], 4), others, groups, rest)
    loose = prediction_powered(np.repeat(people[:30], 4), np.repeat(judge[:30], 4), others)
    assert tied.interval.high - tied.interval.low > loose.interval.high - loose.interval.low
    powered = prediction_powered([1, 0, 1], [1, 0, 1], [1, 0, 1, 1])
    assert powered.interval.low is None and "3 items" in powered.interval.reason
    rng, held = np.random.default_rng(0), {"shared": 0, "parted": 0}
    for _ in range(400):
        right = (rng.random((60, 4)) < rng.beta(0.7, 0.5, (60, 1))).astype(float)
        judge = np.where(rng.random((60, 4)) < 0.95, right, 1 - right)
        parts = right[:, :2].ravel(), judge[:, :2].ravel(), judge[:, 2:].ravel()
        for name, offset in (("shared", 0), ("parted", 60)):
            groups = np.repeat(np.arange(60), 2)
            interval = prediction_powered(*parts, groups, groups + offset).interval
            held[name] += interval.low <= 0.7 / 1.2 <= interval.high
    assert held["parted"] < 0.92 * 400 < held["shared"]  # 0.89 if they are taken as clusters apart


def test_the_interval_holds_in_all_cells_of_the_simulation():
    record = json.loads((Path(__file__).parents[2] / "bench/records/prediction_powered.json").read_text())
    assert record["draws"] >= 2000 and record["lowest"] >= 0.92
    assert all(cell["shorter"] < 0.75 for cell in record["cells"] if cell["agrees"] == 0.95 and cell["p"] == 0.5)
