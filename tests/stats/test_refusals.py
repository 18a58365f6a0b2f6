"""What no statistic can be made of is refused by each function, with the facts that name it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from facts import raises
from tellapart.errors import DataError, MetricError
from tellapart.stats.agreement import alpha_with_interval, kappa_with_interval, percent_agreement
from tellapart.stats.benchmark_agreement import agree, items_to_tell_apart
from tellapart.stats.bootstrap import cluster_bootstrap
from tellapart.stats.clusters import ClusterTotals, check_level, check_values
from tellapart.stats.held_out import fit_head
from tellapart.stats.intervals import interval_for, wilson
from tellapart.stats.item_analysis import LEAST_SYSTEMS, fit_rasch, item_statistics, try_short_forms
from tellapart.stats.multiple import benjamini_hochberg, holm
from tellapart.stats.paired import anytime_bounds, evidence, mcnemar, paired_difference, paired_permutation, tiers
from tellapart.stats.pareto import pareto_front
from tellapart.stats.power import (
    detectable_above_chance,
    detectable_difference,
    detectable_fall,
    effective_items,
    power_of_difference,
    smallest_seen,
)
from tellapart.stats.prediction_powered import prediction_powered

NAN = float("nan")
FEW, MANY = np.zeros((40, 12)), np.ones((4, 30))
ROWS, LABELS = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]), np.array([0, 0, 1, 1])

#: The call, and the facts of its refusal.
REFUSED: list[tuple[Callable[[], Any], tuple[Any, ...]]] = [
    *(
        (lambda measure=measure, sides=sides: measure(*map(np.array, sides)), (measure.__name__, *facts))
        for measure in (kappa_with_interval, percent_agreement)
        for sides, facts in (
            (([], []), ("(0,)", "(0,)")),
            (([1, 2], [1]), ("(2,)", "(1,)", "label", "pass")),
            ((["1"], [1]), ("strings",)),
            ((["a", None], ["a", "b"]), ("object", "<U1", "labels")),
            (([[1]], [[1]]), ("label", "pass")),
        )
    ),
    (lambda: alpha_with_interval([["a", None], []]).value, ("2", "items", "labels")),
    (lambda: alpha_with_interval([["a", "b"]], ["x", "y"]), ("1", "2", "items")),
    (lambda: alpha_with_interval([["a", "b"]] * 3, level=2), ("(0, 1)", "2")),
    (lambda: anytime_bounds(0, 0, 0), ("0, 0, 0", "one item")),
    (lambda: anytime_bounds(1, 2, 3, level=2), ("2",)),
    (lambda: evidence(-1, 2), ("-1",)),
    (lambda: agree([[1, 2], [2, 1]]), ("(2, 2)", "models")),
    (lambda: agree([[1, 2], [NAN, 1], [2, 3]]), ("model", "1", "benchmark", "0")),
    (lambda: agree([[1, 2], [3, 2], [2, 2]]), ("all", "benchmark", "1")),
    (lambda: items_to_tell_apart([0.5, 1.5], 10), ("shares", "models")),
    (lambda: items_to_tell_apart([0.5, 0.6], 0), ("0", "0.9", "items")),
    *(
        (lambda values=values, clusters=clusters: ClusterTotals.of("test", values, clusters), facts)
        for values, clusters, facts in (
            ([], [], ("(0,)", "shape")),
            ([1.0, np.nan, np.inf], None, ("2", "1", "items", "finite")),
            (["a"], None, ("<U1", "array")),
            ([[[1.0]]], None, ("(item,)", "(item, component)", "(1, 1, 1)")),
            ([1.0, 2.0], ["a"], ("2", "1", "items", "clusters")),
            ([1.0, 2.0], [0.5, 1.5], ("float64", "integer")),
            ([1.0, 2.0], ["a", None], ("object", "integer")),
            ([1.0, 2.0], [["a"], ["b"]], ("(2, 1)", "shape")),
        )
    ),
    (lambda: check_values("test", [1, 0, 0.25], binary=True), ("0", "1", "0.25")),
    *((lambda level=level: check_level("test", level), ("(0, 1)", "level")) for level in (0, 1, 95, -0.1, NAN)),
    (lambda: effective_items([[1, 0], [0, 1]], None), ("metric", "one")),
    (lambda: detectable_fall([1, 0], [1, 0, 1], None), ("(2,)", "(3,)")),
    (lambda: smallest_seen(100, 1.5), ("discordance",)),
    (lambda: detectable_above_chance(0, 0.5), ("detectable_above_chance", "n >= 1", "0")),
    (lambda: detectable_above_chance(9, 1), ("(0, 1)", "1")),
    (lambda: detectable_above_chance(9, 0.5, power=80), ("got 80",)),
    (lambda: detectable_above_chance(9, 0.5, alpha=0), ("got 0",)),
    (lambda: detectable_difference(9, 0), ("(0, 1]", "0")),
    (lambda: detectable_difference(-1, 0.1), ("n >= 1", "-1", "items")),
    (lambda: detectable_difference(9, 0.1, power=1), ("got 1",)),
    (lambda: power_of_difference(0.3, 9, 0.2), ("0.3", "0.2")),
    (lambda: wilson(3, 2), ("0", "n", "n >= 1", "3", "2")),
    (lambda: wilson(0, 0), ("0", "0")),
    (lambda: wilson(1, 2, level=95), ("(0, 1)", "95")),
    (lambda: cluster_bootstrap([1.0, 2.0], ["a", "a"]), ("1", "cluster")),
    (lambda: cluster_bootstrap([[1.0, 2.0]] * 3, None), ("(3, 2)", "shape")),
    (lambda: cluster_bootstrap([1.0, 2.0], None, resamples=0), ("resamples >= 1", "0")),
    (lambda: cluster_bootstrap([1.0, 2.0], None, level=1), ("got 1",)),
    (lambda: cluster_bootstrap([1.0, NAN], None), ("cluster_bootstrap", "1")),
    (lambda: cluster_bootstrap([1.0, 2.0], ["a"]), ("2", "1", "items")),
    (lambda: interval_for([], None, binary=True), ("interval_for",)),
    (lambda: interval_for([0.5, 1], None, binary=True), ("0", "1", "0.5")),
    (lambda: interval_for([[0, 1]] * 3, None, binary=True, reduce=lambda means: means), ("(1, 2)", "interval_for")),
    (lambda: item_statistics([[1, 0, 1]]), ("(1, 3)",)),
    (lambda: item_statistics([[1, 0], [0, 1]]), ("(2, 2)",)),
    (lambda: item_statistics([[1, 0, NAN], [0, 1, 1]]), ("0",)),
    (lambda: item_statistics([[1, 0, 1], [0, 1, 1]], ["a", "b"]), ("3", "2")),
    (lambda: fit_rasch(np.eye(40)[:, :29]), (29, LEAST_SYSTEMS)),
    (lambda: fit_rasch(MANY), ("0 items",)),
    (lambda: try_short_forms(FEW, np.arange(12) % 4, [5]), (10, 4)),
    (lambda: try_short_forms(np.zeros((40, 30)), None, [41]), (41, 40)),
    *(
        (lambda correct=correct, p=p: correct(p), (correct.__name__, *facts))
        for correct in (holm, benjamini_hochberg)
        for p, facts in (
            ([], ("(0,)", "shape")),
            ([[0.1]], ("(1, 1)", "shape")),
            ([0.1, 1.5], ("[0, 1]", "1.5", "1")),
            ([NAN], ("nan", "0")),
        )
    ),
    (lambda: pareto_front([0.1, 0.2]), ("(point, objective)", "(2,)")),
    (lambda: pareto_front([]), ("(0,)", "array")),
    (lambda: pareto_front([[0.1], [0.2, 0.3]]), ("got none",)),
    (lambda: mcnemar([1, 0], [1]), ("(2,)", "(1,)")),
    (lambda: mcnemar([], []), ("got no values", "mcnemar")),
    (lambda: mcnemar([0.5], [1]), ("0", "1", "0.5")),
    (lambda: mcnemar([[1, 0]], [[0, 1]]), ("(item,)", "(1, 2)")),
    (lambda: paired_difference([1], [1, 0], None, binary=True), ("(1,)", "(2,)")),
    (lambda: paired_difference([[1, 0]], [[1, 0]], None, binary=True), ("reduce",)),
    (lambda: paired_difference([0.5], [1], None, binary=True), ("0", "1", "0.5")),
    (lambda: paired_difference([1], [1], None, binary=True, level=2), ("got 2",)),
    (lambda: paired_permutation([1.0], [np.inf], None), ("paired_permutation", "1")),
    (lambda: paired_permutation([[1.0]], [[2.0]], None), ("(item,)", "(1, 1)")),
    (lambda: paired_permutation([1.0], [2.0], ["a", "b"]), ("1", "2", "items")),
    (lambda: paired_permutation([1.0], [2.0], None, resamples=0), ("resamples >= 1", "0")),
    (lambda: prediction_powered([1, 0], [1, 0, 1], [1, 0]), ("prediction_powered", "2 items", "3")),
    (lambda: tiers({}, None), ("models", "tiers")),
    (lambda: tiers({"a": [1, 0], "b": [1]}, None), ("model", "'b'", "(1,)", "'a'", "(2,)")),
    (lambda: tiers({"a": [1, NAN]}, None), ("model", "'a'", "1")),
    (lambda: tiers({"a": [1, 0]}, ["x"]), ("2", "1", "items")),
    (lambda: tiers({"a": [1]}, None, alpha=5), ("(0, 1)", "5")),
    (lambda: fit_head(ROWS[:, 0], LABELS), ("(4,)", "(4,)")),
    (lambda: fit_head(ROWS, LABELS[:3]), ("(entry, dimensions)", "(entry,)")),
    (lambda: fit_head(ROWS * NAN, LABELS), ("finite", "features")),
    (lambda: fit_head(ROWS, np.ones(4, int)), ("[1]", "labels")),
    (lambda: fit_head(ROWS, LABELS, penalty=0.0), ("0", "0")),
    (lambda: fit_head(ROWS, LABELS).probabilities(np.ones((1, 3))), ("2", "3", "encoder")),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_no_statistic_can_be_made_of_is_refused(number):
    call, facts = REFUSED[number]
    with raises((MetricError, DataError), facts):
        call()
