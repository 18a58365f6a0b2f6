"""Draws follow the softmax, without replacement, and depend on step, row and column alone."""

from __future__ import annotations

import math
from itertools import permutations

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
