"""Files of a detector's regions of each image: read by models on regions, and made of the files that papers publish."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellapart.data.arguments import PathGiven, as_path, as_paths
from tellapart.data.atomic import atomic_file
from tellapart.data.images import decode, pixel_hash, resolve
from tellapart.data.progress import Progress
from tellapart.data.strict_binary import open_arrays, parse_plain_pickle
from tellapart.data.strict_json import read_whole
from tellapart.errors import (
    DataError,
    MissingDependencyError,
    ModelError,
    TellapartError,
    first_line,
    first_sentence,
    quote,
    require,
)
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import bucket
from tellapart.models.torch.dual_encoder import Inputs

#: A note on timings of models that read regions: the detector is not in them.
LEFT_OUT = (
    "region features are read from a file: the time and the weights of the detector that made them are not included"
)

#: In the model's folder, if no other is named; the first is enough.
REGION_FILES = ("regions.safetensors", "regions.npz")

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

    def inputs(self, pixels: Pixels) -> Inputs:
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
        except (OSError, DataError) as error:
            raise DataError(f"{self.path} names an image {reference!r}, which cannot be read: {error}") from error
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
    for name in REGION_FILES:
        if (folder / name).is_file():
            return folder / name
    raise ModelError(
        f"{folder} reads region features of a detector, and none are given: name their file with regions=, or put "
        f"{' or '.join(REGION_FILES)} into the model's folder, with KEY/features (regions, dimensions) and KEY/boxes "
        "(regions, 4) of every image"
    )


def _open_safetensors(path: Path) -> tuple[list[str], Callable[[str], NDArray[Any]]]:
    file = require("safetensors", extra="models").safe_open(path, framework="numpy")
    return list(file.keys()), file.get_tensor


#: Suffix -> the names of a file's arrays, and a function that reads one.
_OPENERS = {".npz": open_arrays, ".safetensors": _open_safetensors}


#: Columns of LXMERT's tsv, and of the bottom-up attention that it is made by.
_REGIONS = ("num_boxes", "boxes", "features")
_LXMERT = ("image_id", "image_h", "image_w", "objects_id", "objects_conf", "attrs_id", "attrs_conf", *_REGIONS)
_BOTTOM_UP = ("image_id", "image_w", "image_h", *_REGIONS)

#: An image has 10 to 100 regions of 2,048 numbers; a file of kilobytes may claim any number.
_MOST_BYTES = 64_000_000

#: A program that writes the entries of an lmdb, each after the sizes of its key and value.
_ENTRIES = """
import os, struct, sys, lmdb
path = sys.argv[1]
base = lmdb.open(path, subdir=os.path.isdir(path), readonly=True, lock=False, create=False)
file = os.path.join(path, "data.mdb") if os.path.isdir(path) else path
if os.path.getsize(file) < (base.info()["last_pgno"] + 1) * base.stat()["psize"]:
    sys.exit("it is cut")
with base.begin() as transaction:
    for key, value in transaction.cursor():
        sys.stdout.buffer.write(struct.pack("<QQ", len(key), len(value)) + key + value)
"""

_INDEX = ("keys", "__keys__", "__len__")  # entries of a data base about itself


class ImageRegions(NamedTuple):
    """The regions of the image that a file names `id`: float32 `(regions, dimensions)`, and boxes as shares."""

    id: str
    features: NDArray[np.float32]
    boxes: NDArray[np.float32]


def read_regions(path: Path) -> Iterator[ImageRegions]:
    """Read a public file of regions image by image: LXMERT's tsv, UNITER's and ViLBERT's lmdb, VL-T5's h5."""
    readers = {".tsv": _read_tsv, ".h5": _read_h5, ".hdf5": _read_h5, ".lmdb": _read_lmdb, ".mdb": _read_lmdb}
    if not path.exists():
        raise DataError(f"{path} is not there; name a .tsv, an .h5 or an lmdb of region features")
    read = _read_lmdb if path.is_dir() or path.suffix == ".db" else readers.get(path.suffix)
    if read is None:
        raise DataError(f"{path} is not a known file of region features; expected .tsv, .h5 or an lmdb")
    return read(path)


@contextmanager
def _name_source(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a parser raises into one line with the file and the image."""
    try:
        yield
    except TellapartError:
        raise
    except Exception as error:  # base64, numpy, msgpack and h5py share no other base class
        raise DataError(f"{path}: {what} cannot be read: {first_line(error) or type(error).__name__}") from error


def _to_shares(boxes: NDArray[Any], width: float, height: float) -> NDArray[np.float32]:
    """Turn pixels into shares; a detector's box may reach a fraction of a pixel beyond the image."""
    if min(width, height) <= 0:
        raise ValueError(f"an image of {width} x {height} pixels")
    shares = np.asarray(boxes, np.float64)[:, :4] / [width, height, width, height]
    return np.clip(shares, 0, 1).astype(np.float32)


def _from_base64(entry: Mapping[str, Any], name: str) -> ImageRegions:
    boxes_held, width, height = (int(entry[key]) for key in ("num_boxes", "image_w", "image_h"))
    features, boxes = (
        np.frombuffer(base64.b64decode(entry[key], validate=True), np.float32).reshape(boxes_held, -1)
        for key in ("features", "boxes")
    )
    return ImageRegions(name, features, _to_shares(boxes, width, height))


def _read_tsv(path: Path) -> Iterator[ImageRegions]:
    # Nothing is quoted. The csv module takes one limit for all of the process, and fields may be 400 kB long.
    with path.open(encoding="utf-8") as file:
        for number in count(1):
            with _name_source(path, f"line {number}"):
                if not (line := file.readline()):
                    return
                row = line.rstrip("\n").split("\t")
                columns = {len(_LXMERT): _LXMERT, len(_BOTTOM_UP): _BOTTOM_UP}.get(len(row))
                if columns is None:
                    raise ValueError(f"{len(row)} columns, not {len(_LXMERT)} or {len(_BOTTOM_UP)}")
                entry = dict(zip(columns, row, strict=True))
                regions = _from_base64(entry, entry["image_id"])
            yield regions


def _read_h5(path: Path) -> Iterator[ImageRegions]:
    h5py = require("h5py", extra="regions")
    with _name_source(path, "the file"):
        file = h5py.File(path, "r")
    with file:
        with _name_source(path, "the list of its images"):
            names = list(file)
        for name in names:
            with _name_source(path, f"image {name}"):
                if not isinstance(name, str):
                    raise ValueError("its name is not UTF-8")
                width, height = (float(_read_dataset(h5py, file, name, key)) for key in ("img_w", "img_h"))
                boxes = _to_shares(_read_dataset(h5py, file, name, "boxes"), width, height)
                features = np.asarray(_read_dataset(h5py, file, name, "features"), np.float32)
                regions = ImageRegions(name, features, boxes)
            yield regions


def _read_dataset(h5py: ModuleType, file: Any, image: str, key: str) -> NDArray[Any]:
    """Read an image's numbers, if they lie in this file; HDF5 can name any other file of the machine."""
    for group, name in ((file, image), (file[image], key)):
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{quote(name)} is a link; write the numbers themselves")
    part = file[image][key]
    if part.is_virtual or part.external:
        raise ValueError(f"{quote(key)} lies in another file; write the numbers themselves")
    if part.dtype.kind not in "iuf" or part.size * part.dtype.itemsize > _MOST_BYTES:
        raise ValueError(
            f"{quote(key)}: expected up to {_MOST_BYTES:,} bytes of numbers; got {part.dtype} {part.shape}"
        )
    return np.asarray(part)


def _read_lmdb(path: Path) -> Iterator[ImageRegions]:
    require("lmdb", extra="regions")
    with closing(_list_entries(path)) as entries:
        for key, value in entries:
            name = key.decode("utf-8", "replace")
            if name not in _INDEX:
                with _name_source(path, f"image {name}"):
                    regions = _from_value(name, value, f"{path}: image {name}")
                yield regions


def _list_entries(path: Path) -> Generator[tuple[bytes, bytes], None, None]:
    """Yield keys and values as another process reads them: the library trusts its pages, and damage ends a process."""
    command = [sys.executable, "-P", "-c", _ENTRIES, str(path.absolute())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=1 << 20) as process:  # noqa: S603
        assert process.stdout is not None and process.stderr is not None  # noqa: S101  (pipes were asked for)
        try:
            while len(sizes := process.stdout.read(16)) == 16:
                first, second = struct.unpack("<QQ", sizes)
                key, value = process.stdout.read(first), process.stdout.read(second)
                if len(value) == second:
                    yield key, value
            why = process.stderr.read()[-2000:].decode("utf-8", "replace").strip().rpartition("\n")[2]
            if process.wait():
                died = f"it ends the process that reads it ({process.returncode})"
                raise DataError(f"{path}: the data base cannot be read, {why or died}; copy it again")
        finally:
            process.kill()


def _from_value(name: str, value: bytes, source: str) -> ImageRegions:
    """Read one entry: ViLBERT's pickle, or UNITER's msgpack or npz, whose boxes are shares already."""
    if value[:1] == b"\x80" and value[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return _from_base64(parse_plain_pickle(value, source), name)
    read = open_arrays(io.BytesIO(value))[1] if value[:2] == b"PK" else _from_msgpack(value).__getitem__
    features, boxes = (np.asarray(read(part), np.float32) for part in ("features", "norm_bb"))
    # Its keys are files of features: coco_val2014_000000000042.npz.
    return ImageRegions(name.removesuffix(".npz"), features, np.clip(boxes[:, :4], 0, 1))


def _from_msgpack(value: bytes) -> Mapping[str, NDArray[Any]]:
    """Read arrays as msgpack-numpy writes them: a mapping of dtype, shape and bytes each."""
    entries = require("msgpack", extra="regions").unpackb(value, raw=False, strict_map_key=False)
    arrays = {}
    for name, entry in entries.items():
        if isinstance(entry, Mapping):
            fields = {key.decode() if isinstance(key, bytes) else key: part for key, part in entry.items()}
            dtype = fields["type"].decode() if isinstance(fields["type"], bytes) else fields["type"]
            arrays[name] = np.frombuffer(fields["data"], np.dtype(dtype)).reshape(fields["shape"])
    return arrays


_PICTURES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})
_LAST_NUMBER = re.compile(r"(\d+)\D*$")


@dataclass(frozen=True, slots=True)
class ImportedRegions:
    """The counts of an import.

    Attributes:
        images: how many images have regions now.
        without_regions: images of the folder that no file has regions of.
        without_image: regions of images that are not in the folder; they are left out.
    """

    images: int
    without_regions: int
    without_image: int


def regions(
    files: PathGiven | Sequence[PathGiven],
    images: PathGiven,
    out: PathGiven = "regions.safetensors",
    *,
    progress: Progress | None = None,
) -> ImportedRegions:
    """Take a detector's regions, as papers publish them, into one `.safetensors` file that models on regions read.

    An image is found by the name that a file gives it: `COCO_val2014_000000000042` is the stem of one picture, or 42 is
    the last number in one stem alone. Regions are filed under the image's path, relative to the file's folder, or under
    the hash of its pixels if the image lies elsewhere. Nothing is kept in memory but names.

    >>> from base64 import b64encode
    >>> import numpy as np
    >>> from PIL import Image
    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path")
    >>> Image.new("RGB", (8, 8)).save(folder / "dog_7.png")
    >>> box, features = (b64encode(np.array(row, np.float32)).decode() for row in ([0, 0, 4, 4], [0.5, 0.25]))
    >>> row = ("7", "8", "8", "1", box, features)  # id, width, height, how many boxes
    >>> _ = (folder / "trainval_36.tsv").write_text("\\t".join(row))
    >>> ta.regions(folder / "trainval_36.tsv", folder, folder / "regions.safetensors")
    ImportedRegions(images=1, without_regions=0, without_image=0)
    """
    sources, folder, out = as_paths(files, "files"), as_path(images, "images"), as_path(out, "out")
    pictures, total = _name_pictures(folder)
    header: dict[str, Any] = {}
    without_image = 0
    with tempfile.TemporaryFile(dir=out.parent) as numbers:
        read = ((source, found) for source in sources for found in read_regions(source))
        for done, (source, found) in enumerate(read, 1):
            picture = _find_picture(pictures, found.id, source)
            if picture is None:
                without_image += 1
            else:
                picture, home = picture.resolve(), out.parent.resolve()
                if picture.is_relative_to(home):
                    key = picture.relative_to(home).as_posix()
                else:
                    key = pixel_hash(decode(read_whole(picture), str(picture)))
                if f"{key}/features" in header:
                    raise DataError(f"{source}: image {found.id} has regions twice")
                held, boxes = len(found.features), len(found.boxes)
                if held != boxes or not boxes:
                    raise DataError(f"{source}: image {found.id} has {held} features for {boxes} boxes")
                for part in ("features", "boxes"):
                    array = np.ascontiguousarray(getattr(found, part), np.float32)
                    places = [numbers.tell(), numbers.tell() + numbers.write(array.data)]
                    header[f"{key}/{part}"] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": places}
            if progress is not None:
                progress("images", done, max(done, total))
        if not header:
            raise DataError(f"{', '.join(map(str, sources))}: of {without_image} images none is in {folder}")
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        numbers.seek(0)
        with atomic_file(out) as draft, draft.open("wb") as file:  # its length in eight bytes, JSON, numbers
            file.write(struct.pack("<Q", len(text)) + text)
            shutil.copyfileobj(numbers, file)
    images_written = len(header) // 2
    return ImportedRegions(images_written, total - images_written, without_image)


def _name_pictures(folder: Path) -> tuple[dict[str, list[Path]], int]:
    """Return the pictures of a folder by stem, name and the last number in the stem; and how many there are."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; name the images' folder")
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _PICTURES)
    named: dict[str, list[Path]] = {}
    for path in files:
        number = _LAST_NUMBER.search(path.stem)
        for name in {path.stem, path.name, str(int(number[1])) if number else path.stem}:
            named.setdefault(name, []).append(path)
    return named, len(files)


def _find_picture(named: Mapping[str, list[Path]], name: str, source: Path) -> Path | None:
    """Return the picture of that name; None if there is none."""
    picture = named.get(name) or named.get(str(int(name)) if name.isdecimal() else "")
    if picture is None and (number := _LAST_NUMBER.search(name)):
        # UNITER calls COCO_val2014_000000000042.jpg coco_val2014_000000000042.
        picture = [path for path in named.get(str(int(number[1])), []) if path.stem.lower() == name.lower()]
    if picture and len(picture) > 1:
        raise DataError(f"{source}: image {name} could be {picture[0]} or {picture[1]}; name the folder of one of them")
    return picture[0] if picture else None
