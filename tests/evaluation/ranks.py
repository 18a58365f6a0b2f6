"""Runs in several ranks: how one ends, and all that its folder holds."""

import socket
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tellapart.evaluation.verified import read_result
from tellapart.records.run_folder import find_runs

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torchrun is part of torch, of the extra 'models'")


def measured(folder: Path) -> list[Any]:
    """All that a run folder says of the models, but what it cost."""
    found: list[Any] = []
    for each in find_runs(folder):
        result = read_result(each)
        for name, record in result.benchmarks.items():
            cost = {"seconds": 0, "images_encoded": 0, "texts_encoded": 0, "texts_shared": 0, "pairs_scored": 0}
            found.append((result.model, name, record.model_copy(update=cost)))
        found += [(path.name, path.read_text()) for path in sorted((each / "samples").iterdir())]
    return found


def computed(folder: Path) -> int:
    """How many images, texts and pairs the process that wrote the run folder computed."""
    records = [record for each in find_runs(folder) for record in read_result(each).benchmarks.values()]
    return sum(record.images_encoded + record.texts_encoded + record.pairs_scored for record in records)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def free_port() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return str(listening.getsockname()[1])
