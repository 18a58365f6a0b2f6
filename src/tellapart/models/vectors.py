"""Unit vectors and dot products, computed so that a number depends on its two vectors alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import ModelError

__all__ = ["dot_products", "late_interaction", "normalise"]


def normalise(vectors: NDArray[np.float32], model: str | None = None, dtype: str = "") -> NDArray[np.float32]:
    """Scale vectors `(n, dimensions)` to length one; float32, computed in float64.

    A vector of length zero, or one that is not finite, is a `ModelError`, which names the model and its dtype.
    """
    exact = vectors.astype(np.float64)
    lengths = np.sqrt((exact * exact).sum(axis=1, keepdims=True))
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if bad.size:
        rows = ", ".join(map(str, bad[:10]))
        of = f"{model}: " if model else ""
        fix = "; float16 ends at 65,504: use dtype='bfloat16' or 'float32'" if dtype == "float16" else ""
        raise ModelError(
            f"{of}{bad.size} of {len(vectors)} vectors have length zero or are not finite: rows {rows}{fix}"
        )
    unit: NDArray[np.float32] = (exact / lengths).astype(np.float32)
    return unit


def dot_products(images: NDArray[np.float32], texts: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return every image vector times every text vector: float32 `(images, texts)`; of stacks of both, item by item.

    Vectors are `(images, dimensions)` and `(texts, dimensions)`, or `(items, images, dimensions)` and
    `(items, texts, dimensions)`: then the result is `(items, images, texts)`, with the same bits.

    Products are summed in float64, pair by pair in one fixed order, and rounded to float32 once. The order of summation
    of a matrix product changes with the shapes of its arguments: two identical images could win or lose by last bits.

    >>> dot_products(np.eye(2, dtype=np.float32), np.array([[1.0, 2.0]], np.float32))
    array([[1.],
           [2.]], dtype=float32)
    """
    if images.shape[-1] != texts.shape[-1]:
        raise ModelError(f"vectors of images have {images.shape[-1]} numbers and those of texts {texts.shape[-1]}")
    products = images.astype(np.float64)[..., :, None, :] * texts.astype(np.float64)[..., None, :, :]
    sums: NDArray[np.float32] = products.sum(axis=-1).astype(np.float32)
    return sums


def late_interaction(image: NDArray[np.float64], text: NDArray[np.float64], rule: str) -> float:
    """Return the score of an image's token vectors `(n, dimensions)` and a text's `(m, dimensions)`, in float64.

    `maxsim` finds the nearest of the image's vectors for each vector of the text, and sums their dot products (ColBERT,
    2020, eq. 3); `meanmaxsim` takes the mean. `filip` takes the mean of both directions' means (FILIP, 2021, eq. 5).

    >>> image, text = np.eye(3), np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]])
    >>> [late_interaction(image, text, rule) for rule in ("maxsim", "meanmaxsim", "filip")]
    [1.5, 0.75, 0.625]
    """
    products = text @ image.T
    nearest = products.max(axis=1)
    if rule == "filip":
        return float(nearest.mean() + products.max(axis=0).mean()) / 2
    return float(nearest.mean() if rule == "meanmaxsim" else nearest.sum())
