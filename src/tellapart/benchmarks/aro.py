"""ARO: relations and attributes of Visual Genome, and word order of COCO and Flickr30K captions.

- `aro-relation`, `aro-attribution`: `visual_genome_relation.json` and `visual_genome_attribution.json` of its
  repository, lists of `{image_path, true_caption, false_caption, bbox_x, bbox_y, bbox_w, bbox_h, ...}`. As there, the
  model sees the box alone, cut out of the image. Tags: `relation`, `attributes`; both are more than a table holds.
  `macro_choice_score` is the original's number: the mean over relations without 157 that are symmetric, or over pairs
  of attributes that have 25 items.
- `aro-coco-order`, `aro-flickr-order`: the original draws its four permutations of each caption anew, with the
  language tools that are installed. A number needs fixed ones: save the original's as `coco_order.json` or
  `flickr30k_order.json`, a list of `{image, caption_options: [the caption, four permutations]}`.

Ties: Visual Genome's true caption is the second there and is taken by `argmax`, so that a tie is wrong; the orders'
comes first, so that a tie is right, and a model that always answers the same is perfect; so is a permutation that
equals the caption. Here a tie is wrong in all four; `original_choice` is the original's rule, and tables of the two
orders show its number beside the strict one.

Items are numbered in the files' order. Source: Yuksekgonul et al. 2023, `dataset_zoo/aro_datasets.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.image_sources import FolderImages, crop_images, crop_reference
from tellapart.benchmarks.locations import Locations, first_file
from tellapart.data.annotations import expect_count, make_item, read_list, row_of, string
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, ScoreError, quote

__all__ = ["ATTRIBUTION", "COCO_ORDER", "FLICKR_ORDER", "RELATION", "original_choice"]

_BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")


def original_choice(benchmark: str, scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 where the original's rule counts an item as right: float64 `(item,)`.

    Args:
        benchmark: `aro-relation`, `aro-attribution`, `aro-coco-order` or `aro-flickr-order`.
        scores: `(item, 1, text)`, the true caption first, as everywhere here.

    Raises:
        ScoreError: the scores have another shape, or the benchmark is none of the four.

    >>> original_choice("aro-relation", [[[0.5, 0.5]]]), original_choice("aro-coco-order", [[[0.5] * 5]])
    (array([0.]), array([1.]))
    """
    values = np.asarray(scores, dtype=np.float32)
    shapes = {one.name: one.shape for one in _all()}
    if values.ndim != 3 or values.shape[1:] != shapes.get(benchmark):
        raise ScoreError(
            f"{benchmark!r}: no scores of an ARO benchmark have shape {values.shape}; see aro.py for the four"
        )
    flat = values[:, 0, :]
    if values.shape[2] == 2:
        return np.asarray(flat[:, ::-1].argmax(axis=1) == 1, dtype=np.float64)
    return np.asarray(flat.argmax(axis=1) == 0, dtype=np.float64)


def _all() -> tuple[Benchmark, ...]:
    return RELATION, ATTRIBUTION, COCO_ORDER, FLICKR_ORDER


def _load(place: Locations, *, name: str, file: str, tag: str = "") -> PairSet:
    path = first_file(place, name, file)
    boxes = file.startswith("visual_genome")
    pairs = []
    for number, value in enumerate(read_list(path)):
        where = f"{path}: row {number}"
        row = row_of(value, where)
        fields = _box_fields(row, where, tag) if boxes else _order_fields(row, where)
        pairs.append(make_item(where, id=str(number), **fields))
    expect_count(path, len(pairs), *(one.items for one in _all() if one.name == name))
    images = place.pictures(name, *(() if boxes else ("val2014", "flickr30k-images")), "images")
    files = FolderImages(images, outside=place.outside)
    return PairSet(name, tuple(pairs), images, read=crop_images(files) if boxes else files)


def _box_fields(row: Mapping[str, Any], where: str, tag: str) -> dict[str, Any]:
    image, box = string(row, "image_path", where), [row.get(side) for side in _BOX]
    if not all(isinstance(side, int) and not isinstance(side, bool) for side in box):
        raise DataError(f"{where}: fields {', '.join(_BOX)}: expected four whole numbers of pixels, got {box}")
    return {
        "images": (crop_reference(image, *box),),  # type: ignore[arg-type]
        "texts": (string(row, "true_caption", where), string(row, "false_caption", where)),
        "tags": {"relation": string(row, tag, where)} if tag else _attributes(row, where),
        "cluster": image,
    }


def _attributes(row: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the pair of attributes, by which the authors average."""
    pair = row.get("attributes")
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(one, str) and one for one in pair):
        raise DataError(f"{where}: field 'attributes': expected two attributes, got {quote(pair)}")
    return {"attributes": "_".join(pair)}


def _order_fields(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    image, options = string(row, "image", where), row.get("caption_options")
    if not isinstance(options, list) or len(options) != 5:
        raise DataError(
            f"{where}: field 'caption_options': expected the caption and four permutations, got {quote(options)}"
        )
    named = {f"caption_options[{k}]": text for k, text in enumerate(options)}
    return {"images": (image,), "texts": tuple(string(named, name, where) for name in named), "cluster": image}


def _benchmark(name: str, title: str, items: int, file: str, licence: str, images: str, *, tag: str = "") -> Benchmark:
    order = name.endswith("-order")
    return Benchmark(
        name=name,
        title=title,
        items=items,
        shape=(1, 5) if order else (1, 2),
        source="https://github.com/mertyg/vision-language-models-are-bows",
        licence=licence,
        citation="Yuksekgonul et al., When and Why Vision-Language Models Behave like Bags-of-Words, and What to Do "
        "About It?, ICLR 2023",
        files=(file,),
        images=images,
        cluster="the image",
        ties="a tie is "
        + ("right (argmax, the true caption first)" if order else "wrong (argmax, the true caption second)"),
        tie_rule="right" if order else "wrong",
        authors="" if order else name,
        official=() if order else ("choice_score", "macro_choice_score"),
        load=partial(_load, name=name, file=file, tag=tag),
    )


RELATION = _benchmark(
    "aro-relation",
    "ARO VG-Relation: a relation with its two objects exchanged",
    23_937,
    "visual_genome_relation.json",
    "MIT; images of Visual Genome",
    "Visual Genome's of vgr_vga_images.zip",
    tag="relation_name",
)
ATTRIBUTION = _benchmark(
    "aro-attribution",
    "ARO VG-Attribution: two objects with their attributes exchanged",
    28_748,
    "visual_genome_attribution.json",
    "MIT; images of Visual Genome",
    "Visual Genome's of vgr_vga_images.zip",
)
COCO_ORDER = _benchmark(
    "aro-coco-order",
    "ARO COCO-Order: a caption among four permutations of it",
    25_010,
    "coco_order.json",
    "MIT; images of COCO val2014",
    "COCO val2014",
)
FLICKR_ORDER = _benchmark(
    "aro-flickr-order",
    "ARO Flickr30K-Order: a caption among four permutations of it",
    5_000,
    "flickr30k_order.json",
    "MIT; images of Flickr30K, for research",
    "Flickr30K",
)
