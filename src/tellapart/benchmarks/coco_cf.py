"""COCO-Counterfactuals: 17,410 captions of COCO with one noun exchanged, and a generated image for each of both.

From the hub (`data/examples.jsonl` with `data/images.zip`, 6.4 GB, read without unpacking), or from a folder with
`examples.jsonl` or the repository's `metadata.jsonl` (`{id, caption_0, caption_1, image_0, image_1}`) and the images in
`images/` or `images.zip`.

Measured here as pairs. An id is `<COCO image>_<caption>`: captions of one COCO image are one cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.hub import Hub
from tellapart.benchmarks.image_sources import FolderImages, ZipImages
from tellapart.benchmarks.locations import Locations, find_files
from tellapart.data.annotations import expect_count, make_item, string
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_jsonl

__all__ = ["COCO_COUNTERFACTUALS"]

_LINES, _ARCHIVE = "examples.jsonl|metadata.jsonl", "images.zip"


def _load_pairs(place: Locations) -> PairSet:
    folder = place.folder("coco-counterfactuals") or Path()
    path = find_files(folder, _LINES)[0]
    items, lines = [], {}
    for line, row in read_jsonl(path):
        where = f"{path}:{line}"
        name = string(row, "id", where)
        images = tuple(f"{string(row, side, where)}.jpg" for side in ("image_0", "image_1"))
        texts = (string(row, "caption_0", where), string(row, "caption_1", where))
        items.append(make_item(where, id=name, images=images, texts=texts, cluster=name.partition("_")[0]))
        lines[name] = where
    expect_count(path, len(items), COCO_COUNTERFACTUALS.items)
    root, read = _open_images(place, folder)
    return PairSet("coco-counterfactuals", tuple(items), root, lines=lines, read=read)


def _open_images(place: Locations, folder: Path) -> tuple[Path, Callable[[str], bytes]]:
    if place.images is None and (archive := find_files(folder, _ARCHIVE)):
        return archive[0].parent, ZipImages(archive[0], prefix="images/")
    root = place.pictures("coco-counterfactuals", "images")
    return root, FolderImages(root, outside=place.outside)


COCO_COUNTERFACTUALS = Benchmark(
    name="coco-counterfactuals",
    title="COCO-Counterfactuals: one noun of a COCO caption exchanged, both images generated",
    items=17_410,
    rows="c0546ed97097e1ff",
    shape=(2, 2),
    source="https://huggingface.co/datasets/Intel/COCO-Counterfactuals",
    licence="CC BY 4.0",
    citation="Le et al., COCO-Counterfactuals: Automatically Constructed Counterfactual Examples for Image-Text Pairs, "
    "NeurIPS 2023",
    files=(_LINES,),
    images="its own 34,820, in images.zip or images/",
    cluster="the COCO image whose captions were changed",
    ties="retrieval over all images: the order of a set decides",
    hub=Hub("Intel/COCO-Counterfactuals", "958a3e0b32421b9f07c4c3f78aecbf98019a3402", ("examples.jsonl", _ARCHIVE)),
    load=_load_pairs,
)
