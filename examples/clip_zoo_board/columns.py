"""The columns of vl_compo's `individual_results.csv`: the benchmark, metric, part and items of each.

A percentage is a whole number of hits over `n` texts, images or items; where it is a mean over parts, `n` is None.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: in the file.
        benchmark, metric: the catalogue's names where tellapart has the benchmark.
        part: the value of the benchmark's tag; empty for the whole benchmark.
        n: of what the percentage is a share; None where it is a mean over parts of unequal size, or not established.
    """

    name: str
    benchmark: str
    metric: str
    part: str = ""
    n: int | None = None


#: Benchmark -> the tag that its parts are values of.
PARTS = {
    "eqben": "subset",
    "imagecode": "source",
    "mmvp-vlm": "pattern",
    "sugarcrepe": "subset",
    "svo-probes": "negative",
    "valse": "instrument",
    "vl-checklist": "part",
}

_QUADRUPLES = {
    "eqben": {
        "youcook2": ("eqbenyoucook2", 45_849),
        "gebc": ("eqbengebc", 1_814),
        "ag": ("eqbenag", 195_872),
        "kubric_location": ("eqbenkubric_loc", 2_000),
        "kubric_counting": ("eqbenkubric_cnt", 2_000),
        "kubric_attribute": ("eqbenkubric_attr", 2_000),
        "sd": ("eqbensd", 1_513),
    },
    "mmvp-vlm": {
        pattern: (pattern, 15)
        for pattern in (
            "Orientation and Direction",
            "Presence of Specific Features",
            "State and Condition",
            "Quantity and Count",
            "Positional and Relational Context",
            "Color and Appearance",
            "Structural Characteristics",
            "Texts",
            "Viewpoint and Perspective",
        )
    },
    "colorswap": {"": ("", 300)},
    "winoground": {"": ("", 400)},
}

_CHOICES: dict[str, dict[str, int | None]] = {
    "imagecode": {"videos": 1_872, "static": 430},
    "sugarcrepe": {
        "replace_obj": 1_652,
        "replace_att": 788,
        "replace_rel": 1_406,
        "swap_obj": 245,
        "swap_att": 666,
        "add_obj": 2_062,
        "add_att": 692,
    },
    "svo-probes": {"subj_neg": 3_728, "verb_neg": 13_523, "obj_neg": 4_911},
    "valse": {
        "existence": 505,
        "plurals": 851,
        "counting-hard": 868,
        "counting-small-quant": 900,
        "counting-adversarial": 691,
        "relations": 535,
        "action-replacement": 648,
        "actant-swap": 949,
        "coreference-standard": 708,
        "coreference-hard": 104,
        "foil-it": 943,
    },
    "vl-checklist": dict.fromkeys(
        (
            *(f"Object_Location_{place}" for place in ("center", "margin", "mid")),
            *(f"Object_Size_{size}" for size in ("large", "medium", "small")),
            *(f"Attribute_{kind}" for kind in ("action", "color", "material", "size", "state")),
            *(f"Relation_{kind}" for kind in ("action", "spatial")),
        )
    ),
}

_WHOLE = (
    # The mean over relations, and over pairs of attributes, as ARO's own code has it.
    Column("aro::VG_Relation", "aro-relation", "macro_choice_score"),
    Column("aro::VG_Attribute", "aro-attribution", "macro_choice_score"),
    Column("aro::Flickr30k_Order", "aro-flickr-order", "choice_score", n=5_000),
    Column("aro::COCO_Order", "aro-coco-order", "choice_score", n=25_010),
    Column("crepe::atom", "crepe-atom", "choice_score", n=17_698),
    Column("crepe::swap", "crepe-swap", "choice_score", n=7_405),
    Column("crepe::negate", "crepe-negate", "choice_score", n=17_303),
    Column("whatsup::WhatsUp_A", "whatsup-a", "individual_score", n=412),
    Column("whatsup::WhatsUp_B", "whatsup-b", "individual_score", n=408),
    Column("whatsup::COCO_QA_ONE", "whatsup-coco-one", "choice_score", n=2_247),
    Column("whatsup::COCO_QA_TWO", "whatsup-coco-two", "choice_score", n=440),
    Column("whatsup::VG_QA_ONE", "whatsup-vg-one", "choice_score", n=1_160),
    Column("whatsup::VG_QA_TWO", "whatsup-vg-two", "choice_score", n=291),
)

_CLASSES = (
    *("caltech101", "cifar10", "cifar100", "country211", "dtd", "eurosat-clip", "fer2013", "fgvc-aircraft-2013b"),
    *("flower102", "food101", "gtsrb", "hateful-memes", "kitti-distance", "mnist", "oxford-iiit-pets"),
    *("patchcamelyon", "rendered-sst2", "resisc45-clip", "stanfordcar", "voc2007classification"),
)


def _columns() -> tuple[Column, ...]:
    found = list(_WHOLE)
    for benchmark, parts in _QUADRUPLES.items():
        prefix = benchmark.replace("-", "_")
        for part, (name, n) in parts.items():
            for side in ("text", "image", "group"):
                column = "::".join(filter(None, (prefix, name, side)))
                found.append(Column(column, benchmark, f"{side}_score", part, n))
    for benchmark, sizes in _CHOICES.items():
        prefix = benchmark.replace("-", "_")
        found += [Column(f"{prefix}::{part}", benchmark, "choice_score", part, n) for part, n in sizes.items()]
    for name, benchmark, n in (("coco_karpathy", "coco-retrieval", 5_000), ("flickr30k", "flickr30k-retrieval", 1_000)):
        for way, k in ((way, k) for way in ("i2t", "t2i") for k in (1, 5, 10)):
            queries = {"i2t": n, "t2i": {5_000: 25_010, 1_000: 5_000}[n]}[way]
            found.append(Column(f"{name}::{way}/R@{k}", benchmark, f"{way}_recall@{k}", n=queries))
    for name in _CLASSES:
        # ELEVATER's measure differs by data set (accuracy, mean of classes, mean average precision).
        found.append(Column(f"elevator::{name}", f"elevater-{name}", "elevater_score"))
    found.append(Column("elevator::imagenet-1k", "imagenet", "top1_accuracy", n=50_000))
    return tuple(found)


COLUMNS = _columns()
