"""Files and names that were made to do harm, and options without effect.

Each is refused in one line that names it, or read, soon and in little memory.
"""

import io
import json
import os
import pickle
import re
import struct
import threading
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from container_doors import encode_picture, write_boxes
from doors import write_onnx
from PIL import Image

import tellapart as ta
from tellapart.benchmarks.locations import ZipImages
from tellapart.benchmarks.parquet import ParquetTable
from tellapart.board.records import read_settings
from tellapart.builders.recipe_file import open_builder, read_recipe_file
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_jsonl
from tellapart.data.strict_binary import read_plain_pickle
from tellapart.data.strict_json import read_json, read_whole
from tellapart.errors import TellapartError, require
from tellapart.evaluation.verified import read_result
from tellapart.models.huggingface.files import refuse_other_shards
from tellapart.models.memory.external import read_scores
from tellapart.models.onnx.dual_encoder import read_folder
from tellapart.records.imported import read_imported
from tellapart.records.run_folder import write_result
from tellapart.report.interchange.foreign import read_foreign
from tellapart.training.config import read_config
from tellapart_native.region_file import RegionFile, read_regions

#: Turns a terminal's title into another, and a line's end around.
STEERS = "a\x1b]0;owned\x07\u202eb"
_MARKUP = "<img src=x onerror=alert(1)>"


@dataclass(frozen=True, slots=True)
class Attack:
    """A file that does harm: `read` writes and reads it; `facts` are in the line that refuses it (none: it is read)."""

    read: Callable[[Path], object]
    facts: tuple[str, ...] = ()


_DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _declared(kind: str, read: Callable[..., object]) -> dict[str, Attack]:
    """Return the attacks of a kind in `attacks.toml`, by name: `read` takes a folder, and by name what they declare."""
    return {
        name: Attack(partial(read, **{key: value for key, value in row.items() if key != "facts"}), tuple(row["facts"]))
        for name, row in _DECLARED[kind].items()
    }


def try_attack(attack: Attack, folder: Path) -> tuple[str, str]:
    """Make a file and read it; return `refused` or `read` if that is right, else one of `gates.BAD`, and the line."""
    try:
        attack.read(folder)
    except TellapartError as error:
        said = str(error)
        good = attack.facts and said.isprintable() and len(said) <= 2_000 and all(fact in said for fact in attack.facts)
        return "refused" if good else "text", said
    except BaseException as error:
        return "traceback", f"{type(error).__name__}: {error!s:.300}"
    return ("silent", "it was read") if attack.facts else ("read", "")


def write_file(path: Path, content: bytes | bytearray | str) -> Path:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def _text(name: str, content: bytes | str, read: Callable[[Path], object], *facts: str) -> Attack:
    return Attack(lambda folder: read(write_file(folder / name, content)), (name, *facts) if facts else ())


def _pipe(folder: Path) -> None:
    """Give 20 MB to a reader of a named pipe: a byte at a time, it took minutes."""
    path = folder / "pipe"
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(b"x" * 20_000_000,), daemon=True).start()
    if len(read_whole(path)) != 20_000_000:
        raise ValueError("not all of the pipe was read")


def _recipe(folder: Path) -> object:
    options = '[options]\ncaptions = "/dev/zero"\nimages = "."\n'
    path = write_file(folder / "recipe.toml", f'name = "few"\nbuilder = "negatives"\n{options}')
    return open_builder(read_recipe_file(path), folder)


_HALF = '"a \\ud800 cat"'
_NOISE = np.random.default_rng(0).bytes(999)
_FOREIGN = (
    '{"dataset": "wds/sugar_crepe", "model": %s, "task": "image_caption_selection", "metrics": {"acc": 0.5}, '
    '"pretrained": "openai", "language": "en"}'
)


def _zip(method: int, data: bytes, *facts: str, file: Mapping[int, int] = {}, entry: Mapping[int, int] = {}) -> Attack:
    """An archive of one image, packed by a method; bits of its bytes are turned, by place in the file and its entry."""

    def read(folder: Path) -> object:
        path = folder / "images.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.png", data, method)
        packed = bytearray(path.read_bytes())
        for start, turned in ((0, file), (packed.find(b"PK\x01\x02"), entry)):
            for place, bits in turned.items():
                packed[start + place] ^= bits
        path.write_bytes(packed)
        return ZipImages(path)("a.png")

    return Attack(read, ("images.zip", "a.png", *facts))


def _parquet(make: Callable[[Any], dict[str, Any]], *facts: str) -> Attack:
    def read(folder: Path) -> object:
        import pyarrow
        from pyarrow import parquet

        path = folder / "rows.parquet"
        options = {"use_dictionary": make is _share_text, "write_statistics": False}
        parquet.write_table(pyarrow.table(make(pyarrow)), path, compression="zstd", **options)
        return sum(1 for _ in ParquetTable([path], images=[]).rows())

    return Attack(read, ("rows.parquet", *facts))


def _nest_lists(arrow: Any) -> dict[str, Any]:
    kind, value = arrow.int32(), 1
    for _ in range(500):
        kind, value = arrow.list_(kind), [value]  # type: ignore[assignment]
    return {"a": arrow.array([value], kind)}


def _share_text(arrow: Any) -> dict[str, Any]:
    return {"a": arrow.DictionaryArray.from_arrays(arrow.array([0] * 4_000, arrow.int32()), ["y" * 1_000_000])}


def _hdf5(change: Callable[[Any, Any], object], *facts: str) -> Attack:
    def read(folder: Path) -> object:
        import h5py

        with h5py.File(folder / "other.h5", "w") as other:
            other["secret"] = np.ones((2, 5), "f4")
        path = write_boxes(folder / "boxes.h5", "7")
        with h5py.File(path, "r+") as file:
            del file["7"]["features"]
            change(h5py, file["7"])
        return list(read_regions(path))

    return Attack(read, ("boxes.h5", "image 7", "features", *facts))


def _virtual(h5py: Any, group: Any) -> None:
    layout = h5py.VirtualLayout((2, 5), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "secret", (2, 5))
    group.create_virtual_dataset("features", layout)


def _regions(name: str, features: Any) -> Attack:
    def read(folder: Path) -> object:
        path = folder / "regions.npz"
        boxes = np.full((2, 4), 0.5, np.float32)
        np.savez_compressed(path, **{f"{name}/features": features, f"{name}/boxes": boxes})
        return RegionFile(path, 5).inputs(np.zeros((4, 4, 3), np.uint8))

    return Attack(read, ("regions.npz", name))


def _claimed_regions(folder: Path) -> object:
    """Write a file of safetensors whose numbers reach far behind its end."""
    part = {"dtype": "F32", "shape": [1 << 40, 5], "data_offsets": [0, 20 << 40]}
    head = json.dumps({"a.png/features": part, "a.png/boxes": part}).encode()
    return RegionFile(write_file(folder / "regions.safetensors", struct.pack("<Q", len(head)) + head), 5)


def _onnx(add: Callable[[Any], Any]) -> Attack:
    """A model of which a tensor lies in another file of the machine, at a place that is added to the model."""

    def read(folder: Path) -> object:
        onnx = require("onnx", extra="train")
        tensor = onnx.TensorProto(name="stolen", dims=[2], data_type=1, data_location=1)
        tensor.external_data.add(key="location", value="../../../etc/passwd")
        model = onnx.ModelProto()
        model.graph.SetInParent()
        add(model).CopyFrom(tensor)
        write_onnx(folder, model)
        return read_folder(folder)

    return Attack(read, ("image.onnx", "stolen"))


def _foreign_id(folder: Path) -> object:
    rows = [{"label": f"{id_}_c{k}_i{j}", "score": 0.5} for id_ in ("a", STEERS) for k in (0, 1) for j in (0, 1)]
    path = write_file(folder / "scores.jsonl", "\n".join(map(json.dumps, rows)))
    return read_scores(path, ids=("a",), shape=(2, 2), kind="similarity")


def _half_id(folder: Path) -> object:
    path = folder / "scores.npz"
    ids = np.array([[0xD800]], "<u4").view("<U1").ravel()
    np.savez(path, ids=ids, scores=np.zeros((1, 2, 2)), kind=np.array("similarity"))
    return read_scores(path, ids=("a",), shape=(2, 2))


_LONG_TOML = 'name = "few"\n' + "# a comment without end\n" * 2_200_000
_TOML_READERS: dict[str, Callable[[Path], object]] = {
    "recipe": read_recipe_file,
    "training": read_config,
    "board": read_settings,
    "imported": read_imported,
}
_ONNX_PLACES: dict[str, Callable[[Any], Any]] = {
    "initializer": lambda model: model.graph.initializer.add(),
    "sparse tensor": lambda model: model.graph.sparse_initializer.add().values,
    "attribute": lambda model: model.graph.node.add().attribute.add().t,
    "branch": lambda model: model.graph.node.add().attribute.add().g.initializer.add(),
    "function": lambda model: model.functions.add().node.add().attribute.add().t,
    "training graph": lambda model: model.training_info.add().initialization.initializer.add(),
}


def _export_board(run: Path) -> str:
    """Return the pages of a board of a run."""
    site = run.parent / "site"
    ta.board_export(site, runs=run, items=6, comparisons=0)
    return "".join(path.read_text("utf-8") for path in site.rglob("*.html"))


def _draw_set() -> PairSet:
    """Return pairs whose ids, tags and captions are markup, and steer."""
    items = tuple(
        Item(
            id=f"{_MARKUP}{k}",
            images=("a.png", "b.png"),
            texts=(f"{STEERS} {k} {_MARKUP}", f"{k} {STEERS}"),
            tags={"kind": f"{_MARKUP}{k % 2}"},
        )
        for k in range(6)
    )
    return PairSet("steering", items, Path(), read=lambda name: encode_picture("png", side=8 + (name == "b.png")))


def _write_run(folder: Path) -> Path:
    """Write a run of a model with such a name on such pairs."""
    run = ta.evaluate("random", _draw_set(), out=folder / "run", cache=False).folder
    result = read_result(run)
    model = result.model.model_copy(update={"name": f"{STEERS}{_MARKUP}"})
    write_result(run, result.model_copy(update={"model": model}))
    return Path(run)


def _shown(show: Callable[[Path], object], *, page: bool = False) -> Attack:
    """A run of hostile names at a door that prints them: nothing steers, and in a page nothing is markup."""

    def read(folder: Path) -> None:
        run = _write_run(folder)
        with redirect_stdout(io.StringIO()) as printed:
            text = f"{show(run)}{printed.getvalue()}"
        if len(text) < 40 or set(text) & {"\x1b", "\x07", "\u202e"} or (page and "<img src=x" in text):
            raise AssertionError(f"names are shown as they are: {text[:200]!a}")

    return Attack(read)


def _show_all(run: Path) -> object:
    opened = ta.open_run(run)
    opened.show(every=True)
    return repr(opened), repr(opened.items()), repr(opened.items()[0])


def _show_notebook(run: Path) -> str:
    opened = ta.open_run(run)
    shown = (opened, opened.table(), opened.items(), opened.items()[0], ta.verify(run))
    return "".join(each._repr_html_() for each in shown)


def _write_page(run: Path) -> str:
    path = ta.open_run(run).write_report().path
    text = "" if path is None else path.read_text("utf-8")
    return re.sub(r'(?s)id="report-data">.*?</script>', "", text)  # its texts become text nodes, a block each


def _refuse(_folder: Path, **options: Any) -> object:
    """An option of `evaluate` that has no effect or no such value."""
    return ta.evaluate("demo-encoder", "demo", limit=4, cache=False, **options)


def _run_demo(folder: Path, limit: int = 2) -> Path:
    return Path(ta.evaluate("random", "demo", limit=limit, out=folder, cache=False).folder)


def _ask(folder: Path, *, ask: str, options: Mapping[str, Any] = {}, sizes: Sequence[object] = ()) -> object:
    """A question to a run on the demonstration set, or on a table of items with two captions and a size each."""
    if not sizes:
        return getattr(ta, ask)(_run_demo(folder / "a"), **options)
    Image.new("RGB", (8, 8)).save(folder / "0.png")
    rows = [f"0.png,a cup {k},a bowl {k},{size}\n" for k, size in enumerate(sizes)]
    table = write_file(folder / "a.csv", "image,caption,foil,size\n" + "".join(rows))
    run = ta.evaluate("random", f"table:{table}", out=folder / "a", cache=False, columns={"tag:size": "size"})
    return getattr(ta, ask)(run.folder, **options)


def _write_two_models(folder: Path) -> object:
    """Write a single file of weights, and a shard of others with its index."""
    shard = "model-00001-of-00001.safetensors"
    for value, name in enumerate(("model.safetensors", shard)):
        save = require("safetensors.numpy", extra="models").save_file
        save({"a": np.full(4, value, np.float32)}, folder / name)
    index = json.dumps({"metadata": {}, "weight_map": {"a": shard}})
    (folder / "model.safetensors.index.json").write_text(index)
    return refuse_other_shards(str(folder))


_MTEB = '{"task_name": "a \\ud800", "mteb_version": "1", "scores": {"test": [{"accuracy": 0.5}]}}'

ATTACKS: dict[str, Attack] = {
    "pipe of 20 MB": Attack(_pipe),
    "device without end": Attack(lambda _folder: read_whole(Path("/dev/zero")), ("/dev/zero", "268,435,456")),
    "recipe of a device": Attack(_recipe, ("/dev/zero",)),
    "half a character in JSON": _text("a.json", f"[{_HALF}]", read_json, "\\ud800"),
    "half a character in a key": _text("a.json", f"{{{_HALF}: 1}}", read_json, "\\ud800"),
    "half a character in JSONL": _text(
        "a.jsonl", f'{{"a": 1}}\n{{"a": {_HALF}}}', lambda path: list(read_jsonl(path)), "a.jsonl:2", "\\ud800"
    ),
    "half a character of a foreign result": _text("foreign.json", _FOREIGN % _HALF, read_foreign, "\\ud800"),
    "half a character in a pickle": _text("a.p", pickle.dumps(["\ud800"]), read_plain_pickle, "\\ud800"),
    "half a character in an array": Attack(_half_id, ("scores.npz", "ids")),
    "a whole character in two halves": _text("a.json", '["\\ud83d\\ude00 \\\\ud800"]', read_json),
    "an id that steers the terminal": Attack(_foreign_id, ("scores.jsonl", "\\x1b", "\\u202e")),
    "zip, encrypted": _zip(8, _NOISE, file={6: 1}, entry={8: 1}),
    "zip, unknown packing": _zip(8, _NOISE, file={8: 8 ^ 99}, entry={10: 8 ^ 99}),
    "zip, lzma": _zip(14, bytes(999)),
    "zip, broken packing": _zip(8, _NOISE, file={37: 255, 40: 255}),
    "zip, bomb": _zip(8, bytes(64_000_001), "64,000,000"),
    "zip, not one": _text("images.zip", b"PK\x05\x06" + bytes(30), lambda path: ZipImages(path)("a.png"), "images.zip"),
    "parquet, rows without end": _parquet(lambda arrow: {"a": arrow.nulls(5_000_001, arrow.string())}, "5,000,000"),
    "parquet, one text in all rows": _parquet(_share_text, "1,073,741,824"),
    "parquet, a huge page": _parquet(lambda arrow: {"a": arrow.array(["x" * 540_000_000] * 2)}, "1,073,741,824"),
    "parquet, 500 lists in one another": _parquet(_nest_lists, "nested"),
    "HDF5, numbers without end": _hdf5(
        lambda _, group: group.create_dataset("features", (10**6, 10**6), "f4", chunks=(9, 9)), "64,000,000"
    ),
    "HDF5, another file's bytes": _hdf5(
        lambda _, group: group.create_dataset("features", (2, 5), "u1", external=[("/etc/passwd", 0, 10)])
    ),
    "HDF5, another file's numbers": _hdf5(_virtual),
    "HDF5, a link to another file": _hdf5(
        lambda h5py, group: group.__setitem__("features", h5py.ExternalLink("other.h5", "/secret")), "link"
    ),
    "HDF5, no numbers": _hdf5(lambda _, group: group.create_dataset("features", data=["a", "b"])),
    "regions outside of the folder": _regions("../a.png", np.ones((2, 5), np.float32)),
    "regions, a bomb": _regions("a.png", np.zeros((1, 1 << 27), np.int64)),
    "regions behind the file's end": Attack(_claimed_regions, ("regions.safetensors",)),
    **{f"ONNX, weights of another file: {place}": _onnx(add) for place, add in _ONNX_PLACES.items()},
    **{
        f"TOML of 50 MB: {name}": _text("long.toml", _LONG_TOML, read, "4,194,304")
        for name, read in _TOML_READERS.items()
    },
    "names that steer: show --all": _shown(_show_all),
    "names that steer: table": _shown(lambda run: [ta.table(run, form) for form in ("markdown", "latex", "csv")]),
    "names that steer: page": _shown(_write_page, page=True),
    "names that steer: board": _shown(_export_board, page=True),
    "names that steer: notebook": _shown(_show_notebook, page=True),
    "half a character in mteb's JSON": Attack(
        lambda folder: read_foreign(write_file(folder / "mteb.json", _MTEB)), ("mteb.json", "\\ud800")
    ),
    "half a character in a model's name": Attack(
        lambda _folder: ta.score("demo", np.zeros((400, 2, 2)), name="a\udcff"), ("name", "\\udcff")
    ),
    **_declared("option", _refuse),
    **_declared("ask", _ask),
    "runs of other items: compare --anytime": Attack(
        lambda folder: ta.compare(_run_demo(folder / "a"), _run_demo(folder / "b", 3), anytime=True),
        ("demo", "limit=", "same pairs"),
    ),
    "anytime p-values beside a gate: compare --anytime": Attack(
        lambda folder: ta.compare(_run_demo(folder / "a"), folder / "a", anytime=True, gate=True),
        ("gate=True", "anytime="),
    ),
    "single file of weights beside other shards: models": Attack(
        _write_two_models, ("model.safetensors", "model.safetensors.index.json")
    ),
}
