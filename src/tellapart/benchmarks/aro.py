"""ARO: relations and attributes of Visual Genome, and word order of COCO and Flickr30K captions.

- `aro-relation`, `aro-attribution`: `visual_genome_relation.json` and `visual_genome_attribution.json` of its
repository,
  lists of `{image_path, true_caption, false_caption, bbox_x, bbox_y, bbox_w, bbox_h, ...}`. As there, the model sees
  the box alone, cut out of the image. Tag: `relation`; the pairs of attributes are more than a table holds.
- `aro-coco-order`, `aro-flickr-order`: the original draws its four permutations of each caption anew, with the
  language tools that are installed. A number needs fixed ones: save what it made as `coco_order.json` or
  `flickr30k_order.json`, a list of `{image, caption_options: [the caption, four permutations]}`.

Ties: Visual Genome's true caption is the second there and is taken by `argmax`, so that a tie is wrong; the orders'
comes first, so that a tie is right, and a model that answers always the same is perfect. Here a tie is wrong in all
four; `original_choice` is the original's rule.

Items are numbered in the files' order. Source: Yuksekgonul et al. 2023, `dataset_zoo/aro_datasets.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.image_sources import FolderImages, crop_reference, cropped
from tellapart.benchmarks.locations import Locations, find_files
from tellapart.data.annotations import expect_count, make_item, read_list, row_of, string
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, ScoreError

__all__ = ["ATTRIBUTION", "COCO_ORDER", "FLICKR_ORDER", "RELATION", "original_choice"]

_BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
_ORDER_TIES = "a tie is right (argmax, the true caption first)"
_BOX_TIES = "a tie is wrong (argmax, the true caption second)"


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
    texts = {"aro-relation": 2, "aro-attribution": 2, "aro-coco-order": 5, "aro-flickr-order": 5}.get(benchmark)
    if texts is None or values.ndim != 3 or values.shape[1:] != (1, texts):
        raise ScoreError(
            f"{benchmark!r}: no scores of an ARO benchmark have shape {values.shape}; see aro.py for the four"
        )
    flat = values[:, 0, :]
    if texts == 2:
        return np.asarray(flat[:, ::-1].argmax(axis=1) == 1, dtype=np.float64)
    return np.asarray(flat.argmax(axis=1) == 0, dtype=np.float64)


def _load_boxes(place: Locations, *, name: str, file: str, tag: str) -> PairSet:
    path = find_files(place.folder(name) or Path(), file)[0]
    rows = read_list(path)
    items = [_boxed(row_of(row, f"{path}: row {k}"), str(k), tag, f"{path}: row {k}") for k, row in enumerate(rows)]
    images = place.pictures(name, "images")
    return _pairs(name, path, items, images, cropped(FolderImages(images)))


def _boxed(row: Mapping[str, Any], number: str, tag: str, where: str) -> Item:
    image, box = string(row, "image_path", where), [row.get(side) for side in _BOX]
    if not all(isinstance(side, int) and not isinstance(side, bool) for side in box):
        raise DataError(f"{where}: fields {', '.join(_BOX)}: expected four whole numbers of pixels, got {box}")
    return make_item(
        where,
        id=number,
        images=(crop_reference(image, *box),),  # type: ignore[arg-type]
        texts=(string(row, "true_caption", where), string(row, "false_caption", where)),
        tags={"relation": string(row, tag, where)} if tag else {},
        cluster=image,
    )


def _load_order(place: Locations, *, name: str, file: str) -> PairSet:
    path = find_files(place.folder(name) or Path(), file)[0]
    rows = read_list(path)
    items = [_ordered(row_of(row, f"{path}: row {k}"), str(k), f"{path}: row {k}") for k, row in enumerate(rows)]
    images = place.pictures(name, "val2014", "flickr30k-images", "images")
    return _pairs(name, path, items, images, FolderImages(images))


def _ordered(row: Mapping[str, Any], number: str, where: str) -> Item:
    image, options = string(row, "image", where), row.get("caption_options")
    if not isinstance(options, list) or len(options) != 5:
        raise DataError(
            f"{where}: field 'caption_options': expected the caption and four permutations, got {options!r:.60}"
        )
    texts = tuple(
        string({f"caption_options[{k}]": text}, f"caption_options[{k}]", where) for k, text in enumerate(options)
    )
    return make_item(where, id=number, images=(image,), texts=texts, cluster=image)


def _pairs(name: str, path: Path, items: list[Item], images: Path, read: Any) -> PairSet:
    published = next(one.items for one in (RELATION, ATTRIBUTION, COCO_ORDER, FLICKR_ORDER) if one.name == name)
    expect_count(path, len(items), published)
    return PairSet(name, tuple(items), images, read=read)


_SHARED: dict[str, Any] = {
    "source": "https://github.com/mertyg/vision-language-models-are-bows",
    "citation": "Yuksekgonul et al., When and Why Vision-Language Models Behave like Bags-of-Words, and What to Do "
    "About It?, "
    "ICLR 2023",
    "cluster": "the image",
}

RELATION = Benchmark(
    name="aro-relation",
    title="ARO VG-Relation: a relation with its two objects exchanged",
    items=23_937,
    shape=(1, 2),
    licence="MIT; images of Visual Genome",
    files=("visual_genome_relation.json",),
    images="Visual Genome's of vgr_vga_images.zip",
    ties=_BOX_TIES,
    load=partial(_load_boxes, name="aro-relation", file="visual_genome_relation.json", tag="relation_name"),
    **_SHARED,
)

ATTRIBUTION = Benchmark(
    name="aro-attribution",
    title="ARO VG-Attribution: two objects with their attributes exchanged",
    items=28_748,
    shape=(1, 2),
    licence="MIT; images of Visual Genome",
    files=("visual_genome_attribution.json",),
    images="Visual Genome's of vgr_vga_images.zip",
    ties=_BOX_TIES,
    load=partial(_load_boxes, name="aro-attribution", file="visual_genome_attribution.json", tag=""),
    **_SHARED,
)

COCO_ORDER = Benchmark(
    name="aro-coco-order",
    title="ARO COCO-Order: a caption among four permutations of it",
    items=25_010,
    shape=(1, 5),
    licence="MIT; images of COCO val2014",
    files=("coco_order.json",),
    images="COCO val2014",
    ties=_ORDER_TIES,
    load=partial(_load_order, name="aro-coco-order", file="coco_order.json"),
    **_SHARED,
)

FLICKR_ORDER = Benchmark(
    name="aro-flickr-order",
    title="ARO Flickr30K-Order: a caption among four permutations of it",
    items=5_000,
    shape=(1, 5),
    licence="MIT; images of Flickr30K, for research",
    files=("flickr30k_order.json",),
    images="Flickr30K",
    ties=_ORDER_TIES,
    load=partial(_load_order, name="aro-flickr-order", file="flickr30k_order.json"),
    **_SHARED,
)
