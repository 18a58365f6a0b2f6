"""The smallest difference that a set can show, and published gains."""

import itertools
import tomllib
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.findings.counts import PEOPLE, SCORES, read_counts, read_systems
from examples.findings.frame import PHONE, SOURCES, Page, make_table, name_rows, percent, points, read_fields
from tellapart.metrics.registry import METRICS
from tellapart.report.plots.pareto import plain_logarithm
from tellapart.report.plots.style import axes_of, look
from tellapart.stats.multiple import holm
from tellapart.stats.paired import Difference, paired_difference, paired_permutation
from tellapart.stats.power import detectable_fall, smallest_seen

PUBLISHED = Path(__file__).with_name("published_gains.toml")
_CLIPS = ("ViT-B-32", "CLIP_COCO", "CLIP_TROHN-Text", "CLIP_TROHN-Img")
BIVLC = tuple(SOURCES[name] for name in ("bivlc", "bivlc-tuned", "bivlc-sugarcrepe"))


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """One set's outcomes of several systems on the same items, and the items' clusters."""

    title: str
    systems: dict[str, NDArray[np.float64]]
    clusters: NDArray[np.str_] | None

    @property
    def items(self) -> int:
        """The number of items."""
        return len(next(iter(self.systems.values())))

    def pairs(self) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Return each two systems."""
        return list(itertools.combinations(self.systems.values(), 2))


@dataclass(frozen=True, slots=True)
class Gain:
    """A published change of a share, and the smallest that a paired test of so many items sees.

    `worth` items leave a mean over items as uncertain as one over parts. `kind` is for two systems that disagree as
    rarely as any here, `typical` as the middle pair.
    """

    title: str
    items: int
    worth: int
    before: float
    after: float
    first: str
    second: str
    key: str
    source: str
    kind: float
    typical: float

    @property
    def change(self) -> float:
        """The published change."""
        return self.after - self.before

    @property
    def verdict(self) -> str:
        """Above both bounds, between them, or below both."""
        size = abs(self.change)
        return "above" if size >= self.typical else "between" if size >= self.kind else "below"


def gains(data: Path) -> Page:
    """Make the page."""
    measured = _read_measured(data)
    winoground, bivlc = measured[2], measured[3]
    ratios = overlap_ratios()
    kind, typical = min(ratios), float(np.median(ratios))
    published = read_gains()
    by = {name: [gain for gain in published if gain.verdict == name] for name in ("above", "between", "below")}
    low, middle, high = np.quantile(_smallest_of_pairs(winoground), (0.25, 0.5, 0.75))
    tested = _test_pairs(bivlc)
    sources = {gain.key: gain.source for gain in sorted(published, key=lambda gain: gain.key)}
    values: dict[str, Any] = {"measured": list(map(_describe_pairs, measured)), "tested": tested, "by": by}
    values |= {"published": published, "published_table": published_table(published), "sources": sources}
    values |= {"winoground": winoground, "bivlc": bivlc, "low": low, "middle": middle, "high": high}
    values |= {"ratios": ratios, "kind": kind, "typical": typical}
    return Page("gains", partial(_draw_gains, published), (SCORES, *BIVLC), values, data)


def _read_measured(data: Path) -> list[_Outcomes]:
    systems = {name: scores for name, scores in read_systems(data).items() if name != PEOPLE}
    found = [
        _Outcomes(
            f"Winoground, {metric.removesuffix('_score')}",
            {name: METRICS[metric].per_item(scores) for name, scores in systems.items()},
            None,
        )
        for metric in ("text_score", "image_score", "group_score")
    ]
    return [*found, *read_clips(data)]


def read_clips(data: Path) -> tuple[_Outcomes, _Outcomes]:
    """Return the outcomes of BiVLC's four CLIPs on BiVLC, and on SugarCrepe."""
    bivlc = {name: read_fields(data / "bivlc" / f"BiVLC_{name}.csv") for name in _CLIPS}
    sugarcrepe = {name: read_fields(data / "bivlc" / f"SUGARCREPE_CORRECT_{name}.csv") for name in _CLIPS}
    return (
        _Outcomes(
            "BiVLC, group",
            {name: np.array([row["group_score"] == "True" for row in rows], float) for name, rows in bivlc.items()},
            np.array([row["caption"] for row in bivlc[_CLIPS[0]]]),
        ),
        _Outcomes(
            "SugarCrepe",
            {name: np.array([row["correct"] for row in rows], float) for name, rows in sugarcrepe.items()},
            np.array([row["filename"] for row in sugarcrepe[_CLIPS[0]]]),
        ),
    )


def overlap_ratios() -> list[float]:
    """Return the disagreement of each two CLIPs as a part of that of independent systems, from the counts kept here."""
    counts = read_counts()
    ratios = []
    for both, first, second, neither in (*counts["bivlc"].values(), *counts["sugarcrepe"].values()):
        items = both + first + second + neither
        p, q = (both + first) / items, (both + second) / items
        ratios.append((first + second) / items / (p * (1 - q) + q * (1 - p)))
    return ratios


def _smallest_of_pairs(one: _Outcomes) -> list[float]:
    found = []
    for a, b in one.pairs():
        seen = (
            _smallest_seen(len(a), int((a != b).sum()))
            if one.clusters is None
            else detectable_fall(*sorted((a, b), key=lambda values: -values.mean()), one.clusters)
        )
        assert seen is not None
        found.append(seen)
    return found


@lru_cache
def _smallest_seen(items: int, disagreed: int) -> float | None:
    return smallest_seen(items, disagreed / items)


def _describe_pairs(one: _Outcomes) -> tuple[_Outcomes, float, NDArray[np.float64]]:
    """Return a set, on how much two systems disagree, and quartiles of the smallest difference, of all pairs."""
    disagree = np.median([(a != b).mean() for a, b in one.pairs()])
    return one, float(disagree), np.quantile(_smallest_of_pairs(one), (0.25, 0.5, 0.75))


def _test_pairs(one: _Outcomes) -> list[tuple[str, str, Difference, float]]:
    pairs = list(itertools.combinations(one.systems, 2))
    p = holm([paired_permutation(one.systems[b], one.systems[a], one.clusters) for a, b in pairs])
    return [
        (a, b, paired_difference(one.systems[b], one.systems[a], one.clusters, binary=True), float(value))
        for (a, b), value in zip(pairs, p, strict=True)
    ]


def read_gains() -> list[Gain]:
    """Return the published differences, set by set, from files of this repository alone."""
    content = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    ratios = overlap_ratios()
    found = []
    for table in content["tables"]:
        for name, values in table["values"].items():
            order = sorted(values, key=values.__getitem__)
            compared = itertools.pairwise(order) if table["compared"] == "neighbours" else table["compared"]
            for first, second in compared:
                one, p, q = content["sets"][name], values[first] / 100, values[second] / 100
                parts = one.get("parts") if table.get("over") == "parts" else None
                worth = round(len(parts) ** 2 / sum(1 / part for part in parts)) if parts else one["n"]
                independent = p * (1 - q) + q * (1 - p)
                bound = [smallest_seen(worth, ratio * independent) for ratio in (min(ratios), float(np.median(ratios)))]
                low, high = (value for value in bound if value is not None)
                source = (table["key"], table["source"])
                found.append(Gain(one["title"], one["n"], worth, p, q, first, second, *source, low, high))
    titles = [one["title"] for one in content["sets"].values()]
    return sorted(found, key=lambda gain: titles.index(gain.title))


def published_table(published: list[Gain]) -> str:
    """Return the table of published differences."""
    return make_table(
        ["set", "items", "from", "to", "published", "lenient", "typical", "it is", "source"],
        "l|r|l|l|r|r|r|l|l",
        [_gain_row(gain) for gain in published],
    )


def _gain_row(gain: Gain) -> list[str]:
    shown = [points(gain.change, 2 if abs(gain.change) < 0.01 else 1), percent(gain.kind, 1), percent(gain.typical, 1)]
    items = f"{gain.items:,}" if gain.worth == gain.items else f"{gain.items:,} ({gain.worth:,})"
    return [gain.title, items, gain.first, gain.second, *shown, gain.verdict, gain.key]


def _draw_gains(published: list[Gain]) -> Any:
    figure, axes = axes_of(PHONE, 3.6)
    titles = list(dict.fromkeys(gain.title for gain in published))
    for row, title in enumerate(titles):
        mine = [gain for gain in published if gain.title == title]
        low, high = min(gain.kind for gain in mine), max(gain.typical for gain in mine)
        axes.plot([100 * low, 100 * high], [row, row], color="#bbbbbb", linewidth=6, solid_capstyle="butt", zorder=1)
    for number, verdict in enumerate(("above", "between", "below")):
        mine = [gain for gain in published if gain.verdict == verdict]
        style = look(number)
        sizes, rows = [100 * abs(gain.change) for gain in mine], [titles.index(gain.title) for gain in mine]
        axes.scatter(sizes, rows, color=style.colour, marker=style.marker, s=20, label=verdict, zorder=2)
    axes.set_xscale("log")
    plain_logarithm(axes.xaxis)
    name_rows(figure, axes, titles, "points; grey: the smallest that is seen", 3)
    return figure
