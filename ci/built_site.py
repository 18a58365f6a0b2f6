"""The frame of a check of a built site: it takes a folder, prints what it finds, and returns an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path


def check_site(find: Callable[[Path], Iterable[str]]) -> int:
    """Print what is found in the site of the first argument; return 1 if anything is, or if there is no site."""
    folder = Path(sys.argv[1])
    if not (folder / "index.html").is_file():
        sys.stderr.write(f"{folder} holds no site: build it with `make site`\n")
        return 1
    lines = list(find(folder))
    sys.stderr.writelines(f"{line}\n" for line in lines)
    return 1 if lines else 0
