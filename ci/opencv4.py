"""OpenCV 4 beside the OpenCV 5 that is installed: the last one with the cascade detector of faces.

    python ci/opencv4.py OUT

Unpacks the package to OUT (162 MB), for a Python that has OUT on its path. It is pinned by version and SHA-256 and not
installed. Where it cannot be had, or this machine is none that it is built for, the reason is told, nothing is written,
and the exit status is 75.
"""

from __future__ import annotations

import argparse
import io
import platform
import sys
import zipfile
from pathlib import Path

from real_encoder import UNAVAILABLE, Package, UnavailableError, fetch

OPENCV = Package(
    "opencv-python-headless", "4.14.0.94", "211e581f5a4670acbbe08fff36a35e9946039d2eea28b80394632d036d1be527"
)


def main() -> int:
    """Unpack the package; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    try:
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            raise UnavailableError(f"the package is for Linux on x86_64, and this is {platform.platform()}")
        archive = fetch(OPENCV, out)
    except UnavailableError as error:
        sys.stderr.write(f"no OpenCV 4: {error}\n")
        return UNAVAILABLE
    with zipfile.ZipFile(io.BytesIO(archive)) as wheel:
        wheel.extractall(out)  # what is pinned by its SHA-256
    return 0


if __name__ == "__main__":
    sys.exit(main())
