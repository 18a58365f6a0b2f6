"""RefCOCO+ as its authors ship it: phrases with their splits in `refs(unc).p`, boxes and sizes in `instances.json`.

X-VLM's `refcoco+_val.json` and `refcoco+_test.json` hold the same phrases without boxes, and measure with these two
files as well; its test file is both test splits together, which is VLUE's in-domain set.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import Locations, first_file
from tellapart.benchmarks.vlue import rows_under
from tellapart.data.annotations import AnnotationRow, check_row, read_mapping
from tellapart.data.plain_pickle import read_plain_pickle
from tellapart.data.task_records import Box, BoxSet
from tellapart.errors import DataError

_REFS, _INSTANCES = "refs(unc).p", "instances.json"
Side = Annotated[float, Field(allow_inf_nan=False)]


class _Loose(AnnotationRow):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _Sentence(_Loose):
    sent: Annotated[str, Field(min_length=1)]
    sent_id: int


class _Ref(_Loose):
    ann_id: int
    split: str
    sentences: Annotated[list[_Sentence], Field(min_length=1)]


class _Image(_Loose):
    id: int
    file_name: Annotated[str, Field(min_length=1)]
    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]


class _Instance(_Loose):
    id: int
    image_id: int
    bbox: Annotated[list[Side], Field(min_length=4, max_length=4)]


def read_refcoco(refs: Path, instances: Path, *splits: str) -> BoxSet:
    """Read the phrases of some splits; a phrase's id is its `sent_id`."""
    rows = read_plain_pickle(refs)
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{refs}: expected a list of references")
    content = read_mapping(instances)
    images = {row.id: row for row in rows_under(instances, content, "images", _Image)}
    boxes = {row.id: row for row in rows_under(instances, content, "annotations", _Instance)}
    boxes_of_phrases: list[Box] = []
    for number, row in enumerate(rows):
        place = f"{refs}: row {number}"
        ref = check_row(_Ref, row, place)
        if ref.split not in splits:
            continue
        box = boxes.get(ref.ann_id)
        image = None if box is None else images.get(box.image_id)
        if box is None or image is None:
            raise DataError(f"{place}: field 'ann_id': {instances} has no box {ref.ann_id}, or not its image")
        x, y, width, height = map(float, box.bbox)
        size = (image.width, image.height)
        boxes_of_phrases += [
            Box(str(sentence.sent_id), sentence.sent, image.file_name, (x, y, width, height), size)
            for sentence in ref.sentences
        ]
    try:
        return BoxSet("refcoco+", tuple(boxes_of_phrases))
    except DataError as error:
        raise DataError(f"{refs}: {error}") from error


def _load_boxes(place: Locations, *, name: str, splits: tuple[str, ...]) -> BoxSet:
    return read_refcoco(first_file(place, name, _REFS), first_file(place, name, _INSTANCES), *splits)


def _declare_benchmark(name: str, what: str, items: int, *splits: str, rival: str = "") -> Benchmark:
    return Benchmark(
        name=name,
        title=f"RefCOCO+ {what}: the box of a phrase that names no place",
        items=items,
        task="grounding",
        source="https://github.com/lichengunc/refer",
        licence="Apache-2.0 (its repository); images of COCO train2014",
        citation="Yu et al., Modeling Context in Referring Expressions, ECCV 2016",
        files=(_REFS, _INSTANCES),
        images="COCO train2014",
        cluster="the image",
        usual=("train2014", "images"),
        domain="in-domain",
        rival=rival,
        load=partial(_load_boxes, name=name, splits=splits),
    )


REFCOCO_TEST = _declare_benchmark(
    "refcoco+-test", "test A and test B together", 10_615, "testA", "testB", rival="vlue-grounding"
)
REFCOCO_TESTA = _declare_benchmark("refcoco+-testa", "test A, people", 5_726, "testA")
REFCOCO_TESTB = _declare_benchmark("refcoco+-testb", "test B, other things", 4_889, "testB")
REFCOCO_VAL = _declare_benchmark("refcoco+-val", "validation", 10_758, "val")
