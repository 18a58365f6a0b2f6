"""No room grows: what is added pays for itself by what it replaces (CONTRIBUTING)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Lines of a room's Python files on the day when it was last made smaller. Lower a number when a room has shrunk.
LINES = {
    "tests": 91_488,
    "models": 17_182,
    "training": 10_298,
    "board": 10_133,
    "report": 8_661,
    "tellapart_render": 6_526,
    "evaluation": 6_289,
    "builders": 5_672,
    "benchmarks": 5_125,
    "data": 5_056,
    "tellapart_native": 5_044,
    "metrics": 4_998,
    "tasks": 4_829,
    "stats": 4_323,
    "api": 2_837,
    "auditing": 2_275,
    "annotate": 2_248,
    "cli": 1_949,
    "records": 1_080,
    "(root)": 941,
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
