"""Texts alone: are two captions that mean the same closer to each other than to the false one?

Of a set whose items have two true texts and a false one. The rule of SugarCrepe++'s authors (`tot`, in 17 of their 19
scripts, and READ's) compares from both sides: the similarity of the two true texts beats that of the first with the
false one and that of the second with it. The words of their README (`tot_one_sided`) compare from the first alone. A
tie is never right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.metrics.metric import Metric, read_scores
from tellapart.models.protocols import DualEncoder
from tellapart.models.scoring.compute import embeddings
from tellapart.models.scoring.deferred import Deferred
from tellapart.models.scoring.score import Scored
from tellapart.tasks.task import OF_SCORES, Session, Task, Unit, Units, value_of
from tellapart.tasks.vectors import read_scored

#: The texts of each score: the two true ones, then each of them with the false one.
_PAIRS = ((0, 1), (0, 2), (1, 2))


def tot(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if the two true texts are closer to each other than either to the false one: float64 (item,).

    Chance 1/3: of three scores the first must be the highest.

    Args:
        scores: `(item, 1, 3)`: both true texts, the first and the false one, the second and the false one.

    Raises:
        MetricError: the items are not 1x3.
        ScoreError: no item, or a score that is not finite.

    Source: SugarCrepe++ (Dumpala et al. 2024), `correct_text` of its VLMs/test_*.py; READ-CLIP (NeurIPS 2025) has it,
    too.

    >>> tot([[[0.9, 0.1, 0.8]], [[0.9, 0.1, 0.9]]])
    array([1., 0.])
    """
    s = read_scores(scores, "tot", ("1x3",))[:, 0]
    return np.asarray(s[:, 0] > s[:, 1:].max(axis=1), dtype=np.float64)


def tot_one_sided(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if the first true text is closer to the second than to the false one: float64 (item,). Chance 1/2.

    Raises:
        MetricError, ScoreError: as `tot`.

    Source: SugarCrepe++ (Dumpala et al. 2024), the words of its README.

    >>> tot_one_sided([[[0.9, 0.1, 0.95]], [[0.9, 0.9, 0.1]]])
    array([1., 0.])
    """
    s = read_scores(scores, "tot_one_sided", ("1x3",))[:, 0]
    return np.asarray(s[:, 0] > s[:, 1], dtype=np.float64)


_OF_SCORES = (
    Metric(
        name="tot",
        title="two true texts are closer to each other than either to the false one",
        source="SugarCrepe++ (Dumpala et al. 2024), its VLMs/test_*.py; READ-CLIP (NeurIPS 2025)",
        shapes=("1x3",),
        strict=tot,
        chance_level=1 / 3,
    ),
    Metric(
        name="tot_one_sided",
        title="the first true text is closer to the second than to the false one",
        source="SugarCrepe++ (Dumpala et al. 2024), README",
        shapes=("1x3",),
        strict=tot_one_sided,
        chance_level=1 / 2,
    ),
)
#: As the task declares them: it has no shape.
_METRICS = tuple(replace(score, shapes=(), strict=None) for score in _OF_SCORES)


def _fill_template(records: PairSet) -> Iterator[Mapping[str, Any]]:
    for item in records.items:
        texts = item.truth_first().texts
        for number, (first, other) in enumerate(_PAIRS):
            pair = {"first": texts[first], "second": texts[other]}
            yield {"id": item.id, "image": 0, "text": number, "score": None, **pair}


def _run_model(model: DualEncoder | Deferred, records: PairSet, session: Session) -> Scored:
    first = PairSet(records.name, tuple(item.truth_first() for item in records.items), records.root, read=records.read)
    vectors = embeddings(model, first, store=session.store, images=False, progress=session.progress).texts
    assert vectors is not None  # noqa: S101  (they were asked for)
    unit = vectors / np.linalg.norm(vectors, axis=2, keepdims=True)
    scores = np.stack([(unit[:, one] * unit[:, other]).sum(axis=1) for one, other in _PAIRS], axis=1)
    return Scored(Scores([item.id for item in records.items], scores[:, None, :], "similarity"))


def _measure_items(records: PairSet, predictions: Scored) -> tuple[Units, ...]:
    values = predictions.scores.select([item.id for item in records.items]).values
    units = tuple(
        Unit(
            id=item.id,
            cluster=item.cluster,
            tags=item.tags,
            texts=item.truth_first().texts,
            output=item_values[0].tolist(),
        )
        for item, item_values in zip(records.items, values, strict=True)
    )
    per_item = tuple(
        value_of(declared, score.per_item(values), neutral=score.tie_neutral(values))
        for declared, score in zip(_METRICS, _OF_SCORES, strict=True)
    )
    return (Units("item", units, per_item),)


TRUE_TEXTS = Task(
    name="true-texts",
    title="texts alone: two that are true of an image, and a false one",
    **(OF_SCORES | {"models": "a dual encoder"}),
    noun="item",
    metrics=_METRICS,
    content=lambda records: sorted((item.id, *item.texts, *map(str, item.true)) for item in records.items),
    template=_fill_template,
    read=lambda path, records, kind=None: read_scored(path, [item.id for item in records.items], (1, 3), kind),
    measure=_measure_items,
    runners=((DualEncoder, _run_model), (Deferred, _run_model)),
    todo="fill in `score`: the similarity of the two texts",
    images=lambda _records: (),
)
