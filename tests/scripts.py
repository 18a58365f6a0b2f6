"""Scripts beside the package, packages of others, Python in another process, and limits of this one."""

import importlib
import importlib.util
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

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


def import_document(name: str) -> ModuleType:
    """Import a script of `docs/`, which stands on the path while it looks for those beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "docs"))
        return importlib.import_module(name)


def install(site: Path, package: str, points: str, code: str) -> Path:
    """Write a package's metadata, as pip leaves it, with its entry points, and its module; return the metadata."""
    about = site / f"{package}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(points)
    (site / f"{package}.py").write_text(code)
    return about


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    """Let this process have no more of a resource while the block lasts."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def run_python(*arguments: object, status: int | None = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python with options of `subprocess.run`; it must end with `status`, or with any if that is None."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )
    assert status in (None, done.returncode), f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done
