"""What cannot be measured is refused by each function, with the facts that name it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from facts import raises
from tellapart.errors import MetricError, ScoreError
from tellapart.metrics.answers import exact_match, group_accuracy, label_accuracy, soft_accuracy
from tellapart.metrics.boxes import box_accuracy, from_centres, intersection_over_union
from tellapart.metrics.captions import bleu, bleu_statistics, caption_scores, cider, rouge_l
from tellapart.metrics.choice import choice_score
from tellapart.metrics.classification import rank_labels
from tellapart.metrics.equivariance import histogram, summary
from tellapart.metrics.matching import contrasts, match_score
from tellapart.metrics.moments import (
    boundary_accuracy,
    boundary_f1,
    boundary_scores,
    boundary_times,
    frame_times,
    random_accuracy,
)
from tellapart.metrics.order_bias import order_bias
from tellapart.metrics.per_item import mean
from tellapart.metrics.ratings import agreement_with_people, movement, places
from tellapart.metrics.registry import METRICS
from tellapart.metrics.retrieval import Ranks, cosines, embeddings_both_ways, scores_both_ways, unavoidable_misses
from tellapart.metrics.ties import tie_neutral_by_enumeration

INF, NAN = float("inf"), float("nan")
BOX, BOXES = [[0, 0, 1, 1]], "boxes"
PAIR = [[[0.9, 0.1], [0.2, 0.8]]]
TEXT, GROUP, CHOICE = (METRICS[name] for name in ("text_score", "group_score", "choice_score"))
RANKS = Ranks(np.array([0]), np.array([0]), np.array([1]))
TWO = [(0, 0), (1, 1)]
FIVE = np.zeros((1, 1, 5))
TEN = ["yes"] * 10

#: The function, its arguments, and the facts of the refusal.
REFUSED: list[tuple[type[Exception], Callable[..., Any], tuple[Any, ...], tuple[str, ...]]] = [
    (MetricError, TEXT.check, (FIVE, "logit"), ("text_score", "(item, image, text)", "2x2", "(1, 1, 5)")),
    (MetricError, CHOICE.per_item, (np.zeros((3, 2, 2)),), ("choice_score", "1xm", "nx1", "(3, 2, 2)", "defined_for")),
    (MetricError, GROUP.tie_neutral, (PAIR[0],), ("(2, 2)", "shape")),
    (MetricError, TEXT.check, (PAIR, "cosine"), ("'cosine'", "similarity")),
    (ScoreError, TEXT.check, ([[[1e39, 0.1], [0.2, 0.8]]], "logit", ["big"]), ("1", "1", "big")),
    (ScoreError, TEXT.check, (np.zeros((0, 2, 2)), "similarity"), ("text_score", "items")),
    (ScoreError, TEXT.check, (PAIR, "similarity", ["a", "b"]), ("2", "1", "id")),
    (ScoreError, CHOICE.per_item, ([[[0.9, 0.1]], [[0.9, 0.1, 0.2]]],), ("rectangular", "array")),
    (ScoreError, CHOICE.per_item, ([[["high", "low"]]],), ("<U4", "array")),
    (MetricError, GROUP.chance, ((1, 2),), ("group_score", "1x2", "2x2")),
    (MetricError, GROUP.chance, ((1, 5),), ("group_score", "1x5 items:", "2x2")),
    (MetricError, GROUP.chance, ((1, 5), 2), ("group_score", "1x5 items with 2 true texts:", "2x2")),
    (MetricError, METRICS["itt"].chance, ((1, 3),), ("1x3", "1xm", "chance")),
    (MetricError, CHOICE.chance, ((1, 3), 2), ("choice_score", "1x3", "2")),
    (MetricError, tie_neutral_by_enumeration, (choice_score, np.zeros((1, 1, 7))), ("6", "1x7", "metric")),
    (MetricError, exact_match, (["a"], ["a", "b"]), ("exact_match", "1", "2")),
    (MetricError, label_accuracy, ([], []), ("label_accuracy", "0", "0")),
    (MetricError, group_accuracy, ([1, 0], [[0, 5]]), ("5", "2", "rows")),
    (MetricError, group_accuracy, ([1, 0], [[0, 2], [-1, 1]]), ("-1", "2", "2")),
    (MetricError, group_accuracy, ([1, 0], [[0], []]), ("2", "groups", "row")),
    (MetricError, group_accuracy, ([0.5, 1], [[0]]), ("0", "1", "row")),
    (MetricError, group_accuracy, (["1"], [[0]]), ("0", "1", "row")),
    (MetricError, soft_accuracy, (["yes"], [TEN] * 2), ("1", "2", "questions")),
    (MetricError, soft_accuracy, ([], []), ("0", "0", "questions")),
    (MetricError, soft_accuracy, (["yes"], [["yes"]]), ("0", "exact_match")),
    (MetricError, soft_accuracy, (["yes"], ["yes"]), ("0", "'yes'")),
    (MetricError, soft_accuracy, (["yes"], [TEN], "blip"), ("'blip'",)),
    (MetricError, intersection_over_union, (BOX * 2, [[0, 0, 1, 1], [0, 0, 0, 1]]), ("1", "1", "gold")),
    (ScoreError, intersection_over_union, (BOX, BOX * 2), ("1", "2", BOXES)),
    (ScoreError, intersection_over_union, ([[0, 0, 1]], BOX), ("(box, 4)", BOXES)),
    (ScoreError, intersection_over_union, (BOX, [[0, 0, 1], [0, 0, 1, 1]]), ("gold", BOXES)),
    (ScoreError, intersection_over_union, ([[0, NAN, 1, 1]], BOX), ("1", "0", BOXES)),
    (MetricError, intersection_over_union, (BOX, BOX, "giou"), ("'giou'",)),
    (MetricError, box_accuracy, (BOX, BOX, 0), ("(0, 1]", "0")),
    (ScoreError, from_centres, ([[0.25, 0.5, 0.5, 0.2]], [[640]]), ("(box, 2)", "width")),
    (ScoreError, from_centres, ([[0.25, 0.5, 0.5, 0.2]], [[640, NAN]]), ("(box, 2)", "width")),
    (MetricError, cider, ({"1": "a dog"}, {"1": ["a dog"]}), ("CIDEr", "0", "log(1)", "0")),
    (MetricError, rouge_l, ({"a": "x", "b": "y"}, {"a": ["x"], "b": []}), ("1", "b", "images", "caption")),
    (MetricError, rouge_l, ({"a": "x", "b": "y"}, {"a": ["x"], "b": "a dog"}), ("1", "b", "images", "caption")),
    (MetricError, rouge_l, ({}, {}), ("rouge_l", "captions")),
    *((MetricError, bleu, (np.zeros(shape),), ("10", "bleu_statistics")) for shape in ((), (3,), (10, 4))),
    *(
        (MetricError, metric, sides, facts)
        for metric in (bleu_statistics, rouge_l, cider, caption_scores)
        for sides, facts in (
            (({"a": "x", "b": "y"}, {"a": ["x"]}), ("1", "b", "images")),
            (({"a": "x"}, {"a": ["x"], **{str(k): ["y"] for k in range(11)}}), ("11", "0", "1", "1")),
            (({}, {"a": ["x"]}), ("1", "a", "images", "hypotheses")),
            (({"a": "x"}, {}), ("1", "a", "images", "references")),
        )
    ),
    (ScoreError, rank_labels, ([[0.1, 0.2]], [0, 1]), ("(picture, class)", "2", "float64", "(1, 2)")),
    (ScoreError, rank_labels, ([["a", "b"]], [0]), ("scores", "numbers")),
    (ScoreError, rank_labels, (np.zeros((0, 2)), np.zeros(0, int)), ("scores", "numbers")),
    (ScoreError, rank_labels, ([[0.1, 0.2]], [2]), ("0", "1", "2", "2")),
    (ScoreError, rank_labels, ([[0.1, 0.2]] * 2, [0, 2]), ("0", "1", "0", "2")),
    (ScoreError, rank_labels, ([[0.1, 0.2]] * 2, [-1, 1]), ("-1", "1")),
    (ScoreError, rank_labels, ([[0.1, 0.2]], [0.0]), ("labels", "integers")),
    (ScoreError, rank_labels, ([[0.1, NAN]], [0]), ("NaN", "1 of 1", "pictures: 0")),
    (ScoreError, rank_labels, ([[0.1, 1e300]], [0]), ("scores", "finite")),
    (ScoreError, rank_labels, ([[NAN, 0.1], [0.2, 0.1], [INF, 0.1]], [0, 1, 0]), ("2 of 3", "pictures: 0, 2")),
    (MetricError, summary, ([],), ("(0,)", "0")),
    (MetricError, histogram, ([0.0, NAN],), ("histogram", "1 of 2", "items: 1")),
    (MetricError, histogram, ([0.0], 10), ("got 10", "number")),
    (MetricError, histogram, ([1.0], 41, 0.0), ("0.0", "finite")),
    (MetricError, histogram, ([1.0], 41, INF), ("1e-300", "1e300", "inf")),
    (MetricError, histogram, ([5e-324],), ("got 5e-324",)),
    (MetricError, match_score, ([[[0.9, 0.1]]],), ("match_score", "(1, 1, 2)", "2x2")),
    (MetricError, match_score, (np.zeros((1, 7, 7)),), ("match_score", "(1, 7, 7)", "6x6")),
    (MetricError, contrasts, (np.zeros((1, 3, 3)),), ("contrasts", "(1, 3, 3)")),
    (ScoreError, match_score, ([[[NAN, 0.1], [0.1, 0.2]]],), ("match_score", "0")),
    *((MetricError, frame_times, sides, ("frames", "fewer")) for sides in ((0.2,), (NAN,), (10.0, INF), (10.0, 0.0))),
    (ScoreError, boundary_scores, ([1.0, 2.0], [1.0]), ("similarity", "frames", "captions")),
    (ScoreError, boundary_scores, ([1.0, 2.0, 3.0], [1.0, 2.0, NAN]), ("1", "1", "scores")),
    *((MetricError, boundary_times, (times,), ("rising", "times")) for times in ([0.0, 0.0], [0.0, 1.0, 0.5])),
    (ScoreError, boundary_accuracy, ([1.0], [NAN], [1.0]), ("0", "finite")),
    (ScoreError, boundary_accuracy, ([1.0, 2.0], [0.5], [1.0]), ("finite", "time")),
    (ScoreError, boundary_accuracy, ([1.0, NAN], [0.5, 0.5], [1.0]), ("finite", "time")),
    (ScoreError, boundary_accuracy, ([], [], [1.0]), ("moments", "candidate")),
    *((MetricError, boundary_accuracy, ([1.0], [0.5], gold), ("finite", "gold")) for gold in ([], [1.0, NAN])),
    *((MetricError, boundary_accuracy, ([1.0], [0.5], [1.0], of), ("0", "seconds")) for of in ((0.0,), (1.0, -1.0))),
    (MetricError, boundary_f1, ([1.0], [0.5], [1.0], (0.1,), 0), ("got 0", "moment")),
    (MetricError, random_accuracy, ([2.0], 1.0), ("1.0", "video")),
    (MetricError, random_accuracy, ([0.5, 2.0], 1.0), ("1.0", "video")),
    (MetricError, random_accuracy, ([-1.0, 0.5], 1.0), ("1.0", "video")),
    (MetricError, random_accuracy, ([0.0], 0.0), ("0.0", "video")),
    (MetricError, random_accuracy, ([0.5], INF), ("inf", "video")),
    *(
        (MetricError, order_bias, (bad, [1]), ("answer", "item"))
        for bad in ([2], [1, 2], [0.5], [True], ["1"], [], [[1]], [NAN])
    ),
    (MetricError, order_bias, ([1, 1], [1]), ("2", "1", "answers")),
    (MetricError, mean, ([],), ("(0,)", "shape")),
    (MetricError, mean, ([[[1.0]]],), ("(1, 1, 1)", "shape")),
    (MetricError, agreement_with_people, ([0.1, 0.2], [1, 2, 3]), ("2", "3", "scores")),
    (MetricError, movement, ([0.1, 0.2, 0.3], [0.1, 0.2]), ("3", "2", "scores", "edit")),
    (MetricError, places, ([0.1],), ("candidates", "two")),
    (MetricError, places, ([0.1, NAN],), ("candidates: 1",)),
    (ScoreError, cosines, ([[1.0, 0.0]], [[1.0]]), ("(1, 2)", "(1, 1)")),
    (ScoreError, cosines, ([1.0], [[1.0]]), ("(1,)", "(1, 1)")),
    (ScoreError, cosines, ([[1.0], [0.0]], [[1.0]]), ("1", "vectors", "finite")),
    (ScoreError, cosines, ([[1.0]], [[NAN], [1.0], [INF]]), ("0", "2", "vectors")),
    (ScoreError, cosines, ([[1.0]], [[1.0], [INF]]), ("1 ", "rows 1;")),
    *((ScoreError, scores_both_ways, ([[0, 0], [bad, 0]], TWO), ("1", "2", "1")) for bad in (NAN, INF, -INF)),
    (ScoreError, scores_both_ways, ([0.1, 0.2], [(0, 0)]), ("(image, caption)", "float64", "(2,)")),
    (ScoreError, scores_both_ways, ([[0.1], [0.2, 0.3]], [(0, 0)]), ("rectangular", "array")),
    (ScoreError, scores_both_ways, ([["a"]], [(0, 0)]), ("<U1", "array")),
    (MetricError, scores_both_ways, (np.eye(2), [(0, 0), (1, 2)]), ("1", "2", "2")),
    (MetricError, scores_both_ways, (np.eye(2), [(0, 0), (-1, 1)]), ("1", "-1", "pair")),
    (MetricError, scores_both_ways, (np.eye(2), [(0, 0), (0, 1)]), ("1", "2", "1", "images")),
    (MetricError, scores_both_ways, (np.eye(2), [(0, 0), (1, 0)]), ("1", "2", "1", "captions")),
    (MetricError, scores_both_ways, (np.eye(2), [*TWO, (0, 0)]), ("0", "0", "image")),
    (MetricError, scores_both_ways, (np.eye(2), [(0, 0), (0, 1), (0, 0), (1, 1)]), ("0", "0", "image")),
    (MetricError, scores_both_ways, (np.eye(2), []), ("pairs", "true")),
    (MetricError, scores_both_ways, (np.eye(2), [(0.0, 0.0), (1.0, 1.0)]), ("pairs", "true")),
    (ScoreError, embeddings_both_ways, ([[1, 0], [0, 0]], np.eye(2), TWO), ("1", "1", "images")),
    (ScoreError, embeddings_both_ways, (np.eye(2), [[NAN, 0], [0, 1]], TWO), ("0", "captions", "finite")),
    (ScoreError, embeddings_both_ways, (np.eye(2), np.eye(3), TWO), ("2", "3", "images")),
    (MetricError, RANKS.recall, (0,), ("1", "0")),
    (MetricError, RANKS.tie_neutral_recall, (-2,), ("1", "-2")),
    (MetricError, unavoidable_misses, (["a"], ["x"], [(0, 0)], 0), ("k", "1", "0")),
    (MetricError, unavoidable_misses, (["a"], ["x"], [(0, 1)]), ("1", "1", "images")),
    (MetricError, unavoidable_misses, (["a", "b"], ["x"], [(0, 0), (2, 0)]), ("2", "1", "images")),
    (MetricError, unavoidable_misses, (["a"], ["x"], [(0, 0), (0, 1)]), ("1", "1", "images")),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_measured_is_refused(number):
    error, call, arguments, facts = REFUSED[number]
    with raises(error, facts):
        call(*arguments)
