"""Doors of pictures, films and containers: archives of runs and of images, parquet, HDF5."""

import io
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from doors import Door, door_of

import tellapart as ta
from pictures import encoded, film
from tellapart.benchmarks.locations import ZipImages
from tellapart.benchmarks.parquet import ParquetTable
from tellapart.data.images import decode
from tellapart.data.video import sample_frames
from tellapart.errors import require
from tellapart.records.zipped import unpacked
from tellapart_native.region_file import read_regions

#: How Pillow saves each picture.
_PICTURES: dict[str, dict[str, Any]] = {
    "plain.jpg": {},
    "progressive.jpg": {"progressive": True},
    "plain.webp": {"lossless": False},
    "lossless.webp": {"lossless": True},
    "colours.png": {"optimize": True},
}


def open_container_doors(folder: Path) -> Iterator[Door]:
    """Write a valid file of each format below a folder, and yield its door."""
    yield from (*_pictures(folder), *_archives(folder), *open_arrays(folder))


def encode_picture(suffix: str, *, side: int = 24, **options: Any) -> bytes:
    """Return a picture whose parts all differ, in a format of Pillow."""
    rows, columns = np.mgrid[:side, :side]
    noise = np.random.default_rng(0).integers(0, 40, (side, side, 3))
    pixels = np.stack([rows * 200 // side, columns * 200 // side, (rows + columns) * 100 // side], 2) + noise
    return encoded(pixels.astype(np.uint8), suffix, **options)


def _pictures(folder: Path) -> Iterator[Door]:
    def read_picture(path: Path) -> Any:
        return decode(path.read_bytes(), str(path)).tolist()

    def read_frames(path: Path) -> Any:
        return sample_frames(path.read_bytes(), str(path), 3).tolist()

    for name, options in _PICTURES.items():
        # Neither a JPEG nor a WebP has checksums: a changed byte makes other pixels.
        content = encode_picture(name.partition(".")[2], **options)
        yield door_of(folder / name, read_picture, content, whole=False)
    np.save(folder / "frame.npy", np.zeros((6, 5, 3), np.uint8))
    yield door_of(folder / "frame.npy", read_picture)
    drawn = np.random.default_rng(0)
    film(folder / "clip.mp4", (drawn.integers(0, 255, (32, 32, 3), np.uint8) for _ in range(12)))
    yield door_of(folder / "clip.mp4", read_frames, whole=False, slow=True)


def _archives(folder: Path) -> Iterator[Door]:
    images = folder / "images.zip"
    ta.evaluate("random", "demo", limit=4, out=folder / "packed", cache=False)
    run = Path(shutil.make_archive(str(folder / "packed-run"), "zip", folder / "packed"))
    with zipfile.ZipFile(images, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", encode_picture("png"))
        archive.writestr("b.png", encode_picture("png", side=9))

    def read_run(path: Path) -> Any:
        with unpacked([path]) as [home]:
            opened = ta.open_run(home)
            return ta.read_result(home).model_dump(mode="json"), str(opened.items())

    yield door_of(run, read_run, whole=False, slow=True)
    yield door_of(images, lambda path: [ZipImages(path)(name) for name in ("a.png", "b.png")], whole=False)


def write_boxes(path: Path, *names: str) -> Path:
    """Write regions of images as an HDF5 file."""
    h5py = require("h5py", extra="regions")
    with h5py.File(path, "w") as file:
        for name in names:
            group = file.create_group(name)
            group["img_w"], group["img_h"], group["boxes"] = 10.0, 10.0, np.ones((2, 4), "f4")
            group["features"] = np.ones((2, 5), "f4")
    return path


def open_arrays(folder: Path) -> Iterator[Door]:
    """Yield the doors of parquet, HDF5 and LMDB."""
    arrow, parquet = require("pyarrow", extra="hub"), require("pyarrow.parquet", extra="hub")
    lmdb, stream = require("lmdb", extra="regions"), io.BytesIO()
    table, boxes, entries = (folder / name for name in ("rows.parquet", "boxes.h5", "boxes.lmdb"))
    image = arrow.array([{"bytes": encode_picture("png", side=3 + k), "path": "a.png"} for k in range(3)])
    parquet.write_table(arrow.table({"id": ["a", "b", "c"], "size": [1, 2, 3], "image": image}), table)
    write_boxes(boxes, "7", "8")
    # Regions of two images as UNITER's data bases have them.
    np.savez(stream, features=np.ones((2, 2048), "f4"), norm_bb=np.ones((2, 6), "f4"))
    with lmdb.open(str(entries), subdir=False, lock=False, map_size=1 << 22) as base, base.begin(write=True) as changes:
        for key in (b"7.npz", b"8.npz"):
            changes.put(key, stream.getvalue())

    def read_table(path: Path) -> Any:
        opened = ParquetTable([path], images=["image"])
        return list(opened.rows()), [opened(f"{row}/image") for row in range(3)]

    def read_boxes(path: Path) -> Any:
        return [(region.id, region.features.tolist(), region.boxes.tolist()) for region in read_regions(path)]

    # Neither has checksums by default.
    yield door_of(table, read_table, whole=False)
    yield door_of(boxes, read_boxes, whole=False)
    yield door_of(entries, read_boxes, whole=False, slow=True)
