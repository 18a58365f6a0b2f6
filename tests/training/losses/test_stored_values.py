"""Every loss has the parts and gradients that it had when `stored_values.json` was written: float64, on one batch.

If numbers are meant to change, write the file again: `python tests/training/losses/test_stored_values.py`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from ranks_program import DUAL, FUSION, encoded, fusion_matches, record, shared_batch

STORED = Path(__file__).with_name("stored_values.json")
CASES = [(name, alike) for name in (*DUAL, *FUSION) for alike in (False, True)]


def numbers(name: str, alike: bool) -> list[float]:
    """A loss's parts by name, and a weighted sum of the gradients of each parameter of an encoder."""
    weights = torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) / 2
    learned = [weights.requires_grad_()]
    if name in DUAL:
        learned.append(torch.tensor(1.5, dtype=torch.float64, requires_grad=True))
        parts = DUAL[name](encoded(shared_batch(0, 1, None, alike), *learned))
    else:
        parts = FUSION[name](fusion_matches(shared_batch(0, 1, None, alike), weights, 0, 1))
    return summed(record(parts, learned, 1))


def summed(values: Mapping[str, torch.Tensor]) -> list[float]:
    return [
        float((values[name].flatten() * torch.arange(1, values[name].numel() + 1)).sum())
        for name in sorted(values)
        if name != "total"
    ]


@pytest.mark.parametrize(("name", "alike"), CASES)
def test_a_loss_has_the_numbers_that_it_had(name, alike):
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    np.testing.assert_allclose(numbers(name, alike), stored[name + " alike" * alike], rtol=1e-12, atol=1e-12)


def test_every_stored_loss_is_there():
    assert set(json.loads(STORED.read_text(encoding="utf-8"))) == {name + " alike" * alike for name, alike in CASES}


if __name__ == "__main__":
    lines = (f'"{name + " alike" * alike}": {numbers(name, alike)}' for name, alike in CASES)
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
