"""The grammar of captions: whether one is better English than the others, by a parser or a classifier."""

from __future__ import annotations

import numpy as np

from tellapart.audit.blind import first_caption, text_scores
from tellapart.audit.finding import Finding, measured
from tellapart.data.pairset import PairSet
from tellapart.models.protocols import TextScorer

__all__ = ["grammar_gap"]

#: How far apart the captions' scores may lie on average, in standard deviations of all scores.
_DEVIATIONS = 0.1


def grammar_gap(model: TextScorer, pairs: PairSet) -> Finding:
    """Return by how much caption 0 is the better English, in standard deviations of all captions' scores.

    Args:
        model: scores how grammatical a text is; the higher, the better (see `tellapart.models.text.find.SCORERS`).
        pairs: items with several captions.

    Raises:
        ModelError: the model's output is not one finite number for each text.

    >>> from pathlib import Path
    >>> from tellapart.models.text.find import find_text_scorer
    >>> from tellapart.data.item import Item
    >>> items = tuple(Item(id=str(k), images=("0.png",), texts=("a cat sits", "cat sits")) for k in range(40))
    >>> finding = grammar_gap(find_text_scorer("words", Path(".")), PairSet("s", items, Path(".")))
    >>> finding.value, finding.verdict, finding.says
    (2.0, 'warn', 'words: 3 on average against 2')
    """
    scores = text_scores(model, pairs).astype(np.float64)
    others = scores[:, 1:].mean(axis=1)
    spread = float(scores.std()) or 1.0  # all alike: no gap, in any unit
    value, interval = measured((scores[:, 0] - others) / spread, pairs)
    low, high = interval["low"], interval["high"]
    beside = not (isinstance(low, float) and isinstance(high, float) and low <= 0 <= high)
    return Finding.model_validate(
        {
            "name": f"grammar: {model.name}",
            "title": f"grammar of {first_caption(pairs)}, less that of the others",
            "value": value,
            "unit": "deviations",
            "n": len(pairs),
            "threshold": f"within {_DEVIATIONS} standard deviations of 0, or an interval that holds 0",
            "verdict": "warn" if beside and abs(value) > _DEVIATIONS else "pass",
            "says": f"{model.name}: {scores[:, 0].mean():.4g} on average against {others.mean():.4g}",
            **interval,
        }
    )
