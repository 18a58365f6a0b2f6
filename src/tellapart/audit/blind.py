"""Blind models on captions: how often a model that sees no image prefers the true one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tellapart.audit.finding import Finding, measured
from tellapart.data.pairset import PairSet
from tellapart.errors import ModelError
from tellapart.models.protocols import TextScorer
from tellapart.models.text.tinystories import TinyStories

__all__ = ["MARGIN", "blind_accuracy", "first_caption", "plausibility_gap", "text_scores"]

#: How far from chance an accuracy may lie, if its interval leaves chance out.
MARGIN = 0.05

#: How far apart mean log-likelihoods may lie, in nats a token: perplexities that differ by a tenth.
_NATS = 0.1


def first_caption(pairs: PairSet) -> str:
    """Name the caption with index 0: the true one beside a single image, else the first image's.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> first_caption(PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path(".")))
    'the true caption'
    """
    return "the true caption" if pairs.shape[0] == 1 else "the first caption"


def text_scores(model: TextScorer, pairs: PairSet) -> NDArray[np.float32]:
    """Score every caption, each distinct one once: float32 `(item, text)`.

    Raises:
        ModelError: the model's output is not one finite number for each text.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> from tellapart.models.reference import Constant
    >>> text_scores(Constant(), PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path(".")))
    array([[0.5, 0.5]], dtype=float32)
    """
    texts = [*dict.fromkeys(text for item in pairs.items for text in item.texts)]
    scores = np.asarray(model.score_texts(texts), np.float32)
    if scores.shape != (len(texts),) or not np.isfinite(scores).all():
        raise ModelError(f"{model.name} gave {scores.shape} for {len(texts)} texts, or numbers that are not finite")
    known = dict(zip(texts, scores.tolist(), strict=True))
    return np.array([[known[text] for text in item.texts] for item in pairs.items], np.float32)


def blind_accuracy(model: TextScorer, pairs: PairSet) -> Finding:
    """Return how often a blind model prefers the caption with index 0; a tie counts its share.

    With one image that is its accuracy, and anything but chance means that the set can be solved, or is made harder,
    without looking. With two, both captions are true and no blind model can solve an item; there it shows whether the
    two captions come from different sources.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> from tellapart.models.reference import Blind
    >>> items = tuple(Item(id=str(k), images=("0.png",), texts=("a cat", "not a cat")) for k in range(40))
    >>> finding = blind_accuracy(Blind(), PairSet("s", items, Path(".")))
    >>> finding.value, finding.verdict
    (1.0, 'warn')
    """
    scores = text_scores(model, pairs)
    top = scores == scores.max(axis=1, keepdims=True)
    chance = 1 / pairs.shape[1]
    value, interval = measured(np.asarray(top[:, 0] / top.sum(axis=1), np.float64), pairs)
    low, high = interval["low"], interval["high"]
    beside = not (isinstance(low, float) and isinstance(high, float) and low <= chance <= high)
    prefers = "not told from chance" if not beside else "too often" if value > chance else "too rarely"
    tied = int((top.sum(axis=1) > 1).sum())
    means = "its accuracy" if pairs.shape[0] == 1 else "both captions are true, so this solves no item"
    return Finding.model_validate(
        {
            "name": f"blind: {model.name}",
            "title": f"{model.name}, which sees no image, prefers {first_caption(pairs)}",
            "value": value,
            "unit": "share",
            "n": len(pairs),
            "threshold": f"within {100 * MARGIN:g} points of chance ({100 * chance:.1f} %), "
            "or an interval that holds chance",
            "verdict": "warn" if beside and abs(value - chance) > MARGIN else "pass",
            "says": f"{prefers} ({means}); {tied:,} items tied",
            **interval,
        }
    )


def plausibility_gap(model: TinyStories, pairs: PairSet) -> Finding:
    """Return by how much caption 0 is the more likely English, in nats a token, and both perplexities.

    Raises:
        ModelError: a caption is too long for the model, or has no words.
    """
    per_token = text_scores(TinyStories(model.checkpoint, per_token=True), pairs).astype(np.float64)
    others = per_token[:, 1:].mean(axis=1)
    value, interval = measured(per_token[:, 0] - others, pairs)
    low, high = interval["low"], interval["high"]
    beside = not (isinstance(low, float) and isinstance(high, float) and low <= 0 <= high)
    first, rest = np.exp(-per_token[:, 0].mean()), np.exp(-others.mean())
    return Finding.model_validate(
        {
            "name": f"plausibility: {model.name}",
            "title": f"log-likelihood a token of {first_caption(pairs)}, less that of the others",
            "value": value,
            "unit": "nats",
            "n": len(pairs),
            "threshold": f"within {_NATS} of 0, or an interval that holds 0",
            "verdict": "warn" if beside and abs(value) > _NATS else "pass",
            "says": f"perplexity {first:.1f} against {rest:.1f} under {model.name}",
            **interval,
        }
    )
