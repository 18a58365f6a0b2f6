"""The record of a file of scores or answers."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def score_file(command) -> Callable[..., dict[str, Any]]:
    """Score a file of a benchmark's predictions; return the benchmark's record."""

    def score(name: str, scores: object, *more: object, out: object = "run") -> dict[str, Any]:
        ran = command("score", name, "--scores", scores, *more, "--out", out, "--json", code=0)
        (record,) = ran.json["runs"][0]["benchmarks"].values()
        return record

    return score
