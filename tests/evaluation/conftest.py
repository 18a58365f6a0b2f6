"""torchrun, on this machine."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def torchrun(installed, tmp_path) -> Callable[..., subprocess.Popen[str]]:
    """Start `torchrun ... -m tellapart run ...` in ranks of one thread each; torchrun deletes no logs."""
    logs = tmp_path / "logs"
    logs.mkdir()

    def start(
        *arguments: object, ranks: int = 2, launch: tuple[str, ...] = ("--standalone",), **environment: str
    ) -> subprocess.Popen[str]:
        launcher = [sys.executable, "-m", "torch.distributed.run", *launch, "--nproc-per-node", str(ranks)]
        return subprocess.Popen(
            [*launcher, "-m", "tellapart", "run", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
            | {"TMPDIR": str(logs)}
            | environment,
        )

    return start
