"""The doors through which files come in: a small valid file of each format, and its reader."""

import gzip
import hashlib
import json
import pickle
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import numpy as np
from reshape import FIELDS, ROWS

import tellapart as ta
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.published_tasks import read_refcoco
from tellapart.builders.recipe_file import open_tables, read_recipe_file
from tellapart.catalog import load
from tellapart.data.images import pixel_hash
from tellapart.data.rows import read_csv
from tellapart.data.scores import Scores
from tellapart.data.strict_json import read_json
from tellapart.errors import require
from tellapart.evaluation.verified import read_result
from tellapart.models.huggingface.files import read_config
from tellapart.models.memory.external import read_scores, write_scores
from tellapart.models.onnx.dual_encoder import CONFIG, FILES, read_folder
from tellapart.models.torch.checkpoint import read_state_dict
from tellapart.records.samples import read_samples
from tellapart.training.data.rows import table_rows
from tellapart_native.region_file import RegionFile

VALID = Path(__file__).with_name("valid")
DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
IDS = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class Door:
    """A file's format: a valid file with its bytes, its reader, and a name.

    Of a `whole` file a part is never accepted as something else; a `slow` one is read a tenth as often. The reader sees
    the ways of `reshape.py` that it `knows`, but not below `free` keys. An error may name a row: it begins as one of
    `rows`.
    """

    path: Path
    valid: bytes
    read: Callable[[], Any]
    name: str
    whole: bool = True
    slow: bool = False
    knows: frozenset[str] = frozenset()
    free: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


def door_of(
    path: Path, read: Callable[[Path], Any], content: bytes | str | None = None, name: str = "", **about: Any
) -> Door:
    """Return the door of a file, which is written first if its content is given; by default it has the file's name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def read_all() -> Any:
        value = read(path)
        return list(value) if isinstance(value, Iterator) else value

    return Door(path, path.read_bytes(), read_all, name or path.name, **about)


def open_doors(folder: Path) -> Iterator[Door]:
    """Write a valid file of each format below a folder, and yield its door."""
    shutil.copytree(VALID, folder, dirs_exist_ok=True)
    for row in DECLARED["door"]:
        yield _declared(folder, **row)
    yield from (*_scores(folder), *_tables(folder), *_records(folder), *_models(folder))


def _declared(folder: Path, path: str, read: str, knows_fields: bool = False, **about: Any) -> Door:
    module, _, name = read.partition(":")
    knows = FIELDS if knows_fields else frozenset()
    return door_of(folder / path, getattr(import_module(module), name), knows=knows, **about)


def _scores(folder: Path) -> Iterator[Door]:
    scores = Scores(IDS, np.arange(12).reshape(3, 2, 2) / 8, "similarity")
    read = partial(read_scores, ids=IDS, shape=(2, 2))
    np.save(folder / "scores.npy", scores.values.astype(np.float64))
    yield door_of(folder / "scores.npy", lambda path: read(path, kind="similarity").values.tolist())
    for suffix in ("npz", "csv", "jsonl"):
        write_scores(scores, folder / f"scores.{suffix}")
        yield door_of(folder / f"scores.{suffix}", lambda path: read(path).values.tolist(), knows=FIELDS | ROWS)


def _tables(folder: Path) -> Iterator[Door]:
    refs = [{"ann_id": k, "split": "val", "sentences": [{"sent_id": k, "sent": "left man"}]} for k in range(3)]
    phrases = partial(read_refcoco, folder / "refs.p", folder / "instances.json", splits=["val"])
    declared = folder / "declared"

    def read_set(_path: Path) -> Any:
        return find_benchmark(str(declared / "set.toml")).records()

    for path in sorted((folder / "recipes").iterdir()):
        yield door_of(path, _open_recipe, name=f"recipe of {path.name}", whole=False, knows=FIELDS)
    yield door_of(folder / "rows.json", partial(read_json, kind=list))
    yield door_of(declared / "set.toml", read_set, whole=False, knows=FIELDS - {"key beside"})
    yield door_of(declared / "asked.jsonl", read_set)
    yield door_of(folder / "negclip.tsv", partial(table_rows, columns={}), whole=False)
    yield door_of(folder / "packed.csv.gz", read_csv, gzip.compress(b"id,caption\na,a cat\n", mtime=0))
    yield door_of(folder / "refs.p", lambda _: phrases(), pickle.dumps(refs, protocol=2))
    yield door_of(folder / "instances.json", lambda _: phrases())


def _open_recipe(path: Path) -> Any:
    """Return a recipe with its builder's options, its filters and its selections, all with their defaults."""
    recipe, where = read_recipe_file(path), str(path)
    options = load("builder", recipe.builder).Options.model_validate(recipe.options)
    tables = (("filter", recipe.filters), ("selection", recipe.selections))
    return recipe.model_dump(exclude={"options"}), options, *(open_tables(kind, rows, where) for kind, rows in tables)


def _records(folder: Path) -> Iterator[Door]:
    run: Path = ta.evaluate("random", "demo", limit=3, out=folder / "run", cache=False).folder
    yield door_of(run / "results.json", lambda _: read_result(run))
    # A sample's line alone does not say that it is the only one: the record's digest does.
    samples = run / "samples" / "demo.jsonl"
    yield door_of(samples, lambda _: read_samples(run, "demo"), name="samples.jsonl", whole=False)


def _models(folder: Path) -> Iterator[Door]:
    onnx, copy, hub = folder / "onnx", folder / "config-door", folder / "hub" / "config.json"
    onnx.mkdir()
    tensor = require("onnx", extra="train").TensorProto(name="w", dims=[2, 3], data_type=1, raw_data=bytes(24))
    model = require("onnx", extra="train").ModelProto()
    model.graph.initializer.add().CopyFrom(tensor)
    save = require("safetensors.numpy", extra="models").save
    write_onnx(onnx, model)

    def read_graph(_path: Path) -> Any:
        write_onnx_config(onnx)
        return read_folder(onnx).fingerprint

    shutil.copytree(onnx, copy)
    weights = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(4, np.float32)}
    pixels = np.zeros((4, 4, 3), np.uint8)
    key = pixel_hash(pixels)
    regions = {f"{key}/features": np.ones((2, 5), np.float32), f"{key}/boxes": np.full((2, 4), 0.5)}
    np.savez(folder / "regions.npz", **regions)
    flat = {name: array.astype(np.float32) for name, array in regions.items()}

    def read_regions(path: Path) -> list[Any]:
        return [array.tolist() for array in RegionFile(path, 5).inputs(pixels).values()]

    yield door_of(onnx / "image.onnx", read_graph)
    yield door_of(folder / "weights.safetensors", read_tensors, save(weights))
    yield door_of(folder / "shapes.safetensors", partial(read_tensors, shapes_only=True), save(weights))
    yield door_of(folder / "regions.npz", read_regions)
    yield door_of(folder / "regions.safetensors", read_regions, save(flat))
    yield door_of(copy / CONFIG, lambda _: read_folder(copy).config, name="onnx config.json")
    yield door_of(hub, lambda path: read_config(str(path.parent)), name="transformers config.json", whole=False)


def write_onnx(folder: Path, model: Any) -> None:
    """Write the folder of an ONNX encoder whose graphs are a model."""
    for name in FILES:
        (folder / name).write_bytes(model.SerializeToString() if name.endswith(".onnx") else b"{}")
    write_onnx_config(folder)


def write_onnx_config(folder: Path) -> None:
    """Write the configuration of the ONNX encoder whose other files are in a folder."""
    config: dict[str, Any] = {"schema_version": 1, "name": "m", "image_size": 16, "resize": "stretch"}
    config |= {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "context_length": 6, "pad_token": "[PAD]"}
    config |= {"dimensions": 8, "kind": "similarity"}
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}
    (folder / CONFIG).write_text(json.dumps(config | {"sha256": hashes}))


def read_tensors(path: Path, *, shapes_only: bool = False) -> Any:
    """Return the shapes and values of a checkpoint's tensors."""
    read = read_state_dict(path, shapes_only=shapes_only)
    return {name: (tuple(value.shape), str(value)) for name, value in read.items()}
