"""The examples in the training scripts run; they lie outside the folders in which pytest looks for examples."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs torch: pip install 'tellapart[train]'")

MODULES = sorted(path.stem for path in (Path(__file__).parents[2] / "training").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run_and_every_public_name_has_one(name: str) -> None:
    if name == "held_out_scenes":
        pytest.importorskip("mitsuba", reason="rendering needs mitsuba: pip install 'tellapart[render]'")
    module = importlib.import_module(f"training.{name}")
    examples = {case.name.rpartition(".")[2]: case.examples for case in doctest.DocTestFinder().find(module)}
    assert [public for public in module.__all__ if callable(getattr(module, public)) and not examples[public]] == []
    assert doctest.testmod(module).failed == 0
