"""Frames with faces, found by one of OpenCV's two detectors."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from tellapart.builders.video.frames import scaled_size
from tellapart.errors import DataError, first_line, require

_YUNET = "face_detection_yunet_2023mar.onnx of OpenCV's model zoo (MIT licence, 0.2 MB)"
_CASCADE = "haarcascade_frontalface_default.xml"


class FaceOptions(BaseModel):
    """The detector of faces and its settings: part of a builder's `[options]`.

    Attributes:
        faces: the detector, or `none`.
        face_model: the detector's file, relative to the recipe. OpenCV ships none for `yunet`; OpenCV 4 one for `haar`.
        face_score: `yunet` reports a face from this score on.
        face_side: frames are scaled so that their longer side is this before they are searched.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    faces: Literal["yunet", "haar", "none"] = "yunet"
    face_model: str = ""
    face_score: float = Field(default=0.8, gt=0, le=1)
    face_side: int = Field(default=640, ge=32, le=4096)


class FaceDetector(ABC):
    """A detector of OpenCV that rejects frames with a face; `inputs` has its model file, `models` the library."""

    def __init__(self, options: FaceOptions, path: Path) -> None:
        self.cv2 = require("cv2", extra="video")
        self.options = options
        self.path = path
        try:
            self.inputs = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
        except OSError as error:
            raise DataError(f"[options] face_model: {path} cannot be read ({error.strerror})") from error
        self.models = {"opencv": self.cv2.__version__}

    @abstractmethod
    def find_fault(self, pixels: NDArray[np.uint8], /) -> str | None:
        """Return "shows a face" if RGB pixels `(height, width, 3)` do, or None."""

    def _model_error(self, error: Exception) -> DataError:
        name = self.options.faces
        return DataError(
            f"[options] face_model: {self.path} is no model of the detector {name!r} ({first_line(error)})"
        )

    def _resize_frame(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return BGR pixels whose longer side is `face_side`."""
        side = self.options.face_side
        method = self.cv2.INTER_AREA if side < max(pixels.shape[:2]) else self.cv2.INTER_LINEAR
        bgr = np.ascontiguousarray(pixels[:, :, ::-1])
        resized: NDArray[np.uint8] = self.cv2.resize(bgr, scaled_size(pixels, side), interpolation=method)
        return resized


class _YuNet(FaceDetector):
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
            raise self._model_error(error) from error
        finally:
            logging.setLogLevel(level)

    def find_fault(self, pixels: NDArray[np.uint8]) -> str | None:
        frame = self._resize_frame(pixels)
        try:
            self._network.setInputSize((frame.shape[1], frame.shape[0]))
            _, faces = self._network.detect(frame)
        except self.cv2.error as error:
            raise self._model_error(error) from error
        return None if faces is None or not len(faces) else "shows a face"


class _Haar(FaceDetector):
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
        except (cv2.error, SystemError) as error:  # the constructor passes its error on as the second
            raise self._model_error(error) from error
        if self._cascade.empty():
            raise self._model_error(ValueError("it holds no cascade"))

    def find_fault(self, pixels: NDArray[np.uint8]) -> str | None:
        grey = self.cv2.cvtColor(self._resize_frame(pixels), self.cv2.COLOR_BGR2GRAY)
        return "shows a face" if len(self._cascade.detectMultiScale(grey, 1.1, 5)) else None


def face_detector(options: FaceOptions, home: Path) -> FaceDetector | None:
    """Return the detector that options name, or None for `none`."""
    if options.faces == "none":
        return None
    return _YuNet(options, home) if options.faces == "yunet" else _Haar(options, home)
