"""Trackers of training for the tests: wandb, trackio, and lightning with its loggers, installed to OUT (113 MB).

Where that fails, the reason is on stderr, OUT is removed, and the exit status is 75.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from environment import find_uv, uv_environment
from real_encoder import UNAVAILABLE

TRACKERS = ("wandb==0.31.0", "trackio==0.43.0", "lightning==2.6.6")


def find_missing(planned: str) -> list[str]:
    """Return the packages that `uv pip install --dry-run` would add, without those that it would exchange.

    >>> find_missing("Would install 2 packages\\n - pillow==13.0.0\\n + pillow==12.3.0\\n + wandb==0.31.0\\n")
    ['wandb==0.31.0']
    """
    lines = re.findall(r"^ ([+-]) (\S+)==(\S+)$", planned, re.MULTILINE)
    gone = {name for sign, name, _ in lines if sign == "-"}
    return [f"{name}=={version}" for sign, name, version in lines if sign == "+" and name not in gone]


def main() -> int:
    """Install the trackers; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    uv = find_uv(Path(sys.executable))
    if uv is None:
        sys.stderr.write("no trackers: they need uv, and it could not be installed\n")
        return UNAVAILABLE
    settings = uv_environment()
    install = [uv, "pip", "install", "--python", sys.executable]
    line = [*install, "--dry-run", *TRACKERS]
    plan = subprocess.run(line, env=settings, capture_output=True, text=True, check=False)  # noqa: S603
    # All but what is installed already: a second torch would be two gigabytes.
    added = find_missing(plan.stderr)
    if plan.returncode == 0:
        line = [*install, "--quiet", "--no-deps", "--target", str(out), *added]
        if not added or subprocess.run(line, env=settings, check=False).returncode == 0:  # noqa: S603
            return 0
    sys.stderr.write(f"no trackers: {plan.stderr.strip()[-2000:]}\n")
    shutil.rmtree(out, ignore_errors=True)
    return UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
