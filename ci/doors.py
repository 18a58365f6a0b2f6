"""The doors through which files come in: a small valid file of each, its reader, and every way to damage one."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import random
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.benchmarks.refcoco import read_refcoco
from tellapart.board.imported import read_imported
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.annotations import read_list
from tellapart.data.images import pixel_hash
from tellapart.data.rows import read_csv, read_jsonl
from tellapart.data.scores import Scores
from tellapart.evaluation.run import run_record
from tellapart.models.external import read_scores, write_scores
from tellapart.models.fusion.region_file import RegionFile
from tellapart.models.huggingface.files import read_config
from tellapart.models.onnx.folder import CONFIG, FILES, read_folder
from tellapart.models.torch_backend import read_state_dict
from tellapart.records.result import ModelRecord, Result, Sample
from tellapart.records.run_folder import read_result, read_samples, write_result, write_samples
from tellapart.report.interchange.foreign import read_foreign
from tellapart.tasks.predictions import box, read_predictions, text
from tellapart.train.released_rows import tsv_rows

__all__ = ["Door", "damage", "open_doors"]

IDS = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class Door:
    """A file's format: its name, a valid file's bytes, its reader.

    Attributes:
        whole: the reader knows what the file must hold, so that a part of it, a row or a key twice, is never accepted
            as something else.
    """

    path: Path
    valid: bytes
    read: Callable[[], Any]
    whole: bool


def open_doors(folder: Path) -> dict[str, Door]:
    """Write a valid file of each format below a folder, and return its door by a name."""
    return {**_scores(folder), **_predictions(folder), **_tables(folder), **_records(folder), **_models(folder)}


def _door(path: Path, read: Callable[[], Any], content: bytes | str | None = None, *, whole: bool = True) -> Door:
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Door(path, path.read_bytes(), read, whole)


def _scores(folder: Path) -> dict[str, Door]:
    scores = Scores(IDS, np.arange(12).reshape(3, 2, 2) / 8, "similarity")
    doors = {}
    for suffix in ("npz", "csv", "jsonl"):
        path = folder / f"scores.{suffix}"
        write_scores(scores, path)
        read = partial(lambda path: read_scores(path, ids=IDS, shape=(2, 2)).values.tolist(), path)
        doors[f"scores.{suffix}"] = _door(path, read)
    return doors


def _predictions(folder: Path) -> dict[str, Door]:
    rows = [{"id": id_, "prediction": f"answer {id_}"} for id_ in IDS]
    boxes = [{"id": id_, "prediction": [1.5, 2, 30, 40]} for id_ in IDS]
    files = {
        "answers.jsonl": ("\n".join(map(json.dumps, rows)) + "\n", text),
        "answers.csv": ("id,prediction\n" + "".join(f"{id_},answer {id_}\n" for id_ in IDS), text),
        "boxes.json": (json.dumps(boxes), box),
        "boxes.csv": ("id,prediction\n" + "".join(f'{id_},"[1.5, 2, 30, 40]"\n' for id_ in IDS), box),
    }
    return {
        name: _door(folder / name, partial(read_predictions, folder / name, IDS, read, "row"), content)
        for name, (content, read) in files.items()
    }


def _tables(folder: Path) -> dict[str, Door]:
    rows = [{"id": id_, "caption": f"a cat, {id_}", "tags": {"kind": "x"}, "size": 7} for id_ in IDS]
    imported = "\n".join(f'[[models]]\nname = "{id_}"\n[models.scores.vlue-nlvr2]\naccuracy = 0.5' for id_ in IDS)
    recipe = 'name = "few"\nbuilder = "scenes"\nseed = 3\n[options.items]\nattribute = 4\n'
    recipe += '[[selections]]\nname = "per_cluster"\nmaximum = 2\n'
    lists = "title\tfilepath\tneg_caption\tneg_image\na cat\ta.png\t['a dog', 'a cow']\t[1, 2]\n"
    refs = [{"ann_id": k, "split": "val", "sentences": [{"sent_id": k, "sent": "left man"}]} for k in range(3)]
    instances = {
        "images": [{"id": 0, "file_name": "a.jpg", "width": 9, "height": 9}],
        "annotations": [{"id": k, "image_id": 0, "bbox": [1, 2, 3, 4]} for k in range(3)],
    }
    (folder / "instances.json").write_text(json.dumps(instances))
    phrases = partial(read_refcoco, folder / "refs.p", folder / "instances.json", "val")
    return {
        "rows.jsonl": _door(
            folder / "rows.jsonl",
            lambda: list(read_jsonl(folder / "rows.jsonl")),
            "\n".join(map(json.dumps, rows)),
            whole=False,
        ),
        "rows.json": _door(folder / "rows.json", lambda: read_list(folder / "rows.json"), json.dumps(rows)),
        "rows.csv": _door(
            folder / "rows.csv",
            lambda: list(read_csv(folder / "rows.csv")),
            'id,caption\na,"a cat, b"\nb,x\n',
            whole=False,
        ),
        "imported.toml": _door(
            folder / "imported.toml",
            lambda: read_imported(folder / "imported.toml"),
            f'source = "here"\n{imported}\n',
            whole=False,
        ),
        "recipe.toml": _door(
            folder / "recipe.toml", lambda: read_recipe_file(folder / "recipe.toml"), recipe, whole=False
        ),
        "negclip.tsv": _door(
            folder / "negclip.tsv", lambda: list(tsv_rows(folder / "negclip.tsv")), lists, whole=False
        ),
        "refs.p": _door(folder / "refs.p", phrases, pickle.dumps(refs, protocol=2)),
        "instances.json": _door(folder / "instances.json", phrases),
    }


def _records(folder: Path) -> dict[str, Door]:
    run = folder / "run"
    model = ModelRecord(name="m", fingerprint="f", kind="similarity")
    write_result(run, Result(run=run_record(run, seed=0, command=""), model=model, benchmarks={}))
    record = json.dumps(json.loads((run / "results.json").read_text()))
    write_samples(run, "demo", [Sample(id=id_, cluster=id_, scores=((0.1, 0.2),), outcomes={"x": 1.0}) for id_ in IDS])
    foreign = {"dataset": "wds/sugar_crepe", "model": "ViT-B-32", "task": "image_caption_selection"}
    foreign |= {"metrics": {"acc": 0.5}, "pretrained": "openai", "language": "en"}
    other = folder / "foreign.json"
    return {
        "results.json": _door(run / "results.json", lambda: read_result(run), record),
        # A sample's line alone does not say that it is the only one: the record's digest does.
        "samples.jsonl": _door(run / "samples" / "demo.jsonl", lambda: read_samples(run, "demo"), whole=False),
        "foreign.json": _door(other, lambda: read_foreign(other), json.dumps(foreign)),
    }


def _models(folder: Path) -> dict[str, Door]:
    onnx, hub = folder / "onnx", folder / "hub"
    for home in (onnx, hub):
        home.mkdir(parents=True, exist_ok=True)
    graph = _message(7, _message(5, b"\x08\x02\x08\x03\x10\x01" + _message(8, b"w") + _message(9, bytes(24))))
    for name in FILES:
        (onnx / name).write_bytes(graph if name.endswith(".onnx") else b"{}")
    config: dict[str, Any] = {"schema_version": 1, "name": "m", "image_size": 16, "resize": "stretch"}
    config |= {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "context_length": 6, "pad_token": "[PAD]"}
    config |= {"dimensions": 8, "kind": "similarity"}

    def read_graph() -> Any:
        hashes = {name: hashlib.sha256((onnx / name).read_bytes()).hexdigest() for name in FILES}
        (onnx / CONFIG).write_text(json.dumps(config | {"sha256": hashes}))
        return read_folder(onnx).fingerprint

    read_graph()
    hashed, own = (onnx / CONFIG).read_text(), folder / "config-door"
    own.mkdir(exist_ok=True)
    for name in FILES:
        (own / name).write_bytes((onnx / name).read_bytes())
    weights = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(4, np.float32)}
    regions = folder / "regions.npz"
    pixels = np.zeros((4, 4, 3), np.uint8)
    key = pixel_hash(pixels)
    np.savez(regions, **{f"{key}/features": np.ones((2, 5), np.float32), f"{key}/boxes": np.full((2, 4), 0.5)})

    def read_regions(path: Path) -> list[Any]:
        return [array.tolist() for array in RegionFile(path, 5).inputs(pixels).values()]

    def read_tensors(path: Path, shapes_only: bool) -> Any:
        return {
            name: (tuple(value.shape), str(value))
            for name, value in read_state_dict(path, shapes_only=shapes_only).items()
        }

    flat = {f"{key}/features": np.ones((2, 5), np.float32), f"{key}/boxes": np.full((2, 4), 0.5, np.float32)}
    tensors = folder / "weights.safetensors"
    return {
        "image.onnx": _door(onnx / "image.onnx", read_graph),
        "onnx config.json": _door(own / CONFIG, lambda: read_folder(own).fingerprint, hashed),
        "transformers config.json": _door(
            hub / "config.json",
            lambda: read_config(str(hub)),
            json.dumps({"model_type": "clip", "size": 7}),
            whole=False,
        ),
        "weights.safetensors": _door(tensors, lambda: read_tensors(tensors, False), _safetensors(weights)),
        "shapes.safetensors": _door(
            folder / "shapes.safetensors",
            lambda: read_tensors(folder / "shapes.safetensors", True),
            _safetensors(weights),
        ),
        "regions.npz": _door(regions, lambda: read_regions(regions)),
        "regions.safetensors": _door(
            folder / "regions.safetensors", lambda: read_regions(folder / "regions.safetensors"), _safetensors(flat)
        ),
    }


def _message(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def _safetensors(arrays: dict[str, Any]) -> bytes:
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + b"".join(array.tobytes() for array in arrays.values())


#: Pieces that readers stumble over.
_PIECES = [
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 90 + b"]" * 90,
    b"9" * 5_000,
    b"1e999",
    b"NaN",
    b"-Infinity",
    b"1_0",
    "１".encode(),
    b'"' + b"x" * 300_000 + b'"',
    b"\xff\xfe",
    b"\x00",
    b'"\\ud800"',
    b"null",
    b"true",
    b"-1",
    b"a." * 20_000,
    b"(" * 9_000,
    b"(((",
    b"{[]: 1}",
    b"99999999999999",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"e]0h\x00" * 50 + b"]" * 50,
]


def damage(door: Door, drawn: random.Random) -> tuple[str, bytes]:
    """Return what was done to the door's valid file, and the bytes that came of it."""
    ways = [
        "flip",
        "overwrite",
        "cut",
        "remove",
        "double",
        "swap",
        "insert",
        "replace value",
        "key twice",
        "repeat",
        "crafted",
    ]
    way = drawn.choice([*ways, "members"] if zipfile.is_zipfile(io.BytesIO(door.valid)) else ways)
    return way, _WAYS[way](door.valid, drawn)


def _flip(data: bytes, drawn: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(drawn.choice([1, 1, 2, 8])):
        changed[drawn.randrange(len(changed))] ^= 1 << drawn.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, drawn: random.Random) -> bytes:
    start, length = drawn.randrange(len(data)), drawn.choice([1, 2, 4, 16])
    return data[:start] + drawn.randbytes(length) + data[start + length :]


def _cut(data: bytes, drawn: random.Random) -> bytes:
    return data[: drawn.randrange(len(data))]


def _remove(data: bytes, drawn: random.Random) -> bytes:
    start = drawn.randrange(len(data))
    return data[:start] + data[drawn.randrange(start, len(data)) :]


def _double(data: bytes, drawn: random.Random) -> bytes:
    lines = data.split(b"\n")
    place = drawn.randrange(len(lines))
    return b"\n".join([*lines[: place + 1], *lines[place:]])


def _swap(data: bytes, drawn: random.Random) -> bytes:
    a, b, c = sorted(drawn.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _insert(data: bytes, drawn: random.Random) -> bytes:
    place = drawn.randrange(len(data) + 1)
    return data[:place] + drawn.choice(_PIECES) + data[place:]


def _replace(data: bytes, drawn: random.Random) -> bytes:
    values = list(re.finditer(rb'"[^"\n]*"|-?\d+(?:\.\d+)?', data))
    if not values:
        return _overwrite(data, drawn)
    one = drawn.choice(values)
    return data[: one.start()] + drawn.choice(_PIECES) + data[one.end() :]


def _twice(data: bytes, drawn: random.Random) -> bytes:
    keys = list(re.finditer(rb'"([^"\n]+)"\s*:\s*("[^"\n]*"|-?[\d.]+)', data))
    if not keys:
        return _double(data, drawn)
    one = drawn.choice(keys)
    value = drawn.choice([b"7", b'"other"', one[2]])
    both = [b'"' + one[1] + b'": ' + value, one[0]]
    return data[: one.start()] + b", ".join(both[:: drawn.choice([1, -1])]) + data[one.end() :]


def _repeat(data: bytes, drawn: random.Random) -> bytes:
    start = drawn.randrange(len(data))
    part = data[start : start + drawn.choice([1, 2, 8, 64])]
    return data[:start] + part * drawn.choice([2, 100, 20_000]) + data[start + len(part) :]


def _crafted(data: bytes, drawn: random.Random) -> bytes:
    """Keep the first bytes, which say the format, and go on with something else."""
    kept = data[: drawn.choice([0, 1, 2, 8, 10, 16, len(data) // 2])]
    return kept + b"".join(drawn.choice(_PIECES) for _ in range(drawn.choice([1, 2, 3])))


def _members(data: bytes, drawn: random.Random) -> bytes:
    """Rewrite an archive: a member twice, under two names, with another's bytes, another header, another packing."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    name, content = drawn.choice(members)
    header = drawn.choice(
        [b"(((", b"{[]: 1}", b"(" * 9_000, b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 2)}"]
    )
    if b"%d" in header:
        header = header % drawn.choice([-1, 0, 10**12, 10**300])
    crafted = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    more = drawn.choice(
        [
            (name, content),
            (name.removesuffix(".npy"), drawn.choice(members)[1]),
            (name, crafted),
            (name, _flip(content, drawn)),
            (name, content + b"more"),
            (drawn.choice(members)[0], content),
        ]
    )
    changed = [more if each[0] == more[0] and drawn.random() < 0.5 else each for each in members]
    if more not in changed:
        changed.insert(drawn.randrange(len(changed) + 1), more)
    stream = io.BytesIO()
    method = drawn.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", method) as archive:
        warnings.simplefilter("ignore")
        for each, bytes_ in changed:
            archive.writestr(each, bytes_)
    packed = stream.getvalue()
    return _flip(packed, drawn) if drawn.random() < 0.3 else packed


_WAYS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flip": _flip,
    "overwrite": _overwrite,
    "cut": _cut,
    "remove": _remove,
    "double": _double,
    "swap": _swap,
    "insert": _insert,
    "replace value": _replace,
    "key twice": _twice,
    "repeat": _repeat,
    "crafted": _crafted,
    "members": _members,
}
