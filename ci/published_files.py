"""Fetch the published annotation and score files that tests read, each by its commit, and check its SHA-256.

    python ci/published_files.py DIR [--only SOURCE]... [--from URL]

`published_files.toml` names each source's repository, commit, licence and files. A file is written to DIR/SOURCE once
its bytes have the digest of the table; a file that is there is read, not fetched again, and never written over. Tests
read `../shared/data`, seen from the project's root. The exit status is 1 if a file could not be had.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
HOST = "https://raw.githubusercontent.com"
AT_MOST = 64 * 2**20


class PublishedFile(NamedTuple):
    """A file of a repository: where it is kept, its address below the host, and the SHA-256 of its bytes."""

    name: str
    address: str
    sha256: str


def files_of(source: str) -> Iterator[PublishedFile]:
    """The files of a source; an entry is a digest, or a table with the file's path or commit beside it."""
    table = SOURCES[source]
    for name, entry in table["files"].items():
        file = {"sha256": entry} if isinstance(entry, str) else entry
        path = file.get("path", table.get("folder", "") + name)
        commit = file.get("commit", table["commit"])
        yield PublishedFile(name, f"{table['repository']}/{commit}/{path}", file["sha256"])


def fetch(file: PublishedFile, to: Path, host: str) -> str:
    """Write a file that is not there yet; return what is wrong, or nothing."""
    if to.exists():
        is_same = hashlib.sha256(to.read_bytes()).hexdigest() == file.sha256
        return "" if is_same else f"{to}: other bytes than the table's; move the file away to fetch it"
    address = f"{host}/{urllib.parse.quote(file.address)}"
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - the address is the caller's
            content = answer.read(AT_MOST + 1)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        return f"{address}: {error}"
    if (digest := hashlib.sha256(content).hexdigest()) != file.sha256:
        return f"{address}: {len(content)} bytes with SHA-256 {digest}, not {file.sha256}; nothing was written"
    to.parent.mkdir(parents=True, exist_ok=True)
    partial = to.with_name(f"{to.name}.{os.getpid()}.part")
    partial.write_bytes(content)
    partial.replace(to)
    return ""


def main() -> int:
    """Fetch the files; print a line for each source and each failure; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="tests read ../shared/data")
    parser.add_argument("--only", action="append", metavar="SOURCE", help=", ".join(SOURCES))
    parser.add_argument("--from", dest="host", default=HOST, metavar="URL", help=f"a mirror; by default {HOST}")
    options = parser.parse_args()
    if unknown := set(options.only or ()) - set(SOURCES):
        parser.error(f"no source {', '.join(sorted(unknown))}; they are {', '.join(SOURCES)}")
    status = 0
    for source in options.only or SOURCES:
        files = list(files_of(source))
        failures = [why for file in files if (why := fetch(file, options.folder / source / file.name, options.host))]
        table = SOURCES[source]
        count = f"{len(files) - len(failures)} of {len(files)}"
        sys.stdout.write(f"{source}: {count} files of {table['repository']} (licence: {table['licence']})\n")
        sys.stdout.flush()
        sys.stderr.writelines(f"  {why}\n" for why in failures)
        status |= bool(failures)
    return status


if __name__ == "__main__":
    sys.exit(main())
