"""No room grows: what is added pays for itself by what it replaces (CONTRIBUTING)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Lines of a room's Python files on the day when it was last made smaller. Lower a number when a room has shrunk.
LINES = {
    "tests": 90_982,
    "models": 15_919,
    "training": 8_800,
    "board": 8_922,
    "report": 7_940,
    "tellapart_render": 6_324,
    "evaluation": 6_127,
    "builders": 5_669,
    "benchmarks": 4_489,
    "data": 4_334,
    "tellapart_native": 4_990,
    "metrics": 4_167,
    "tasks": 4_047,
    "stats": 3_864,
    "api": 2_809,
    "auditing": 2_273,
    "annotate": 2_245,
    "cli": 1_802,
    "records": 1_080,
    "(root)": 782,
}

#: The share by which a room may be larger than that.
ROOM = 0.03


def count_lines() -> Counter[str]:
    """Count the lines of each folder of the package, of the packages beside it, and of the tests."""
    lines = Counter[str]()
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        package, *inner = path.relative_to(ROOT / "src" if "src" in path.relative_to(ROOT).parts else ROOT).parts
        room = package if package != "tellapart" else inner[0] if len(inner) > 1 else "(root)"
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def test_no_room_is_larger_than_it_was() -> None:
    lines = count_lines()
    assert lines.keys() == LINES.keys()
    larger = {room: (count, LINES[room]) for room, count in lines.items() if count > LINES[room] * (1 + ROOM)}
    assert larger == {}
