"""The pieces of the record: what a model does on the test sets, item by item, and what it has forgotten."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.eqsim_ablation.plan import Plan
from tellapart.api.evaluate import evaluate
from tellapart.benchmarks.find import load_pairs
from tellapart.data.pairset import PairSet
from tellapart.metrics.matching import share_of_squares, sums_of_squares
from tellapart.metrics.registry import METRICS
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.scoring.score import Embeddings, embeddings
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.backend import import_torch

#: Parts of the squares of an item's scores, in the order of `sums_of_squares`.
SQUARES = ("match", "captions", "pictures")

#: Items whose pictures and captions are the gallery of the retrieval.
_GALLERY = 250


def measure(plan: Plan, name: str, device: str = "cpu") -> dict[str, Any]:
    """Return a model's outcomes on the plan's test sets, and what it does beside telling pairs apart.

    Towers compute as in training, in bfloat16, which is a third faster; cosines and `demo-objects` are float32.
    """
    model, sets, kept, torch = find_model(name, ModelOptions(device=device)), {}, {}, import_torch()
    for test in plan.tests:
        pairs = load_pairs(f"folder:{plan.work / 'sets' / test}")
        with torch.autocast(device, torch.bfloat16):
            found = embeddings(model, pairs, store=EmbeddingStore(None))
        scores = np.einsum("nid,njd->nij", found.images, found.texts)
        right = {
            each: METRICS[each].per_item(scores) for each in ("group_score", "text_score", "image_score", "match_score")
        }
        packed = np.packbits(right["group_score"].astype(bool)).tobytes().hex()
        sets[test] = {"right": packed, "items": len(pairs)}
        sets[test] |= {each: round(float(values.mean()), 6) for each, values in right.items()}
        squares = sums_of_squares(scores).mean(axis=0)
        shares = {name: float(share_of_squares(squares, part)) for part, name in enumerate(SQUARES)}
        sets[test]["squares"] = {name: round(share, 6) for name, share in shares.items()}
        if test == plan.tests[0]:
            kept = retrieval(found, pairs)
    kept["demo-objects"] = round(float(evaluate(name, "demo-objects", device=device).value("top1_accuracy")), 6)
    return {"sets": sets, "kept": kept, "measured_items": sum(one["items"] for one in sets.values())}


def retrieval(found: Embeddings, pairs: PairSet) -> dict[str, float]:
    """Return recall at 1 both ways among a set's first items; pictures of equal captions are right, ties are wrong."""
    images, texts = (side[:_GALLERY].reshape(-1, side.shape[-1]) for side in (found.images, found.texts))
    captions = np.array([text for item in pairs.items[:_GALLERY] for text in item.texts])
    scores, own = images @ texts.T, captions[:, None] == captions[None, :]
    best_own, best_other = (np.where(mask, scores, -np.inf) for mask in (own, ~own))
    return {
        f"{name}_recall@1": round(float((best_own.max(axis) > best_other.max(axis)).mean()), 6)
        for axis, name in ((1, "i2t"), (0, "t2i"))
    }


def right_items(piece: Mapping[str, Any], test: str) -> NDArray[np.bool_]:
    """Return which items have both captions and both pictures right, bool `(item,)`.

    >>> right_items({"sets": {"seen": {"right": "a0", "items": 3}}}, "seen").tolist()
    [True, False, True]
    """
    return unpack_items(piece["sets"][test]["right"], piece["sets"][test]["items"])


def unpack_items(packed: str, items: int) -> NDArray[np.bool_]:
    """Return the bits of hexadecimal digits, bool `(item,)`."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(packed), np.uint8), count=items).astype(bool)
