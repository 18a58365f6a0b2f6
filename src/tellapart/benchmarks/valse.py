"""VALSE: an image with its caption and a foil, in eleven instruments.

Eleven files of its repository (`data/*.json`), each an object of rows with `image_file`, `caption`, `foil` (or a list
`foils`, of which the first counts) and the votes of three annotators. As in its paper, an item counts if at least two
of them found that the caption alone describes the image (`mturk.caption >= 2`): 7,702 of 8,782.

Tags: `instrument`, `phenomenon` (as the files name it), and `pool`: EqBen and EqSim leave out `foil-it` (6,759 items).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import ALL, Benchmark
from tellapart.benchmarks.locations import FolderImages, Locations, find_files
from tellapart.data.annotations import expect_count, make_item, read_mapping, row_of, string
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, quote
from tellapart.metrics.per_item import mean

#: Instrument -> items in its file, and those that pass the annotators.
INSTRUMENTS = {
    "existence": (534, 505),
    "plurals": (1000, 851),
    "counting-hard": (1000, 868),
    "counting-small-quant": (1000, 900),
    "counting-adversarial": (756, 691),
    "relations": (614, 535),
    "action-replacement": (779, 648),
    "actant-swap": (1042, 949),
    "coreference-standard": (916, 708),
    "coreference-hard": (141, 104),
    "foil-it": (1000, 943),
}


def _load_pairs(place: Locations) -> PairSet:
    folder = place.folder("valse") or Path()
    items: list[Item] = []
    for instrument, (published, passing) in INSTRUMENTS.items():
        path = find_files(folder, f"{instrument}.json")[0]
        rows = read_mapping(path)
        expect_count(path, len(rows), published)
        all_items = [_make_valse_item(instrument, key, row, f"{path}: item {quote(key)}") for key, row in rows.items()]
        valid = [item for item in all_items if item is not None]
        expect_count(path, len(valid), passing, what="items that two annotators agree on")
        items += valid
    images = place.pictures("valse", "images")
    return PairSet("valse", tuple(items), images, read=FolderImages(images, outside=place.outside))


def _make_valse_item(instrument: str, key: str, value: object, place: str) -> Item | None:
    """Make an item of a row, or nothing if the annotators did not agree."""
    row = row_of(value, place)
    votes = row.get("mturk")
    if not isinstance(votes, Mapping) or not isinstance(votes.get("caption"), int):
        raise DataError(f"{place}: field 'mturk.caption': expected a number of annotators, got {quote(votes)}")
    if votes["caption"] < 2:
        return None
    image, dataset = string(row, "image_file", place), string(row, "dataset", place)
    return make_item(
        place,
        id=f"{instrument}/{key}",
        images=(image,),
        texts=(string(row, "caption", place), _first_foil(row, place)),
        tags={
            "instrument": instrument,
            "phenomenon": string(row, "linguistic_phenomena", place),
            "pool": "foil-it" if instrument == "foil-it" else "without foil-it",
        },
        cluster=f"{dataset}/{image}",
    )


def _first_foil(row: Mapping[str, Any], place: str) -> str:
    foils = row.get("foils")
    if "foil" in row or not isinstance(foils, list) or not foils:
        return string(row, "foil", place)
    return string({"foils[0]": foils[0]}, "foils[0]", place)


def _paper_table(by_instrument: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return each instrument's pairwise accuracy and their plain mean; for probabilities accuracy and min(p_c, p_f)."""
    row: dict[str, float] = {}
    for metric, name in (("pairwise", "acc_r"), ("acc", "acc"), ("min_pc_pf", "min(p_c, p_f)")):
        if metric in by_instrument[ALL]:
            percents = {instrument: 100 * by_instrument[instrument][metric] for instrument in INSTRUMENTS}
            row |= {f"{name} {instrument}": value for instrument, value in percents.items()}
            row[f"{name} Avg"] = float(mean(list(percents.values())))
    return row


VALSE = Benchmark(
    name="valse",
    title="VALSE: a caption and its foil, in eleven linguistic instruments",
    items=sum(passing for _, passing in INSTRUMENTS.values()),
    rows="11e9b5b9ccc8acef",
    shape=(1, 2),
    source="https://github.com/Heidelberg-NLP/VALSE",
    licence="MIT; images of Visual7W, COCO, SWiG, VisDial and FOIL",
    citation="Parcalabescu et al., VALSE: A Task-Independent Benchmark for Vision and Language Models Centered on "
    "Linguistic Phenomena, ACL 2022",
    files=tuple(sorted(f"{instrument}.json" for instrument in INSTRUMENTS)),
    images="those of its five sources, in one folder or in a folder each",
    cluster="the source image",
    ties="a foil at exactly one half is left out of the count; pairwise, a tie is wrong",
    load=_load_pairs,
    paper=("instrument", _paper_table),
)
