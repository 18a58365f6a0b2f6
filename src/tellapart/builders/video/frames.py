"""One frame of a video, exactly: the one on the screen at a time, or the one of a number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.video import upright
from tellapart.errors import DataError, require

#: Annotated times are rounded: half a millisecond keeps 0.0333 on the frame of 1/30 s, and is far less than a frame.
_ROUNDING = Fraction(1, 2000)

#: Seconds further back to begin decoding when a seek came out behind the frame; then from the very beginning.
_FURTHER_BACK = (0, 2, 10)


class EndOfVideoError(DataError):
    """The video ends before the requested frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame, upright: RGB uint8 `(height, width, 3)`, and the seconds from the video's first frame to it."""

    pixels: NDArray[np.uint8]
    time: float


def scaled_size(pixels: NDArray[np.uint8], side: int) -> tuple[int, int]:
    """Return the width and height of a frame that is scaled until its longer side is `side`."""
    height, width = pixels.shape[:2]
    scale = side / max(height, width)
    return max(1, round(width * scale)), max(1, round(height * scale))


def frame_at(path: Path, seconds: float) -> Frame:
    """Return the frame that is on the screen `seconds` after the first frame appeared.

    It is found by presentation timestamps, so reordered frames (B-frames), variable frame rates and videos that do not
    begin at 0 make no difference, nor do the places of its key frames.
    """
    if not (math.isfinite(seconds) and seconds >= 0):
        raise DataError(f"{path}: there is no frame at {seconds} s; a time is a number of seconds from 0")
    with _open_video(path) as (container, stream):
        first = next(_decode_frames(container, stream, path), None)
        if first is None:
            raise EndOfVideoError(f"{path}: holds no frame")
        base = Fraction(stream.time_base)
        target = first.pts + math.floor((Fraction(seconds) + _ROUNDING) / base)
        current, followed = _on_screen(container, stream, target, path)
        end = current.pts + (current.duration or 1)
        if not followed and target >= end:
            raise EndOfVideoError(
                f"{path}: ends after {float((end - first.pts) * base):.3f} s; there is no frame at {seconds:.3f} s"
            )
        return Frame(upright(current), float((current.pts - first.pts) * base))


def frame_number(path: Path, number: int) -> Frame:
    """Return the frame of a number, counting decoded frames from 1 as `ffmpeg -i VIDEO %06d.png` does at a steady
    rate.
    """
    if number < 1:
        raise DataError(f"{path}: there is no frame number {number}; frames are counted from 1")
    start, count = 0, 0
    with _open_video(path) as (container, stream):
        for count, frame in enumerate(_decode_frames(container, stream, path), start=1):
            start = frame.pts if count == 1 else start
            if count == number:
                if frame.is_corrupt:
                    raise DataError(f"{path}: its frame number {number} is damaged; get the video again")
                return Frame(upright(frame), float((frame.pts - start) * Fraction(stream.time_base)))
    raise EndOfVideoError(f"{path}: has {count} frames; there is no frame number {number}")


@contextmanager
def _open_video(path: Path) -> Iterator[tuple[Any, Any]]:
    """Open a video file and its best video stream; FFmpeg's errors become DataErrors."""
    av = require("av", extra="video")
    try:
        with av.open(str(path), metadata_errors="replace") as container:  # a title in an old encoding does no harm
            stream = container.streams.best("video")
            if stream is None:
                raise DataError(f"{path}: holds no video; is it complete?")
            if stream.codec_context is None:
                raise DataError(
                    f"{path}: is in a format that this FFmpeg does not decode; convert it, for instance to H.264"
                )
            stream.codec_context.thread_count = 1  # a build's workers run at once
            yield container, stream
    except av.FFmpegError as error:
        raise DataError(f"{path}: cannot be decoded ({error.strerror}); is it a complete video?") from error


def _decode_frames(container: Any, stream: Any, path: Path) -> Iterator[Any]:
    """Yield frames in the order in which they are shown, from the container's position on."""
    for frame in container.decode(stream):
        if frame.pts is None:
            raise DataError(f"{path}: its frames have no timestamps; remux it, for instance into an MP4 file")
        yield frame


def _on_screen(container: Any, stream: Any, target: int, path: Path) -> tuple[Any, bool]:
    """Return the last frame with a timestamp of at most `target`, and whether another one follows.

    A seek may come out too late: some formats look for decoding times, and the frames before an open group's key frame
    cannot be decoded from it. Then it begins further back.
    """
    for back in _FURTHER_BACK:
        container.seek(target - int(back / stream.time_base), stream=stream)
        current, followed = _last_until(_decode_frames(container, stream, path), target)
        if current is not None and not current.is_corrupt:
            return current, followed
    with _open_video(path) as (anew, film):
        current, followed = _last_until(_decode_frames(anew, film, path), target)
    if current is None or current.is_corrupt:
        raise DataError(f"{path}: its frame at timestamp {target} is damaged; get the video again")
    return current, followed


def _last_until(frames: Iterator[Any], target: int) -> tuple[Any | None, bool]:
    current = None
    for frame in frames:
        if frame.pts > target:
            return current, True
        current = frame
    return current, False
