"""Files of region features in their four public forms, written here as their authors' code writes them."""

import base64
import csv
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from facts import raises
from tellapart.data.images import decode
from tellapart.errors import DataError
from tellapart_native.region_file import RegionFile, read_regions, regions

h5py = pytest.importorskip("h5py")
lmdb = pytest.importorskip("lmdb")
msgpack = pytest.importorskip("msgpack")

RNG = np.random.default_rng(3)
NAMES = ["COCO_val2014_000000000042", "COCO_val2014_000000000107"]
SIZES = {NAMES[0]: (64, 48), NAMES[1]: (50, 80)}  # width, height
FEATURES = {name: RNG.normal(size=(5, 12)).astype(np.float32) for name in NAMES}
CORNERS = {name: np.sort(RNG.random((5, 2, 2)), axis=1).reshape(5, 4).astype(np.float32) for name in NAMES}
PIXELS = {name: CORNERS[name] * np.array([*SIZES[name], *SIZES[name]], np.float32) for name in NAMES}


def text(array) -> str:
    return base64.b64encode(np.ascontiguousarray(array, np.float32).tobytes()).decode()


def write_rows(path: Path, fields: Callable[[str], list[Any]]) -> Path:
    """Write each image's fields, and its boxes and features."""
    rows = [[*fields(name), 5, text(PIXELS[name]), text(FEATURES[name])] for name in NAMES]
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return path


def write_lxmert(folder: Path) -> Path:
    return write_rows(folder / "val2014_obj36.tsv", lambda name: [name, *SIZES[name][::-1], "", "", "", ""])


def write_bottom_up(folder: Path) -> Path:
    return write_rows(folder / "trainval_36.tsv", lambda name: [int(name[-12:]), *SIZES[name]])


def write_h5(folder: Path) -> Path:
    path = folder / "val2014_obj36.h5"
    with h5py.File(path, "w") as file:
        for name in NAMES:
            group = file.create_group(name)
            group["features"], group["boxes"] = FEATURES[name], PIXELS[name]
            group["img_w"], group["img_h"] = SIZES[name]
    return path


def write_lmdb(path: Path, entries: dict[str, bytes]) -> Path:
    with lmdb.open(str(path), map_size=2**24) as base, base.begin(write=True) as transaction:
        for name, value in entries.items():
            transaction.put(name.encode(), value)
    return path


def write_vilbert(folder: Path) -> Path:
    def entry(name: str) -> bytes:
        width, height = SIZES[name]
        item = {"image_id": int(name[-12:]), "image_h": height, "image_w": width, "num_boxes": 5}
        item |= {"boxes": base64.b64encode(PIXELS[name].tobytes()), "features": text(FEATURES[name]).encode()}
        return pickle.dumps(item)

    entries = {str(int(name[-12:])): entry(name) for name in NAMES}
    return write_lmdb(folder / "COCO_test_resnext152_faster_rcnn_genome.lmdb", entries | {"keys": pickle.dumps([])})


def pack(array) -> dict[bytes, Any]:
    return {b"nd": True, b"type": array.dtype.str, b"kind": b"", b"shape": array.shape, b"data": array.tobytes()}


def write_uniter(folder: Path) -> Path:
    def entry(name: str) -> bytes:
        corners = CORNERS[name]
        across, down = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
        seven = np.concatenate([corners, np.stack([across, down, across * down], 1)], 1)
        return bytes(msgpack.packb({"features": pack(FEATURES[name]), "norm_bb": pack(seven.astype(np.float32))}))

    entries = {f"{name.lower()}.npz": entry(name) for name in NAMES} | {"__keys__": msgpack.packb([])}
    return write_lmdb(folder / "feat_th0.2_max100_min10", entries)


WRITERS = [write_lxmert, write_bottom_up, write_h5, write_vilbert, write_uniter]


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "set" / "val2014"
    folder.mkdir(parents=True)
    for name in [*NAMES, "COCO_val2014_000000000999"]:
        width, height = SIZES.get(name, (20, 20))
        Image.fromarray(RNG.integers(0, 256, (height, width, 3)).astype(np.uint8)).save(folder / f"{name}.jpg")
    return folder


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__.removeprefix("write_"))
@pytest.mark.parametrize("beside", [True, False], ids=["by path", "by pixels"])
def test_every_public_form_gives_the_same_regions(tmp_path, images, write, beside, command):
    source = write(tmp_path)
    out = (images.parent if beside else tmp_path / "elsewhere") / "regions.safetensors"
    out.parent.mkdir(exist_ok=True)
    report = command("regions", source, "--images", images, "--out", out, "--json", code=0).json
    assert report == {"out": str(out), "images": 2, "without_regions": 1, "without_image": 0}
    regions = RegionFile(out, 12)
    for name in NAMES:
        found = regions.inputs(decode((images / f"{name}.jpg").read_bytes(), name))
        np.testing.assert_array_equal(found["features"][found["mask"]], FEATURES[name])
        np.testing.assert_allclose(found["boxes"][found["mask"]], CORNERS[name], atol=1e-6)


def test_a_line_of_400_kb_is_read_and_no_other_reader_of_this_process_is_told(tmp_path):
    path, limit = tmp_path / "trainval_36.tsv", csv.field_size_limit()
    features = RNG.normal(size=(36, 2048)).astype(np.float32)
    path.write_text("\t".join(["42", "64", "48", "36", text(np.ones((36, 4))), text(features)]) + "\n")
    (regions,) = read_regions(path)
    np.testing.assert_array_equal(regions.features, features)
    assert csv.field_size_limit() == limit


def test_regions_of_other_images_are_left_out_and_counted(tmp_path, images):
    (images / f"{NAMES[1]}.jpg").unlink()
    imported = regions([write_lxmert(tmp_path)], images, tmp_path / "regions.safetensors")
    assert (imported.images, imported.without_regions, imported.without_image) == (1, 1, 1)


def test_wrong_files_are_one_line(tmp_path, images):
    out = tmp_path / "regions.safetensors"
    path = write_lxmert(tmp_path)
    with raises(DataError, "COCO_val2014_000000000042", "image", "regions"):
        regions([path, path], images, out)
    path.write_text(path.read_text().replace("\t5\t", "\t7\t", 1))
    with raises(DataError, "val2014_obj36.tsv", "1"):
        regions([path], images, out)
    path.write_text("one\ttwo\n")
    with raises(DataError, "1", "2", "10", "6"):
        regions([path], images, out)
    (tmp_path / "a.json").write_text("{}")
    for name, match in (("none.tsv", "none.tsv"), ("a.json", "file")):
        with raises(DataError, match):
            regions([tmp_path / name], images, out)
    base = write_lmdb(tmp_path / "planted.lmdb", {"42": b"\x80\x03cos\nsystem\nX\x02\x00\x00\x00ls\x85R."})
    with raises(DataError, "42", "GLOBAL", "image"):
        regions([base], images, out)
    (images / "other").mkdir()
    (images / "other" / f"{NAMES[0]}.png").write_bytes((images / f"{NAMES[0]}.jpg").read_bytes())
    with raises(DataError, "COCO_val2014_000000000042", "image"):
        regions([write_lxmert(tmp_path)], images, out)
    assert not out.exists()


def test_a_cut_file_of_regions_is_refused(tmp_path):
    path = write_h5(tmp_path)
    assert list(read_regions(path))
    path.write_bytes(path.read_bytes()[:-16])
    with raises(DataError, path.name):
        list(read_regions(path))


@pytest.mark.parametrize("damage", ["cut", "last bytes", "pages", "longer entry"])
def test_a_damaged_data_base_is_refused_and_ends_no_process(tmp_path, damage):
    stream = io.BytesIO()
    np.savez(stream, features=np.ones((2, 1000), np.float32), norm_bb=np.ones((2, 6), np.float32))
    value = stream.getvalue()
    base = write_lmdb(tmp_path / "damaged.lmdb", {f"{k}.npz": value for k in range(20)})
    assert len(list(read_regions(base))) == 20
    data = bytearray((base / "data.mdb").read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "last bytes":
        del data[-16:]
    elif damage == "pages":
        data[3 * 4096 :] = bytes(len(data) - 3 * 4096)
    else:  # the sizes of its entries
        data = bytearray(bytes(data).replace(len(value).to_bytes(4, "little"), (1 << 31).to_bytes(4, "little")))
    (base / "data.mdb").write_bytes(data)
    with raises(DataError, "damaged.lmdb"):
        list(read_regions(base))
