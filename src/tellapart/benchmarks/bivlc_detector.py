"""BiVLC's control: a detector of generated images and captions plays the retrieval game without matching anything.

A model that distinguishes natural from synthetic can pick the right caption for an image by origin alone. The rules,
with the probability that an entry is synthetic (0 natural, 1 synthetic):

    ipos_2t = the positive image is called natural,   and the positive caption looks less synthetic than the negative
    ineg_2t = the negative image is called synthetic, and the same
    tpos_2i = the positive caption is called natural,   and the positive image looks less synthetic than the negative
    tneg_2i = the negative caption is called synthetic, and the same

and text, image and group scores are their conjunctions. Exactly one half is called natural.

Source: BiVLC (Miranda et al. 2024), appendix on detectors; `src/Detectors` of its repository.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import ScoreError


def detector_outcomes(text: ArrayLike, image: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Return the accuracies of a detector on each item: metric -> float64 `(item,)` of 0 and 1.

    Args:
        text: probability that a caption is synthetic, `(item, 2)`: positive, negative.
        image: likewise of the images.

    Raises:
        ScoreError: not `(item, 2)` both, or not probabilities.
    """
    texts, images = _check_probabilities(text, "text"), _check_probabilities(image, "image")
    if len(texts) != len(images):
        raise ScoreError(f"{len(texts)} items of captions and {len(images)} of images; give both of the same items")
    texts_in_order, images_in_order = texts[:, 0] < texts[:, 1], images[:, 0] < images[:, 1]
    outcomes: dict[str, NDArray[Any]] = {
        "ipos_2t": (images[:, 0] <= 0.5) & texts_in_order,
        "ineg_2t": (images[:, 1] > 0.5) & texts_in_order,
        "tpos_2i": (texts[:, 0] <= 0.5) & images_in_order,
        "tneg_2i": (texts[:, 1] > 0.5) & images_in_order,
    }
    outcomes["text_score"] = outcomes["ipos_2t"] & outcomes["ineg_2t"]
    outcomes["image_score"] = outcomes["tpos_2i"] & outcomes["tneg_2i"]
    outcomes["group_score"] = outcomes["text_score"] & outcomes["image_score"]
    return {name: column.astype(np.float64) for name, column in outcomes.items()}


def _check_probabilities(values: ArrayLike, what: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ScoreError(f"detector probabilities of {what}: expected numbers (item, 2): {error}") from error
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise ScoreError(f"detector probabilities of {what}: expected (item, 2); got shape {array.shape}")
    if not ((array >= 0) & (array <= 1)).all():
        raise ScoreError(f"detector probabilities of {what}: some are not in [0, 1]; give probabilities, not logits")
    return array
