"""The doors through which files come in: a small valid file of each, and its reader."""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from reshape import FIELDS, ROWS

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.published_tasks import read_refcoco
from tellapart.builders.recipe_file import open_tables, read_recipe_file
from tellapart.catalog import load
from tellapart.data.annotations import read_list
from tellapart.data.images import pixel_hash
from tellapart.data.rows import read_csv, read_jsonl
from tellapart.data.scores import Scores
from tellapart.evaluation.run import run_record
from tellapart.evaluation.verified import read_result
from tellapart.models.fusion.region_file import RegionFile
from tellapart.models.huggingface.files import read_config
from tellapart.models.memory.external import read_scores, write_scores
from tellapart.models.onnx.dual_encoder import CONFIG, FILES, read_folder
from tellapart.models.torch.checkpoint import read_state_dict
from tellapart.records.imported import read_imported
from tellapart.records.result import ModelRecord, Result, Sample
from tellapart.records.run_folder import write_result
from tellapart.records.samples import read_samples, write_samples
from tellapart.report.interchange.foreign import read_foreign
from tellapart.training.data.rows import json_rows, table_rows

IDS = ("a", "b", "c")

#: A set that a file declares: questions with two options.
_DECLARED = """name = "asked"
title = "asked"
source = "here"
files = ["asked.jsonl"]
items = 3
[[question]]
id = "{id}"
images = "{image}"
question = "Up or down?"
options = "{both}"
answer = "{answer}"
group = "all"
"""


@dataclass(frozen=True, slots=True)
class Door:
    """A file's format: its name, a valid file's bytes, its reader.

    Attributes:
        whole: the reader knows what the file must hold, so that a part of it, a row or a key twice, is never accepted
            as something else.
        slow: read a tenth as often as others.
        knows: the ways of `reshape.py` that its reader can see: it refuses the file, or reads it as the valid one.
        free: keys below which names and values are content.
        rows: how the ids of its rows begin, which an error may name in place of one file of several.
    """

    path: Path
    valid: bytes
    read: Callable[[], Any]
    whole: bool
    slow: bool = False
    knows: frozenset[str] = frozenset()
    free: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


def open_doors(folder: Path) -> dict[str, Door]:
    """Write a valid file of each format below a folder, and return its door by a name."""
    return {**_scores(folder), **_tables(folder), **_records(folder), **_models(folder)}


def door_of(
    path: Path,
    read: Callable[[], Any],
    content: bytes | str | None = None,
    *,
    whole: bool = True,
    slow: bool = False,
    knows: frozenset[str] = frozenset(),
    free: tuple[str, ...] = (),
    rows: tuple[str, ...] = (),
) -> Door:
    """Return the door of a file, which is written first if its content is given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Door(path, path.read_bytes(), read, whole, slow, knows, free, rows)


def _scores(folder: Path) -> dict[str, Door]:
    scores = Scores(IDS, np.arange(12).reshape(3, 2, 2) / 8, "similarity")
    doors = {}
    for suffix in ("npz", "csv", "jsonl"):
        path = folder / f"scores.{suffix}"
        write_scores(scores, path)
        read = partial(lambda path: read_scores(path, ids=IDS, shape=(2, 2)).values.tolist(), path)
        doors[f"scores.{suffix}"] = door_of(path, read, knows=FIELDS | ROWS)
    return doors


def _tables(folder: Path) -> dict[str, Door]:
    rows = [{"id": id_, "caption": f"a cat, {id_}", "tags": {"kind": "x"}, "size": 7} for id_ in IDS]
    imported = "\n".join(f'[[models]]\nname = "{id_}"\n[models.scores.vlue-nlvr2]\naccuracy = 0.5' for id_ in IDS)
    lists = "title\tfilepath\tneg_caption\tneg_image\na cat\ta.png\t['a dog', 'a cow']\t[1, 2]\n"
    refs = [{"ann_id": k, "split": "val", "sentences": [{"sent_id": k, "sent": "left man"}]} for k in range(3)]
    instances = {
        "images": [{"id": 0, "file_name": "a.jpg", "width": 9, "height": 9}],
        "annotations": [{"id": k, "image_id": 0, "bbox": [1, 2, 3, 4]} for k in range(3)],
    }
    (folder / "instances.json").write_text(json.dumps(instances))
    declared, asked = folder / "declared" / "set.toml", folder / "declared" / "asked.jsonl"
    phrases = partial(read_refcoco, folder / "refs.p", folder / "instances.json", "val")
    return {
        "rows.jsonl": door_of(
            folder / "rows.jsonl",
            lambda: list(read_jsonl(folder / "rows.jsonl")),
            "\n".join(map(json.dumps, rows)),
            whole=False,
        ),
        "rows.json": door_of(folder / "rows.json", lambda: read_list(folder / "rows.json"), json.dumps(rows)),
        "rows.csv": door_of(
            folder / "rows.csv",
            lambda: list(read_csv(folder / "rows.csv")),
            'id,caption\na,"a cat, b"\nb,x\n',
            whole=False,
        ),
        "imported.toml": door_of(
            folder / "imported.toml",
            lambda: read_imported(folder / "imported.toml"),
            f'source = "here"\n{imported}\n',
            whole=False,
            knows=FIELDS,
            free=("scores",),
        ),
        **_recipes(folder / "recipes"),
        "set.toml": door_of(
            declared,
            lambda: find_benchmark(str(declared)).records(),
            _DECLARED,
            whole=False,
            knows=FIELDS - {"key beside"},
        ),
        "asked.jsonl": door_of(
            asked,
            lambda: find_benchmark(str(declared)).records(),
            "".join(
                json.dumps({"id": f"{k}", "image": f"{k}.png", "both": ["up", "down"], "answer": "up"}) + "\n"
                for k in range(3)
            ),
        ),
        "negclip.tsv": door_of(
            folder / "negclip.tsv", lambda: list(table_rows(folder / "negclip.tsv", {})), lists, whole=False
        ),
        "captions.json": door_of(
            folder / "captions.json",
            lambda: list(json_rows(folder / "captions.json")),
            json.dumps({"images": [{"id": 1, "file_name": "a.png"}], "annotations": [{"image_id": 1, "caption": "a"}]}),
        ),
        "packed.csv.gz": door_of(
            folder / "packed.csv.gz",
            lambda: list(read_csv(folder / "packed.csv.gz")),
            gzip.compress(b"id,caption\na,a cat\n", mtime=0),
        ),
        "refs.p": door_of(folder / "refs.p", phrases, pickle.dumps(refs, protocol=2)),
        "instances.json": door_of(folder / "instances.json", phrases),
    }


#: Recipes of builders that need no model; the first has every kind of table.
_RECIPES = {
    "scenes": """name = "few"
builder = "scenes"
seed = 3
[options.items]
attribute = 4
[[selections]]
name = "per_cluster"
maximum = 2
""",
    "negatives": """name = "few"
builder = "negatives"
seed = 5
retries = 4
max_failed = 3
[options]
captions = "captions.csv"
images = "photos"
kinds = ["swap_obj", "swap_att"]
other_captions = false
uniform = true
[[filters]]
name = "words"
minimum = 2
maximum = 40
[[filters]]
name = "word_gap"
maximum = 3
[[selections]]
name = "distinct"
[[selections]]
name = "per_cluster"
maximum = 2
""",
    "language-negatives": """name = "few"
builder = "language-negatives"
[options]
captions = "captions.csv"
images = "photos"
attempts = 3
[options.model]
source = "http://localhost:8000/v1"
name = "m"
temperature = 0.75
max_tokens = 60
timeout = 30.5
tries = 2
""",
    "timestamped-captions": """name = "few"
builder = "timestamped-captions"
[options]
captions = "captions.jsonl"
videos = "films"
quality = 90
min_difference = 0.125
min_gap = 1.5
frame = "start"
""",
}


def _recipes(folder: Path) -> dict[str, Door]:
    doors = {}
    for name, content in _RECIPES.items():
        path = folder / f"{name}.toml"
        doors[f"recipe of {name}.toml"] = door_of(path, partial(_open_recipe, path), content, whole=False, knows=FIELDS)
    return doors


def _open_recipe(path: Path) -> Any:
    """Return a recipe with its builder's options, its filters and its selections, all with their defaults."""
    recipe, where = read_recipe_file(path), str(path)
    options = load("builder", recipe.builder).Options.model_validate(recipe.options)
    tables = (("filter", recipe.filters), ("selection", recipe.selections))
    return recipe.model_dump(exclude={"options"}), options, *(open_tables(kind, rows, where) for kind, rows in tables)


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
        "results.json": door_of(run / "results.json", lambda: read_result(run), record),
        # A sample's line alone does not say that it is the only one: the record's digest does.
        "samples.jsonl": door_of(run / "samples" / "demo.jsonl", lambda: read_samples(run, "demo"), whole=False),
        "foreign.json": door_of(other, lambda: read_foreign(other), json.dumps(foreign)),
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
        "image.onnx": door_of(onnx / "image.onnx", read_graph),
        "onnx config.json": door_of(own / CONFIG, lambda: read_folder(own).config, hashed),
        "transformers config.json": door_of(
            hub / "config.json",
            lambda: read_config(str(hub)),
            json.dumps({"model_type": "clip", "size": 7}),
            whole=False,
        ),
        "weights.safetensors": door_of(tensors, lambda: read_tensors(tensors, False), _safetensors(weights)),
        "shapes.safetensors": door_of(
            folder / "shapes.safetensors",
            lambda: read_tensors(folder / "shapes.safetensors", True),
            _safetensors(weights),
        ),
        "regions.npz": door_of(regions, lambda: read_regions(regions)),
        "regions.safetensors": door_of(
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
