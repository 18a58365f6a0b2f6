"""Run folders in a zip archive, as they are sent: unpacked into a temporary folder, bounded, and deleted after use."""

from __future__ import annotations

import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path, PurePosixPath

from tellapart.data.arguments import PathGiven, as_paths
from tellapart.data.strict_json import first_repeated
from tellapart.errors import UNPACKED, RunError, quote
from tellapart.records.run_folder import SAMPLES

#: Bounds of an archive's content. The items of a large run take 200 MB.
MOST_BYTES, MOST_FILES = 2 << 30, 100_000

#: JSON packs 50 to 1; an archive beyond this and 64 MiB is a bomb, whatever its index lists.
_MOST_RATIO, _FREE = 200, 64 << 20


@contextmanager
def unpacked(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield run folders, archives of them unpacked until the block ends."""
    opened: dict[Path, tuple[Path, Path]] = {}
    with ExitStack() as stack:
        yield [_open_path(stack, path, opened) for path in paths]


def run_folders(value: PathGiven | Sequence[PathGiven], name: str) -> AbstractContextManager[list[Path]]:
    """Return `unpacked` of one run folder or several, which the argument `name` gave."""
    return unpacked(as_paths(value, name))


def archive_of(path: Path) -> Path | None:
    """Return the archive that a path is, or leads into, as `runs.zip/mine` does; None without one."""
    places = (path, *path.parents)
    return next((place for place in places if place.suffix.lower() == ".zip" and place.is_file()), None)


def _open_path(stack: ExitStack, path: Path, opened: dict[Path, tuple[Path, Path]]) -> Path:
    """Return a run folder; of an archive, unpacked once. `runs.zip/mine` is the run `mine` in `runs.zip`."""
    if (archive := archive_of(path)) is None:
        return path
    if (whole := archive.resolve()) not in opened:
        into = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tellapart-")))
        UNPACKED[str(into / archive.name)] = str(archive)
        stack.callback(UNPACKED.pop, str(into / archive.name))
        opened[whole] = (into / archive.name, unpack_run(archive, into))
    (place, root), name = opened[whole], path.relative_to(archive)
    return place / name if name.parts and (place / name).is_dir() else root / name


def unpack_run(path: Path, into: Path) -> Path:
    """Unpack an archive into a new folder of its name, and return the run folder, or the folder of runs, in it."""
    folder = into / path.name
    try:
        with zipfile.ZipFile(path) as archive:
            files = _check_entries(path, archive.infolist())
            room = min(MOST_BYTES, _FREE + _MOST_RATIO * path.stat().st_size)
            # No more is read of a file than the archive's table claims of it: a larger one has another checksum.
            if sum(entry.file_size for entry in files) > room:
                raise RunError(f"{path} would unpack to more than {room:,} bytes: it is no archive of runs")
            for entry in files:
                (to := folder / entry.filename).parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, to.open("xb") as target:
                    shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise RunError(f"{path} cannot be unpacked ({' '.join(str(error).split()):.200}); copy it again") from error
    # `zip -r clip.zip runs/clip` puts the folders above its files in.
    while len(inside := [*folder.glob("*")]) == 1 and inside[0].is_dir() and inside[0].name != SAMPLES:
        folder = inside[0]
    return folder


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
        if entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:  # others reserve memory as asked
            raise RunError(f"{path}: {quote(entry.filename)} is packed in an unusual way; pack it again with zip")
    files = [entry for entry in entries if not entry.is_dir() and not entry.filename.lower().endswith(".html")]
    if twice := first_repeated(str(PurePosixPath(entry.filename)) for entry in files):
        raise RunError(f"{path} holds {quote(twice)} twice")
    return files
