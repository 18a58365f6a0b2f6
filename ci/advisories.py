"""Hold the floors of pyproject.toml's dependencies to the advisories that the repository keeps: offline, in a moment.

    python ci/advisories.py [--pyproject FILE] [--advisories FILE] [--audit]

A floor below a fix lets an installation be one that is known to be open; every such floor is a line, and the exit
status is 1. The list (`ci/advisories.toml`) is kept by hand: it knows what somebody wrote into it, of the packages that
pyproject.toml names. With `--audit` pip-audit is asked, too, over the network, about what this environment has; where
it is not installed, that is said. What it finds is shown and fails nothing: it changes without the repository.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]

#: The operators whose version is a floor.
_FLOORS = frozenset({">=", "==", "~=", ">"})


class Advisory(NamedTuple):
    """One entry of the list; `unreached` says why its package may be older than the fix."""

    package: str
    id: str
    fixed: Version
    source: str
    unreached: str = ""


def read_advisories(path: Path) -> list[Advisory]:
    """Read the list.

    Raises:
        ValueError: an entry has an unknown key or lacks one, a version is none, or an id stands twice.
    """
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["advisory"]
    advisories = []
    for number, entry in enumerate(entries, 1):
        try:
            advisory = Advisory(**{**entry, "fixed": Version(entry["fixed"])})
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(f"{path}: entry {number} ({entry.get('id')}): {error}") from error
        advisories.append(advisory._replace(package=canonicalize_name(advisory.package)))
    pairs = [(advisory.package, advisory.id) for advisory in advisories]
    if repeated := [pair for pair in pairs if pairs.count(pair) > 1]:
        raise ValueError(f"{path}: {repeated[0][1]} of {repeated[0][0]} stands there twice")
    return advisories


def floors(project: Mapping[str, Any]) -> dict[str, Version | None]:
    """Return the lowest version that each dependency of a project may have, by canonical name; None: any.

    Where several lists name a package, its floor is the lowest of them: an extra can be installed alone.
    """
    own = canonicalize_name(project["name"])
    lists = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
    lowest: dict[str, Version | None] = {}
    for requirement in (Requirement(line) for listed in lists for line in listed):
        name = canonicalize_name(requirement.name)
        if name == own:  # one extra that takes in another
            continue
        versions = [Version(each.version) for each in requirement.specifier if each.operator in _FLOORS]
        floor = max(versions, default=None)
        before = lowest.get(name, floor)
        lowest[name] = None if floor is None or before is None else min(floor, before)
    return lowest


def low_floors(lowest: Mapping[str, Version | None], advisories: Sequence[Advisory]) -> list[str]:
    """Return a line for each advisory whose package may be older than its fix, and for each that none depends on."""
    lines = []
    for advisory in advisories:
        if advisory.package not in lowest:
            lines.append(f"{advisory.package}: {advisory.id} is listed, and pyproject.toml names no such package")
            continue
        floor = lowest[advisory.package]
        if not advisory.unreached and (floor is None or floor < advisory.fixed):
            lines.append(
                f"{advisory.package}: the floor is {floor or 'not set'}, and {advisory.id} is fixed in "
                f"{advisory.fixed} ({advisory.source}); write {advisory.package}>={advisory.fixed} into pyproject.toml"
            )
    return lines


def audit_environment() -> str:
    """Ask pip-audit about the packages of this environment; return what it says, or why it says nothing."""
    if find_spec("pip_audit") is None:
        return "pip-audit is not installed: what this environment has was not looked up"
    command = [sys.executable, "-m", "pip_audit", "--local", "--progress-spinner", "off", "--timeout", "15"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    said = "\n".join(part.strip() for part in (done.stdout, done.stderr) if part.strip())
    return f"pip-audit ended with exit status {done.returncode}:\n{said}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the floors; return 1 if one is too low."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pyproject", type=Path, default=ROOT / "pyproject.toml")
    parser.add_argument("--advisories", type=Path, default=ROOT / "ci" / "advisories.toml")
    parser.add_argument("--audit", action="store_true", help="ask pip-audit, too, if it is installed (network)")
    options = parser.parse_args(arguments)
    advisories = read_advisories(options.advisories)
    lowest = floors(tomllib.loads(options.pyproject.read_text(encoding="utf-8"))["project"])
    lines = low_floors(lowest, advisories)
    for line in lines:
        print(line, file=sys.stderr)  # noqa: T201
    unreached = sum(bool(advisory.unreached) for advisory in advisories)
    checked = f"{len(advisories)} advisories, {unreached} of them not reached, over {len(lowest)} dependencies"
    print(f"{checked}: {f'{len(lines)} floors too low' if lines else 'every floor is at or above the fix'}")  # noqa: T201
    if options.audit:
        print(audit_environment())  # noqa: T201
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
