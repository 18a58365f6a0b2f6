"""Small pair sets on disk."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tellapart as ta
from pictures import draw, encoded, noise
from tellapart.benchmarks import set_file
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.set_file import read_set_file, set_benchmark
from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item

WORDS = ("red", "blue", "one", "two", "cup", "bowl", "left", "right")


def write_set(
    folder: Path, *, n: int = 12, shape: tuple[int, int] = (2, 2), seed: int = 0, clusters: int | None = None
) -> Path:
    """Write noise images with drawn words: a tag on every item, another on every second, and clusters if wanted."""
    rng = np.random.default_rng(seed)
    items, images = [], {}
    for k in range(n):
        references = tuple(f"images/{k}_{side}.png" for side in range(shape[0]))
        for reference in references:
            pixels = rng.integers(0, 100, 3) + rng.integers(0, 156, (8, 8, 3))
            images[reference] = encoded(pixels.astype(np.uint8))
        texts = tuple(" ".join(rng.choice(WORDS, 4)) + f" {text}" for text in range(shape[1]))
        tags = {"type": ("swap", "add", "replace")[k % 3]} | ({"side": "left"} if k % 2 else {})
        cluster = "" if clusters is None else f"scene-{k % clusters}"
        items.append(Item(id=f"item-{k}", images=references, texts=texts, tags=tags, cluster=cluster))
    write_pair_set(folder, items, images, {"title": f"Set {folder.name}", "licence": "CC0"})
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def file_bytes(name: str, content: Any) -> bytes:
    """Return a file's bytes: of bytes or text as they are; of rows and other content as its name ends.

    That is CSV, parquet (also of an object of columns), JSON lines or JSON.
    """
    if isinstance(content, str | bytes):
        return content.encode() if isinstance(content, str) else content
    if name.endswith(".parquet"):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        make = arrow.table if isinstance(content, dict) else arrow.Table.from_pylist
        parquet.write_table(make(content), packed := io.BytesIO())
        return packed.getvalue()
    if name.endswith(".csv"):
        stream, columns = io.StringIO(), list(dict.fromkeys(column for row in content for column in row))
        writer = csv.DictWriter(stream, columns, restval="", quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(content)
        return stream.getvalue().encode(errors="surrogatepass")
    if name.endswith((".jsonl", ".jsonlines")):
        return "".join(f"{json.dumps(row)}\n" for row in content).encode()
    return json.dumps(content).encode()


def write_file(path: Path, content: Any) -> Path:
    """Write a file, and its folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file_bytes(path.name, content))
    return path


def record(**changes: Any) -> dict[str, Any]:
    """Return the row of one good 2x2 item; a field given as `...` is left out."""
    row = {"id": "a", "images": ["images/0.png", "images/1.png"], "texts": ["two clocks", "three clocks"], **changes}
    return {key: value for key, value in row.items() if value is not ...}


def put(home: Path, listing: Any, name: str = "pairs.jsonl", images: Mapping[str, bytes] | None = None) -> Path:
    """Write a folder of rows (or text, or bytes) and two images (or those given)."""
    files = {f"images/{k}.png": encoded(noise(seed=k)) for k in range(2)} if images is None else images
    if isinstance(listing, list):
        listing = "".join(json.dumps(row) + "\n" for row in listing)
    for path, data in {**files, name: listing.encode() if isinstance(listing, str) else listing}.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(data)
    return home


def biased_runs(folder: Path, **fallen: int) -> list[Path]:
    """Write a run of each model of that name on 40 questions with a known bias: right on 10, it falls for so many."""
    asked = {"prompt": "How many legs? Answer in braces.", "ground_truth": "5", "expected_bias": "4"}
    asked |= {"topic": "Animals"}
    rows = [asked | {"image": {"bytes": draw(0), "path": None}, "image_path": f"{k}.png"} for k in range(40)]
    write_file(folder / "main-00000-of-00001.parquet", rows)
    declared = read_set_file(Path(set_file.__file__).with_name("sets") / "vlms-are-biased.toml")
    declared = declared.model_copy(update={"items": None, "counts": {}})
    one = replace(set_benchmark(declared), name="biased-eyes", place=Locations(folder))
    for name, fell in fallen.items():
        said = ["{5}"] * 10 + ["{4}"] * fell + ["{7}"] * (30 - fell)
        rows = [{"id": f"main-00000-of-00001/{k}", "prediction": answer} for k, answer in enumerate(said)]
        write_file(folder / f"{name}.jsonl", rows)
        ta.score(one, folder / f"{name}.jsonl", name=name, out=folder / "runs" / name)
    return [folder / "runs" / name for name in fallen]
