"""Agreement with ratings: equal to scipy, scikit-learn and the authors' tie calibration; laws; influences."""

from collections.abc import Callable
from itertools import combinations
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from facts import raises
from tellapart.errors import MetricError
from tellapart.metrics.ratings import (
    Agreement,
    agreement_with_people,
    kendall_tau_b,
    movement,
    pairwise_accuracy,
    pearson_r,
    places,
    preference_accuracy,
    roc_auc,
    spearman_rho,
)

# Imported when tests are collected: it changes the environment.
metrics = pytest.importorskip("sklearn.metrics")

Numbers = NDArray[np.float64]

RNG = np.random.default_rng(36)
CORRELATIONS: list[tuple[Callable[..., Numbers], Callable[[Numbers, Numbers], float]]] = [
    (kendall_tau_b, lambda x, y: float(stats.kendalltau(x, y).statistic)),
    (spearman_rho, lambda x, y: float(stats.spearmanr(x, y).statistic)),
    (pearson_r, lambda x, y: float(np.corrcoef(x, y)[0, 1])),
]
CALLS = [kendall_tau_b, spearman_rho, pearson_r, pairwise_accuracy]

#: Scores whose multiples by powers of two and sums are exact in float32, and ratings with ties.
PAIRS = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 4)), min_size=2, max_size=9)


def scored(n: int, levels: int) -> tuple[Numbers, Numbers]:
    ratings = RNG.integers(1, 6, n) + RNG.integers(0, 2, n) / 2
    return np.round(ratings + RNG.normal(size=n) * 2, 1 if levels else 6).astype("f4").astype(float), ratings


def calibrated(scores: Numbers, ratings: Numbers) -> tuple[float, float, Numbers]:
    """Deutsch et al.'s procedure as they state it: every pair, every threshold; and the share of each image's pairs."""
    pairs = list(combinations(range(len(scores)), 2))

    def right(i: int, j: int, epsilon: float) -> bool:
        tied = abs(scores[i] - scores[j]) <= epsilon
        if ratings[i] == ratings[j]:
            return tied
        return not tied and (scores[i] > scores[j]) == (ratings[i] > ratings[j])

    best, least = -1.0, 0.0
    for epsilon in sorted({0.0, *(abs(scores[i] - scores[j]) for i, j in pairs)}):
        share = sum(right(i, j, epsilon) for i, j in pairs) / len(pairs)
        if share > best:
            best, least = share, epsilon
    own = [np.mean([right(i, j, least) for j in range(len(scores)) if j != i]) for i in range(len(scores))]
    return best, least, np.array(own)


@pytest.mark.parametrize(("n", "levels"), [(3, 1), (40, 1), (300, 0), (600, 1)])
@pytest.mark.parametrize(("ours", "theirs"), CORRELATIONS)
def test_the_mean_over_images_is_scipys_number(ours, theirs, n, levels):
    scores, ratings = scored(n, levels)
    assert ours(scores, ratings).mean() == pytest.approx(theirs(scores, ratings), abs=1e-12)


@pytest.mark.parametrize(("ours", "theirs"), CORRELATIONS)
def test_an_images_value_is_its_influence(ours, theirs):
    # So many copies of all images, and one more of the image: what it moves is a derivative.
    scores, ratings = scored(12, 1)
    copies = 400
    many, rated = np.tile(scores, copies), np.tile(ratings, copies)
    before, size = theirs(many, rated), len(many)
    moved = [
        (theirs(np.append(many, x), np.append(rated, y)) - before) * (size + 1)
        for x, y in zip(scores, ratings, strict=True)
    ]
    assert ours(scores, ratings) - before == pytest.approx(np.array(moved), abs=5e-3)


@given(PAIRS)
def test_pairwise_accuracy_is_that_of_the_authors_procedure(pairs):
    scores, ratings = (np.array(side, float) for side in zip(*pairs, strict=True))
    best, epsilon, own = calibrated(scores, ratings)
    found = pairwise_accuracy(scores, ratings)
    assert (found.values.mean(), found.epsilon) == (pytest.approx(best, abs=1e-12), epsilon)
    assert found.values == pytest.approx(2 * own - best, abs=1e-12)
    tied = [ratings[i] == ratings[j] for i, j in combinations(range(len(ratings)), 2)]
    assert found.tied == pytest.approx(np.mean(tied), abs=1e-12)
    assert found.values.mean() >= found.tied - 1e-12  # all pairs tied is one of the thresholds


@pytest.mark.parametrize("n", [257, 520])
def test_blocks_change_nothing(n):
    scores, ratings = scored(n, 1)
    ratings = np.where(np.arange(n) < n - 3, 2.0, ratings)  # one rating of more images than a block holds
    found, halves = pairwise_accuracy(scores, ratings), kendall_tau_b(scores, ratings)
    apart = np.abs(scores[:, None] - scores)
    same = ratings[:, None] == ratings
    agrees = np.sign(scores[:, None] - scores) * np.sign(ratings[:, None] - ratings)
    right = np.where(same, apart <= found.epsilon, (agrees > 0) & (apart > found.epsilon))
    share = (right.sum(axis=1) - 1) / (n - 1)
    assert found.values == pytest.approx(2 * share - share.mean(), abs=1e-12)
    assert halves.mean() == pytest.approx(stats.kendalltau(scores, ratings).statistic, abs=1e-12)


@given(PAIRS)
def test_ranks_alone_decide_and_a_reversal_turns_the_sign(pairs):
    scores, ratings = (np.array(side, float) for side in zip(*pairs, strict=True))
    for call in (kendall_tau_b, spearman_rho):
        values = call(scores, ratings)
        assert call(scores**3, ratings) == pytest.approx(values, abs=1e-12)
        assert call(scores, ratings * 2 - 7) == pytest.approx(values, abs=1e-12)
    for call in (kendall_tau_b, spearman_rho, pearson_r):
        values = call(scores, ratings)
        assert call(-scores, ratings) == pytest.approx(-values, abs=1e-12)
        assert call(ratings, scores) == pytest.approx(values, abs=1e-12)
        assert call(4 * scores, ratings) == pytest.approx(values, abs=1e-12)
    doubled = pairwise_accuracy(2 * scores, ratings)
    assert doubled.epsilon == 2 * pairwise_accuracy(scores, ratings).epsilon
    assert doubled.values == pytest.approx(pairwise_accuracy(scores, ratings).values, abs=1e-12)


def test_a_constant_score_agrees_with_nobody_and_a_preference_without_ties_has_no_epsilon():
    ratings = np.array([1.0, 1.0, 2.0, 3.0])
    for call in (kendall_tau_b, spearman_rho, pearson_r):
        assert not call(np.full(4, 0.7), ratings).any()
        assert not call(ratings, np.full(4, 0.7)).any()
    found = pairwise_accuracy(np.full(4, 0.7), ratings)
    assert (found.values.mean(), found.epsilon) == (pytest.approx(1 / 6), 0.0)
    labels = roc_auc(np.full(4, 0.7), [0, 1, 1, 0])
    assert (labels.strict.mean(), labels.neutral.mean(), labels.touched.all()) == (0.0, 0.5, True)
    assert roc_auc([0.9, 0.1, 0.5], [1, 1, 0]).strict.tolist() == [1.25, -0.25, 0.5]
    assert preference_accuracy([0.5, 0.4], [1, -1]).epsilon == 0


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=20))
def test_the_area_is_scikit_learns_and_its_spread_delongs(pairs):
    scores, labels = np.array([x for x, _ in pairs], float), np.array([y for _, y in pairs])
    if labels.all() or not labels.any():
        return
    found, true, false = roc_auc(scores, labels), scores[labels], scores[~labels]
    area = metrics.roc_auc_score(labels, scores)
    assert found.neutral.mean() == pytest.approx(area, abs=1e-12)
    assert found.strict.mean() == pytest.approx((true[:, None] > false).mean(), abs=1e-12)
    mirrored = roc_auc(-scores, labels)
    assert mirrored.neutral == pytest.approx(1 - found.neutral, abs=1e-12)
    assert found.touched.tolist() == [x in (false if y else true) for x, y in zip(scores, labels, strict=True)]
    wins = (true[:, None] > false) + (true[:, None] == false) / 2
    delong = wins.mean(axis=1).var() / len(true) + wins.mean(axis=0).var() / len(false)
    assert found.neutral.var() / len(scores) == pytest.approx(delong, abs=1e-12)


def test_scores_are_compared_in_float32():
    assert not kendall_tau_b([1.0, 1.0 + 1e-9], [1, 2]).any()
    assert roc_auc([1.0, 1.0 + 1e-9], [0, 1]).touched.all()
    assert places([0.5, 0.5 + 1e-12]).tolist() == [1.5, 1.5]
    apart = float(np.float32(1.0000001)) - 1.0
    assert pairwise_accuracy([1.0, 1.0000001, 9.0], [1, 1, 2]).epsilon == apart


@pytest.mark.parametrize("call", [*CALLS, roc_auc])
@pytest.mark.parametrize(
    ("scores", "ratings", "facts"),
    [
        ([0.1], [1.0], ("two", "(1,)")),
        ([0.1, 0.2], [1.0], ("(2,)", "(1,)")),
        ([[0.1, 0.2]], [[1.0, 0.0]], ("(1, 2)",)),
        ([0.1, np.nan], [1.0, 0.0], ("scores", "images: 1")),
        ([0.1, 1e39], [1.0, 0.0], ("scores", "images: 1")),
        ([0.1, 0.2], [np.inf, 0.0], ("ratings", "images: 0")),
    ],
)
def test_numbers_that_fit_nothing_are_refused(call, scores, ratings, facts):
    with raises(MetricError, call.__name__, *facts):
        call(scores, ratings)


@pytest.mark.parametrize("labels", [[1, 1, 1], [0, 0, 0], [0, 1, 2], [0.5, 1, 0]])
def test_labels_are_0_and_1_and_both(labels):
    with raises(MetricError, "roc_auc", "0 and 1"):
        roc_auc([0.1, 0.2, 0.3], labels)


TIED = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=2, max_size=12)


@settings(deadline=None)  # the first use imports scipy
@given(TIED)
def test_kendall_is_the_count_of_pairs_in_the_same_order(pairs):
    scores, people = zip(*pairs, strict=True)
    found = agreement_with_people(scores, people)
    if len(set(scores)) == 1 or len(set(people)) == 1:
        assert found == Agreement(None, None)
        return
    sign = [(np.sign(b - a), np.sign(d - c)) for (a, d), (b, c) in combinations(pairs, 2)]  # people count downwards
    total = sum(s * p for s, p in sign)
    expected = total / sqrt(sum(s != 0 for s, _ in sign) * sum(p != 0 for _, p in sign))
    assert found.kendall == pytest.approx(expected, abs=1e-12)
    centred = [ranks - np.mean(ranks) for ranks in (places(scores), places([-p for p in people]))]
    rho = centred[0] @ centred[1] / sqrt((centred[0] @ centred[0]) * (centred[1] @ centred[1]))
    assert found.spearman == pytest.approx(rho, abs=1e-12)


@given(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=25, unique=True))
def test_an_edit_that_is_ignored_moves_nothing_and_a_reversal_moves_the_most(scores):
    values = np.array(scores)
    still, turned = movement(values, values * 2), movement(values, -values)
    assert (still.mean_shift, still.share_of_largest) == (0, 0)
    assert still.agreement.kendall == pytest.approx(1)
    assert (turned.share_of_largest, turned.agreement.kendall) == (1, pytest.approx(-1))


@given(TIED)
def test_no_movement_is_larger_than_the_largest(pairs):
    before, after = zip(*pairs, strict=True)
    there, back = movement(before, after), movement(after, before)
    assert 0 <= there.share_of_largest <= 1
    assert there.mean_shift == back.mean_shift
    assert places(before).sum() == len(before) * (len(before) + 1) / 2
