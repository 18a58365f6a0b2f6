"""Rooms under their former names: `from tellapart.audit.card import make_card` works, with a warning.

The names belong to functions of the root, `tellapart.audit("my_pairs")`, so that no module can have them any more.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["ROOMS", "open_former_rooms"]

#: Former name -> name.
ROOMS = {"audit": "auditing", "train": "training"}


class _FormerModule:
    """Finds the modules of a room under its former name: the very module of today, not a second copy of it.

    It has no base class: `importlib.abc` would load 30 more modules, and `import tellapart` take 20 ms in place of 11.
    """

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        parts = name.split(".", 2)
        if len(parts) < 3 or f"{parts[0]}.{parts[1]}" not in _FORMER:
            return None
        return ModuleSpec(name, self)  # type: ignore[arg-type]  # a loader by its methods

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system to create one, which is replaced."""

    def exec_module(self, module: ModuleType) -> None:
        _, room, rest = module.__name__.split(".", 2)
        name = f"tellapart.{ROOMS[room]}.{rest}"
        warnings.warn(f"{module.__name__} is {name} now", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(name)


_FORMER = {f"tellapart.{room}" for room in ROOMS}


def open_former_rooms() -> None:
    """Let modules be imported under the former names of their rooms.

    The import system binds a package to its parent when it loads it, and would replace the function of that name; it
    does not load what `sys.modules` holds already.
    """
    for name in _FORMER:
        room = ModuleType(name)
        room.__path__ = []
        sys.modules.setdefault(name, room)
    sys.meta_path.insert(0, _FormerModule())
