"""No room grows: what is added pays for itself by what it replaces (CONTRIBUTING)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Lines of a room's Python files on the day when it was last made smaller. Lower a number when a room has shrunk.
LINES = {
    "tests": 89_763,
    "models": 15_919,
    "training": 8_484,
    "board": 8_693,
    "report": 7_940,
    "tellapart_render": 6_028,
    "evaluation": 4_316,
    "diagnosis": 1_632,
    "builders": 5_351,
    "benchmarks": 4_327,
    "data": 4_255,
    "tellapart_native": 4_931,
    "metrics": 3_881,
    "tasks": 3_881,
    "stats": 3_095,
    "api": 2_787,
    "auditing": 2_136,
    "annotate": 1_897,
    "cli": 1_346,
    "records": 950,
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
