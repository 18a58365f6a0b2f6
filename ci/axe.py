"""axe-core, the accessibility checker that tests run in a browser on the board's pages.

    python ci/axe.py OUT

Writes `OUT/axe.min.js`. The package is pinned by version and SHA-256, kept in OUT, read as an archive and never
installed. It is not the product's: where it cannot be had, the reason is told, nothing is written, and the exit status
is 75.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from real_encoder import UNAVAILABLE, Package, UnavailableError, fetch, member

AXE = Package("axe-core", "4.10.3", "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292", "npm")


def main() -> int:
    """Write the script; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    try:
        archive = fetch(AXE, out)
    except UnavailableError as error:
        sys.stderr.write(f"no axe-core: {error}\n")
        return UNAVAILABLE
    (out / "axe.min.js").write_bytes(member(archive, "/axe.min.js"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
