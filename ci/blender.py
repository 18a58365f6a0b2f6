"""An interpreter with Blender's module (0.9 GB), for the tests of the renderer `blender`: `python ci/blender.py OUT`.

The module is GPL-3.0 and needs numpy before 2, so that it is no dependency. Where it cannot be had or does not start,
the reason is told, OUT is removed, and the exit status is 75.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

UNAVAILABLE = 75

#: For Python 3.11 on Linux and x86_64.
REQUIREMENTS = """
bpy==4.5.15 --hash=sha256:19203fb7825b005d2024b2e724d600fc82550a6deea71fbcc4447244df9ea737
numpy==1.26.4 --hash=sha256:666dbfb6ec68962c033a450943ded891bed2d54e6755e35e5835d63f4f6931d5
"""


def main() -> int:
    """Make the environment; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    python = out / "bin" / "python"
    if starts(python) is None:
        return 0
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write(REQUIREMENTS)
        listed.flush()
        uv = [sys.executable, "-m", "uv"]
        install = ["pip", "install", "-q", "--python", str(python), "--no-deps", "--only-binary", ":all:"]
        reason = (
            run(*uv, "venv", "-q", "--python", "3.11", str(out))
            or run(*uv, *install, "--require-hashes", "-r", listed.name)
            or starts(python)
        )
    if reason is None:
        return 0
    shutil.rmtree(out, ignore_errors=True)
    sys.stderr.write(f"no Blender: {reason}\n")
    return UNAVAILABLE


def starts(python: Path) -> str | None:
    """Return why an interpreter cannot import the module, or None."""
    return run(str(python), "-I", "-c", "import bpy")


def run(*command: str) -> str | None:
    """Run a command; return why it failed, or None."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr.strip() or f"exit status {done.returncode}")[-500:] if done.returncode else None


if __name__ == "__main__":
    sys.exit(main())
