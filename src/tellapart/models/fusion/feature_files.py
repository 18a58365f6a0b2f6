"""Detectors' regions as the papers' authors published them: LXMERT's tsv, UNITER's and ViLBERT's lmdb, VL-T5's h5.

Every reader yields one image after another, with boxes as shares of its width and height.
"""

from __future__ import annotations

import base64
import io
import struct
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.npz import open_arrays
from tellapart.data.plain_pickle import parse_plain_pickle
from tellapart.errors import DataError, TellapartError, first_line, quote, require

__all__ = ["ImageRegions", "read_regions"]

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
_LONGEST = 2000  # bytes of its error

#: Entries of a data base about itself.
_INDEX = ("keys", "__keys__", "__len__")


@dataclass(frozen=True, slots=True, eq=False)
class ImageRegions:
    """The regions of one image.

    Attributes:
        id: of the image in the file.
        features: float32 `(regions, dimensions)`.
        boxes: float32 `(regions, 4)`: left, top, right, bottom, as shares of width and height.
    """

    id: str
    features: NDArray[np.float32]
    boxes: NDArray[np.float32]


def read_regions(path: Path) -> Iterator[ImageRegions]:
    """Read a public file of region features, one image after the other.

    Args:
        path: a `.tsv` (LXMERT, bottom-up attention), an `.h5` (VL-T5), or a folder or file of lmdb (UNITER, ViLBERT).

    Raises:
        DataError: the file is missing, of another kind, or damaged; the message names the image.
        MissingDependencyError: lmdb, h5py or msgpack is not installed.
    """
    readers: dict[str, Callable[[Path], Iterator[ImageRegions]]] = {
        ".tsv": _read_tsv,
        ".h5": _read_h5,
        ".hdf5": _read_h5,
    }
    if not path.exists():
        raise DataError(f"{path} is not there; name a .tsv, an .h5 or an lmdb of region features")
    if path.suffix in (".lmdb", ".mdb", ".db") or path.is_dir():
        return _read_lmdb(path)
    if path.suffix not in readers:
        raise DataError(f"{path} is not a known file of region features; expected .tsv, .h5 or an lmdb")
    return readers[path.suffix](path)


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


def _decode_rows(text: str | bytes, rows: int) -> NDArray[np.float32]:
    """Read float32 rows from base64."""
    numbers = np.frombuffer(base64.b64decode(text, validate=True), np.float32)
    return numbers.reshape(rows, -1)


def _from_base64(entry: Mapping[str, Any], name: str) -> ImageRegions:
    count, width, height = (int(entry[key]) for key in ("num_boxes", "image_w", "image_h"))
    features, boxes = (_decode_rows(entry[key], count) for key in ("features", "boxes"))
    return ImageRegions(name, features, _to_shares(boxes, width, height))


def _read_tsv(path: Path) -> Iterator[ImageRegions]:
    # Nothing is quoted. The csv module takes one limit for all of the process, and fields may be 400 kB long.
    with path.open(encoding="utf-8") as file:
        number = 0
        while True:
            number += 1
            with _name_source(path, f"line {number}"):
                line = file.readline()
                if not line:
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
    """Read an image's numbers, if they lie in this file; HDF5 can name any other file of the machine.

    Raises:
        ValueError: they lie elsewhere, are not numbers, or of more than 64 MB.
    """
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
            why = process.stderr.read()[-_LONGEST:].decode("utf-8", "replace").strip().rpartition("\n")[2]
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
