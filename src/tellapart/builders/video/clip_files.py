"""Which file of a folder is which video."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tellapart.data.images import IMAGE_SUFFIXES
from tellapart.errors import DataError

__all__ = ["clip_files"]

#: What stands beside videos; any other suffix is left to FFmpeg to judge.
_NO_VIDEO = frozenset(
    {*IMAGE_SUFFIXES, ".json", ".jsonl", ".csv", ".tsv", ".txt", ".md", ".srt", ".vtt", ".wav", ".mp3", ".m4a", ".aac"}
    | {".pkl", ".zip", ".tar", ".gz", ".part", ".ytdl", ".toml", ".yaml", ".xml", ".log"}
)

#: Kinetics' files: the id, then the clip's first and last second.
_KINETICS = re.compile(r"^(.+)_\d{6}_\d{6}$")


class _Files(Mapping[str, Path]):
    """Files by name; a name that several files have is refused when it is asked for."""

    def __init__(self, found: Mapping[str, list[Path]]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> Path:
        paths = self._found[name]
        if len(paths) > 1:
            shown = " and ".join(str(path) for path in sorted(paths)[:3])
            raise DataError(f"video {name!r} is {shown}; keep one of them in the folder of videos")
        return paths[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def clip_files(folder: Path) -> Mapping[str, Path]:
    """Return a folder's videos, also those of its sub-folders, by name.

    A file `ID.mp4`, of any suffix that is not a picture's, a text's or a sound's, has the names `ID` and `ID.mp4`; Kinetics'
    `ID_000010_000020.mp4` is `ID`, too. A folder that holds pictures is a video's dumped frames, under its own name.

    Raises:
        DataError: on asking for a name that several files have.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "-kqZ_000010_000020.mkv").write_bytes(b"")
    ...     sorted(clip_files(Path(folder)))
    ['-kqZ', '-kqZ_000010_000020', '-kqZ_000010_000020.mkv']
    """
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.name.startswith("."):
            continue
        if path.suffix.lower() in IMAGE_SUFFIXES:
            frames = path.parent
            if frames != folder and frames not in found.setdefault(frames.name, []):
                found[frames.name].append(frames)
        elif path.suffix.lower() not in _NO_VIDEO:
            clip = _KINETICS.match(path.stem)
            for name in dict.fromkeys([path.name, path.stem, *([clip[1]] if clip else [])]):
                found.setdefault(name, []).append(path)
    return _Files(found)
