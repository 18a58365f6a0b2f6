"""No room grows: what is added pays for itself by what it replaces (CONTRIBUTING)."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Lines of a room's Python files on the day when it was last made smaller. Lower a number when a room has shrunk.
LINES = {
    "tests": 71_813,
    "models": 13_562,
    "report": 6_905,
    "training": 6_799,
    "board": 6_757,
    "builders": 4_897,
    "tellapart_render": 4_877,
    "tellapart_native": 4_689,
    "data": 3_896,
    "benchmarks": 3_767,
    "evaluation": 3_870,
    "metrics": 3_794,
    "tasks": 3_162,
    "stats": 3_212,
    "api": 2_541,
    "diagnosis": 2_840,
    "auditing": 2_144,
    "annotate": 1_758,
    "cli": 1_297,
    "records": 946,
    "(root)": 789,
    "dry_run": 300,
    "bench": 5_184,
    "ci": 4_087,
    "docs": 1_783,
    "examples": 4_443,
}

#: Folders beside the package.
AROUND = ("tests", "bench", "ci", "docs", "examples")

#: The share by which a room may be larger than that.
ROOM = 0.03


def count_lines() -> Counter[str]:
    """Count the lines of each folder of the package, of the packages beside it, and of the folders around it."""
    lines = Counter[str]()
    for path in [path for folder in ("src", *AROUND) for path in (ROOT / folder).rglob("*.py")]:
        package, *inner = path.relative_to(ROOT / "src" if path.is_relative_to(ROOT / "src") else ROOT).parts
        room = package if package != "tellapart" else inner[0] if len(inner) > 1 else "(root)"
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def test_no_room_is_larger_than_it_was():
    lines = count_lines()
    assert lines.keys() == LINES.keys()
    larger = {room: (count, LINES[room]) for room, count in lines.items() if count > LINES[room] * (1 + ROOM)}
    assert larger == {}
