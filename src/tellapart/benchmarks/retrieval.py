"""Retrieval over full galleries: COCO's and Flickr30K's Karpathy test splits, COCO-Counterfactuals.

COCO's and Flickr30K's files are those that ALBEF and X-VLM ship: a list of `{"image": ..., "caption": [...]}`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.coco_cf import COCO_COUNTERFACTUALS
from tellapart.benchmarks.locations import Locations, first_file, one_file
from tellapart.benchmarks.vlue import read_retrieval
from tellapart.data.annotations import string
from tellapart.data.rows import read_csv
from tellapart.data.task_records import RetrievalSet
from tellapart.errors import DataError

__all__ = [
    "COCO_COUNTERFACTUALS_RETRIEVAL",
    "COCO_COUNTERFACTUALS_TEST",
    "COCO_RETRIEVAL",
    "FLICKR30K_RETRIEVAL",
]

_SPLIT = "test-coco-cfs.csv"
_SIDES = {"synthetic-images-for-original-captions": 0, "synthetic-images-for-counterfactual-captions": 1}


def _load_counterfactuals(place: Locations) -> RetrievalSet:
    items = COCO_COUNTERFACTUALS.load(place).items
    images = [image for item in items for image in item.images]
    return RetrievalSet.of("coco-counterfactuals", images, [[text] for item in items for text in item.texts])


def _load_split(place: Locations) -> RetrievalSet:
    path = first_file(place, "coco-counterfactuals-test", _SPLIT)
    images, captions = [], []
    for line, row in read_csv(path):
        where = f"{path}:{line}"
        images.append(_image_name(string(row, "image_path", where), where))
        captions.append([string(row, "caption", where)])
    return RetrievalSet.of("coco-counterfactuals-test", images, captions)


def _image_name(path: str, where: str) -> str:
    """Return the released name of an image that the split names by its side's folder."""
    side = next((number for folder, number in _SIDES.items() if folder in PurePosixPath(path).parts), None)
    if side is None:
        raise DataError(f"{where}: field 'image_path': {path!r} lies in none of {', '.join(_SIDES)}")
    return f"{PurePosixPath(path).stem}_img_{side}.jpg"


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
