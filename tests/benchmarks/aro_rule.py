"""ARO's rule for ties, which tests compare with: `argmax`, the true caption second of two, first of five.

Source: Yuksekgonul et al. 2023, `dataset_zoo/aro_datasets.py`.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def original_choice(scores: ArrayLike) -> NDArray[np.float64]:
    """1 where the original counts an item as right; scores `(item, 1, text)`, the true caption first."""
    flat = np.asarray(scores, dtype=np.float32)[:, 0, :]
    if flat.shape[1] == 2:
        return (flat[:, ::-1].argmax(axis=1) == 1).astype(np.float64)
    return (flat.argmax(axis=1) == 0).astype(np.float64)
