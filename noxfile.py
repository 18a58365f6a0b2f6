"""The tests on every Python that the metadata claims: `nox`, or `nox -s tests-3.12`.

Each has an environment of its own with the core and the board, without torch; what needs more skips and says so. A
Python that this machine lacks is passed over, and is an error with `--error-on-missing-interpreters`.
"""

from __future__ import annotations

import re

import nox

PROJECT = nox.project.load_toml("pyproject.toml")["project"]
PYTHONS = [found[1] for line in PROJECT["classifiers"] if (found := re.search(r"Python :: (3\.\d+)$", line))]

nox.options.error_on_missing_interpreters = False


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the fast tests of the core."""
    needs = ["pytest>=8.2", "pytest-xdist>=3.6", "hypothesis>=6.100", "scikit-learn>=1.5"]
    session.install("--quiet", ".", *needs)
    rooms = ("data", "metrics", "stats", "records", "evaluation")
    names = session.posargs or [f"tests/{room}" for room in rooms]
    session.run("python", "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *names)
