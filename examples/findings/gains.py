"""The smallest difference that a set can show, and published gains."""

import itertools
import tomllib
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.findings.counts import PEOPLE, SCORES, read_counts, read_systems
from examples.findings.frame import PHONE, SOURCES, Page, make_table, name_rows, percent, points, read_fields
from tellapart.metrics.registry import METRICS
from tellapart.report.plots.pareto import plain_logarithm
from tellapart.report.plots.style import look, make_panels
from tellapart.stats.multiple import holm
from tellapart.stats.paired import Difference, paired_difference, paired_permutation
from tellapart.stats.power import detectable_fall, smallest_seen

PUBLISHED = Path(__file__).with_name("published_gains.toml")
CLIPS = ("ViT-B-32", "CLIP_COCO", "CLIP_TROHN-Text", "CLIP_TROHN-Img")
_smallest_seen = lru_cache(smallest_seen)
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


def gains(data: Path) -> Page:
    """Make the page."""
    measured = _read_measured(data)
    winoground, bivlc = measured[2], measured[3]
    published = read_gains()
    values: dict[str, Any] = {"measured": list(map(_describe_pairs, measured)), "tested": _test_pairs(bivlc)}
    values |= {"published": published, "published_table": published_table(published), "ratios": overlap_ratios()}
    values |= {"winoground": winoground, "bivlc": bivlc}
    return Page("gains", partial(_draw_gains, published), (SCORES, *BIVLC), values, data)


def _read_measured(data: Path) -> list[_Outcomes]:
    systems, found = read_systems(data), []
    del systems[PEOPLE]
    for side in ("text", "image", "group"):
        right = {name: METRICS[f"{side}_score"].per_item(scores) for name, scores in systems.items()}
        found.append(_Outcomes(f"Winoground, {side}", right, None))
    return [*found, *read_clips(data)]


def read_clips(data: Path) -> tuple[_Outcomes, _Outcomes]:
    """Return the outcomes of BiVLC's four CLIPs on BiVLC, and on SugarCrepe."""
    bivlc, sugarcrepe = (
        {name: read_fields(data / "bivlc" / f"{kind}_{name}.csv") for name in CLIPS}
        for kind in ("BiVLC", "SUGARCREPE_CORRECT")
    )
    group = {name: np.array([row["group_score"] == "True" for row in rows], float) for name, rows in bivlc.items()}
    right = {name: np.array([row["correct"] for row in rows], float) for name, rows in sugarcrepe.items()}
    return (
        _Outcomes("BiVLC, group", group, np.array([row["caption"] for row in bivlc[CLIPS[0]]])),
        _Outcomes("SugarCrepe", right, np.array([row["filename"] for row in sugarcrepe[CLIPS[0]]])),
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


def _describe_pairs(one: _Outcomes) -> tuple[_Outcomes, float, NDArray[np.float64]]:
    """Return a set, on how much two systems disagree, and quartiles of the smallest difference, of all pairs."""
    disagree = [float((a != b).mean()) for a, b in one.pairs()]
    if one.clusters is None:
        smallest = [_smallest_seen(one.items, share) for share in disagree]
    else:
        ordered = (sorted(pair, key=lambda right: -right.mean()) for pair in one.pairs())
        smallest = [detectable_fall(*pair, one.clusters) for pair in ordered]
    return one, float(np.median(disagree)), np.quantile(smallest, (0.25, 0.5, 0.75))


def _test_pairs(one: _Outcomes) -> list[tuple[str, str, Difference, float]]:
    pairs = list(itertools.combinations(one.systems, 2))
    p = holm([paired_permutation(one.systems[b], one.systems[a], one.clusters) for a, b in pairs])
    return [
        (a, b, paired_difference(one.systems[b], one.systems[a], one.clusters, binary=True), float(value))
        for (a, b), value in zip(pairs, p, strict=True)
    ]


def read_gains() -> list[SimpleNamespace]:
    """Return the published changes of a share, set by set, from files of this repository alone.

    Each has the smallest change that a paired test of its items sees: `kind` if two systems disagree as rarely as any
    here, `typical` if as the middle pair. `worth` items leave a mean over items as uncertain as one over parts.
    """
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
                low, high = (smallest_seen(worth, ratio * independent) for ratio in (min(ratios), np.median(ratios)))
                size = abs(q - p)
                gain = SimpleNamespace(
                    title=one["title"],
                    items=one["n"],
                    worth=worth,
                    change=q - p,
                    first=first,
                    second=second,
                    key=table["key"],
                    source=table["source"],
                    kind=low,
                    typical=high,
                    verdict="above" if size >= high else "between" if size >= low else "below",
                )
                found.append(gain)
    titles = [one["title"] for one in content["sets"].values()]
    return sorted(found, key=lambda gain: titles.index(gain.title))


def published_table(published: list[SimpleNamespace]) -> str:
    """Return the table of published differences."""
    rows = []
    for gain in published:
        items = f"{gain.items:,}" if gain.worth == gain.items else f"{gain.items:,} ({gain.worth:,})"
        change = points(gain.change, 2 if abs(gain.change) < 0.01 else 1)
        rows.append([gain.title, items, gain.first, gain.second, change, percent(gain.kind), percent(gain.typical)])
        rows[-1] += [gain.verdict, gain.key]
    heads = ["set", "items", "from", "to", "published", "lenient", "typical", "it is", "source"]
    return make_table(heads, "l|r|l|l|r|r|r|l|l", rows)


def _draw_gains(published: list[SimpleNamespace]) -> Any:
    figure, (axes,) = make_panels(PHONE, 3.6)
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
