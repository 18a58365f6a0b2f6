"""Winoground's 55 published systems, read item by item."""

import itertools
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import binom, rankdata

import tellapart as ta
from examples.findings.counts import PEOPLE, SCORES, read_systems
from examples.findings.frame import PHONE, SOURCES, Page, draw_intervals, ends, join_words, percent
from tellapart.metrics.registry import METRICS
from tellapart.report.plots.style import GREY, look, make_panels
from tellapart.stats.intervals import interval_for, wilson
from tellapart.stats.multiple import holm
from tellapart.stats.paired import Difference, mcnemar, paired_difference, tiers

_TAGS = SOURCES["winoground-subsets"]
_SIMULATED = Path(__file__).parents[2] / "bench" / "records" / "items.json"
_METRICS = ("text_score", "image_score", "group_score")
#: Systems with two heads of the same weights: the matching head, the contrastive one.
HEADS = (
    ("flava_itm", "flava_itc"),
    *((f"blip_itm_{name}", f"blip_itc_{name}") for name in ("b16_14m", "b16", "b16_capfilt", "b16_coco")),
    *((f"blip_itm_{name}", f"blip_itc_{name}") for name in ("b16_flickr30k", "l16", "l16_coco", "l16_flickr30k")),
)


def leaderboard(data: Path) -> Page:
    """Make the page."""
    scores = read_systems(data)
    metrics = {name: _analyse(name, scores, data) for name in _METRICS}
    group = metrics["group_score"]
    subsets = {name: set(found) for name, found in json.loads(_TAGS.files(data)[0].read_text())["subsets"].items()}
    items = group.items
    nobody = np.array([row.solved == 0 for row in items.items])
    known = np.array([not nobody[k] and 1 - failed >= 0.1 for k, failed in enumerate(_failed(group))])
    best = max(group.outcomes, key=lambda name: group.outcomes[name].mean())
    outcomes = {name: np.stack([METRICS[one].per_item(found) for one in _METRICS]) for name, found in scores.items()}
    twins = [(a, b) for a, b in itertools.combinations(outcomes, 2) if np.array_equal(outcomes[a], outcomes[b])]
    # The simulation of item analysis with 15 families finds a label that is turned round so often.
    simulated = json.loads(_SIMULATED.read_text(encoding="utf-8"))["15 families of 1 to 6 systems"]
    # An item that nobody or everybody gets has no discrimination.
    blunt = -np.array([row.discrimination for row in items.items], np.float64)
    harder = subsets["harder"]
    values: dict[str, Any] = {"group": group, "items": items, "best": best, "metrics": metrics.values()}
    values |= {"lead": paired_difference(group.people, group.outcomes[best], None, binary=True)}
    values |= {"heads": [*zip(*map(_compare_heads, metrics.values()), strict=True)], "subsets": subsets}
    values |= {"nobody": nobody, "people_on": wilson(int(group.people[nobody].sum()), int(nobody.sum()))}
    values |= {"power_of_suspects": simulated["the best item with its label turned round is a suspect"]}
    values |= {"failed_auc": _auc_text(_failed(group), harder), "blunt_auc": _auc_text(blunt, harder)}
    values |= {"known": known, "known_auc": _auc_text(blunt, harder, known)}
    values |= {"tags_rows": [_tag_row(name, members, group, nobody) for name, members in subsets.items()]}
    values |= {"twins": join_words([f"`{a}` and `{b}`" for a, b in twins])}
    return Page("leaderboard", partial(_draw_systems, group), (SCORES, _TAGS), values, data)


def _analyse(name: str, scores: dict[str, NDArray[np.float64]], data: Path) -> SimpleNamespace:
    """Return what one metric shows of all systems.

    `above` counts systems above chance by value, by their interval and after Holm's correction of exact one-sided
    tests, and below chance by their interval.
    """
    outcomes = {system: METRICS[name].per_item(found) for system, found in scores.items()}
    people, chance = outcomes.pop(PEOPLE), METRICS[name].chance((2, 2))
    folder = data / "winoground_scores"
    found = ta.items(scores=folder, benchmark="winoground", without=PEOPLE, metric=name, family="name")
    intervals = {system: wilson(int(right.sum()), len(right)) for system, right in outcomes.items()}
    alone = [binom.sf(right.sum() - 1, len(right), chance) for right in outcomes.values()]
    above = (
        sum(right.mean() > chance for right in outcomes.values()),
        sum(one.low > chance for one in intervals.values()),
        int((holm(alone) <= 0.05).sum()),
        sum(one.high < chance for one in intervals.values()),
    )
    return SimpleNamespace(
        outcomes=outcomes,
        people=people,
        chance=chance,
        intervals=intervals,
        above=above,
        means=[right.mean() for right in outcomes.values()],
        items=found.record,
        suspects=sum(row.suspect for row in found.record.items),
        tiers=tiers(outcomes, None),
    )


def _compare_heads(one: SimpleNamespace) -> list[tuple[str, str, Difference, float]]:
    pairs = [(one.outcomes[a], one.outcomes[b]) for a, b in HEADS]
    adjusted = holm([mcnemar(a, b).p for a, b in pairs])
    differences = [paired_difference(a, b, None, binary=True) for a, b in pairs]
    return [(*names, difference, float(p)) for names, difference, p in zip(HEADS, differences, adjusted, strict=True)]


def _failed(one: SimpleNamespace) -> NDArray[np.float64]:
    return 1 - np.mean([*one.outcomes.values()], axis=0)


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


def _tag_row(name: str, members: set[int], one: SimpleNamespace, nobody: NDArray[np.bool_]) -> list[str]:
    at = sorted(members)
    known = [row.discrimination for k in at if (row := one.items.items[k]).discrimination is not None]
    got = 1 - _failed(one)[at]
    found = interval_for(got, None, binary=False, bounds=(0.0, 1.0))
    mean = f"{percent(float(got.mean()))} {ends(found)}"
    shares = [percent(float(share)) for share in (one.people[at].mean(), nobody[at].mean())]
    return [name.replace("_", " "), f"{len(at)}", mean, *shares, f"{np.mean(known):.2f}"]


def _draw_systems(one: SimpleNamespace) -> Any:
    figure, (axes,) = make_panels(PHONE, 7.2)
    order = sorted(one.outcomes, key=lambda name: (-one.outcomes[name].mean(), name))
    style = look(0)
    for row, name in enumerate(order):
        found = one.intervals[name]
        draw_intervals(axes, [row], [found], style.colour)
        face = style.colour if found.low > one.chance else "white"
        axes.scatter([100 * one.outcomes[name].mean()], [row], color=style.colour, facecolor=face, s=14, zorder=2)
    axes.axvline(100 * one.chance, color=GREY, linestyle="--", linewidth=0.8)
    axes.text(100 * one.chance + 0.3, len(order) - 0.6, "chance", color=GREY)
    axes.set_yticks(range(len(order)), order, fontsize=6.5)
    axes.set_ylim(len(order) - 0.3, -0.8)
    axes.set_xlabel("group score; filled: interval above chance")
    axes.grid(axis="x")
    return figure
