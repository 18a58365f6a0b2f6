"""Examples in docstrings that need an extra run where it is installed; the header of a test run names what was left out."""

from __future__ import annotations

from importlib.util import find_spec

#: The modules whose examples render a scene.
_RENDERING = [f"src/tellapart/build/{name}.py" for name in ("demo", "render", "training_scenes", "verify")]

collect_ignore = [] if find_spec("mitsuba") and find_spec("pyoidn") else _RENDERING


def pytest_report_header() -> list[str]:
    """Say which examples cannot run here."""
    return (
        [f"no render extra (mitsuba, pyoidn), examples left out: {', '.join(collect_ignore)}"] if collect_ignore else []
    )
