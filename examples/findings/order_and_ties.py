"""The order of two captions in a question, and ties: how far published numbers depend on them."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from examples.findings.counts import PEOPLE, SCORES, read_systems
from examples.findings.frame import PHONE, SOURCES, Page, Source, bounds, name_rows, percent, points
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import BENCHMARKS
from tellapart.metrics.order_bias import order_bias
from tellapart.metrics.registry import METRICS, defined_for
from tellapart.metrics.ties import break_ties
from tellapart.report.plots.style import look, make_panels
from tellapart.stats.intervals import interval_for
from tellapart.stats.multiple import holm
from tellapart.stats.paired import Difference, at_floor, paired_difference, paired_permutation
from tellapart.tasks.choice import read_both_orders, read_given_choices
from tellapart.tasks.registry import headline, main_metric

_PARTS = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
ANSWERS = SOURCES["sugarcrepe-gpt4v"]
#: Sets in the order of their year: name, name in the catalogue, which has the year, files, the fields of the true and
#: the false caption, and how a tie between two captions counts in the authors' code.
_LAYOUTS = (
    ("VALSE", "valse", SOURCES["valse"], ("caption", "foil"), "wrong"),
    ("SugarCrepe", "sugarcrepe", SOURCES["sugarcrepe"], ("caption", "negative_caption"), "wrong"),
    ("ViLMA, five files", "vilma-counting", SOURCES["vilma"], ("caption", "foils"), "right"),
    ("VITATECS", "vitatecs", SOURCES["vitatecs"], ("caption", "counterfactual"), "wrong"),
    ("SugarCrepe++", "sugarcrepe-pp", SOURCES["sugarcrepe-pp"], ("caption", "negative_caption"), "wrong"),
    ("CameraBench", "camerabench", SOURCES["camerabench"], ("pos_text", "neg_text"), "wrong"),
)

_METRICS = ("text_score", "image_score", "group_score")
#: The catalogue's note of code that takes the first of tied captions, in files in which that is the true one.
_FIRST_IS_TRUE = "and that is the caption"


class _Part(NamedTuple):
    name: str
    items: int
    first: float
    second: float
    difference: Difference
    both: float
    p: float


def order_and_ties(data: Path) -> Page:
    """Make the page."""
    answers = [_read_part(data, part) for part in _PARTS]
    parts = [_compare_part(name, *found) for name, found in zip(_PARTS, answers, strict=True)]
    every = tuple(np.concatenate(column) for column in zip(*answers, strict=True))
    everything, first_alike = _compare_part("all", *every), order_bias(*every[:2]).both
    adjusted = holm([part.p for part in parts])
    orders = [(part, p, at_floor(part.p, 10_000)) for part, p in zip(parts, adjusted, strict=True)]
    systems = read_systems(data)
    moved = {(name, metric): _count_rules(systems[name], metric) for name in systems for metric in _METRICS}
    changed = {key: values for key, values in moved.items() if values[1] != values[0]}
    most = max(changed, key=lambda key: changed[key][1] - changed[key][0])
    layouts = [
        (name, find_benchmark(set_name).year, tie, *_count_places(source, fields, data))
        for name, set_name, source, fields, tie in _LAYOUTS
    ]
    always, pair_sets = _constant_by_rule()
    values: dict[str, Any] = {"orders": orders, "everything": everything, "ends_of": _bounds}
    values |= {"right_in_both": interval_for(first_alike, every[2], binary=True)}
    values |= {"systems": systems, "moved": moved, "changed": changed, "most": most}
    values |= {"most_of_systems": max(v[1] - v[0] for k, v in changed.items() if k[0] != PEOPLE)}
    values |= {"layouts": layouts, "always": always, "pair_sets": pair_sets}
    sources = (ANSWERS, SCORES, *(source for _, _, source, _, _ in _LAYOUTS))
    return Page("order-and-ties", partial(_draw_orders, parts), sources, values, data)


def read_orders(data: Path) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return for each part the outcomes with the true caption first, and second."""
    biases = {part: order_bias(*_read_part(data, part)[:2]) for part in _PARTS}
    return {part: (bias.true_first, bias.true_second) for part, bias in biases.items()}


def _read_part(data: Path, part: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.str_]]:
    folder = data / "sugarcrepe" / "gpt-4v-results"
    paths = [folder / f"{order}-first" / f"gpt4v-{part}.json" for order in ("positive", "negative")]
    both, images = read_both_orders(*paths), read_given_choices(paths[0])
    first, second = (np.array(column) for column in zip(*both.values(), strict=True))
    return first, second, np.array([images[key].filename for key in both])


def _compare_part(name: str, first: NDArray[np.int64], second: NDArray[np.int64], images: NDArray[np.str_]) -> _Part:
    bias = order_bias(first, second)
    a, b = bias.true_first, bias.true_second
    difference, p = paired_difference(a, b, images, binary=True), paired_permutation(a, b, images)
    return _Part(name, len(a), float(a.mean()), float(b.mean()), difference, float(bias.both.mean()), p)


def _bounds(difference: Difference, sign: int = 1) -> str:
    low, high = sorted((sign * difference.low, sign * difference.high))
    return bounds(low, high, points if low < 0 else percent)


def _count_rules(scores: NDArray[np.float64], metric: str) -> tuple[float, float, float]:
    """Return a metric with ties wrong, with ties right, and with ties broken at random."""
    declared = METRICS[metric]
    wrong = declared.per_item(scores)
    right = declared.per_item(break_ties(scores, "right"))
    return float(wrong.mean()), float(right.mean()), float(declared.tie_neutral(scores).mean())


def _count_places(source: Source, fields: tuple[str, str], data: Path) -> tuple[int, int, tuple[float, float, float]]:
    """Return the items, those with the true caption first, and a constant model's score by three rules."""
    rows = source.rows(data)
    first = sum(_is_first(row, *fields) for row in rows)
    captions = 3 if "caption2" in rows[0] else 2
    constant = np.zeros((len(rows), 1, captions), np.float32)
    metric, argmax = METRICS["choice_score" if captions == 2 else "itt"], first / len(rows)
    if captions == 3:
        argmax *= float(metric.per_item(break_ties(constant, "right", 2)).mean())
    rules = (float(values.mean()) for values in (metric.per_item(constant), metric.tie_neutral(constant)))
    return len(rows), first, (argmax, *rules)


def _is_first(row: Mapping[str, object], true: str, false: str) -> bool:
    texts = row.get("texts")
    if isinstance(texts, list):
        return bool(texts[0] == row[true])
    names = list(row)
    return names.index(true) < names.index(false)


def _constant_by_rule() -> tuple[list[str], int]:
    """Return the sets of pairs on which a constant model is always right by their code, and how many sets there are."""
    sets = {name: find_benchmark(name) for name in BENCHMARKS}
    pairs = {name: one for name, one in sets.items() if one.task == "pairs" and one.shape is not None}
    always = [name for name, one in pairs.items() if one.tie_rule == "right" or one.ties.endswith(_FIRST_IS_TRUE)]
    for one in map(pairs.__getitem__, always):
        metric = main_metric(headline({metric.name for metric in defined_for(one.shape, "similarity", one.true)}))
        broken = break_ties(np.zeros((1, *one.shape), np.float32), one.tie_rule, one.true)
        assert METRICS[metric].per_item(broken).mean() == 1, one.name
    return always, len(pairs)


def _draw_orders(parts: list[_Part]) -> Any:
    figure, (axes,) = make_panels(PHONE, 2.9)
    shares, rows = 100 * np.array([(part.first, part.second) for part in parts]).T, range(len(parts))
    axes.plot(shares, [rows, rows], color="#bbbbbb", zorder=1)
    for number, place in enumerate(("first", "second")):
        style, label = look(number), f"true caption {place}"
        axes.scatter(shares[number], rows, color=style.colour, marker=style.marker, label=label)
    name_rows(figure, axes, [part.name for part in parts], "GPT-4V on SugarCrepe: right answers, percent")
    figure.legend(loc="outside upper left", ncols=2)
    return figure
