"""Published scores of Winoground's items: files of 1,600 lines, one for each caption and image of 400 items."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.findings.frame import SOURCES

SCORES = SOURCES["winoground"]
#: The file of people's ratings.
PEOPLE = "human"


def read_systems(data: Path) -> dict[str, NDArray[np.float64]]:
    """Return the scores of each file: name -> float64 `(item, image, text)`."""
    found = {}
    for path in SCORES.files(data):
        scores = np.full((400, 2, 2), np.nan)
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            item, text, image = record["label"].split("_")
            scores[int(item), int(image[1]), int(text[1])] = record["score"]
        assert np.isfinite(scores).all(), path
        found[path.stem] = scores
    return found
