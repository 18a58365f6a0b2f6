"""Files of `bench/` and `docs/`, which are no packages, by their path in the repository."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def module() -> Iterator[Callable[[str], ModuleType]]:
    """Import a file by its path; its folder, in which it finds others, leaves the path again."""
    before, added = set(sys.modules), [str(ROOT / folder) for folder in ("bench", "docs")]
    sys.path += added
    yield lambda file: importlib.import_module(Path(file).stem)
    sys.path[:] = [folder for folder in sys.path if folder not in added]
    for name in set(sys.modules) - before:
        if str(ROOT / "bench") in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
