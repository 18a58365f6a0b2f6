"""Two ranks compute what one computes: every part, on both ranks, and the gradient that DDP averages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("ranks_program.py")


def run(out: Path, ranks: int) -> list[dict[str, Any]]:
    started = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(out)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    errors = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [0] * ranks, "\n".join(errors)
    return [torch.load(f"{out}.{rank}", weights_only=True) for rank in range(ranks)]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("ranks")
    return run(folder / "one", 1)[0], run(folder / "two", 2)


def test_two_ranks_compute_what_one_computes(result: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    one, two = result
    assert len(one) > 30
    for name, expected in one.items():
        for rank in two:
            assert list(rank[name]) == list(expected)
            for part, value in expected.items():
                torch.testing.assert_close(
                    rank[name][part], value, rtol=1e-9, atol=1e-12, msg=lambda text, w=f"{name}, {part}": f"{w}: {text}"
                )


def test_what_is_compared_is_not_trivial(result: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    one, _ = result
    for name, parts in one.items():
        assert parts["gradient 0"].abs().max() > 1e-4, name
    for name in ("eqsim None", "released None", "eqsim-itm"):
        assert one[name]["v1"] + one[name]["v2"] > 1e-6, name


def test_both_ranks_print_one_value(result: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    first, second = result[1]
    assert all(torch.equal(first[name]["total"], second[name]["total"]) for name in first if name != "refused")


def test_ranks_with_unequal_numbers_of_pairs_are_refused_on_every_rank(
    result: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    assert all(rank["refused"]["itc"].item() for rank in result[1])
