"""A board for tests: run folders or settings, read into a database that ends with it, and a client of its pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tellapart.board.app import create_app
from tellapart.board.records import read_in
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store


@contextmanager
def open_board(
    shown: Path | BoardSettings, report: Callable[[str], Any] = pytest.fail, **more: Any
) -> Iterator[tuple[TestClient, Store]]:
    """Open the board of a folder of runs, or of settings; `more` are arguments of `create_app`."""
    settings = shown if isinstance(shown, BoardSettings) else BoardSettings(runs=(shown,))
    with Store("sqlite://") as store:
        read_in(store, settings, report)
        yield TestClient(create_app(settings, store, **more)), store
