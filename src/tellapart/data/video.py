"""A video in an image's place: its frames, spread evenly, as one array."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import MAX_PIXELS, VIDEO_SUFFIXES, decode
from tellapart.errors import DataError, require

if TYPE_CHECKING:
    from av import VideoFrame

#: Frames of a video, if a set does not give a number.
DEFAULT_FRAMES = 8

#: The most frames of a video that `as_picture` puts side by side.
_SIDE_BY_SIDE = 4

#: Seconds by which a film's stated length may exceed its frames and sound: it is rounded.
_LENGTH_TOLERANCE = 0.5
#: Intervals of frames by which a time may differ from a constant rate: containers round times, Matroska to a
#: millisecond. A missing frame moves some time by half an interval or more.
_RATE_TOLERANCE = 0.25

#: Seconds: a frame counts as on the screen at a time even if it appears so much later, as in `builders.video.frames`.
_TIME_TOLERANCE = 0.0005


def is_video(reference: str) -> bool:
    """Return whether a reference names a video, by its suffix."""
    return PurePosixPath(reference).suffix.lower() in VIDEO_SUFFIXES


def decode_slot(data: bytes, reference: str, frames: int = DEFAULT_FRAMES) -> NDArray[np.uint8]:
    """Decode the picture or video in an image's place.

    Returns:
        RGB, uint8: `(height, width, 3)` of an image, `(frames, height, width, 3)` of a video.
    """
    return sample_frames(data, reference, frames) if is_video(reference) else decode(data, reference)


def order_frames(frames: NDArray[np.uint8], order: str) -> NDArray[np.uint8]:
    """Return a video's frames `(frames, height, width, 3)` in an order; an image or another order changes nothing.

    The orders: `reversed`; `jumbled`, one permutation for each number of frames; `still`, the first frame repeated.
    """
    if frames.ndim != 4:
        return frames
    count = len(frames)
    orders = {"reversed": np.arange(count)[::-1], "still": np.zeros(count, int)}
    orders["jumbled"] = np.random.default_rng(count).permutation(count)
    return np.ascontiguousarray(frames[orders[order]]) if order in orders else frames


def sample_frames(data: bytes, place: str, count: int) -> NDArray[np.uint8]:
    """Return frames of a video, evenly spread from its first to its last: RGB, uint8 `(count, height, width, 3)`.

    They are the frames on the screen at evenly spread times from the first frame's to the last's, in order and upright;
    a single frame is that of the middle. At a constant frame rate, or without times, they are frames
    `round(k (n - 1) / (count - 1))` of its `n`. A video of fewer frames repeats some.
    """
    if count < 1:
        raise DataError(f"{place}: a video is read as 1 frame or more; got {count}")
    times = [frame.time for frame in _decoded_frames(data, place)]
    if not times:
        raise DataError(f"{place}: holds no frame")
    numbers = _spread_evenly(np.array(times, np.float64), count)
    # The film is decoded again: only the chosen frames are ever held as pixels.
    pictures = {k: upright(frame) for k, frame in enumerate(_decoded_frames(data, place)) if k in numbers}
    if len({picture.shape for picture in pictures.values()}) > 1:
        raise DataError(f"{place}: its frames differ in size; convert it to one size")
    return np.stack([pictures[number] for number in numbers])


def _spread_evenly(times: NDArray[np.float64], count: int) -> list[int]:
    """Return the numbers of the frames that `sample_frames` takes; a frame without a time has NaN."""
    even, step = np.linspace(times[0], times[-1], len(times), retstep=True)
    rate_varies = (np.diff(times) > 0).all() and (np.abs(times - even) > _RATE_TOLERANCE * step).any()
    # Positions are times if the rate varies, else numbers of frames.
    start, end = (times[0], times[-1]) if rate_varies else (0.0, len(times) - 1.0)
    positions = np.linspace(start, end, count) if count > 1 else np.array([(start + end) / 2])
    if rate_varies:
        numbers = np.searchsorted(times, positions + _TIME_TOLERANCE, "right") - 1
    else:
        numbers = np.floor(positions + 0.5)
    return [int(number) for number in numbers]


def as_picture(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return an image as it is, and of a video's frames up to four side by side: uint8 `(height, width, 3)`."""
    if pixels.ndim == 3:
        return pixels
    numbers = np.linspace(0, len(pixels) - 1, min(_SIDE_BY_SIDE, len(pixels))).round().astype(int)
    return np.concatenate(list(pixels[numbers]), axis=1)


@contextmanager
def open_film(source: Path | bytes, place: str) -> Iterator[tuple[Any, Any]]:
    """Open a film and its best stream of pictures; FFmpeg's errors become a `DataError`."""
    av = require("av", extra="video")
    film = io.BytesIO(source) if isinstance(source, bytes) else str(source)
    # Bytes of a title in an old encoding are replaced: PyAV 19 always does that, earlier versions if asked.
    options = {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}
    try:
        with av.open(film, **options) as container:
            stream = container.streams.best("video")
            if stream is None:
                raise DataError(f"{place}: holds no video; is it complete?")
            if stream.codec_context is None:
                raise DataError(f"{place}: this FFmpeg does not decode its format; convert it, for instance to H.264")
            stream.codec_context.thread_count = 1  # several files are read at once
            yield container, stream
    except av.FFmpegError as error:
        raise DataError(f"{place}: cannot be decoded ({error.strerror}); is it a complete video?") from error


def _decoded_frames(data: bytes, place: str) -> Iterator[Any]:
    with open_film(data, place) as (container, stream):
        if stream.width * stream.height > MAX_PIXELS:
            raise DataError(f"{place}: refused, its frames have {stream.width} by {stream.height} pixels")
        empty = _count_empty(data, stream.index) if "avi" in container.format.name else 0
        yield from _checked_frames(container, stream, place, empty)


def _count_empty(data: bytes, stream: int) -> int:
    """Count the empty chunks in an AVI file's index; at such a chunk the frame before stays on the screen."""
    start = data.rfind(b"idx1")
    if start < 0:
        return 0
    size = min(int.from_bytes(data[start + 4 : start + 8], "little"), len(data) - start - 8)
    # A chunk's name is such as 00dc: its stream, then the kind of data.
    fields = [("name", "S3"), ("kind", "u1"), ("flags", "<u4"), ("offset", "<u4"), ("length", "<u4")]
    entries = np.frombuffer(data[start + 8 : start + 8 + max(size, 0) // 16 * 16], fields)
    return int(((entries["name"] == b"%02dd" % stream) & (entries["length"] == 0)).sum())


def _checked_frames(container: Any, stream: Any, place: str, empty: int) -> Iterator[Any]:
    """Yield a film's frames, and raise at damage and at an early end, which FFmpeg itself conceals."""
    packets, end = empty, 0.0  # read so far, with AVI's empty chunks; seconds
    for packet in container.demux():
        of_stream = packet.stream is stream
        if of_stream and packet.size > 0:
            packets += 1
        if packet.pts is not None:
            end = max(end, float((packet.pts + (packet.duration or 0)) * packet.time_base))
        for frame in packet.decode() if of_stream else ():
            if frame.is_corrupt or packet.is_corrupt:
                raise DataError(f"{place}: its frame at {frame.time or 0:.3f} s is damaged; get the video again")
            yield frame
    # MP4 lists its frames, without those that an edit leaves out; AVI counts them and empty chunks. Matroska states a
    # rounded length, which counts from time 0, as `end` does, even if the first frame comes later.
    listed = getattr(stream, "index_entries", ()) if "mp4" in container.format.name else range(stream.frames)
    stated = (container.duration or 0) / 1e6
    matroska = "matroska" in container.format.name
    if packets < len(listed) or (matroska and end < stated - _LENGTH_TOLERANCE):
        counted = f"{packets} of {len(listed)} frames" if packets < len(listed) else f"{end:.2f} of {stated:.2f} s"
        raise DataError(f"{place}: ends early, it holds {counted}; get the video again")


def upright(frame: VideoFrame) -> NDArray[np.uint8]:
    """Return a decoded frame's pixels as a player turns them: RGB, uint8 `(height, width, 3)`."""
    pixels = frame.to_ndarray(format="rgb24")
    return np.ascontiguousarray(np.rot90(pixels, k=round(frame.rotation / 90)))
