"""The examples in the training scripts run; they lie outside the folders in which pytest looks for examples."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs torch: pip install 'tellapart[train]'")

MODULES = sorted(path.stem for path in (Path(__file__).parents[2] / "training").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"training.{name}")).failed == 0
