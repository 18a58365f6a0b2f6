"""Item analysis of a benchmark: statistics of each item over many systems, of the set, and of each tag's items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.errors import RunError
from tellapart.evaluation.item_outcomes import ItemOutcomes
from tellapart.metrics.per_item import by_tag
from tellapart.metrics.tabulate import MOST_VALUES
from tellapart.stats.clusters import is_binary
from tellapart.stats.item_analysis import MOST_PAIRED, item_statistics, items_needed, reliability, shared_residuals
from tellapart.stats.multiple import holm
from tellapart.stats.paired import pair_tests
from tellapart.stats.rasch import LEAST_SYSTEMS, fit_rasch
from tellapart.stats.short_forms import ShortForm, order_items, try_short_forms

#: The error of tests, after correction.
ALPHA = 0.05

#: Sizes of short forms that are tried with the one that is asked for.
SIZES = (10, 20, 50, 100, 200)

#: Systems below which items cannot be analysed: three give a correlation one degree of freedom.
LEAST = 5

#: Differences of two systems for which the number of items is computed.
DIFFERENCES = (0.01, 0.02, 0.05, 0.1)


#: Columns of an item: of all its systems, and of the Rasch model.
_TESTED = ("discrimination", "low", "high", "p", "p_holm", "p_fdr")
_RASCH = ("difficulty", "difficulty_error", "infit")


class ItemRow(BaseModel, frozen=True):
    """One item.

    Attributes:
        solved: how many systems get it; the sum of their values, if these are not 0 or 1.
        right: the mean over systems.
        discrimination, low, high: correlation with the mean of the other items over systems, with its 95% interval;
            None if the systems do not show one.
        p, p_holm, p_fdr: of the test that better systems get it at least as often, adjusted over the items.
        suspect: whether p_fdr is 5% at most.
        group: number of the group of items that are got together, from 1; None of an item in none.
        difficulty, difficulty_error, infit: of the Rasch model, in logits; None without one.
    """

    id: str
    tags: dict[str, str]
    solved: float
    right: float
    discrimination: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    p_fdr: float | None
    suspect: bool
    group: int | None
    difficulty: float | None
    difficulty_error: float | None
    infit: float | None


class TagRow(BaseModel, frozen=True):
    """The items of one value of a tag.

    Attributes:
        right: the systems' mean on them.
        discrimination: mean over the items that have one.
        alpha: of these items alone.
        with_rest: correlation of the systems' scores on them with those on all other items.
        share: of the variance of the systems' scores on all items; the values of a tag that every item has sum to 1.
    """

    tag: str
    value: str
    n: int
    right: float
    discrimination: float | None
    alpha: float | None
    with_rest: float | None
    share: float | None


class ItemAnalysis(BaseModel, frozen=True):
    """The items of a benchmark through many systems.

    Attributes:
        systems, scores, families: of each system: name, score, family.
        items: in the benchmark's order.
        nobody, everybody: how many items no system gets, and how many all do.
        suspects, suspects_holm: how many items better systems get wrong more often, by the false discovery rate and
            by Holm, at 5%.
        alpha, low, high, spread, measurement_error, sampling_error: as of `stats.item_analysis.Reliability`.
        pairs, differing, differing_holm: of systems: how many, and how many differ by a paired test at 5%, without a
            correction and with Holm's.
        needed: difference -> items that show it four times in five; empty if outcomes are not 0 or 1.
        groups: ids of items that are got together beyond their difficulty.
        unmeasured: items left out because a system has no value of them.
        limited_from: the benchmark's full number of items, if the runs measured a part of them.
        notes: facts beyond the numbers.
        short: ids of the short form that was asked for, in the order in which they were chosen.
        short_forms: the cost of short forms of several sizes, that one's among them.
    """

    benchmark: str
    metric: str
    systems: tuple[str, ...]
    scores: tuple[float, ...]
    families: tuple[str, ...]
    items: tuple[ItemRow, ...]
    nobody: int
    everybody: int
    suspects: int
    suspects_holm: int
    alpha: float | None
    low: float | None
    high: float | None
    spread: float
    measurement_error: float | None
    sampling_error: float
    pairs: int
    differing: int
    differing_holm: int
    needed: dict[str, int | None]
    tags: tuple[TagRow, ...]
    groups: tuple[tuple[str, ...], ...]
    unmeasured: int
    notes: tuple[str, ...]
    short: tuple[str, ...] = ()
    short_forms: tuple[ShortForm, ...] = ()
    limited_from: int | None = None


def analyse_items(
    outcomes: ItemOutcomes, families: Sequence[str] | None = None, *, short: int | None = None, seed: int = 0
) -> ItemAnalysis:
    """Analyse a benchmark's items through many systems."""
    values, systems = outcomes.values, len(outcomes.systems)
    if systems < LEAST or len(values) < 2:
        raise RunError(
            f"items of {outcomes.benchmark}: {systems} systems and {len(values)} items; over systems a "
            f"correlation takes {LEAST} at least, and 2 items; add run folders, or files with scores="
        )
    statistics, of_set = item_statistics(values, families, seed=seed), reliability(values, families)
    binary = is_binary(values)
    p_pairs = pair_tests(values, outcomes.clusters, seed=seed).p
    groups = shared_residuals(values, families, seed=seed)
    group_of = {item: number for number, group in enumerate(groups, start=1) for item in group}
    notes = []
    rasch = None
    if binary and systems >= LEAST_SYSTEMS:
        rasch = fit_rasch(values)
    else:
        needs = f"{LEAST_SYSTEMS} systems, and there are {systems}" if binary else "outcomes that are right or wrong"
        notes.append(f"no Rasch model: difficulties in logits take {needs}")
    if len(values) > MOST_PAIRED:
        notes.append(f"no groups of items: they are looked for among {MOST_PAIRED:,} items at most")
    if families is None:
        notes.append("each system counts as an independent draw; family= resamples families of them")
    if outcomes.clusters is not None:
        notes.append("items come in clusters, which the paired tests flip together; alpha counts each item as one")
    ids = [item.id for item in outcomes.items]
    rows = tuple(
        ItemRow(
            id=item.id,
            tags=item.tags,
            solved=float(values[k].sum()),
            right=float(statistics.right[k]),
            suspect=bool(statistics.p_fdr[k] <= ALPHA),
            group=group_of.get(k),
            **{name: _known(getattr(statistics, name)[k]) for name in _TESTED},
            **{name: None if rasch is None else _known(getattr(rasch, name)[k]) for name in _RASCH},
        )
        for k, item in enumerate(outcomes.items)
    )
    return ItemAnalysis(
        benchmark=outcomes.benchmark,
        metric=outcomes.metric,
        systems=outcomes.systems,
        scores=tuple(values.mean(axis=0).tolist()),
        families=tuple(families or outcomes.systems),
        items=rows,
        nobody=int((values == 0).all(axis=1).sum()),
        everybody=int((values == 1).all(axis=1).sum()),
        suspects=sum(row.suspect for row in rows),
        suspects_holm=int((statistics.p_holm <= ALPHA).sum()),
        **asdict(of_set),
        pairs=len(p_pairs),
        differing=int((p_pairs <= ALPHA).sum()),
        differing_holm=int((holm(p_pairs) <= ALPHA).sum()),
        needed={f"{difference:g}": items_needed(values, difference) for difference in DIFFERENCES} if binary else {},
        tags=tuple(_describe_tags(outcomes, statistics.discrimination)),
        groups=tuple(tuple(ids[k] for k in group) for group in groups),
        unmeasured=outcomes.unmeasured,
        limited_from=outcomes.limited_from,
        notes=tuple(notes),
        short=() if short is None else tuple(ids[k] for k in order_items(values, short)),
        short_forms=() if short is None else tuple(_try_sizes(values, families, short, seed)),
    )


def _try_sizes(values: NDArray[np.float64], families: Sequence[str] | None, short: int, seed: int) -> list[ShortForm]:
    if not 1 <= short < len(values):
        raise RunError(f"short={short}: there are {len(values)} items; give a number from 1 to {len(values) - 1}")
    sizes = sorted({short, *(size for size in SIZES if size < len(values))})
    return try_short_forms(values, families, sizes, seed=seed)


def _describe_tags(outcomes: ItemOutcomes, discrimination: NDArray[np.float64]) -> list[TagRow]:
    values = outcomes.values
    total = values.sum(axis=0)
    rows = []
    for tag, masks in by_tag([item.tags for item in outcomes.items], MOST_VALUES).items():
        for value, mask in masks.items():
            part, rest = values[mask].sum(axis=0), values[~mask].sum(axis=0)
            defined = discrimination[mask][~np.isnan(discrimination[mask])]
            rows.append(
                TagRow(
                    tag=tag,
                    value=value,
                    n=int(mask.sum()),
                    right=float(values[mask].mean()),
                    discrimination=float(defined.mean()) if len(defined) else None,
                    alpha=reliability(values[mask]).alpha if mask.sum() > 1 else None,
                    with_rest=float(np.corrcoef(part, rest)[0, 1]) if np.ptp(part) and np.ptp(rest) else None,
                    share=float(np.cov(part, total)[0, 1] / total.var(ddof=1)) if np.ptp(total) else None,
                )
            )
    return rows


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
