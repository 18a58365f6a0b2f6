"""What'sUp, the controlled photographs: four images of two things, and the four captions that locate one of them.

`whatsup-a` has household things on, under, left and right of furniture, `whatsup-b` things in front, behind, left and
right on a table. The published files list one image a row with its four captions, the true one first; here the four
images of two things are one 4x4 item, so that one array of scores gives the individual, the pair (left and right, on
and under) and the set score. Rows of score files that list images one by one are found by `rows`. Images and captions
of an item are in the order left, right, on (in front), under (behind).

Aggregates differ: vl_compo means six subsets (A, B, COCO and Visual Genome with one and two objects), READ the pooled
A and B, COCO, and Visual Genome.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import FolderImages, Locations, first_file
from tellapart.data.annotations import expect_count, make_item, read_list, row_of, string
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, quote

_PLACES = (("left",), ("right",), ("on", "in-front"), ("under", "behind"))


def _load_pairs(place: Locations, *, name: str, folder: str, items: int) -> PairSet:
    path = first_file(place, name, f"{folder}_dataset.json")
    sets: dict[tuple[str, str], dict[int, tuple[int, str, list[str]]]] = {}
    for number, value in enumerate(read_list(path)):
        where = f"{path}: row {number}"
        row = row_of(value, where)
        image, options = string(row, "image_path", where), row.get("caption_options")
        parts = image.rpartition("/")[2].rpartition(".")[0].split("_")
        side = next((k for k, names in enumerate(_PLACES) if len(parts) > 2 and parts[1] in names), None)
        texts = (
            [text for text in options if isinstance(text, str) and text.strip()] if isinstance(options, list) else []
        )
        if side is None or len(texts) != 4 or texts != options:
            raise DataError(f"{where}: expected an image THING_WHERE_THING and four captions, got {quote(row)}")
        if sets.setdefault((parts[0], parts[-1]), {}).setdefault(side, (number, image, texts))[0] != number:
            raise DataError(f"{where}: {image}: its two things have an image of that kind already")
    made, rows = [], np.empty((len(sets), 4, 4), np.int64)
    for index, ((first, other), four) in enumerate(sets.items()):
        where = f"{path}: {first} and {other}"
        texts = [four[side][2][0] for side in sorted(four)]
        if len(four) != 4 or any(sorted(options) != sorted(texts) for _, _, options in four.values()):
            raise DataError(f"{where}: expected four images with the same four captions, each true of one")
        for side, (number, _, options) in four.items():
            rows[index, side] = [4 * number + options.index(text) for text in texts]
        images = tuple(f"{folder}/{four[side][1].rpartition('/')[2]}" for side in range(4))
        made.append(make_item(where, id=f"{first}+{other}", images=images, texts=tuple(texts)))
    expect_count(path, len(made), items, what="sets of four images")
    root = place.pictures(name, ".")
    return PairSet(name, tuple(made), root, read=FolderImages(root, outside=place.outside), rows=rows)


WHATSUP_A, WHATSUP_B = (
    Benchmark(
        name=name,
        title=f"What'sUp {name[-1].upper()}: a thing {relation}",
        items=items,
        shape=(4, 4),
        source="https://github.com/amitakamath/whatsup_vlms",
        licence="MIT; its own images",
        citation='Kamath et al., What\'s "up" with vision-language models?, EMNLP 2023',
        files=(f"{folder}_dataset.json",),
        images=f"its own, in {folder}/",
        cluster="the two things",
        ties="a tie is right (argmax, the true caption first)",
        tie_rule="right",
        load=partial(_load_pairs, name=name, folder=folder, items=items),
    )
    for name, relation, items, folder in (
        ("whatsup-a", "on, under, left or right of furniture", 103, "controlled_images"),
        ("whatsup-b", "in front, behind, left or right of another", 102, "controlled_clevr"),
    )
)
