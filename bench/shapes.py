"""Pair sets in the shapes of Winoground, SugarCrepe, ARO and VALSE, written once in every tool's own format.

Captions are published ones, of which many begin alike: of COCO-Counterfactuals, SugarCrepe (ARO's are permuted) and
VALSE. Pictures are synthetic JPEG files. All come from one seed.
"""

from __future__ import annotations

import io
import json
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item

#: What one command of a tool evaluates.
GROUPS = {"winoground": ("winoground",), "sugarcrepe+aro": ("sugarcrepe", "aro"), "valse": ("valse",)}


class Pair(NamedTuple):
    """One item: names of its images and its texts, the true ones first."""

    images: tuple[str, ...]
    texts: tuple[str, ...]


def make_sets(folder: Path, items: int, annotations: Path, seed: int = 0) -> dict[str, list[Pair]]:
    """Write `items` items of each shape below `folder`, and return them; what an earlier call made is kept.

    `NAME/` is read by tellapart, and `crepe/` by CLIP_benchmark; the other tools' drivers make their tables of these.
    """
    rng = np.random.default_rng(seed)
    sets = read_sets(annotations, items, rng)
    stamp = folder / "stamp.json"
    wanted = json.dumps({"items": items, "seed": seed, "format": 4})
    if stamp.exists() and stamp.read_text() == wanted:
        return sets
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, pairs in sets.items():
        images = {f"images/{image}": _picture(rng) for image in distinct_images(pairs)}
        items = (
            Item(id=str(k), images=tuple(f"images/{image}" for image in pair.images), texts=pair.texts)
            for k, pair in enumerate(pairs)
        )
        write_pair_set(folder / name, items, images, {"title": name, "licence": "CC0"})
    _write_crepe(folder, sets)
    stamp.write_text(wanted)
    return sets


def distinct_images(pairs: list[Pair]) -> list[str]:
    """Return the names of the images of some items."""
    return list(dict.fromkeys(image for pair in pairs for image in pair.images))


def distinct(sets: dict[str, list[Pair]], names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the distinct images (set/images/name) and texts of some sets."""
    images = [f"{name}/images/{image}" for name in names for image in distinct_images(sets[name])]
    texts = dict.fromkeys(text for name in names for pair in sets[name] for text in pair.texts)
    return images, list(texts)


def _picture(rng: np.random.Generator) -> bytes:
    """Make a JPEG file of 640 by 480: smooth colours, as a photograph's, and grain."""
    smooth = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8)).resize((640, 480), Image.Resampling.BICUBIC)
    grain = rng.normal(0, 7, (480, 640, 1))
    picture = Image.fromarray(np.clip(np.asarray(smooth) + grain, 0, 255).astype(np.uint8))
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=90)
    return stream.getvalue()


def _write_crepe(folder: Path, sets: dict[str, list[Pair]]) -> None:
    home = folder / "crepe"
    (home / "val2017").mkdir(parents=True)
    for name, file in (("sugarcrepe", "add_att.json"), ("aro", "swap_obj.json"), ("valse", "replace_att.json")):
        rows = {}
        for k, pair in enumerate(sets[name]):
            true, *false = pair.texts
            negative = false if name == "aro" else false[0]
            rows[k] = {"filename": pair.images[0], "caption": true, "negative_caption": negative}
        (home / file).write_text(json.dumps(rows))
        for image in distinct_images(sets[name]):
            (home / "val2017" / image).hardlink_to(folder / name / "images" / image)


#: An image's name, and its texts, the true one first.
Row = tuple[str, tuple[str, ...]]


def read_sets(data: Path, items: int, rng: np.random.Generator) -> dict[str, list[Pair]]:
    """Return so many published items of each shape; ARO's captions are permuted here."""
    rows = list(_read_pairs(data / "sugarcrepe" / "data", "filename", "negative_caption"))
    valse = _read_pairs(data / "valse", "image_file", "foil")
    crepe = _draw(rows, items, rng)
    true = dict.fromkeys((image, texts[0]) for image, texts in _draw(rows, len(rows), rng))
    lines = (data / "coco_counterfactuals" / "coco_counterfactuals_captions.jsonl").read_text().splitlines()
    edited = [json.loads(lines[k]) for k in np.sort(rng.permutation(len(lines))[:items])]
    sets = {
        "winoground": [
            Pair((f"w{k}-0.jpg", f"w{k}-1.jpg"), (row["original_caption"], row["counterfactual_caption"]))
            for k, row in enumerate(edited)
        ],
        "sugarcrepe": [Pair((f"s{image}.jpg",), texts) for image, texts in crepe],
        "aro": [Pair((f"a{image}.jpg",), (caption, *_permute(caption, rng))) for image, caption in list(true)[:items]],
        "valse": [Pair((f"v{image}.jpg",), texts) for image, texts in _draw(valse, items, rng)],
    }
    if short := [name for name, pairs in sets.items() if len(pairs) < items]:
        raise SystemExit(f"{data} has fewer than {items} items of {', '.join(short)}")
    return sets


def _read_pairs(folder: Path, image: str, false: str) -> Iterable[Row]:
    for file in sorted(folder.glob("*.json")):
        for row in json.loads(file.read_text(encoding="utf-8")).values():
            yield Path(row[image]).stem, (row["caption"], row[false])


def _draw(rows: Iterable[Row], items: int, rng: np.random.Generator) -> list[Row]:
    """Draw images until their rows are so many; the rows of one image stay together."""
    by_image: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_image[row[0]].append(row)
    images = list(by_image)
    drawn = (row for k in rng.permutation(len(images)) for row in by_image[images[k]])
    return [row for _, row in zip(range(items), drawn, strict=False)]


def _permute(caption: str, rng: np.random.Generator) -> list[str]:
    words = caption.split()
    return [" ".join(words[k] for k in rng.permutation(len(words))) for _ in range(4)]
