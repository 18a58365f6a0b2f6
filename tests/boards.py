"""A board for tests: run folders or settings, read into its tables, and a client of its pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tellapart.board.app import create_app
from tellapart.board.records import Board
from tellapart.board.settings import BoardSettings


def open_board(
    shown: Path | BoardSettings, report: Callable[[str], Any] = pytest.fail, **more: Any
) -> tuple[TestClient, Board]:
    """Open the board of a folder of runs, or of settings; `more` are arguments of `create_app`."""
    settings = shown if isinstance(shown, BoardSettings) else BoardSettings(runs=(shown,))
    board = Board(settings)
    board.read_in(report)
    return TestClient(create_app(board, **more)), board
