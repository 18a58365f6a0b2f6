"""A plugin of pytest: `--file-order SEED` runs the test files in a random order, the same one for the same seed."""

import random
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--file-order SEED`."""
    parser.addoption("--file-order", type=int, metavar="SEED", help="run the test files in a random order")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the files, and keep the order within each."""
    seed = config.getoption("--file-order")
    if seed is None:
        return
    files: list[Path] = sorted({item.path for item in items})
    random.Random(seed).shuffle(files)
    place = {file: number for number, file in enumerate(files)}
    items.sort(key=lambda item: place[item.path])
