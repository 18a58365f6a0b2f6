"""COCO captions of Karpathy's test split, from one of X-VLM's two files: a list of images, or COCO's format.

An image's id is its COCO number, at the end of its file name; result files in COCO's format use the same id.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import Locations, first_file
from tellapart.benchmarks.vlue import read_captions, rows_under
from tellapart.data.annotations import AnnotationRow, read_mapping
from tellapart.data.fields import one_text
from tellapart.data.task_records import CaptionSet
from tellapart.errors import DataError

_LISTED = "coco_karpathy_test.json"
_GOLD = "coco_karpathy_test_gt.json"
_NUMBER = re.compile(r"(?:^|[/_])0*(\d+)\.jpg$", re.ASCII)


class _Caption(AnnotationRow):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    image_id: Annotated[int, Field(ge=0)]
    caption: Annotated[str, Field(min_length=1), AfterValidator(one_text)]


def read_karpathy_captions(path: Path) -> CaptionSet:
    """Read `coco_karpathy_test.json`: rows of an `image` that ends in its COCO number, and a list, `caption`."""
    captions = read_captions(path)
    ids = []
    for row, image in enumerate(captions.images):
        number = _NUMBER.search(image)
        if number is None:
            raise DataError(f"{path}: row {row}: field 'image': {image!r} does not end in the image's COCO number")
        ids.append(number[1])
    return replace(captions, ids=tuple(ids))


def read_coco_captions(path: Path, split: str = "val2014") -> CaptionSet:
    """Read captions in COCO's format: `{"annotations": [{"image_id": 42, "caption": "a man"}, ...], ...}`."""
    captions: dict[int, list[str]] = {}
    for row in rows_under(path, read_mapping(path), "annotations", _Caption):
        captions.setdefault(row.image_id, []).append(row.caption)
    return CaptionSet(
        path.stem,
        tuple(map(str, captions)),
        tuple(f"{split}/COCO_{split}_{image:012d}.jpg" for image in captions),
        tuple(map(tuple, captions.values())),
    )


def _load_captions(place: Locations) -> CaptionSet:
    path = first_file(place, "coco-captions", f"{_GOLD}|{_LISTED}")
    return read_coco_captions(path) if path.name == _GOLD else read_karpathy_captions(path)


COCO_CAPTIONS = Benchmark(
    name="coco-captions",
    title="COCO captions, Karpathy's 5,000 test images against five people's captions of each",
    items=5_000,
    task="captions",
    source="https://github.com/zengyan-97/X-VLM",
    licence="CC BY 4.0 (annotations); images of COCO val2014",
    citation="Chen et al., Microsoft COCO Captions: Data Collection and Evaluation Server, 2015",
    files=(f"{_GOLD}|{_LISTED}",),
    images="COCO val2014",
    cluster="the image",
    domain="in-domain",
    rival="vlue-captions",
    load=_load_captions,
)
