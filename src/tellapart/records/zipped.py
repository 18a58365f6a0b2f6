"""Run folders in a zip archive, as they are sent: unpacked into a temporary folder, bounded, and deleted after use."""

from __future__ import annotations

import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath

from tellapart.data.strict_json import first_repeated
from tellapart.errors import UNPACKED, RunError, quote

__all__ = ["MOST_BYTES", "MOST_FILES", "is_zipped", "unpack_run", "unpacked"]

#: Bounds of an archive's content. The items of a large run take 200 MB.
MOST_BYTES, MOST_FILES = 2 << 30, 100_000

#: JSON packs 50 to 1; an archive beyond this and 64 MiB is a bomb, whatever it says it holds.
_MOST_RATIO, _FREE = 200, 64 << 20

#: Others reserve the memory that the file asks for.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

_PIECE = 1 << 20


def is_zipped(path: Path) -> bool:
    """Return whether a path is a file that ends in `.zip`.

    >>> is_zipped(Path("runs/clip"))
    False
    """
    return path.suffix.lower() == ".zip" and path.is_file()


@contextmanager
def unpacked(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield run folders, archives of them unpacked until the block ends.

    Raises:
        RunError: an archive is damaged, too large, or holds a path that leaves it.
    """
    with ExitStack() as stack:
        yield [_unpack_for(stack, path) if is_zipped(path) else path for path in paths]


def _unpack_for(stack: ExitStack, path: Path) -> Path:
    into = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tellapart-")))
    UNPACKED[str(into / path.name)] = str(path)
    stack.callback(UNPACKED.pop, str(into / path.name))
    return unpack_run(path, into)


def unpack_run(path: Path, into: Path) -> Path:
    """Unpack an archive into a new folder of its name, and return the run folder, or the folder of runs, in it.

    Raises:
        RunError: it is damaged, too large, encrypted, packed in an unusual way, or holds a link, a name twice or a path
            that leaves it.
    """
    folder = into / path.name
    try:
        with zipfile.ZipFile(path) as archive:
            files = _check_entries(path, archive.infolist())
            room = min(MOST_BYTES, _FREE + _MOST_RATIO * path.stat().st_size)
            if sum(entry.file_size for entry in files) > room:
                raise RunError(f"{path} would unpack to more than {room:,} bytes: it is no archive of runs")
            for entry in files:
                room -= _unpack_file(archive, entry, folder / entry.filename, room)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise RunError(f"{path} cannot be unpacked ({' '.join(str(error).split()):.200}); copy it again") from error
    inside = list(folder.iterdir()) if folder.is_dir() else []
    # `zip -r clip.zip clip` puts the folder itself in.
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _check_entries(path: Path, entries: Sequence[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """Return the files of an archive: pages are left out, for a stranger's may hold anything."""
    if len(entries) > MOST_FILES:
        raise RunError(f"{path} holds {len(entries):,} files, more than {MOST_FILES:,}")
    for entry in entries:
        name, kind = PurePosixPath(entry.filename), stat.S_IFMT(entry.external_attr >> 16)
        outside = name.is_absolute() or ".." in name.parts or set(entry.orig_filename) & set("\\:\0")
        if outside or kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise RunError(f"{path} holds {quote(entry.orig_filename)}, a path that leaves it, or a link")
        if entry.flag_bits & 1:
            raise RunError(f"{path}: {quote(entry.filename)} is encrypted; unpack it, and name the folder")
        if entry.compress_type not in _METHODS:
            raise RunError(f"{path}: {quote(entry.filename)} is packed in an unusual way; pack it again with zip")
    files = [entry for entry in entries if not entry.is_dir() and not entry.filename.lower().endswith(".html")]
    if twice := first_repeated(str(PurePosixPath(entry.filename)) for entry in files):
        raise RunError(f"{path} holds {quote(twice)} twice")
    return files


def _unpack_file(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, to: Path, room: int) -> int:
    """Write one file, and return its size: what the archive's table claims of it is not believed."""
    to.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    with archive.open(entry) as source, to.open("xb") as target:
        while piece := source.read(_PIECE):
            size += len(piece)
            if size > room:
                raise RunError(f"{archive.filename} unpacks to more than it says: it is no archive of runs")
            target.write(piece)
    return size
