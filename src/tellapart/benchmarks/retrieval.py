"""Retrieval over full galleries: COCO's and Flickr30K's Karpathy test splits, COCO-Counterfactuals.

COCO's and Flickr30K's files are those that ALBEF and X-VLM ship: a list of `{"image": ..., "caption": [...]}`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.hub import Hub
from tellapart.benchmarks.locations import FolderImages, Locations, ZipImages, find_files, first_file, one_file
from tellapart.benchmarks.vlue import read_retrieval
from tellapart.data.annotations import expect_count, make_item, string
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_csv, read_jsonl
from tellapart.data.task_records import RetrievalSet
from tellapart.errors import DataError

# COCO-Counterfactuals: 17,410 captions of COCO with one noun exchanged, and a generated image for each of both.
#
# From the hub (`data/examples.jsonl` with `data/images.zip`, 6.4 GB, read without unpacking), or from a folder with
# `examples.jsonl` or the repository's `metadata.jsonl` (`{id, caption_0, caption_1, image_0, image_1}`) and the
# images in `images/` or `images.zip`.
#
# Measured here as pairs. An id is `<COCO image>_<caption>`: captions of one COCO image are one cluster.

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
    read: Callable[[str], bytes]
    if place.images is None and (archive := find_files(folder, _ARCHIVE)):
        root, read = archive[0].parent, ZipImages(archive[0], prefix="images/")
    else:
        root = place.pictures("coco-counterfactuals", "images")
        read = FolderImages(root, outside=place.outside)
    return PairSet("coco-counterfactuals", tuple(items), root, lines=lines, read=read)


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


_SPLIT = "test-coco-cfs.csv"
_SIDES = {"synthetic-images-for-original-captions": 0, "synthetic-images-for-counterfactual-captions": 1}


def _load_split(place: Locations) -> RetrievalSet:
    path = first_file(place, "coco-counterfactuals-test", _SPLIT)
    images, captions = [], []
    for line, row in read_csv(path):
        where = f"{path}:{line}"
        image = PurePosixPath(string(row, "image_path", where))
        # The released name of an image that the split names by its side's folder.
        side = next((number for folder, number in _SIDES.items() if folder in image.parts), None)
        if side is None:
            raise DataError(f"{where}: field 'image_path': '{image}' lies in none of {', '.join(_SIDES)}")
        images.append(f"{image.stem}_img_{side}.jpg")
        captions.append([string(row, "caption", where)])
    return RetrievalSet.of("coco-counterfactuals-test", images, captions)


COCO_RETRIEVAL = Benchmark(
    name="coco-retrieval",
    title="COCO retrieval, Karpathy's 5,000 test images and their captions, both ways",
    items=5_000,
    task="retrieval",
    source="https://github.com/salesforce/ALBEF",
    licence="CC BY 4.0 (annotations); images of COCO val2014",
    citation="Karpathy and Fei-Fei, Deep Visual-Semantic Alignments for Generating Image Descriptions, CVPR 2015",
    files=("coco_test.json",),
    images="COCO val2014",
    cluster="the image",
    domain="in-domain",
    rival="vlue-retrieval",
    load=one_file("coco-retrieval", "coco_test.json", read_retrieval),
)

FLICKR30K_RETRIEVAL = Benchmark(
    name="flickr30k-retrieval",
    title="Flickr30K retrieval, Karpathy's 1,000 test images and their captions, both ways",
    items=1_000,
    task="retrieval",
    source="https://github.com/salesforce/ALBEF",
    licence="images of Flickr30K, for research",
    citation="Young et al., From image descriptions to visual denotations, TACL 2014",
    files=("flickr30k_test.json",),
    images="Flickr30K's",
    cluster="the image",
    usual=("flickr30k-images", "images"),
    load=one_file("flickr30k-retrieval", "flickr30k_test.json", read_retrieval),
)


def _load_counterfactuals(place: Locations) -> RetrievalSet:
    items = COCO_COUNTERFACTUALS.load(place).items
    images = [image for item in items for image in item.images]
    return RetrievalSet.of("coco-counterfactuals", images, [[text] for item in items for text in item.texts])


_RECORDS_OF_ANY_TYPE: Benchmark[Any] = COCO_COUNTERFACTUALS
COCO_COUNTERFACTUALS_RETRIEVAL: Benchmark[RetrievalSet] = replace(
    _RECORDS_OF_ANY_TYPE,
    name="coco-counterfactuals-retrieval",
    title="COCO-Counterfactuals retrieval: every image and every caption of all pairs, both ways",
    items=34_820,
    rows="3902890b96c7f0f2",
    task="retrieval",
    shape=None,
    cluster="the image",
    ties="a tie is wrong",
    load=_load_counterfactuals,
)

COCO_COUNTERFACTUALS_TEST = replace(
    COCO_COUNTERFACTUALS_RETRIEVAL,
    name="coco-counterfactuals-test",
    title="COCO-Counterfactuals retrieval on the authors' test split, which is by row: pairs are torn apart",
    items=10_446,
    rows="6aa5f580f47e8f0b",
    task="distinct-retrieval",
    source="https://github.com/IntelLabs/multimodal_cognitive_ai",
    files=(_SPLIT,),
    hub=None,
    load=_load_split,
)
