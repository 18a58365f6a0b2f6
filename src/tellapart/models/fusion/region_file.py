"""Region features of a detector, by image, from an `.npz` or `.safetensors` file."""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import decode, pixel_hash, resolve
from tellapart.errors import DataError, ModelError, first_sentence, require
from tellapart.models.huggingface.images import Prepared
from tellapart.models.protocols import Pixels
from tellapart.models.torch_forward import bucket

__all__ = ["RegionFile"]

_PARTS = ("features", "boxes")
_HASH = re.compile(r"[0-9a-f]{64}")

#: Regions are padded, masked, to a multiple of this: detectors give 36, or 10 to 100.
_STEP = 4

#: What reading a damaged file raises.
_DAMAGED = (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error)


class RegionFile:
    """Features and boxes of the regions that a detector found in each image.

    For every image the file holds two arrays: `KEY/features`, floats `(regions, dimensions)`, and `KEY/boxes`, floats
    `(regions, 4)`: left, top, right, bottom, as shares (0 to 1) of the image's width and height. KEY is the image's
    path, relative to the folder of the file, or the hash of its pixels (`tellapart.data.images.pixel_hash`). An image
    is found by its pixels either way, whatever it is called in a benchmark. Arrays are read one image at a time.

    Args:
        path: an `.npz` or `.safetensors` file. Nothing in it is unpickled.
        dimensions: of the features that the model takes.

    Raises:
        ModelError: the file is missing, of another kind, or lacks half of an image.

    >>> RegionFile(Path("gone.npz"), 2048)
    Traceback (most recent call last):
    tellapart.errors.ModelError: no region features at gone.npz; expected an .npz or .safetensors file
    """

    def __init__(self, path: Path, dimensions: int) -> None:
        if not path.is_file() or path.suffix not in _OPENERS:
            raise ModelError(f"no region features at {path}; expected an .npz or .safetensors file")
        self.path, self.dimensions = path, dimensions
        with path.open("rb") as file:
            self._sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        try:
            self._arrays = _OPENERS[path.suffix](path)
        except _DAMAGED as error:
            raise ModelError(f"{path} is no {path.suffix} file of plain arrays: {first_sentence(error)}") from error
        keys = {name.rpartition("/")[0]: None for name in self._arrays}
        lost = [f"{key}/{part}" for key in keys for part in _PARTS if f"{key}/{part}" not in self._arrays]
        if lost or not keys:
            raise ModelError(
                f"{path}: expected KEY/features and KEY/boxes of every image; it lacks {lost[0] if lost else 'all'}"
            )
        self._keys = {key: key for key in keys if _HASH.fullmatch(key)}  # hash of pixels -> key
        self._unread = [key for key in reversed(keys) if not _HASH.fullmatch(key)]
        self._lock = Lock()

    def to_dict(self) -> dict[str, Any]:
        """What a model's fingerprint must know of this: the file's contents, not its place."""
        return {"sha256": self._sha256, "step": _STEP}

    def inputs(self, pixels: Pixels) -> Prepared:
        """Return an image's `features`, float32 `(n, dimensions)`, `boxes`, float32 `(n, 4)`, and `seen`, bool `(n,)`.

        `n` is the number of regions, rounded up to a multiple of 4; what was added is zero and not seen.

        Raises:
            ModelError: the file has no regions of this image, or they are not what they must be.
            DataError: an image that the file names by its path cannot be read.
        """
        with self._lock:  # called from several threads; neither reader promises to be shared
            key = self._key(pixel_hash(pixels))
            features, boxes = (self._read(f"{key}/{part}") for part in _PARTS)
        self._check(key, features, boxes)
        room = bucket(len(features), step=_STEP) - len(features)
        return {
            "features": np.pad(features, ((0, room), (0, 0))),
            "boxes": np.pad(boxes, ((0, room), (0, 0))),
            "seen": np.arange(len(features) + room) < len(features),
        }

    def _key(self, wanted: str) -> str:
        # In the order of the file, and no further than needed: a run's images come in much the same order.
        while wanted not in self._keys and self._unread:
            reference = self._unread.pop()
            try:
                picture = resolve(self.path.parent, reference)
                self._keys[pixel_hash(decode(picture.read_bytes(), reference))] = reference
            except OSError as error:
                raise DataError(f"{self.path} names an image {reference!r}, which cannot be read: {error}") from error
            except DataError as error:
                raise DataError(f"{self.path} names an image that cannot be read: {error}") from error
        if wanted not in self._keys:
            raise ModelError(
                f"{self.path} has no regions of the image whose pixels hash to {wanted}; run the detector on it, too, and "
                "add its arrays under that hash, or under the image's path relative to the file's folder"
            )
        return self._keys[wanted]

    def _read(self, name: str) -> NDArray[np.float32]:
        try:
            array = self._arrays[name]
            if array.dtype.kind != "f":
                raise TypeError(f"expected floats, got {array.dtype}")
            return np.asarray(array, np.float32)
        except (*_DAMAGED, TypeError) as error:
            raise ModelError(f"{self.path}: {name} cannot be read: {first_sentence(error)}") from error

    def _check(self, key: str, features: NDArray[np.float32], boxes: NDArray[np.float32]) -> None:
        said = f"{self.path}: {key}:"
        if features.ndim != 2 or features.shape[1] != self.dimensions or not len(features):
            raise ModelError(
                f"{said} this model takes features of shape (regions, {self.dimensions}); got {features.shape}"
            )
        if boxes.shape != (len(features), 4):
            raise ModelError(f"{said} expected boxes of shape {(len(features), 4)}, one a region; got {boxes.shape}")
        if not (np.isfinite(features).all() and np.isfinite(boxes).all()):
            raise ModelError(f"{said} features or boxes are not finite")
        left, top, right, bottom = boxes.T
        if boxes.min() < 0 or boxes.max() > 1 or (left > right).any() or (top > bottom).any():
            raise ModelError(
                f"{said} boxes are left, top, right, bottom as shares of width and height, from 0 to 1; got "
                f"{boxes.min():g} to {boxes.max():g}: divide pixels by the image's width and height"
            )


class _Safetensors(Mapping[str, NDArray[Any]]):
    """A safetensors file as a mapping that reads an array when it is asked for."""

    def __init__(self, path: Path) -> None:
        library = require("safetensors", extra="models")
        try:
            self._file = library.safe_open(path, framework="numpy")
        except library.SafetensorError as error:  # shares no base class with what other readers raise
            raise ValueError(str(error)) from error
        self._names = dict.fromkeys(self._file.keys())

    def __getitem__(self, name: str) -> NDArray[Any]:
        array: NDArray[Any] = self._file.get_tensor(name)
        return array

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _npz(path: Path) -> Mapping[str, NDArray[Any]]:
    opened = np.load(path, allow_pickle=False)
    if not isinstance(opened, np.lib.npyio.NpzFile):
        raise ValueError("it holds one array, not arrays by name")
    return opened


_OPENERS: dict[str, Callable[[Path], Mapping[str, NDArray[Any]]]] = {".npz": _npz, ".safetensors": _Safetensors}
