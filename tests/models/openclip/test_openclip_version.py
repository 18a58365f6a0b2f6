"""open_clip is taken in the versions whose towers are known; another one is refused with the line to run."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tellapart.models.openclip.library import VERSIONS, import_open_clip

#: Another version's number in place of the installed one's, as a package that another program brought.
REFUSED = """
import sys
sys.path.insert(0, sys.argv[1])
from tellapart.errors import MissingDependencyError
from tellapart.models.openclip.library import import_open_clip
for _ in range(2):
    try:
        import_open_clip()
    except MissingDependencyError as error:
        print(error)
"""


def test_the_bound_is_that_of_pyproject(open_clip: Any) -> None:
    content = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    extra = content["project"]["optional-dependencies"]["models"]
    stated = next(Requirement(line) for line in extra if re.match("open_clip_torch", line)).specifier
    assert stated == SpecifierSet(VERSIONS)
    assert import_open_clip().__version__ in stated
    assert "4.0.0" not in stated


@pytest.mark.parametrize("version", ["4.2.1", "3.2.0"])
@pytest.mark.usefixtures("open_clip")
def test_another_version_is_refused_each_time(version: str, tmp_path: Path) -> None:
    (tmp_path / "open_clip").mkdir()
    (tmp_path / "open_clip" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    assert done.count(f"open_clip_torch {version}") == 2
    assert done.count(f'pip install "open_clip_torch{VERSIONS}"') == 2
