"""Pair sets in the shapes of Winoground, SugarCrepe and ARO, written once in every tool's own format.

Shapes (items, images, captions, and how much repeats) are those of the published files, whatever their size here.
Pictures are synthetic JPEG files; captions are drawn with SugarCrepe's lengths, or the published ones of `annotations`,
of which many begin alike. All come from one seed.
"""

from __future__ import annotations

import io
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

#: What one command of a tool evaluates.
GROUPS = {"winoground": ("winoground",), "sugarcrepe+aro": ("sugarcrepe", "aro")}
REAL_GROUPS = GROUPS | {"valse": ("valse",)}
SHAPES = ("winoground", "sugarcrepe", "aro")

_WORDS = """
    a the one two three red blue green small large old young wooden striped man woman child dog cat horse bird
    train boat table chair bench window umbrella plate cup kite ball hat field street beach kitchen river
    sitting standing holding riding watching eating beside behind under above near with while and of in on next
    to that looks is are
""".split()  # noqa: SIM905  (a list of names reads better so)


@dataclass(frozen=True)
class Pair:
    """One item: names of its images and its texts, the true ones first."""

    images: tuple[str, ...]
    texts: tuple[str, ...]


def make_sets(folder: Path, items: int, seed: int = 0, annotations: Path | None = None) -> dict[str, list[Pair]]:
    """Write `items` items of each shape below `folder`, and return them; what an earlier call made is kept.

    `NAME/` is read by tellapart, and `crepe/` by CLIP_benchmark; the other tools' drivers make their tables of these.
    """
    rng = np.random.default_rng(seed)
    if annotations is None:
        draw, side = _Captions(rng), (500, 375)
        sets = {
            "winoground": _winoground(items, draw),
            "sugarcrepe": _sugarcrepe(items, draw),
            "aro": _order(items, draw),
        }
    else:
        side = (640, 480)
        sets = {name: [Pair(*row) for row in rows] for name, rows in read_real_sets(annotations, items, rng).items()}
    stamp = folder / "stamp.json"
    wanted = json.dumps({"items": items, "seed": seed, "format": 2} | ({"real": 1} if annotations else {}))
    if stamp.exists() and stamp.read_text() == wanted:
        return sets
    shutil.rmtree(folder, ignore_errors=True)
    for name, pairs in sets.items():
        images = folder / name / "images"
        images.mkdir(parents=True)
        for image in dict.fromkeys(image for pair in pairs for image in pair.images):
            (images / image).write_bytes(_picture(rng, side))
        lines = [
            json.dumps({"id": str(k), "images": [f"images/{i}" for i in pair.images], "texts": pair.texts})
            for k, pair in enumerate(pairs)
        ]
        (folder / name / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    _write_crepe(folder, sets)
    stamp.write_text(wanted)
    return sets


def distinct(sets: dict[str, list[Pair]], names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the distinct images (set/images/name) and texts of some sets."""
    images = dict.fromkeys(f"{name}/images/{image}" for name in names for pair in sets[name] for image in pair.images)
    texts = dict.fromkeys(text for name in names for pair in sets[name] for text in pair.texts)
    return list(images), list(texts)


def _winoground(items: int, draw: _Captions) -> list[Pair]:
    pairs = []
    for k in range(items):
        first = draw.caption()
        pairs.append(Pair((f"w{k}-0.jpg", f"w{k}-1.jpg"), (" ".join(first), draw.reordered(first))))
    return pairs


def _sugarcrepe(items: int, draw: _Captions) -> list[Pair]:
    images, true = max(1, round(items * 1560 / 7511)), max(1, round(items * 4333 / 7511))
    captions = [draw.caption() for _ in range(true)]
    pairs = []
    for k in range(items):
        words = captions[k * true // items]
        pairs.append(Pair((f"s{k * images // items}.jpg",), (" ".join(words), draw.changed(words))))
    return pairs


def _order(items: int, draw: _Captions) -> list[Pair]:
    images = max(1, round(items / 5))
    pairs = []
    for k in range(items):
        words = draw.caption()
        pairs.append(
            Pair((f"a{k * images // items}.jpg",), (" ".join(words), *(draw.reordered(words) for _ in range(4))))
        )
    return pairs


class _Captions:
    """Draws captions, no two alike."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._drawn: set[str] = set()

    def caption(self) -> list[str]:
        """Draw a new one, as words."""
        length = int(np.clip(self._rng.normal(13.0, 2.4), 7, 24))
        return self._new(lambda: [str(word) for word in self._rng.choice(_WORDS, length)]).split()

    def reordered(self, words: list[str]) -> str:
        """Return the same words in a new order."""
        return self._new(lambda: [str(word) for word in self._rng.permutation(words)])

    def changed(self, words: list[str]) -> str:
        """Return them with one word changed to one or two others."""

        def change() -> list[str]:
            place = int(self._rng.integers(len(words)))
            others = [str(word) for word in self._rng.choice(_WORDS, int(self._rng.integers(1, 3)))]
            return [*words[:place], *others, *words[place + 1 :]]

        return self._new(change)

    def _new(self, draw: Callable[[], list[str]]) -> str:
        while (caption := " ".join(draw())) in self._drawn:
            pass
        self._drawn.add(caption)
        return caption


def _picture(rng: np.random.Generator, side: tuple[int, int]) -> bytes:
    """Make a JPEG file, of some 65 kB at 500 by 375: smooth colours, as a photograph's, and grain."""
    from PIL import Image

    smooth = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8)).resize(side, Image.Resampling.BICUBIC)
    grain = rng.normal(0, 7, (*side[::-1], 1))
    picture = Image.fromarray(np.clip(np.asarray(smooth) + grain, 0, 255).astype(np.uint8))
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=90)
    return stream.getvalue()


def _write_crepe(folder: Path, sets: dict[str, list[Pair]]) -> None:
    home = folder / "crepe"
    (home / "val2017").mkdir(parents=True)
    for name, file in (("sugarcrepe", "add_att.json"), ("aro", "swap_obj.json"), ("valse", "replace_att.json")):
        if name not in sets:
            continue
        rows = {
            str(k): {"filename": pair.images[0], "caption": pair.texts[0], "negative_caption": list(pair.texts[1:])}
            for k, pair in enumerate(sets[name])
        }
        if name != "aro":
            for row in rows.values():
                row["negative_caption"] = row["negative_caption"][0]
        (home / file).write_text(json.dumps(rows))
        for image in dict.fromkeys(pair.images[0] for pair in sets[name]):
            (home / "val2017" / image).hardlink_to(folder / name / "images" / image)


Names = tuple[str, ...]

#: An image's name, and its texts, the true one first.
Row = tuple[str, tuple[str, ...]]


def read_real_sets(data: Path, items: int, rng: np.random.Generator) -> dict[str, list[tuple[Names, Names]]]:
    """Return so many published items of each shape: names of images, and texts; ARO's captions are permuted here."""
    rows = list(_read_pairs(data / "sugarcrepe" / "data", "filename", "negative_caption"))
    valse = _read_pairs(data / "valse", "image_file", "foil")
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
        "valse": [((f"v{image}.jpg",), texts) for image, texts in _draw(valse, items, rng)],
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
