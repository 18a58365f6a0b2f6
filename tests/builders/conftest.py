"""Builders, filters and selections that are installed as another package's, and the law of builds that stop."""

import sys
from pathlib import Path

import pytest

from scripts import install
from sets import contents
from tellapart.builders.journal import journal_of
from tellapart.builders.pipeline import build

BUILDERS = ("squares", "flaky", "dying", "broken", "needy", "misnamed", "twice", "barren")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Install `installed_builders.py`, for this process and for others."""
    points = "\n".join(f"{name} = installed_builders:{name.title()}" for name in BUILDERS)
    rules = "[tellapart.filters]\nquiet = installed_builders:Quiet\n"
    rules += "[tellapart.selections]\nfirst = installed_builders:First\n"
    code = Path(__file__).with_name("installed_builders.py").read_text()
    about = install(tmp_path / "site", "installed_builders", f"[tellapart.builders]\n{points}\n{rules}", code)
    monkeypatch.syspath_prepend(str(about.parent))
    monkeypatch.delitem(sys.modules, "installed_builders", raising=False)
    return about.parent


@pytest.fixture
def interrupted():
    """Build up to a Ctrl-C at a stage, after so many steps of it if that is said."""

    def build_some(recipe, out, stage="candidates", after=None):
        def stop(now, done, _total):
            if now == stage and after in (None, done):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            build(recipe, out, progress=stop)
        assert journal_of(out).exists() and not out.exists()

    return build_some


@pytest.fixture
def check_resumed(interrupted, tmp_path):
    """A build that stops at a candidate is taken up by other workers, and ends in the bytes of one that does not."""

    def check(recipe, last):
        whole = build(recipe, tmp_path / "whole")
        interrupted(recipe, tmp_path / "cut", after=last)
        again = build(recipe, tmp_path / "cut", workers=2)
        assert (again.resumed, again.funnel) == (last, whole.funnel) and last < whole.funnel.candidates
        assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
        assert not journal_of(tmp_path / "cut").exists()

    return check
