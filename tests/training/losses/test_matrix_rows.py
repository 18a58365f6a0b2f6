"""Draws follow the softmax, without replacement, and depend on step, row and column alone."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch

from tellapart.training.losses.matrix_rows import draw, uniform


def test_the_numbers_are_uniform_and_independent_between_rows_columns_and_steps() -> None:
    drawn = uniform(7, torch.arange(500), 400).double()
    n = drawn.numel()
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert drawn.mean().item() == pytest.approx(0.5, abs=5 * math.sqrt(1 / 12 / n))
    counts = torch.histc(drawn, 50, 0, 1)
    chi2 = ((counts - n / 50) ** 2 / (n / 50)).sum().item()
    assert chi2 < 49 + 5 * math.sqrt(2 * 49)
    pairs = {
        "rows": (drawn[:-1], drawn[1:]),
        "columns": (drawn[:, :-1], drawn[:, 1:]),
        "steps": (drawn, uniform(8, torch.arange(500), 400).double()),
        "transposed": (drawn[:400], drawn[:400].T),
    }
    for one, other in pairs.values():
        correlation = torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1].item()
        assert abs(correlation) < 5 / math.sqrt(one.numel())


def test_any_part_of_the_rows_gets_the_numbers_that_the_whole_gets() -> None:
    whole = uniform(3, torch.arange(10), 6)
    for rows in ([4], [9, 0], list(range(5, 10))):
        assert torch.equal(uniform(3, torch.tensor(rows), 6), whole[rows])


def test_pairs_of_draws_have_the_probabilities_of_drawing_without_replacement() -> None:
    logits = torch.tensor([0.0, 1.0, -0.5, -torch.inf, 2.0])
    times = 40000
    drawn = draw(logits.expand(times, 5), 2, 11, torch.arange(times))
    p = logits.softmax(0).tolist()
    seen = 0
    for first, second in permutations((0, 1, 2, 4), 2):
        expected = p[first] * p[second] / (1 - p[first])
        count = ((drawn[:, 0] == first) & (drawn[:, 1] == second)).sum().item()
        assert count / times == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / times))
        seen += count
    assert seen == times


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
