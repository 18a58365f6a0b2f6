"""Published files, which lie beside the checkout or are not there."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared" / "data"
NLTK_DATA = Path(os.environ.get("TELLAPART_NLTK_DATA") or Path(__file__).parents[1] / "scratch" / "nltk-data")
NEEDS_NLTK_DATA = pytest.mark.skipif(
    not NLTK_DATA.is_dir(),
    reason="needs NLTK's data: python ci/parts.py nltk-data, or their folder in TELLAPART_NLTK_DATA",
)


def published(*parts: str) -> Path:
    """Return the path of a published file or folder; skip the test where there is none."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path.name} is not beside this checkout")
    return path


def winoground(model: str) -> Path:
    """The published scores of a model, or of people, on Winoground."""
    return published("winoground_scores", f"{model}.jsonl")
