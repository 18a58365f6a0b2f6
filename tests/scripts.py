"""Scripts beside the package, imported for tests of what they hold."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def import_script(path: Path) -> ModuleType:
    """Import a file that no import finds; its dataclasses look their annotations up under its name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
    return module
