"""A folder of videos as a source of stills: found by the video's name, decoded exactly, written as image files."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from tellapart.builders.video.clip_files import clip_files
from tellapart.builders.video.frames import EndOfVideoError, Frame, frame_at, frame_number
from tellapart.data.images import IMAGE_SUFFIXES, decode
from tellapart.errors import DataError, require

__all__ = ["Footage", "FootageOptions", "Missing", "Picture", "Still"]

_SUFFIX = {"png": ".png", "jpeg": ".jpg", "webp": ".webp"}

#: Stills of one video follow each other in a build, so the last ones are kept: a video's pairs share them.
_KEPT = 64


class FootageOptions(BaseModel):
    """Where the videos are, and how their frames are written: part of every video builder's `[options]`.

    Attributes:
        videos: the folder, relative to the recipe; a video is a file, or a folder of numbered frames.
        image_format: PNG keeps what was decoded exactly.
        quality: of JPEG and WebP.
        max_side: scale larger frames down to this; 0 leaves them as they are.
        min_difference: reject pairs whose frames differ less: mean absolute difference of 32x32 grey thumbnails, 0..1.

    >>> FootageOptions(videos="videos").image_format
    'png'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    videos: str
    image_format: Literal["png", "jpeg", "webp"] = "png"
    quality: int = Field(default=95, ge=1, le=100)
    max_side: int = Field(default=0, ge=0, le=8192)
    min_difference: float = Field(default=0.0, ge=0, le=1)


@dataclass(frozen=True, slots=True)
class Still:
    """A frame that is asked for, by seconds or by number, and the caption that is true of it.

    >>> Still("a man sits", seconds=2.5).number is None
    True
    """

    caption: str
    seconds: float | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """A still as a file of the set: its reference and bytes, its time in seconds, its thumbnail, and why it will not do.

    >>> Picture("images/v/1.000000.png", b"", 1.0, np.zeros((32, 32)), None).fault is None
    True
    """

    reference: str
    data: bytes
    time: float | None
    thumbnail: NDArray[np.float64]
    fault: str | None


@dataclass(frozen=True, slots=True)
class Missing:
    """Why there is no picture; the same on every run.

    >>> Missing("video", "not in the folder").step
    'video'
    """

    step: str
    reason: str


class Footage:
    """The videos of a folder.

    Args:
        options: where they are and how frames are written.
        home: the folder that the options' paths are relative to.
        fault: says of a frame's pixels why it will not do, or None.

    Raises:
        DataError: there is no such folder.
        MissingDependencyError: PyAV is not installed.

    >>> Footage(FootageOptions(videos="gone"), Path("."))
    Traceback (most recent call last):
    tellapart.errors.DataError: gone is no folder; name the folder of the videos in [options] videos
    """

    def __init__(
        self, options: FootageOptions, home: Path, fault: Callable[[NDArray[np.uint8]], str | None] | None = None
    ) -> None:
        require("av", extra="video")
        self.options = options
        self.folder = home / options.videos
        self._fault = fault or _no_fault
        self._picture = lru_cache(maxsize=_KEPT)(self._make_picture)
        if not self.folder.is_dir():
            raise DataError(f"{self.folder} is no folder; name the folder of the videos in [options] videos")

    @property
    def models(self) -> Mapping[str, str]:
        """The decoder and the encoder, with their versions: another one may round a pixel differently.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(Footage(FootageOptions(videos="."), Path(folder)).models)
        ['av', 'pillow']
        """
        return {name: metadata.version(name) for name in ("av", "pillow")}

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """The folder's videos by name; `clip_files` says which names they have."""
        return clip_files(self.folder)

    def check(self, videos: Iterable[str]) -> None:
        """Check that at least one of these videos is there: otherwise the folder is the wrong one.

        Raises:
            DataError: none is there, or one of them is several files.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "a.mp4").write_bytes(b"")
        ...     Footage(FootageOptions(videos="."), Path(folder)).check(["a", "b"])
        """
        asked = sorted(set(videos))
        if not [self.files[name] for name in asked if name in self.files]:
            raise DataError(
                f"{self.folder} holds none of the {len(asked)} videos that the annotations name ({', '.join(asked[:3])}); "
                "a video's file is named by its id"
            )

    def sha256(self, video: str) -> str | None:
        """Return the SHA-256 of a video's file, or None where it is a folder of frames.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "a.mp4").write_bytes(b"")
        ...     Footage(FootageOptions(videos="."), Path(folder)).sha256("a")[:6]
        'e3b0c4'
        """
        path = self.files[video]
        return _digest(path, path.stat().st_mtime_ns) if path.is_file() else None

    def picture(self, video: str, still: Still) -> Picture | Missing:
        """Return a still of a video, or why there is none; its caption does not matter.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Footage(FootageOptions(videos="."), Path(folder)).picture("a", Still("a cat", seconds=1.0))
        Missing(step='video', reason='not in the folder of videos')
        """
        return self._picture(video, still.seconds, still.number)

    def _make_picture(self, video: str, seconds: float | None, number: int | None) -> Picture | Missing:
        path = self.files.get(video)
        if path is None:
            return Missing("video", "not in the folder of videos")
        try:
            if seconds is not None:
                frame = frame_at(path, seconds)
                name = f"{frame.time:.6f}"
            else:
                name = f"{number:06d}"
                frame = _numbered(path, number or 0) if path.is_dir() else frame_number(path, number or 0)
        except EndOfVideoError:
            return Missing("video", "ends before the frame")
        except DataError as error:
            return Missing("video", str(error).replace(f"{path}: ", f"{path.name} "))
        time = frame.time if path.is_file() else None
        pixels = _scaled(frame.pixels, self.options.max_side)
        reference = f"images/{video}/{name}{_SUFFIX[self.options.image_format]}"
        return Picture(reference, self._encoded(pixels), time, _thumbnail(pixels), self._fault(frame.pixels))

    def _encoded(self, pixels: NDArray[np.uint8]) -> bytes:
        from PIL import Image

        stream = io.BytesIO()
        quality = {} if self.options.image_format == "png" else {"quality": self.options.quality}
        Image.fromarray(pixels).save(stream, self.options.image_format, **quality)
        return stream.getvalue()


def _numbered(folder: Path, number: int) -> Frame:
    """Read a dumped frame: VIDEO/000682.png, in any image format that is read here."""
    for suffix in sorted(IMAGE_SUFFIXES):
        path = folder / f"{number:06d}{suffix}"
        if path.is_file():
            return Frame(decode(path.read_bytes(), str(path)), 0.0)
    raise EndOfVideoError(f"{folder}: has no frame {number:06d}")


def _scaled(pixels: NDArray[np.uint8], max_side: int) -> NDArray[np.uint8]:
    from PIL import Image

    height, width = pixels.shape[:2]
    if not max_side or max(height, width) <= max_side:
        return pixels
    scale = max_side / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS))


def _thumbnail(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    from PIL import Image

    small = Image.fromarray(pixels).convert("L").resize((32, 32), Image.Resampling.BOX)
    return np.asarray(small, np.float64) / 255


@lru_cache(maxsize=256)
def _digest(path: Path, _changed: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _no_fault(_pixels: NDArray[np.uint8]) -> str | None:
    """Find nothing wrong with a frame."""
