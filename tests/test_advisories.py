"""No lower bound of a dependency lets in a version that ci/advisories.toml lists as open."""

import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LISTED = tomllib.loads((ROOT / "ci" / "advisories.toml").read_text(encoding="utf-8"))["advisory"]


def read_floors(project: dict[str, Any]) -> dict[str, Version]:
    """The lowest version that each dependency may have, of all extras: any of them can be installed alone."""
    lowest: dict[str, Version] = {}
    for need in map(Requirement, chain(project["dependencies"], *project["optional-dependencies"].values())):
        bounds = [Version(bound.version) for bound in need.specifier if bound.operator in {">=", "==", "~=", ">"}]
        name, floor = canonicalize_name(need.name), max(bounds, default=Version("0"))
        lowest[name] = min(floor, lowest.get(name, floor))
    return lowest


@pytest.mark.parametrize("advisory", LISTED, ids=lambda advisory: f"{advisory['package']}-{advisory['id']}")
def test_a_floor_is_at_or_above_the_fix_of_an_advisory(advisory):
    """An advisory that says why it is not reached binds no floor."""
    assert advisory.keys() - {"unreached"} == {"package", "id", "fixed", "source"}
    floor = read_floors(PROJECT)[canonicalize_name(advisory["package"])]
    least = f"{advisory['package']}>={advisory['fixed']}"
    assert "unreached" in advisory or floor >= Version(advisory["fixed"]), f"write {least} into pyproject.toml"


def test_no_advisory_stands_twice():
    names = [(canonicalize_name(advisory["package"]), advisory["id"]) for advisory in LISTED]
    assert len(set(names)) == len(names)


def test_the_lowest_floor_of_all_extras_counts_and_none_is_the_lowest():
    extras = {
        "models": ["Torch_Thing[x]>=2.10,<3"],
        "old": ["torch.thing>=2.4; python_version >= '3.11'"],
        "any": ["b"],
    }
    floors = read_floors({"dependencies": ["a~=1.2", "b>=1"], "optional-dependencies": extras})
    assert {name: str(floor) for name, floor in floors.items()} == {"a": "1.2", "b": "0", "torch-thing": "2.4"}
