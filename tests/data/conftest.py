"""Folders of pair sets for tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sets import put


@pytest.fixture
def folder(tmp_path) -> Callable[..., Path]:
    """As `put`, in a folder named `clocks` of this test."""
    return lambda *args, **kwargs: put(tmp_path / "clocks", *args, **kwargs)
