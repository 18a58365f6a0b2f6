"""Published captions in the shapes of `shapes.py`: the pairs of VALSE, SugarCrepe and COCO-Counterfactuals.

`DIR` has `sugarcrepe/data/*.json`, `valse/*.json` and `coco_counterfactuals/coco_counterfactuals_captions.jsonl`, as
their authors publish them. Images, and with them all of an image's captions, are drawn by a seed, so that captions
repeat and begin alike as often as in the files.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

Names = tuple[str, ...]

#: An image's name, and its texts, the true one first.
Row = tuple[str, tuple[str, ...]]


def read_real_sets(data: Path, items: int, rng: np.random.Generator) -> dict[str, list[tuple[Names, Names]]]:
    """Return so many items of each shape: names of images, and texts.

    - `winoground`: a caption of COCO and its counterfactual, 2 x 2.
    - `sugarcrepe`, `valse`: a caption and its foil, of all their instruments.
    - `aro`: SugarCrepe's true captions and four permutations of the words of each, as COCO-Order has them.
    """
    rows = list(_read_crepe(data / "sugarcrepe" / "data"))
    crepe = _draw(rows, items, rng)
    true = dict.fromkeys((image, texts[0]) for image, texts in _draw(rows, len(rows), rng))
    lines = (data / "coco_counterfactuals" / "coco_counterfactuals_captions.jsonl").read_text().splitlines()
    pairs = [json.loads(lines[k]) for k in np.sort(rng.permutation(len(lines))[:items])]
    sets = {
        "winoground": [
            ((f"w{k}-0.jpg", f"w{k}-1.jpg"), (pair["original_caption"], pair["counterfactual_caption"]))
            for k, pair in enumerate(pairs)
        ],
        "sugarcrepe": [((f"s{image}.jpg",), texts) for image, texts in crepe],
        "aro": [((f"a{image}.jpg",), (caption, *_permute(caption, rng))) for image, caption in list(true)[:items]],
        "valse": [((f"v{image}.jpg",), texts) for image, texts in _draw(_read_valse(data / "valse"), items, rng)],
    }
    if short := [name for name, pairs in sets.items() if len(pairs) < items]:
        raise SystemExit(f"{data} has fewer than {items} items of {', '.join(short)}")
    return sets


def _read_crepe(folder: Path) -> Iterable[Row]:
    for file in sorted(folder.glob("*.json")):
        for row in json.loads(file.read_text(encoding="utf-8")).values():
            yield Path(row["filename"]).stem, (row["caption"], row["negative_caption"])


def _read_valse(folder: Path) -> Iterable[Row]:
    for file in sorted(folder.glob("*.json")):
        for row in json.loads(file.read_text(encoding="utf-8")).values():
            yield Path(row["image_file"]).stem, (row["caption"], row["foil"])


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
