"""The base of builders from video: decode frames at exact times, leave out faces, and make items of two frames each."""

from __future__ import annotations

import hashlib
import io
import logging
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.data.images import IMAGE_SUFFIXES, decode
from tellapart.data.item import Item
from tellapart.data.strict_json import read_whole
from tellapart.data.video import open_film, upright
from tellapart.errors import DataError, first_line, nearest, plain, require

#: Seconds added to annotated times, which are rounded: 0.0333 then means the frame at 1/30 s, not the one before.
_ROUNDING = Fraction(1, 2000)

#: A seek goes so many seconds before the frame, in one try after another; then decoding begins at the video's start.
_SEEK_BACK = (0, 2, 10)


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


def read_frame_at(path: Path, seconds: float) -> Frame:
    """Return the frame that is on the screen `seconds` after the first frame appeared.

    The frame is found by presentation timestamps. So reordered frames (B-frames), variable frame rates, a first
    timestamp other than 0, and the positions of key frames make no difference.
    """
    if not (math.isfinite(seconds) and seconds >= 0):
        raise DataError(f"{path}: there is no frame at {seconds} s; a time is a number of seconds from 0")
    with open_film(path, str(path)) as (container, stream):
        first = next(_decode_frames(container, stream, path), None)
        if first is None:
            raise EndOfVideoError(f"{path}: holds no frame")
        base = Fraction(stream.time_base)  # seconds of one unit of `pts`
        target = first.pts + math.floor((Fraction(seconds) + _ROUNDING) / base)
        current, followed = _seek_frame(container, stream, target, path)
        end = current.pts + (current.duration or 1)
        if not followed and target >= end:
            length = float((end - first.pts) * base)
            raise EndOfVideoError(f"{path}: ends after {length:.3f} s; there is no frame at {seconds:.3f} s")
        return Frame(upright(current), float((current.pts - first.pts) * base))


def read_frame_number(path: Path, number: int) -> Frame:
    """Return a frame by its number, from 1, as `ffmpeg -i VIDEO %06d.png` numbers the frames of a steady rate."""
    if number < 1:
        raise DataError(f"{path}: there is no frame number {number}; frames are counted from 1")
    first_pts, count = 0, 0
    with open_film(path, str(path)) as (container, stream):
        for count, frame in enumerate(_decode_frames(container, stream, path), start=1):
            first_pts = frame.pts if count == 1 else first_pts
            if count == number:
                if frame.is_corrupt:
                    raise DataError(f"{path}: its frame number {number} is damaged; get the video again")
                return Frame(upright(frame), float((frame.pts - first_pts) * Fraction(stream.time_base)))
    raise EndOfVideoError(f"{path}: has {count} frames; there is no frame number {number}")


def _decode_frames(container: Any, stream: Any, path: Path) -> Iterator[Any]:
    """Yield frames in the order in which they are shown, from the container's position on."""
    for frame in container.decode(stream):
        if frame.pts is None:
            raise DataError(f"{path}: its frames have no timestamps; remux it, for instance into an MP4 file")
        yield frame


def _seek_frame(container: Any, stream: Any, target: int, path: Path) -> tuple[Any, bool]:
    """Return the last frame with a timestamp of at most `target`, and whether another one follows.

    A seek may land after that frame: some formats seek by decoding times, and the frames before an open group's key
    frame cannot be decoded from it. Then the next seek goes further back.
    """
    for back in _SEEK_BACK:
        container.seek(target - int(back / stream.time_base), stream=stream)
        current, followed = _read_until(_decode_frames(container, stream, path), target)
        if current is not None and not current.is_corrupt:
            return current, followed
    with open_film(path, str(path)) as (fresh_container, fresh_stream):
        current, followed = _read_until(_decode_frames(fresh_container, fresh_stream, path), target)
    if current is None or current.is_corrupt:
        raise DataError(f"{path}: its frame at timestamp {target} is damaged; get the video again")
    return current, followed


def _read_until(frames: Iterator[Any], target: int) -> tuple[Any | None, bool]:
    """Return the last of the frames with a timestamp of at most `target`, and whether another one follows."""
    current = None
    for frame in frames:
        if frame.pts > target:
            return current, True
        current = frame
    return current, False


_log = logging.getLogger(__name__)

_SUFFIX = {"png": ".png", "jpeg": ".jpg", "webp": ".webp"}

#: Stills in the cache: the pairs of one video follow each other in a build, and share stills.
_CACHED_STILLS = 64

#: Suffixes of files that lie next to videos and are none; FFmpeg tries the files of all other suffixes.
_NO_VIDEO = frozenset(
    {*IMAGE_SUFFIXES, ".json", ".jsonl", ".csv", ".tsv", ".txt", ".md", ".srt", ".vtt", ".wav", ".mp3", ".m4a", ".aac"}
    | {".pkl", ".zip", ".tar", ".gz", ".part", ".ytdl", ".toml", ".yaml", ".xml", ".log"}
)

#: Kinetics' files: the id, then the clip's first and last second, as in `ID_000010_000020`.
_KINETICS = re.compile(r"^(.+)_\d{6}_\d{6}$")


class FootageOptions(BaseModel):
    """The folder of videos, and the format of their frames: part of every video builder's `[options]`.

    Attributes:
        videos: the folder, relative to the recipe; a video is a file, or a folder of numbered frames.
        image_format: PNG keeps the decoded pixels exactly.
        quality: the quality of JPEG and WebP.
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
    """The frame at some seconds, or of some number, and a caption that is true of the frame."""

    caption: str
    seconds: float | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class StillFile:
    """A still as a file of the set: reference, bytes, time in seconds, 32x32 thumbnail, and a fault or None."""

    reference: str
    data: bytes
    time: float | None
    thumbnail: NDArray[np.float64]
    fault: str | None


def clip_files(folder: Path) -> dict[str, list[Path]]:
    """Return the videos in a folder and its sub-folders by name; several videos may share a name.

    A file `ID.mp4`, of any suffix that is not a picture's, a text's or a sound's, has the names `ID` and `ID.mp4`.
    Kinetics' `ID_000010_000020.mp4` has the name `ID`, too. A sub-folder of pictures holds the frames of one video, and
    has its name.
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
            for name in dict.fromkeys([path.name, path.stem, *_KINETICS.findall(path.stem)]):
                paths.setdefault(name, []).append(path)
    return paths


def _read_dumped(folder: Path, number: int) -> Frame:
    """Read a frame from a folder of frames: VIDEO/000682.png, in any image format that tellapart reads."""
    for suffix in sorted(IMAGE_SUFFIXES):
        path = folder / f"{number:06d}{suffix}"
        if path.is_file():
            return Frame(decode(read_whole(path), str(path)), 0.0)
    raise EndOfVideoError(f"{folder}: has no frame {number:06d}")


def file_sha256(path: Path) -> str:
    """Return a file's SHA-256."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


@lru_cache(maxsize=256)
def _hash_video(path: Path, _mtime_ns: int) -> str:
    """Return a video's SHA-256; a long video is read again only if its time of change differs."""
    return file_sha256(path)


_YUNET = "face_detection_yunet_2023mar.onnx of OpenCV's model zoo (MIT licence, 0.2 MB)"
_CASCADE = "haarcascade_frontalface_default.xml"


class FaceOptions(BaseModel):
    """The detector of faces and its settings: part of a builder's `[options]`.

    Attributes:
        faces: the detector, or `none`.
        face_model: the detector's file, relative to the recipe; OpenCV 4 ships a file for `haar`, none for `yunet`.
        face_score: the least score of a face that `yunet` reports.
        face_side: pixels of the longer side to which frames are scaled before they are searched.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    faces: Literal["yunet", "haar", "none"] = "yunet"
    face_model: str = ""
    face_score: float = Field(default=0.8, gt=0, le=1)
    face_side: int = Field(default=640, ge=32, le=4096)


class FaceDetector:
    """A detector of OpenCV for frames with a face; `inputs` has the SHA-256 of its file, `models` OpenCV's version.

    `yunet` is `cv2.FaceDetectorYN`: a small network, far better than the cascade on turned and half-hidden faces.
    `haar` is `cv2.CascadeClassifier`, frontal faces; OpenCV 5 dropped it from its main modules.
    """

    def __init__(self, options: FaceOptions, home: Path) -> None:
        self._cv2, self._options = require("cv2", extra="video"), options
        if options.faces == "haar" and not hasattr(self._cv2, "CascadeClassifier"):
            fix = 'use faces = "yunet", or OpenCV 4: pip install "opencv-python-headless<5"'
            raise DataError(f"OpenCV {self._cv2.__version__} has no cascade detector; {fix}")
        if options.faces == "yunet" and not options.face_model:
            fix = f'get {_YUNET}, and name it in [options] face_model; or set faces = "none"'
            raise DataError(f"the detector 'yunet' needs its model file, which OpenCV does not ship: {fix}")
        self._path = home / (options.face_model or f"{self._cv2.data.haarcascades}/{_CASCADE}")
        try:
            self.inputs = {self._path.name: hashlib.sha256(self._path.read_bytes()).hexdigest()}
        except OSError as error:
            raise DataError(f"[options] face_model: {self._path} cannot be read ({error.strerror})") from error
        self.models = {"opencv": self._cv2.__version__}
        with self._name_model():
            self._find_faces = self._open_yunet() if options.faces == "yunet" else self._open_haar()

    def find_fault(self, pixels: NDArray[np.uint8], /) -> str | None:
        """Return "shows a face" if RGB pixels `(height, width, 3)` do, or None."""
        side = self._options.face_side
        method = self._cv2.INTER_AREA if side < max(pixels.shape[:2]) else self._cv2.INTER_LINEAR
        bgr = np.ascontiguousarray(pixels[:, :, ::-1])
        with self._name_model():
            faces = self._find_faces(self._cv2.resize(bgr, scaled_size(pixels, side), interpolation=method))
        return None if faces is None or not len(faces) else "shows a face"

    @contextmanager
    def _name_model(self) -> Iterator[None]:
        """Name the model file in OpenCV's errors."""
        try:
            yield
        except (self._cv2.error, SystemError, ValueError) as error:  # a failed constructor raises SystemError
            fault = f"is no model of the detector {self._options.faces!r} ({first_line(error)})"
            raise DataError(f"[options] face_model: {self._path} {fault}") from error

    def _open_yunet(self) -> Callable[[NDArray[np.uint8]], Any]:
        logging = self._cv2.utils.logging
        level = logging.setLogLevel(logging.LOG_LEVEL_ERROR)  # without OpenCV 5's warning of its default settings
        try:
            network = self._cv2.FaceDetectorYN.create(str(self._path), "", (32, 32), self._options.face_score)
        finally:
            logging.setLogLevel(level)

        def find_faces(frame: NDArray[np.uint8]) -> Any:
            network.setInputSize((frame.shape[1], frame.shape[0]))
            return network.detect(frame)[1]

        return find_faces

    def _open_haar(self) -> Callable[[NDArray[np.uint8]], Any]:
        cascade = self._cv2.CascadeClassifier(str(self._path))
        if cascade.empty():
            raise ValueError("it holds no cascade")

        def find_faces(frame: NDArray[np.uint8]) -> Any:
            grey = self._cv2.cvtColor(frame, self._cv2.COLOR_BGR2GRAY)
            return cascade.detectMultiScale(grey, scaleFactor=1.1, minNeighbors=5)

        return find_faces


@dataclass(frozen=True, slots=True)
class FramePair:
    """Two moments of a video with their captions, the earlier one first.

    `video` is the video's id, and becomes the item's cluster. If the annotations alone rule the pair out, `fault` is
    the step and the reason of its rejection. `provenance` becomes a part of the item's.
    """

    video: str
    stills: tuple[Still, Still]
    fault: tuple[str, str] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, JsonValue] = field(default_factory=dict)


def differing_words(first: str, second: str) -> int:
    """Return how many words, case and punctuation aside, only one of two captions has; repetitions count."""
    words, others = _count_words(first), _count_words(second)
    return (words - others).total() + (others - words).total()


def _count_words(text: str) -> Counter[str]:
    stripped = (word.strip(".,;:!?\"'()") for word in text.lower().split())
    return Counter(word for word in stripped if word)


class VideoPairs(ABC):
    """The base of all builders from video.

    A subclass defines `pairs` from the annotations alone, and `about`, as in `Builder`. The annotations are read once,
    for `candidates`; worker processes receive candidates. `inputs` has the SHA-256 of the annotations and of other
    files, but not of the videos: the provenance of an item has the SHA-256 of its video.
    """

    #: The option that names the file of the annotations.
    file = "annotations"

    def __init__(self, start: Start, *others: Path) -> None:
        require("av", extra="video")
        options = self._options = start.options
        self._seed = start.seed
        faces = isinstance(options, FaceOptions) and options.faces != "none"
        self._detector = FaceDetector(options, start.home) if faces else None
        self.annotations: Path = start.home / getattr(options, self.file)
        self._folder: Path = start.home / options.videos
        if not self._folder.is_dir():
            raise DataError(f"{self._folder} is not a folder; name the folder of the videos in [options] videos")
        inputs: dict[str, str] = {}
        for path in (self.annotations, *others):
            # Files of one name in two folders are two inputs.
            inputs[path.name if path.name not in inputs else f"{path.name} ({len(inputs) + 1})"] = file_sha256(path)
        self.inputs: Mapping[str, str] = inputs
        # Other versions of decoder and encoder may round pixels otherwise.
        self.models: Mapping[str, str] = {name: metadata.version(name) for name in ("av", "pillow")}
        if self._detector:
            self.inputs = {**self.inputs, **self._detector.inputs}
            self.models = {**self.models, **self._detector.models}
        self._cached_still = lru_cache(maxsize=_CACHED_STILLS)(self._make_still)

    @property
    @abstractmethod
    def pairs(self) -> Mapping[str, FramePair]:
        """The pairs by id, in the order of the set."""

    def candidates(self) -> Sequence[Candidate]:
        """Return every pair."""
        pairs = self.pairs
        if pairs:
            self._expect_videos(pair.video for pair in pairs.values())
        return [Candidate(name, pair) for name, pair in pairs.items()]

    def source_of(self, item: Item) -> tuple[Path, JsonValue] | None:
        """Return the path of an item's video, and the SHA-256 that it had; None if it is missing or is a folder."""
        path, digest = self._find_file(item.cluster or ""), item.provenance.get("video_sha256")
        return (path, digest) if path and digest else None

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Decode both frames, or return the reason why they make no pair."""
        pair: FramePair = candidate.data
        if pair.fault:
            return Rejected(*pair.fault)
        first, second = (self._cached_still(pair.video, still.seconds, still.number) for still in pair.stills)
        if isinstance(first, Rejected):
            return first
        if isinstance(second, Rejected):
            return second
        difference = float(np.abs(first.thumbnail - second.thumbnail).mean())
        fault = first.fault or second.fault
        if first.reference == second.reference:
            fault = "both moments are the same frame"
        elif fault is None and difference < self._options.min_difference:
            fault = f"differ by less than {self._options.min_difference}"
        if fault is not None:
            return Rejected("frames", fault)
        file = self._find_file(pair.video)
        measured: dict[str, JsonValue] = {
            "video_sha256": _hash_video(file, file.stat().st_mtime_ns) if file and file.is_file() else None,
            "frame_times": [first.time, second.time],
            "difference": round(difference, 6),
        }
        texts, tags = tuple(still.caption for still in pair.stills), dict(pair.tags)
        images = {still.reference: still.data for still in (first, second)}
        facts: dict[str, JsonValue] = {"video": pair.video, **pair.provenance, **measured}
        names = tuple(images)
        item = Item(id=candidate.id, images=names, texts=texts, tags=tags, cluster=pair.video, provenance=facts)
        return Made(item, images)

    @cached_property
    def _files(self) -> Mapping[str, Sequence[Path]]:
        return clip_files(self._folder)

    def _find_file(self, video: str) -> Path | None:
        """Return the file of a video, or the folder of its frames; None if there is neither. Several are refused."""
        paths = self._files.get(video, ())
        if len(paths) > 1:
            several = " and ".join(str(path) for path in sorted(paths)[:3])
            raise DataError(f"video {video!r} is {several}; keep one of them in the folder of videos")
        return paths[0] if paths else None

    def _expect_videos(self, videos: Iterable[str]) -> None:
        """Warn if some of these videos are missing, and refuse a folder without any: it is the wrong one."""
        names = sorted(set(videos))
        missing = [name for name in names if name not in self._files]
        if missing and len(missing) < len(names):
            listed = plain(", ".join(name + nearest(name, self._files) for name in missing[:3]))
            lacking = plain(f"{self._folder} lacks {len(missing)} of the {len(names)} videos that are named")
            _log.warning("%s: %s", lacking, listed)
        if not [name for name in names if self._find_file(name)]:
            listed = f"{len(names)} videos that the annotations name ({', '.join(names[:3])})"
            raise DataError(f"{self._folder} holds none of the {listed}; a video's file is named by its id")

    def _make_still(self, video: str, seconds: float | None, number: int | None) -> StillFile | Rejected:
        """Return a still of a video, or the reason why there is none."""
        from PIL import Image

        path = self._find_file(video)
        if path is None:
            return Rejected("video", "not in the folder of videos")
        try:
            if seconds is not None:
                frame = read_frame_at(path, seconds)
                name = f"{frame.time:.6f}"
            else:
                name = f"{number:06d}"
                frame = _read_dumped(path, number or 0) if path.is_dir() else read_frame_number(path, number or 0)
        except EndOfVideoError as error:
            end = str(error).replace(f"{path}: ", f"{path.name} ").partition(";")[0]
            return Rejected("video", f"ends before the frame: {end}")
        except DataError as error:
            return Rejected("video", str(error).replace(f"{path}: ", f"{path.name} "))
        time = frame.time if path.is_file() else None
        fault = self._detector.find_fault(frame.pixels) if self._detector else None
        picture, side = Image.fromarray(frame.pixels), self._options.max_side
        if side and max(picture.size) > side:
            picture = picture.resize(scaled_size(frame.pixels, side), Image.Resampling.LANCZOS)
        stream = io.BytesIO()
        quality = {} if self._options.image_format == "png" else {"quality": self._options.quality}
        picture.save(stream, self._options.image_format, **quality)
        thumbnail = np.asarray(picture.convert("L").resize((32, 32), Image.Resampling.BOX), np.float64) / 255
        reference = f"images/{video}/{name}{_SUFFIX[self._options.image_format]}"
        return StillFile(reference, stream.getvalue(), time, thumbnail, fault)
