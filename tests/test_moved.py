"""Modules are found under the former names of their rooms, with a warning, and are the very modules of today."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import tellapart
from tellapart.moved import ROOMS

#: The package alone: a virtual environment's own files import others.
LIGHT = {"PYTHONPATH": str(Path(tellapart.__file__).parents[1])}
PLACES = {"audit": "card", "train": "losses.loss"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_found_under_its_former_name_and_its_function_stays_a_function(room: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"tellapart\.{room}\..* tellapart\.{ROOMS[room]}\."):
        former = importlib.import_module(f"tellapart.{room}.{PLACES[room]}")
    assert former is importlib.import_module(f"tellapart.{ROOMS[room]}.{PLACES[room]}")
    importlib.import_module(f"tellapart.{room}")
    assert getattr(tellapart, room).__name__ == room and not hasattr(getattr(tellapart, room), "__path__")


def test_the_package_loads_no_library_for_its_former_rooms() -> None:
    code = "import sys, tellapart; print(*{'importlib.resources', 'tempfile', 'shutil'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=LIGHT)
    assert done.stdout.split() == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_module_that_is_in_neither_is_not_found(room: str) -> None:
    with pytest.warns(DeprecationWarning), pytest.raises(ModuleNotFoundError, match=f"tellapart.{ROOMS[room]}.nothing"):
        importlib.import_module(f"tellapart.{room}.nothing")
