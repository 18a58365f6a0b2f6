"""OpenCV finds frames with a face, or what its model takes for one, at any size; wrong models are named."""

import os
from pathlib import Path

import numpy as np
import pytest

from facts import raises
from scripts import run_python

pytest.importorskip("cv2", reason="needs the video extra: opencv-python-headless")

import cv2

from tellapart.builders.video.footage import FaceDetector, FaceOptions
from tellapart.errors import DataError

ROOT = Path(__file__).parents[3]
OPENCV_4 = ROOT / "scratch" / "opencv4"


def frame(height: int, width: int, *, face: bool) -> np.ndarray:
    pixels = np.full((height, width, 3), 90, np.uint8)
    if face:
        pixels[height // 4 : 3 * height // 4, width // 4 : 3 * width // 4] = (255, 0, 255)
    return pixels


@pytest.mark.parametrize(("height", "width"), [(48, 64), (360, 640), (640, 360), (1080, 1920)])
def test_yunet_tells_frames_with_a_face_from_those_without(magenta_model, tmp_path, height, width):
    magenta_model(tmp_path / "yunet.onnx")
    detector = FaceDetector(FaceOptions(face_model="yunet.onnx", face_side=320), tmp_path)
    assert detector.find_fault(frame(height, width, face=True)) == "shows a face"
    assert detector.find_fault(frame(height, width, face=False)) is None
    assert list(detector.inputs) == ["yunet.onnx"]
    assert detector.models == {"opencv": cv2.__version__}


def test_channels_come_as_opencv_wants_them(magenta_model, tmp_path):
    magenta_model(tmp_path / "yunet.onnx")
    detector = FaceDetector(FaceOptions(face_model="yunet.onnx"), tmp_path)
    for colour in ((255, 255, 0), (0, 255, 255), (255, 0, 0), (0, 0, 255)):
        assert detector.find_fault(np.full((64, 64, 3), colour, np.uint8)) is None


def test_yunet_says_which_file_it_needs(tmp_path):
    with raises(DataError, "model", "face_detection_yunet_2023mar.onnx", "face_model"):
        FaceDetector(FaceOptions(), tmp_path)
    with raises(DataError, "face_model", "gone.onnx", "No such file or directory"):
        FaceDetector(FaceOptions(face_model="gone.onnx"), tmp_path)
    (tmp_path / "text.onnx").write_text("no network")
    with raises(DataError, "text.onnx", "model", "'yunet'"):
        detector = FaceDetector(FaceOptions(face_model="text.onnx"), tmp_path)
        detector.find_fault(frame(48, 64, face=True))


@pytest.mark.skipif(hasattr(cv2, "CascadeClassifier"), reason="this OpenCV has the cascade detector")
def test_an_opencv_without_cascades_says_so(tmp_path):
    with raises(DataError, "OpenCV", "5", '"yunet"', "OpenCV", "4"):
        FaceDetector(FaceOptions(faces="haar"), tmp_path)


@pytest.mark.skipif(
    not hasattr(cv2, "CascadeClassifier"), reason="OpenCV 5 has no cascades; the test below runs this one with 4"
)
def test_the_cascade_that_opencv_4_ships_sees_no_face_in_grey(tmp_path):
    detector = FaceDetector(FaceOptions(faces="haar"), tmp_path)
    assert detector.find_fault(frame(48, 64, face=False)) is None
    (tmp_path / "text.xml").write_text("<no/>")
    with raises(DataError, "text.xml", "model", "'haar'"):
        FaceDetector(FaceOptions(faces="haar", face_model="text.xml"), tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(hasattr(cv2, "CascadeClassifier"), reason="this is OpenCV 4 already")
def test_all_of_this_holds_with_opencv_4_too():
    if not (OPENCV_4 / "cv2").is_dir():
        pytest.skip("no OpenCV 4 here: python ci/parts.py opencv4")
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", __file__]
    printed = run_python(*command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(OPENCV_4)}).stdout
    assert "7 passed, 1 skipped" in printed  # what is of OpenCV 5 alone
