"""Builders, filters and selections that are installed as another package's, and the law of builds that stop."""

import shutil
import sys
from pathlib import Path

import pytest

from sets import contents
from tellapart.builders.journal import journal_of
from tellapart.builders.pipeline import build

BUILDERS = ("squares", "flaky", "dying", "broken", "needy", "misnamed", "twice", "barren")


@pytest.fixture
def site(tmp_path, monkeypatch):
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


@pytest.fixture
def check_resumed(tmp_path):
    """A build that stops at a candidate is taken up by other workers, and ends in the bytes of one that does not."""

    def check(recipe, last):
        whole = build(recipe, tmp_path / "whole")

        def stop(_stage, done, _total):
            if done == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            build(recipe, tmp_path / "cut", progress=stop)
        assert journal_of(tmp_path / "cut").exists() and not (tmp_path / "cut").exists()
        again = build(recipe, tmp_path / "cut", workers=2)
        assert (again.resumed, again.funnel) == (last, whole.funnel) and last < whole.funnel.candidates
        assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
        assert not journal_of(tmp_path / "cut").exists()

    return check
