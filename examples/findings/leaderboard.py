"""Winoground's 55 published systems, read item by item."""

import itertools
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import binom, rankdata

import tellapart as ta
from examples.findings.counts import PEOPLE, SCORES, read_systems
from examples.findings.frame import PHONE, SOURCES, Page, bounds, join_words, percent
from tellapart.diagnosis.item_analysis import ItemAnalysis
from tellapart.metrics.registry import METRICS
from tellapart.report.plots.style import GREY, axes_of, look
from tellapart.stats.intervals import Interval, interval_for, wilson
from tellapart.stats.multiple import holm
from tellapart.stats.paired import Difference, Tier, mcnemar, paired_difference, tiers

_TAGS = SOURCES["winoground-subsets"]
_SIMULATED = Path(__file__).parents[2] / "bench" / "records" / "items.json"
_METRICS = ("text_score", "image_score", "group_score")
#: Systems with two heads of the same weights: the matching head, the contrastive one.
HEADS = (
    ("flava_itm", "flava_itc"),
    *((f"blip_itm_{name}", f"blip_itc_{name}") for name in ("b16_14m", "b16", "b16_capfilt", "b16_coco")),
    *((f"blip_itm_{name}", f"blip_itc_{name}") for name in ("b16_flickr30k", "l16", "l16_coco", "l16_flickr30k")),
)


@dataclass(frozen=True, slots=True)
class _Metric:
    """One metric of all systems."""

    name: str
    outcomes: dict[str, NDArray[np.float64]]
    people: NDArray[np.float64]
    chance: float
    intervals: dict[str, Interval]
    items: ItemAnalysis
    tiers: list[Tier]

    def count_above(self) -> tuple[int, int, int, int]:
        """Return how many systems are above chance by value, by their interval, and after Holm's correction, and below.

        The correction is of exact one-sided tests, one of each system; below chance by the interval.
        """
        values = [float(right.mean()) for right in self.outcomes.values()]
        found = self.intervals.values()
        alone = [binom.sf(right.sum() - 1, len(right), self.chance) for right in self.outcomes.values()]
        return (
            sum(value > self.chance for value in values),
            sum((one.low or 0) > self.chance for one in found),
            int((holm(alone) <= 0.05).sum()),
            sum((one.high or 1) < self.chance for one in found),
        )


def leaderboard(data: Path) -> Page:
    """Make the page."""
    scores = read_systems(data)
    metrics = {name: _analyse(name, scores, data) for name in _METRICS}
    group = metrics["group_score"]
    subsets = {name: set(found) for name, found in json.loads(_TAGS.files(data)[0].read_text())["subsets"].items()}
    best = max(group.outcomes, key=lambda name: group.outcomes[name].mean())
    above, tested, corrected, _ = group.count_above()
    items = group.items
    nobody = np.array([row.solved == 0 for row in items.items])
    people_on = wilson(int(group.people[nobody].sum()), int(nobody.sum()))
    negative = sum((row.discrimination or 0) < 0 for row in items.items)
    known = np.array([not nobody[k] and 1 - failed >= 0.1 for k, failed in enumerate(_failed(group))])
    heads = {name: _compare_heads(metrics[name]) for name in _METRICS}
    won = [found for found in heads["group_score"] if found[3] <= 0.05]
    ahead = sum(found[2].value > 0 for found in heads["group_score"])
    first = group.tiers[0]
    lead = paired_difference(group.people, group.outcomes[best], None, binary=True)
    outcomes = {name: np.stack([METRICS[one].per_item(found) for one in _METRICS]) for name, found in scores.items()}
    twins = [(a, b) for a, b in itertools.combinations(outcomes, 2) if np.array_equal(outcomes[a], outcomes[b])]
    # The simulation of item analysis with 15 families finds a label that is turned round so often.
    simulated = json.loads(_SIMULATED.read_text(encoding="utf-8"))["15 families of 1 to 6 systems"]
    blunt, harder = _blunt(items), subsets["harder"]
    values: dict[str, Any] = {"group": group, "items": items, "best": best, "first": first, "lead": lead}
    values |= {"above": above, "tested": tested, "corrected": corrected, "summary_rows": _summary_rows(metrics)}
    values |= {"heads": [*zip(*heads.values(), strict=True)], "ahead": ahead, "won": won, "subsets": subsets}
    values |= {"nobody": nobody, "people_on": people_on, "negative": negative, "known": known}
    values |= {"power_of_suspects": simulated["the best item with its label turned round is a suspect"]}
    values |= {"failed_auc": _auc_text(_failed(group), harder), "blunt_auc": _auc_text(blunt, harder)}
    values |= {"known_auc": _auc_text(blunt, harder, known), "discriminating": int(np.isfinite(blunt).sum())}
    values |= {"tags_rows": [_tag_row(name, members, group, nobody) for name, members in subsets.items()]}
    values |= {"suspects": _count_suspects(items), "twins": join_words([f"`{a}` and `{b}`" for a, b in twins])}
    return Page("leaderboard", partial(_draw_systems, group), (SCORES, _TAGS), values, data)


def _analyse(name: str, scores: dict[str, NDArray[np.float64]], data: Path) -> _Metric:
    per_item = {system: METRICS[name].per_item(found) for system, found in scores.items()}
    people = per_item.pop(PEOPLE)
    chance = METRICS[name].chance((2, 2))
    assert chance is not None
    found = ta.items(
        scores=data / "winoground_scores", benchmark="winoground", without=PEOPLE, metric=name, family="name"
    )
    intervals = {system: wilson(int(right.sum()), len(right)) for system, right in per_item.items()}
    return _Metric(name, per_item, people, chance, intervals, found.record, tiers(per_item, None))


def _summary_rows(metrics: dict[str, _Metric]) -> list[list[str]]:
    every = list(metrics.values())
    counts = [one.count_above() for one in every]
    means = [[float(right.mean()) for right in one.outcomes.values()] for one in every]
    return [
        ["chance", *(percent(one.chance) for one in every)],
        [
            "systems: lowest, median, highest",
            *(" / ".join(percent(f(m)) for f in (min, np.median, max)) for m in means),
        ],
        ["people", *(percent(float(one.people.mean())) for one in every)],
        ["above chance by value", *(f"{one[0]}" for one in counts)],
        ["above chance by interval (95 %)", *(f"{one[1]}" for one in counts)],
        ["above chance after Holm", *(f"{one[2]}" for one in counts)],
        ["below chance by interval", *(f"{one[3]}" for one in counts)],
        ["pairs that differ at 5 %", *(f"{one.items.differing} of {one.items.pairs:,}" for one in every)],
        ["the same after Holm", *(f"{one.items.differing_holm}" for one in every)],
        ["tiers; systems in the first", *(f"{len(one.tiers)}; {len(one.tiers[0].names)}" for one in every)],
        ["reliability (95 %)", *(f"{o.items.alpha:.2f} [{o.items.low:.2f}, {o.items.high:.2f}]" for o in every)],
        ["items that no system gets", *(f"{one.items.nobody}" for one in every)],
        ["items that every system gets", *(f"{one.items.everybody}" for one in every)],
        ["suspects", *(f"{_count_suspects(one.items)}" for one in every)],
    ]


def _compare_heads(one: _Metric) -> list[tuple[str, str, Difference, float]]:
    pairs = [(one.outcomes[a], one.outcomes[b]) for a, b in HEADS]
    adjusted = holm([mcnemar(a, b).p for a, b in pairs])
    differences = [paired_difference(a, b, None, binary=True) for a, b in pairs]
    return [(*names, difference, float(p)) for names, difference, p in zip(HEADS, differences, adjusted, strict=True)]


def _count_suspects(items: ItemAnalysis) -> int:
    return sum(row.suspect for row in items.items)


def _failed(one: _Metric) -> NDArray[np.float64]:
    return 1 - np.mean([*one.outcomes.values()], axis=0)


def _blunt(items: ItemAnalysis) -> NDArray[np.float64]:
    """Return the negative discrimination of each item; NaN for one without any, which nobody or everybody gets."""
    return np.array([np.nan if row.discrimination is None else -row.discrimination for row in items.items])


def _auc_text(values: NDArray[np.float64], members: set[int], kept: NDArray[np.bool_] | None = None) -> str:
    """Return the area under the curve that separates members, of the kept items that have a value, with an interval.

    The interval is DeLong's.
    """
    inside = np.isin(np.arange(len(values)), [*members])
    known = np.isfinite(values) & (True if kept is None else kept)
    x, y = values[inside & known], values[~inside & known]
    both = rankdata(np.concatenate([x, y]))
    of_x = (both[: len(x)] - rankdata(x)) / len(y)
    of_y = 1 - (both[len(x) :] - rankdata(y)) / len(x)
    area = of_x.mean()
    half = float(ndtri(0.975)) * np.sqrt(of_x.var(ddof=1) / len(x) + of_y.var(ddof=1) / len(y))
    return f"{area:.2f} [{area - half:.2f}, {area + half:.2f}]"


def _tag_row(name: str, members: set[int], one: _Metric, nobody: NDArray[np.bool_]) -> list[str]:
    at = sorted(members)
    known = [row.discrimination for k in at if (row := one.items.items[k]).discrimination is not None]
    got = 1 - _failed(one)[at]
    found = interval_for(got, None, binary=False, bounds=(0.0, 1.0))
    mean = f"{percent(float(got.mean()))} {bounds(found.low, found.high)}"
    shares = [percent(float(share)) for share in (one.people[at].mean(), nobody[at].mean())]
    return [name.replace("_", " "), f"{len(at)}", mean, *shares, f"{np.mean(known):.2f}"]


def _draw_systems(one: _Metric) -> Any:
    figure, axes = axes_of(PHONE, 7.2)
    order = sorted(one.outcomes, key=lambda name: (-one.outcomes[name].mean(), name))
    style = look(0)
    for row, name in enumerate(order):
        found = one.intervals[name]
        assert found.low is not None
        assert found.high is not None
        clear = found.low > one.chance
        axes.plot([100 * found.low, 100 * found.high], [row, row], color=style.colour, linewidth=1)
        face = style.colour if clear else "white"
        axes.scatter([100 * one.outcomes[name].mean()], [row], color=style.colour, facecolor=face, s=14, zorder=2)
    axes.axvline(100 * one.chance, color=GREY, linestyle="--", linewidth=0.8)
    axes.text(100 * one.chance + 0.3, len(order) - 0.6, "chance", color=GREY)
    axes.set_yticks(range(len(order)), order, fontsize=6.5)
    axes.set_ylim(len(order) - 0.3, -0.8)
    axes.set_xlabel("group score; filled: interval above chance")
    axes.grid(axis="x")
    return figure
