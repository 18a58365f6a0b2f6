"""Rendered training scenes from disk into memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.builders.rendered.grammar import OBJECTS
from tellapart.builders.rendered.quadruple import Key, draw
from tellapart.builders.rendered.scene import corners, project
from tellapart.errors import DataError
from training.quadruples import Quadruples

__all__ = ["read_scenes"]


def read_scenes(folder: Path, size: int, shards: int | None = None) -> Quadruples:
    """Read the shards that `builders.rendered.training_scenes` writes; images are uint8 `(n, 2, size, size, 3)`.

    Args:
        folder: of `shard-*.jsonl` (a quadruple a line) and `shard-*.npy` (its pixels).
        size: of the images; those of another size are resized as the loader does (bicubic).
        shards: take the first so many only; all of them if None.

    Raises:
        DataError: the folder holds too few shards, or a line is not a quadruple.
    """
    count = len(list(folder.glob("shard-*.jsonl"))) if shards is None else shards
    records: list[dict[str, Any]] = []
    images = []
    for number in range(max(count, 1)):
        path = folder / f"shard-{number:05d}.jsonl"
        if not path.is_file():
            raise DataError(f"{folder} holds no {path.name}; run python -m tellapart.builders.rendered.training_scenes")
        pixels = np.load(path.with_suffix(".npy"), allow_pickle=False)
        rows = list(_records(path))
        images.append(_resize(pixels[[record["row"] for record in rows]], size))
        records += rows
    sides = [record["sides"] for record in records]
    return Quadruples(
        ids=tuple(record["id"] for record in records),
        images=np.concatenate(images),
        texts=tuple((str(a["captions"][0]), str(b["captions"][0])) for a, b in sides),
        paraphrases=tuple((tuple(a["captions"][1:]), tuple(b["captions"][1:])) for a, b in sides),
        foils=tuple((_foils(a), _foils(b)) for a, b in sides),
        aspects=tuple(record["aspect"] for record in records),
        places=np.stack([_places(record) for record in records]),
        source=_source(records, count),
    )


def _places(record: dict[str, Any]) -> NDArray[np.float32]:
    """Return the middle of each object's outline, `(2, 5, 3)`, from the scene that the record's key draws."""
    quadruple = draw(Key(**record["key"]))
    out = np.full((2, 5, 3), -1.0, np.float32)
    for side, scene in enumerate(quadruple.scenes):
        nouns = quadruple.nouns[side]
        for index, thing in enumerate(scene.things):
            outline = project(corners(thing), scene.camera)[:, :2]
            x, y = (outline.min(axis=0) + outline.max(axis=0)) / 2
            noun = nouns[index if len(nouns) > 1 else 0]
            out[side, index] = (OBJECTS.index(noun), x, -y)
    return out


def _source(records: list[dict[str, Any]], shards: int) -> dict[str, Any]:
    """Return the training record's entry for the scenes; `objects` shows that no held-out one is among them."""
    objects = {phrase for record in records for side in record["sides"] for phrase in side["objects"]}
    streams = sorted({f"{record['key']['stream']} {record['key']['seed']}" for record in records})
    return {"made": "tellapart.builders", "streams_and_seeds": streams, "shards": shards, "objects": sorted(objects)}


def _records(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            record: dict[str, Any] = json.loads(line)
            if len(record["sides"]) != 2 or not {"id", "row", "aspect", "key"} <= set(record):
                raise ValueError("expected two sides, id, row, aspect and key")
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}:{number}: not a quadruple: {error}; render the folder again") from error
        yield record


def _foils(side: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Return the foils by kind, without the mate's own caption, which is in the batch anyway."""
    groups: dict[str, list[str]] = {}
    for foil in side["foils"]:
        if foil["kind"] != "pair":
            groups.setdefault(foil["kind"], []).append(foil["text"])
    return tuple(tuple(group) for group in groups.values())


def _resize(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    from PIL import Image

    if images.shape[2:4] == (size, size):
        return images
    out = np.empty((len(images), 2, size, size, 3), np.uint8)
    for index, side in np.ndindex(len(images), 2):
        picture = Image.fromarray(images[index, side])
        out[index, side] = np.asarray(picture.resize((size, size), Image.Resampling.BICUBIC))
    return out
