"""Builders, filters and selections that are installed as another package's."""

import shutil
import sys
from pathlib import Path

import pytest

BUILDERS = ("squares", "flaky", "dying", "broken", "needy", "misnamed", "twice", "barren")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install `installed_builders.py`, for this process and for others."""
    folder = tmp_path / "site"
    about = folder / "installed_builders-1.dist-info"
    about.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("installed_builders.py"), folder)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-builders\nVersion: 1\n")
    points = "\n".join(f"{name} = installed_builders:{name.title()}" for name in BUILDERS)
    rules = "[tellapart.filters]\nquiet = installed_builders:Quiet\n"
    rules += "[tellapart.selections]\nfirst = installed_builders:First\n"
    (about / "entry_points.txt").write_text(f"[tellapart.builders]\n{points}\n{rules}")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "installed_builders", raising=False)
    return folder
