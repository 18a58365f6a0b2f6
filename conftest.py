"""Examples in docstrings that need an extra run where it is installed; and the plugins of ci/ that all tests have.

The header of a test run names what was left out.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

# Tests run side by side, and threads of numpy's and torch's products, waiting for one another, take up to five times
# the processor. Programs that a test starts have the same.
for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

pytest_plugins = ["leaks", "shuffle"]

#: Extra -> the modules it installs, and the files of the package whose examples import them.
NEEDS = [
    ("render", ("mitsuba", "pyoidn"), ["../tellapart_render/*.py", "../tellapart_render/*/*.py"]),
    (
        "models",
        ("torch", "transformers"),
        [f"models/{name}.py" for name in ("fusion/*", "generative/*", "huggingface/*", "text/*", "torch/*")]
        + ["../tellapart_native/*.py", "../tellapart_native/*/*.py"],
    ),
    ("models", ("torch", "open_clip"), ["models/openclip/*.py"]),
    (
        "train",
        ("torch",),
        [
            "api/probe.py",
            *(f"training/{name}*.py" for name in ("", "data/", "losses/", "mining/")),
        ],
    ),
    ("video", ("av", "cv2"), ["builders/video/*.py"]),
    ("captions", ("torch", "nltk"), ["builders/captions/*.py"]),
    ("diffusion", ("torch", "diffusers"), ["../tellapart_render/diffusion/*.py"]),
    ("board", ("fastapi",), ["board/*.py", "board/views/*.py", "board/submissions/*.py"]),
    ("hub", ("huggingface_hub",), ["report/interchange/push.py"]),
    ("plot", ("matplotlib",), ["report/plots/*.py"]),
]

_MISSING = [need for need in NEEDS if not all(map(find_spec, need[1]))]

collect_ignore_glob = [f"src/tellapart/{pattern}" for _, _, patterns in _MISSING for pattern in patterns]


def pytest_report_header() -> list[str]:
    """Say which examples cannot run here."""
    return [
        f"no {extra} extra ({', '.join(modules)}), examples left out: {', '.join(patterns)}"
        for extra, modules, patterns in _MISSING
    ]
