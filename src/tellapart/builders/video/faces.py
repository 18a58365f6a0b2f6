"""Frames with faces, found by one of OpenCV's two detectors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from tellapart.errors import DataError, first_line, require

__all__ = ["FACE_DETECTORS", "FaceDetector", "FaceOptions", "face_detector"]

_YUNET = "face_detection_yunet_2023mar.onnx of OpenCV's model zoo (MIT licence, 0.2 MB)"
_CASCADE = "haarcascade_frontalface_default.xml"


class FaceOptions(BaseModel):
    """How faces are found: part of a builder's `[options]`.

    Attributes:
        faces: a name of `FACE_DETECTORS`.
        face_model: the detector's file, relative to the recipe. OpenCV ships none for `yunet`; for `haar` OpenCV 4 does.
        face_score: `yunet` reports a face from this score on.
        face_side: frames are scaled so that their longer side is this before they are searched.

    >>> FaceOptions(faces="haar").face_side
    640
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    faces: Literal["yunet", "haar", "none"] = "yunet"
    face_model: str = ""
    face_score: float = Field(default=0.8, gt=0, le=1)
    face_side: int = Field(default=640, ge=32, le=4096)


class FaceDetector(Protocol):
    """Says whether a frame shows a face.

    >>> detector: FaceDetector = face_detector(FaceOptions(faces="none"), Path("."))
    >>> detector.fault(np.zeros((8, 8, 3), np.uint8)) is None
    True
    """

    @property
    def inputs(self) -> Mapping[str, str]:
        """Its model file, with its SHA-256."""

    @property
    def models(self) -> Mapping[str, str]:
        """Its library, with its version."""

    def fault(self, pixels: NDArray[np.uint8], /) -> str | None:
        """Return "shows a face" of RGB pixels `(height, width, 3)` that do."""


def face_detector(options: FaceOptions, home: Path) -> FaceDetector:
    """Return the detector that options name.

    Args:
        options: name it.
        home: the folder that the model's path is relative to.

    Raises:
        DataError: it needs a model file that is not given, not there or not its own, or this OpenCV does not have it.
        MissingDependencyError: OpenCV is not installed.

    >>> face_detector(FaceOptions(faces="none"), Path(".")).models
    {}
    """
    return FACE_DETECTORS[options.faces](options, home)


class _NoDetector:
    """Finds no faces."""

    inputs: Mapping[str, str] = {}
    models: Mapping[str, str] = {}

    def __init__(self, _options: FaceOptions, _home: Path) -> None:
        """Need nothing."""

    def fault(self, _pixels: NDArray[np.uint8]) -> str | None:
        return None


class _OpenCV:
    """What both of OpenCV's detectors have: the library, a model file, and frames of one size."""

    def __init__(self, options: FaceOptions, path: Path) -> None:
        self.cv2 = require("cv2", extra="video")
        self.options = options
        self.path = path
        try:
            self.inputs = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
        except OSError as error:
            raise DataError(f"[options] face_model: {path} cannot be read ({error.strerror})") from error
        self.models = {"opencv": self.cv2.__version__}

    def refused(self, error: Exception) -> DataError:
        return DataError(
            f"[options] face_model: {self.path} is no model of the detector {self.options.faces!r} ({first_line(error)})"
        )

    def sized(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return BGR pixels whose longer side is `face_side`."""
        height, width = pixels.shape[:2]
        scale = self.options.face_side / max(height, width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        method = self.cv2.INTER_AREA if scale < 1 else self.cv2.INTER_LINEAR
        resized: NDArray[np.uint8] = self.cv2.resize(
            np.ascontiguousarray(pixels[:, :, ::-1]), size, interpolation=method
        )
        return resized


class _YuNet(_OpenCV):
    """`cv2.FaceDetectorYN`: a small network, far better than the cascade on turned and half-hidden faces."""

    def __init__(self, options: FaceOptions, home: Path) -> None:
        if not options.face_model:
            raise DataError(
                f"the detector 'yunet' needs its model file, which OpenCV does not ship: get {_YUNET}, "
                'and name it in [options] face_model; or set faces = "none"'
            )
        super().__init__(options, home / options.face_model)
        logging = self.cv2.utils.logging
        level = logging.setLogLevel(logging.LOG_LEVEL_ERROR)  # OpenCV 5 warns of a setting that it makes itself
        try:
            self._network = self.cv2.FaceDetectorYN.create(str(self.path), "", (32, 32), options.face_score)
        except self.cv2.error as error:
            raise self.refused(error) from error
        finally:
            logging.setLogLevel(level)

    def fault(self, pixels: NDArray[np.uint8]) -> str | None:
        frame = self.sized(pixels)
        try:
            self._network.setInputSize((frame.shape[1], frame.shape[0]))
            _, faces = self._network.detect(frame)
        except self.cv2.error as error:
            raise self.refused(error) from error
        return None if faces is None or not len(faces) else "shows a face"


class _Haar(_OpenCV):
    """`cv2.CascadeClassifier`, frontal faces; OpenCV 5 dropped it from its main modules."""

    def __init__(self, options: FaceOptions, home: Path) -> None:
        cv2: Any = require("cv2", extra="video")
        if not hasattr(cv2, "CascadeClassifier"):
            raise DataError(
                f'OpenCV {cv2.__version__} has no cascade detector; use faces = "yunet", '
                'or install OpenCV 4: pip install "opencv-python-headless<5"'
            )
        shipped = Path(cv2.data.haarcascades) / _CASCADE
        super().__init__(options, home / options.face_model if options.face_model else shipped)
        try:
            self._cascade = cv2.CascadeClassifier(str(self.path))
        except (cv2.error, SystemError) as error:  # the constructor passes its own error on as the second
            raise self.refused(error) from error
        if self._cascade.empty():
            raise self.refused(ValueError("it holds no cascade"))

    def fault(self, pixels: NDArray[np.uint8]) -> str | None:
        grey = self.cv2.cvtColor(self.sized(pixels), self.cv2.COLOR_BGR2GRAY)
        return "shows a face" if len(self._cascade.detectMultiScale(grey, 1.1, 5)) else None


FACE_DETECTORS: Mapping[str, Callable[[FaceOptions, Path], FaceDetector]] = MappingProxyType(
    {"yunet": _YuNet, "haar": _Haar, "none": _NoDetector}
)
"""Face detectors by the name that a recipe gives them."""
