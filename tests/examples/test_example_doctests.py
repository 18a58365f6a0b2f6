"""The examples in the ablation's modules run; they lie outside the folders in which pytest looks for examples."""

import doctest
import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "eqsim_ablation"
MODULES = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run_and_every_public_name_is_described(name):
    module = importlib.import_module(f"examples.eqsim_ablation.{name}")
    made = [
        one
        for name, one in vars(module).items()
        if getattr(one, "__module__", "") == module.__name__ and name[0] != "_"
    ]
    assert [one for one in made if callable(one) and not one.__doc__] == []
    assert doctest.testmod(module).failed == 0
