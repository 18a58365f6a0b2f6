"""What a disk holds if the power fails: an image of a folder at every change of its names and at every sync.

A program is run with a small library loaded before its own (`LD_PRELOAD`), which stops it at each of these system
calls until the folder has been looked at. Of a file only what was there at its last sync is on the disk. Names are
there in one of two ways, since a system may write them early or late: all that were given, or those alone whose folder
was synced since.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

#: Path below the folder -> a file's bytes, or None for a folder.
Image = Mapping[str, bytes | None]


@dataclass(eq=False)
class _Node:
    """A file or folder, and what of it is on the disk: `data` of a file, `names` of a folder."""

    is_folder: bool
    data: bytes = b""
    names: dict[str, _Node] = field(default_factory=dict)
    now: dict[str, _Node] = field(default_factory=dict)


class _Disk:
    def __init__(self, root: Path) -> None:
        self._root, self._nodes = root, {}
        self.images: list[Image] = []
        self._top = self._look()
        self._keep_all(self._top, root)

    def _keep_all(self, node: _Node, path: Path) -> None:
        """Take what is there before the program starts as on the disk."""
        node.names = dict(node.now)
        for name, child in node.now.items():
            if child.is_folder:
                self._keep_all(child, path / name)
            else:
                child.data = (path / name).read_bytes()

    def _look(self) -> _Node:
        seen: dict[int, _Node] = {}

        def visit(path: Path | os.DirEntry[str]) -> _Node:
            number, is_folder = path.stat(follow_symlinks=False).st_ino, path.is_dir()
            node = self._nodes.get(number)
            if node is None or node.is_folder != is_folder:
                node = _Node(is_folder)
            seen[number] = self._nodes[number] = node
            if is_folder:
                node.now = {}
                with os.scandir(path) as entries:
                    for entry in entries:
                        if entry.is_symlink() or entry.is_file() or entry.is_dir():  # no sockets
                            try:
                                node.now[entry.name] = visit(entry)
                            except FileNotFoundError:  # another thread's, deleted just now
                                continue
            return node

        top = visit(self._root)
        self._nodes = seen  # a number is given again to the next file
        return top

    def note(self, synced: str) -> None:
        """Look at the folder after a call; `synced`: the file or folder of a sync."""
        self._top = self._look()
        path = Path(synced)
        if path.is_absolute() and path.exists() and path.is_relative_to(self._root):
            node = self._nodes.get(path.stat().st_ino)
            if node is not None and node.is_folder:
                node.names = dict(node.now)
            elif node is not None:
                node.data = path.read_bytes()
        for late in (False, True):
            image: dict[str, bytes | None] = {}
            _collect(self._top, "", image, late=late)
            if image not in self.images[-4:]:
                self.images.append(image)


def _collect(node: _Node, place: str, image: dict[str, bytes | None], *, late: bool) -> None:
    for name, child in (node.names if late else node.now).items():
        path = f"{place}{name}"
        image[path] = None if child.is_folder else child.data
        if child.is_folder:
            _collect(child, f"{path}/", image, late=late)


def build_library(folder: Path) -> Path:
    """Compile the library; skip the test where there is no compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler on this machine")
    source, library = Path(__file__).with_suffix(".c"), folder / "power.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def images_of(command: list[str], root: Path, library: Path, **environment: str) -> list[Image]:
    """Run a program; return the different images of a folder, those of no change in a row left out."""
    address = library.parent / "power.sock"
    address.unlink(missing_ok=True)
    disk = _Disk(root)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen(64)

        def answer() -> None:
            while True:
                try:
                    line, _ = listening.accept()
                except OSError:
                    return
                with line:
                    said = line.recv(4096).decode()
                    if said == "end":
                        return
                    disk.note(said)
                    line.sendall(b"1")

        thread = threading.Thread(target=answer)
        thread.start()
        more = {"LD_PRELOAD": str(library), "POWER_SOCKET": str(address), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                command, env={**os.environ, **environment, **more}, capture_output=True, text=True, check=False
            )
        finally:
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(str(address))
                last.sendall(b"end")
            thread.join()
    assert done.returncode == 0, done.stderr
    return disk.images


def restore(image: Image, root: Path) -> None:
    """Make a folder hold exactly an image."""
    shutil.rmtree(root)
    root.mkdir(mode=0o700)
    for path, data in image.items():
        place = root / path
        if data is None:
            place.mkdir(mode=0o700)
        else:
            place.write_bytes(data)
            place.chmod(0o600)
