"""Examples in docstrings that need an extra run where it is installed; the header of a test run names what was left out."""

from __future__ import annotations

from importlib.util import find_spec

#: Extra -> what it installs that the examples of these modules import.
_NEEDS = [
    (
        "render",
        ("mitsuba", "pyoidn"),
        [f"builders/rendered/{name}.py" for name in ("demo", "mitsuba", "scenes_builder", "training_scenes", "verify")],
    ),
    (
        "models",
        ("torch", "transformers"),
        [f"models/{name}.py" for name in ("flops", "fusion/*", "generative/*", "huggingface/*", "text/*", "torch_*")],
    ),
    ("models", ("torch", "open_clip"), ["models/openclip/*.py"]),
    ("train", ("torch",), ["train/*.py", "train/losses/*.py"]),
]

_MISSING = [need for need in _NEEDS if not all(map(find_spec, need[1]))]

collect_ignore_glob = [f"src/tellapart/{pattern}" for _, _, patterns in _MISSING for pattern in patterns]


def pytest_report_header() -> list[str]:
    """Say which examples cannot run here."""
    return [
        f"no {extra} extra ({', '.join(modules)}), examples left out: {', '.join(patterns)}"
        for extra, modules, patterns in _MISSING
    ]
