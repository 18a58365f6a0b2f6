"""Accuracy of answers: each alone, and of groups that are right if all their rows are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import join_names
from tellapart.errors import MetricError, quote

_LABELS = {"True": True, "False": False}


def exact_match(predictions: Sequence[str], answers: Sequence[str]) -> NDArray[np.float64]:
    """Return 1 if prediction and gold answer are the same string, blanks at the ends aside: float64 `(question,)`.

    Nothing else is normalised: `Yes` is not `yes`, `two` is not `2`. That is how VLUE measures its out-of-domain
    questions, whose gold answers are in lower case with numbers as digits.

    Raises:
        MetricError: not one prediction a question, or no question.

    Source: VLUE `xvlm/VQA.py` (`calculate_acc`).

    >>> exact_match(["yes ", "Yes"], ["yes", "yes"])
    array([1., 0.])
    """
    _same_length("exact_match", predictions, answers)
    return np.array(
        [prediction.strip() == gold.strip() for prediction, gold in zip(predictions, answers, strict=True)], np.float64
    )


def label_accuracy(predictions: Sequence[bool | str], labels: Sequence[bool | str]) -> NDArray[np.float64]:
    """Return 1 if a statement is judged as labelled: float64 `(statement,)`. Chance 1/2.

    NLVR2's labels are the strings "True" and "False", both of which Python takes as true; here they are read, and
    anything else but a bool is refused. For two scores a statement, measure `choice_score` on 1x2 items with the right
    label's score first: it knows ties.

    Source: NLVR2 (Suhr et al. 2019); VLUE section 3.1.

    >>> label_accuracy(["True", "False", True], ["True", "True", "True"])
    array([1., 0., 1.])
    """
    _same_length("label_accuracy", predictions, labels)
    predicted, gold = _read_labels("prediction", predictions), _read_labels("label", labels)
    return np.asarray(predicted == gold, dtype=np.float64)


def group_accuracy(correct: ArrayLike, groups: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Return 1 for each group all of whose rows are right: float64 `(group,)`.

    With the rows of one sentence it is NLVR2's consistency; with the two images of one question whose answers
    differ it is the group score of a pair, which a model that ignores the image cannot win.

    `correct`: 0 or 1 a row.

    Source: NLVR2 (Suhr et al. 2019), section 4, consistency.

    >>> group_accuracy([1, 1, 0], [[0, 1], [1, 2]])
    array([1., 0.])
    """
    outcomes: NDArray[Any] = np.asarray(correct)
    if outcomes.ndim != 1 or outcomes.dtype.kind not in "biuf" or not np.isin(outcomes, (0, 1)).all():
        raise MetricError(f"group_accuracy needs 0 or 1 a row; got an array of {outcomes.dtype} {outcomes.shape}")
    if not groups or not all(groups):
        raise MetricError(f"group_accuracy: got {len(groups)} groups; pass one or more, each with one row or more")
    outside = sorted({row for group in groups for row in group if not 0 <= row < len(outcomes)})
    if outside:
        raise MetricError(
            f"group_accuracy: rows {join_names([str(row) for row in outside])} are not among the {len(outcomes)} "
            "outcomes"
        )
    return np.array([outcomes[list(group)].all() for group in groups], np.float64)


def _read_labels(noun: str, values: Sequence[bool | str]) -> NDArray[np.bool_]:
    wrong = [row for row, value in enumerate(values) if not isinstance(value, bool | np.bool_) and value not in _LABELS]
    if wrong:
        raise MetricError(
            f"label_accuracy: {noun} {wrong[0]} is {quote(values[wrong[0]])}; {len(wrong)} are neither 'True' nor "
            "'False'"
        )
    return np.array([_LABELS[value] if isinstance(value, str) else bool(value) for value in values], np.bool_)


def _same_length(call: str, predictions: Sequence[Any], gold: Sequence[Any]) -> None:
    if len(predictions) != len(gold) or len(gold) == 0:
        raise MetricError(f"{call}: {len(predictions)} predictions for {len(gold)} gold answers; give one for each")
