"""Stills from a folder of videos: found by the video's name, decoded exactly, written as image files."""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from tellapart.builders.builder import Rejected
from tellapart.builders.video.frames import EndOfVideoError, Frame, frame_at, frame_number, scaled_size
from tellapart.data.images import IMAGE_SUFFIXES, decode
from tellapart.data.strict_json import read_whole
from tellapart.errors import DataError, nearest, plain, require

_log = logging.getLogger(__name__)

_SUFFIX = {"png": ".png", "jpeg": ".jpg", "webp": ".webp"}

#: Stills of one video follow each other in a build, so the last ones are kept: a video's pairs share them.
_CACHED_STILLS = 64

#: Suffixes of other files next to videos; any other suffix is left to FFmpeg to judge.
_NO_VIDEO = frozenset(
    {*IMAGE_SUFFIXES, ".json", ".jsonl", ".csv", ".tsv", ".txt", ".md", ".srt", ".vtt", ".wav", ".mp3", ".m4a", ".aac"}
    | {".pkl", ".zip", ".tar", ".gz", ".part", ".ytdl", ".toml", ".yaml", ".xml", ".log"}
)

#: Kinetics' files: the id, then the clip's first and last second.
_KINETICS = re.compile(r"^(.+)_\d{6}_\d{6}$")


class FootageOptions(BaseModel):
    """The folder of videos, and the format of their frames: part of every video builder's `[options]`.

    Attributes:
        videos: the folder, relative to the recipe; a video is a file, or a folder of numbered frames.
        image_format: PNG keeps the decoded pixels exactly.
        quality: of JPEG and WebP.
        max_side: scale larger frames down to this; 0 leaves them as they are.
        min_difference: reject pairs whose frames differ less: mean absolute difference of 32x32 grey thumbnails, 0..1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    videos: str
    image_format: Literal["png", "jpeg", "webp"] = "png"
    quality: int = Field(default=95, ge=1, le=100)
    max_side: int = Field(default=0, ge=0, le=8192)
    min_difference: float = Field(default=0.0, ge=0, le=1)


@dataclass(frozen=True, slots=True)
class Still:
    """A frame, given by seconds or by number, and the caption that is true of it."""

    caption: str
    seconds: float | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class StillFile:
    """A still as a file of the set: reference, bytes, time in seconds, thumbnail, and a fault or None."""

    reference: str
    data: bytes
    time: float | None
    thumbnail: NDArray[np.float64]
    fault: str | None


class _Files(Mapping[str, Path]):
    """Files by name; to look up a name that several files have is an error."""

    def __init__(self, paths: Mapping[str, list[Path]]) -> None:
        self._paths = paths

    def __getitem__(self, name: str) -> Path:
        paths = self._paths[name]
        if len(paths) > 1:
            several = " and ".join(str(path) for path in sorted(paths)[:3])
            raise DataError(f"video {name!r} is {several}; keep one of them in the folder of videos")
        return paths[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def clip_files(folder: Path) -> Mapping[str, Path]:
    """Return a folder's videos, also those of its sub-folders, by name.

    A file `ID.mp4`, of any suffix that is not a picture's, a text's or a sound's, has the names `ID` and `ID.mp4`;
    Kinetics' `ID_000010_000020.mp4` is `ID`, too. A folder of pictures is a video's dumped frames, under its name.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "-kqZ_000010_000020.mkv").write_bytes(b"")
    ...     sorted(clip_files(Path(folder)))
    ['-kqZ', '-kqZ_000010_000020', '-kqZ_000010_000020.mkv']
    """
    paths: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.name.startswith("."):
            continue
        if path.suffix.lower() in IMAGE_SUFFIXES:
            frames = path.parent
            if frames != folder and frames not in paths.setdefault(frames.name, []):
                paths[frames.name].append(frames)
        elif path.suffix.lower() not in _NO_VIDEO:
            clip = _KINETICS.match(path.stem)
            for name in dict.fromkeys([path.name, path.stem, *([clip[1]] if clip else [])]):
                paths.setdefault(name, []).append(path)
    return _Files(paths)


class Footage:
    """The videos of a folder; `models` has the versions of decoder and encoder: others may round a pixel
    differently.
    """

    def __init__(
        self, options: FootageOptions, home: Path, find_fault: Callable[[NDArray[np.uint8]], str | None] | None = None
    ) -> None:
        require("av", extra="video")
        self.options = options
        self.folder = home / options.videos
        self.models: Mapping[str, str] = {name: metadata.version(name) for name in ("av", "pillow")}
        self._find_fault = find_fault
        self._still = lru_cache(maxsize=_CACHED_STILLS)(self._make_still)
        if not self.folder.is_dir():
            raise DataError(f"{self.folder} is not a folder; name the folder of the videos in [options] videos")

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """The folder's videos by the names that `clip_files` gives them."""
        return clip_files(self.folder)

    def check(self, videos: Iterable[str]) -> None:
        """Check that at least one of these videos is there: otherwise the folder is the wrong one."""
        names = sorted(set(videos))
        gone = [name for name in names if name not in self.files]
        if gone and len(gone) < len(names):
            listed = plain(", ".join(name + nearest(name, self.files) for name in gone[:3]))
            lacking = plain(f"{self.folder} lacks {len(gone)} of the {len(names)} videos that are named")
            _log.warning("%s: %s", lacking, listed)
        if not [self.files[name] for name in names if name in self.files]:
            raise DataError(
                f"{self.folder} holds none of the {len(names)} videos that the annotations name "
                f"({', '.join(names[:3])}); a video's file is named by its id"
            )

    def sha256(self, video: str) -> str | None:
        """Return the SHA-256 of a video's file, or None if it is a folder of frames."""
        path = self.files[video]
        return _video_sha256(path, path.stat().st_mtime_ns) if path.is_file() else None

    def still(self, video: str, still: Still) -> StillFile | Rejected:
        """Return a still of a video, or the reason why there is none; its caption does not matter."""
        return self._still(video, still.seconds, still.number)

    def _make_still(self, video: str, seconds: float | None, number: int | None) -> StillFile | Rejected:
        path = self.files.get(video)
        if path is None:
            return Rejected("video", "not in the folder of videos")
        try:
            if seconds is not None:
                frame = frame_at(path, seconds)
                name = f"{frame.time:.6f}"
            else:
                name = f"{number:06d}"
                frame = _read_dumped(path, number or 0) if path.is_dir() else frame_number(path, number or 0)
        except EndOfVideoError as error:
            end = str(error).replace(f"{path}: ", f"{path.name} ").partition(";")[0]
            return Rejected("video", f"ends before the frame: {end}")
        except DataError as error:
            return Rejected("video", str(error).replace(f"{path}: ", f"{path.name} "))
        time = frame.time if path.is_file() else None
        fault = self._find_fault(frame.pixels) if self._find_fault else None
        pixels = _shrink_picture(frame.pixels, self.options.max_side)
        reference = f"images/{video}/{name}{_SUFFIX[self.options.image_format]}"
        return StillFile(reference, self._encode_picture(pixels), time, _make_thumbnail(pixels), fault)

    def _encode_picture(self, pixels: NDArray[np.uint8]) -> bytes:
        from PIL import Image

        stream = io.BytesIO()
        quality = {} if self.options.image_format == "png" else {"quality": self.options.quality}
        Image.fromarray(pixels).save(stream, self.options.image_format, **quality)
        return stream.getvalue()


def _read_dumped(folder: Path, number: int) -> Frame:
    """Read a dumped frame: VIDEO/000682.png, in any image format that is read here."""
    for suffix in sorted(IMAGE_SUFFIXES):
        path = folder / f"{number:06d}{suffix}"
        if path.is_file():
            return Frame(decode(read_whole(path), str(path)), 0.0)
    raise EndOfVideoError(f"{folder}: has no frame {number:06d}")


def _shrink_picture(pixels: NDArray[np.uint8], max_side: int) -> NDArray[np.uint8]:
    from PIL import Image

    if not max_side or max(pixels.shape[:2]) <= max_side:
        return pixels
    return np.asarray(Image.fromarray(pixels).resize(scaled_size(pixels, max_side), Image.Resampling.LANCZOS))


def _make_thumbnail(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    from PIL import Image

    small = Image.fromarray(pixels).convert("L").resize((32, 32), Image.Resampling.BOX)
    return np.asarray(small, np.float64) / 255


@lru_cache(maxsize=256)
def _video_sha256(path: Path, _changed: int) -> str:
    return file_sha256(path)


def file_sha256(path: Path) -> str:
    """Return a file's SHA-256."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
