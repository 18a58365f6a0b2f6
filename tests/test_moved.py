"""Modules are found under the former names of their rooms, with a warning, and are the very modules of today."""

from __future__ import annotations

import importlib

import pytest

import tellapart
from tellapart.moved import ROOMS

PLACES = {"audit": "card", "train": "losses.loss"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_found_under_its_former_name_and_its_function_stays_a_function(room: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"tellapart\.{room}\..* tellapart\.{ROOMS[room]}\."):
        former = importlib.import_module(f"tellapart.{room}.{PLACES[room]}")
    assert former is importlib.import_module(f"tellapart.{ROOMS[room]}.{PLACES[room]}")
    importlib.import_module(f"tellapart.{room}")
    assert getattr(tellapart, room).__name__ == room and not hasattr(getattr(tellapart, room), "__path__")


@pytest.mark.parametrize("room", ROOMS)
def test_a_module_that_is_in_neither_is_not_found(room: str) -> None:
    with pytest.warns(DeprecationWarning), pytest.raises(ModuleNotFoundError, match=f"tellapart.{ROOMS[room]}.nothing"):
        importlib.import_module(f"tellapart.{room}.nothing")
