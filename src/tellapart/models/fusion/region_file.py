"""Read a detector's region features of each image from an `.npz` or `.safetensors` file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import decode, pixel_hash, resolve
from tellapart.data.npz import open_arrays
from tellapart.data.strict_json import read_whole
from tellapart.errors import DataError, MissingDependencyError, ModelError, first_sentence, quote, require
from tellapart.models.huggingface.inputs import Prepared
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import bucket

__all__ = ["LEFT_OUT", "RegionFile", "find_regions"]

#: A note on timings of models that read regions: the detector is not in them.
LEFT_OUT = (
    "region features are read from a file: the time and the weights of the detector that made them are not included"
)

_NAMES = ("regions.safetensors", "regions.npz")  # in the model's folder
_PARTS = ("features", "boxes")
_HASH = re.compile(r"[0-9a-f]{64}")
_STEP = 4  # regions are padded, masked, to a multiple: detectors give 36, or 10 to 100


class RegionFile:
    """Features and boxes of the regions that a detector found in each image, looked up by the image's pixels.

    For every image the file holds two arrays: `KEY/features`, floats `(regions, dimensions)`, and `KEY/boxes`, floats
    `(regions, 4)`: left, top, right, bottom, as shares (0 to 1) of the image's width and height. KEY is the image's
    path, relative to the folder of the file, or the hash of its pixels (`tellapart.data.images.pixel_hash`). Either
    way the look-up is by pixels, so a benchmark may name the image differently; two images with the same pixels must
    have the same regions. Arrays are read one image at a time, and nothing is unpickled.
    """

    def __init__(self, path: Path, dimensions: int) -> None:
        if not path.is_file() or path.suffix not in _OPENERS:
            raise ModelError(f"no region features at {path}; expected an .npz or .safetensors file")
        self.path, self.dimensions = path, dimensions
        with path.open("rb") as file:
            self._sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        try:
            names, self._read_array = _OPENERS[path.suffix](path)
        except MissingDependencyError:
            raise
        except Exception as error:  # zip's and safetensors' errors share no other base class
            raise ModelError(f"{path} is not a {path.suffix} file of plain arrays: {first_sentence(error)}") from error
        keys, name_set = dict.fromkeys(name.rpartition("/")[0] for name in names), set(names)
        missing = [f"{key}/{part}" for key in keys for part in _PARTS if f"{key}/{part}" not in name_set]
        if missing or not keys:
            lacks = quote(missing[0], 200) if missing else "all"
            raise ModelError(f"{path}: expected KEY/features and KEY/boxes of every image; it lacks {lacks}")
        self._keys = {key: key for key in keys if _HASH.fullmatch(key)}  # hash of pixels -> key
        self._unread = dict.fromkeys(key for key in keys if not _HASH.fullmatch(key))
        self._lengths: dict[int, list[str]] | None = None  # bytes of an image's file -> keys
        self._lock = Lock()

    def to_dict(self) -> dict[str, Any]:
        """Describe this for a model's fingerprint: the file's contents, not its path."""
        return {"kind": "RegionFile", "sha256": self._sha256, "step": _STEP}

    def inputs(self, pixels: Pixels) -> Prepared:
        """Return an image's `features`, float32 `(n, dimensions)`, `boxes`, float32 `(n, 4)`, and `mask`, bool `(n,)`.

        `n` is the number of regions, rounded up to a multiple of 4; the added ones are zero, and False in the mask.
        """
        with self._lock:  # called from several threads; neither reader promises to be shared
            key = self._find_key(pixel_hash(pixels))
            features, boxes = (self._read_tensor(f"{key}/{part}") for part in _PARTS)
        self._check_regions(key, features, boxes)
        room = bucket(len(features), step=_STEP) - len(features)
        return {
            "features": np.pad(features, ((0, room), (0, 0))),
            "boxes": np.pad(boxes, ((0, room), (0, 0))),
            "mask": np.arange(len(features) + room) < len(features),
        }

    def _find_key(self, pixels_hash: str) -> str:
        # Hash the named images in the file's order, only until this one is found: a run often has the same order.
        while pixels_hash not in self._keys and self._unread:
            self._file_by_pixels(next(iter(self._unread)))
        if pixels_hash in self._keys:
            # An unread image with the same pixels may have other regions: check those whose files are equally long.
            if self._lengths is None:
                self._lengths = {}
                for reference in self._unread:
                    self._lengths.setdefault(self._image_length(reference), []).append(reference)
            for reference in self._lengths.get(self._image_length(self._keys[pixels_hash]), ()):
                if reference in self._unread:
                    self._file_by_pixels(reference)
        if pixels_hash not in self._keys:
            raise ModelError(
                f"{self.path} has no regions of the image whose pixels hash to {pixels_hash}; run the detector on it, "
                "too, and add its arrays under that hash, or under the image's path relative to the file's folder"
            )
        return self._keys[pixels_hash]

    def _image_length(self, reference: str) -> int:
        """Return how many bytes an image's file has; -1 if regions are filed under a hash, or the image is missing."""
        try:
            return resolve(self.path.parent, reference).stat().st_size
        except (OSError, DataError):
            return -1

    def _file_by_pixels(self, reference: str) -> None:
        """Add an image that the file names by its path to the look-up by pixels."""
        del self._unread[reference]
        try:
            hashed = pixel_hash(decode(read_whole(resolve(self.path.parent, reference)), reference))
        except OSError as error:
            raise DataError(f"{self.path} names an image {reference!r}, which cannot be read: {error}") from error
        except DataError as error:
            raise DataError(f"{self.path} names an image that cannot be read: {error}") from error
        first = self._keys.setdefault(hashed, reference)
        held, other = ([self._read_tensor(f"{key}/{part}") for part in _PARTS] for key in (first, reference))
        if not all(map(np.array_equal, held, other)):
            raise ModelError(
                f"{self.path}: {first} and {reference} have the same pixels and different regions; regions are found "
                "by pixels, so keep one of the two"
            )

    def _read_tensor(self, name: str) -> NDArray[np.float32]:
        try:
            array = self._read_array(name)
            if array.dtype.kind != "f":
                raise TypeError(f"expected floats, got {array.dtype}")
            return np.asarray(array, np.float32)
        except Exception as error:  # no common base class, as in __init__; the dtype can be anything
            raise ModelError(f"{self.path}: {name} cannot be read: {first_sentence(error)}") from error

    def _check_regions(self, key: str, features: NDArray[np.float32], boxes: NDArray[np.float32]) -> None:
        subject = f"{self.path}: {key}:"
        if features.ndim != 2 or features.shape[1] != self.dimensions or not len(features):
            raise ModelError(
                f"{subject} this model takes features of shape (regions, {self.dimensions}); got {features.shape}"
            )
        if boxes.shape != (len(features), 4):
            raise ModelError(f"{subject} expected boxes of shape {(len(features), 4)}, one a region; got {boxes.shape}")
        if not (np.isfinite(features).all() and np.isfinite(boxes).all()):
            raise ModelError(f"{subject} features or boxes are not finite")
        left, top, right, bottom = boxes.T
        if boxes.min() < 0 or boxes.max() > 1 or (left > right).any() or (top > bottom).any():
            raise ModelError(
                f"{subject} boxes are left, top, right, bottom as shares of width and height, from 0 to 1; got "
                f"{boxes.min():g} to {boxes.max():g}: divide pixels by the image's width and height"
            )


def find_regions(folder: Path, named: Path | None) -> Path:
    """Return the file of regions: `named` if given, else the one in the model's folder."""
    if named is not None:
        return named.expanduser()
    for name in _NAMES:
        if (folder / name).is_file():
            return folder / name
    raise ModelError(
        f"{folder} reads region features of a detector, and none are given: name their file with regions=, or put "
        f"{' or '.join(_NAMES)} into the model's folder, with KEY/features (regions, dimensions) and KEY/boxes "
        "(regions, 4) of every image"
    )


def _open_safetensors(path: Path) -> tuple[list[str], Callable[[str], NDArray[Any]]]:
    file = require("safetensors", extra="models").safe_open(path, framework="numpy")
    return list(file.keys()), file.get_tensor


#: Suffix -> the names of a file's arrays, and a function that reads one.
_OPENERS = {".npz": open_arrays, ".safetensors": _open_safetensors}
