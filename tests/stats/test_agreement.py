"""Agreement: kappa against scikit-learn, alpha by its published examples and definition; intervals that cover."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from facts import raises
from tellapart.errors import MetricError
from tellapart.stats.agreement import alpha_with_interval, kappa_with_interval, percent_agreement

labelled = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=50)


@given(labelled)
def test_kappa_equals_scikit_learn(rows):
    first, second = (list(column) for column in zip(*rows, strict=True))
    assume(len({*first, *second}) > 1)
    assert kappa_with_interval(first, second).value == pytest.approx(cohen_kappa_score(first, second))
    words = [["bad", "fair", "good", "odd"][code] for code in first], [f"{code}" for code in second]
    assert kappa_with_interval(*words).value == pytest.approx(cohen_kappa_score(*words))


@given(labelled)
def test_agreement_is_symmetric_and_full_with_oneself(rows):
    first, second = (list(column) for column in zip(*rows, strict=True))
    assert percent_agreement(first, second) == percent_agreement(second, first)
    assert kappa_with_interval(first, second).value == kappa_with_interval(second, first).value
    assert percent_agreement(first, first) == 1
    assert kappa_with_interval(first, first).value == (1 if len(set(first)) > 1 else None)


@pytest.mark.parametrize(("people", "least"), [(2, -1.0), (3, -0.5), (5, -0.25)])
def test_alpha_does_not_reach_below_the_least_that_so_many_people_can_have(people, least):
    # One of 30 items with two labels: expected disagreement is so small that the bound was -6.30 of two people.
    found = alpha_with_interval([["a"] * people] * 29 + [["a"] * (people - 1) + ["b"]])
    assert (found.interval.low, found.interval.high) == (least, pytest.approx(1.0, abs=1e-4))


def test_kappa_does_not_reach_below_minus_one():
    first, second = ["a"] * 28 + ["a", "b"], ["a"] * 28 + ["b", "a"]
    assert kappa_with_interval(first, second).interval.low == -1.0


@given(
    st.integers(2, 4).flatmap(
        lambda people: st.lists(st.lists(st.sampled_from("abc"), min_size=people, max_size=4), min_size=10, max_size=30)
    )
)
def test_alpha_lies_in_its_interval(rows):
    found = alpha_with_interval(rows)
    assume(found.value is not None and found.interval.low is not None)
    assert -1 <= found.interval.low <= found.value <= found.interval.high <= 1


def test_percent_agreement_by_hand():
    assert percent_agreement(["a", "b", "c"], ["a", "c", "c"]) == pytest.approx(2 / 3)


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


@given(labels, st.randoms(use_true_random=False))
def test_alpha_depends_on_no_order_and_on_no_name(table, random):
    table = [*table, ["a", "b", "a"]]
    mixed = [random.sample(row, len(row)) for row in random.sample(table, len(table))]
    renamed = [[label and {"a": "z", "b": "y", "c": "x"}[label] for label in row] for row in mixed]
    assert alpha_with_interval(renamed).value == pytest.approx(alpha_with_interval(table).value)


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
    agreed = 0.8**2 + 0.2**2
    wanted = 2 * agreed - 1
    hits = {"kappa": 0, "alpha": 0}
    for a, b in zip(*said, strict=True):
        first, second = (["no" if label else "yes" for label in labels] for labels in (a, b))
        for name, found in (
            ("kappa", kappa_with_interval(first, second)),
            ("alpha", alpha_with_interval(list(zip(first, second, strict=True)))),
        ):
            hits[name] += found.interval.low <= wanted <= found.interval.high
    assert min(hits.values()) >= 0.92 * 120, hits


def test_items_of_a_cluster_are_drawn_together_and_widen_the_interval():
    one = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "b"], ["a", "a"], ["b", "a"]] * 5
    alone, together = alpha_with_interval(one), alpha_with_interval(one * 4, [k % 30 for k in range(120)])
    free = alpha_with_interval(one * 4)
    width = [each.interval.high - each.interval.low for each in (alone, together, free)]
    assert width[1] == pytest.approx(width[0], rel=0.05)
    assert width[2] < 0.6 * width[1]


def test_one_cluster_gives_a_value_and_no_interval():
    found = alpha_with_interval([["a", "a"], ["a", "b"]], ["scene", "scene"])
    assert found.value is not None
    assert (found.interval.low, found.interval.method) == (None, "none: 1 cluster")
