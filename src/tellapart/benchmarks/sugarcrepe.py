"""SugarCrepe: 7,511 COCO images, each with its caption and one that differs in an object, attribute or relation.

Seven files of its repository (`data/*.json`), each an object of numbered rows `{filename, caption, negative_caption}`.
Numbers are not contiguous (`swap_obj` lacks 108; older copies of the benchmark have it, and 7,512 items), and copies
that went through an evaluation script carry an extra key `accuracy`: neither matters here.

Tags: `subset` (the file), and `bag_of_words`: in 572 pairs (164 of `swap_obj`, 408 of `swap_att`) both captions hold
the same words, which no model without word order can distinguish; the pairs of either kind are reported separately.

`sugarcrepe-choice` asks in words, as its authors asked GPT-4V: which of two captions fits, in both orders.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import FolderImages, Locations, find_files
from tellapart.data.annotations import expect_count, make_item, read_mapping, row_of, string
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.task_records import ChoiceSet
from tellapart.errors import quote

#: File -> its numbers of items: now and, if it differs, in older copies.
SUBSETS = {
    "add_att": (692,),
    "add_obj": (2062,),
    "replace_att": (788,),
    "replace_obj": (1652,),
    "replace_rel": (1406,),
    "swap_att": (666,),
    "swap_obj": (245, 246),
}


def same_words(first: str, second: str) -> bool:
    """Return whether two captions hold the same words, as often, in any order: case and punctuation aside.

    >>> same_words("A cat sees a dog.", "A dog sees a cat."), same_words("a cat", "two cats")
    (True, False)
    """
    return _count_words(first) == _count_words(second)


def _count_words(caption: str) -> Counter[str]:
    return Counter(re.findall(r"[\w']+", caption.lower()))


def _load_pairs(place: Locations) -> PairSet:
    folder = place.folder("sugarcrepe") or Path()
    items: list[Item] = []
    for subset, published in SUBSETS.items():
        path = find_files(folder, f"{subset}.json")[0]
        read = [
            _make_sugarcrepe_item(subset, key, row, f"{path}: item {quote(key, 40)}")
            for key, row in read_mapping(path).items()
            if key != "accuracy"
        ]
        expect_count(path, len(read), *published)
        items += read
    images = place.pictures("sugarcrepe", "val2017", "images")
    return PairSet("sugarcrepe", tuple(items), images, read=FolderImages(images, outside=place.outside))


def _make_sugarcrepe_item(subset: str, key: str, value: object, place: str) -> Item:
    row = row_of(value, place)
    image = string(row, "filename", place)
    captions = string(row, "caption", place), string(row, "negative_caption", place)
    return make_item(
        place,
        id=f"{subset}/{key}",
        images=(image,),
        texts=captions,
        tags={"subset": subset, "bag_of_words": "same" if same_words(*captions) else "differs"},
        cluster=image,
    )


#: Column of the paper's table -> subset.
_COLUMNS = {
    "REPLACE object": "replace_obj",
    "REPLACE attribute": "replace_att",
    "REPLACE relation": "replace_rel",
    "SWAP object": "swap_obj",
    "SWAP attribute": "swap_att",
    "ADD object": "add_obj",
    "ADD attribute": "add_att",
}


SUGARCREPE = Benchmark(
    name="sugarcrepe",
    title="SugarCrepe: a fluent caption with one object, attribute or relation wrong",
    items=sum(published[0] for published in SUBSETS.values()),
    rows="501f9d3fbba25271",
    shape=(1, 2),
    source="https://github.com/RAIVNLab/sugar-crepe",
    licence="MIT; images of COCO val2017",
    citation="Hsieh et al., SugarCrepe: Fixing Hackable Benchmarks for Vision-Language Compositionality, NeurIPS 2023",
    files=tuple(f"{subset}.json" for subset in SUBSETS),
    images="COCO val2017",
    cluster="the COCO image",
    ties="a tie is wrong (its main_eval.py); CLIP_benchmark counts it right",
    load=_load_pairs,
    # Seven accuracies; the authors' code averages nothing over them.
    paper=(
        "subset",
        lambda by: {column: 100 * by[subset]["choice_score"] for column, subset in _COLUMNS.items()},
    ),
)


_RECORDS_OF_ANY_TYPE: Benchmark[Any] = SUGARCREPE
SUGARCREPE_CHOICE: Benchmark[ChoiceSet] = replace(
    _RECORDS_OF_ANY_TYPE,
    name="sugarcrepe-choice",
    title="SugarCrepe in words: which of two captions fits, asked in both orders",
    rows="25269fac517e53ad",
    shape=None,
    task="choice",
    usual=("val2017", "images"),
    ties="a tie is wrong",
    load=lambda place: ChoiceSet.of_pairs(_load_pairs(place)),
    paper=None,
)
