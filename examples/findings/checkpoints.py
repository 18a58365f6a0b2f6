"""202 published checkpoints: do benchmarks of minimal pairs rank them as retrieval and ImageNet do?"""

import itertools
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from examples.clip_zoo_board.build import COLUMNS, build
from examples.findings.frame import PHONE, SOURCES, Page, draw_intervals, name_rows
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import BENCHMARKS
from tellapart.metrics.registry import METRICS
from tellapart.records.imported import read_imported
from tellapart.report.plots.agreement import agreement
from tellapart.report.plots.style import GREY, look, make_panels
from tellapart.stats.benchmark_agreement import items_to_tell_apart
from tellapart.stats.bootstrap import cluster_bootstrap

RESULTS = SOURCES["vl_compo"]

_RIVALS = ("coco-retrieval", "imagenet")
_NO_PAIRS = (*_RIVALS, "flickr30k-retrieval")
#: The architecture with the most checkpoints.
_ONE = "CLIP_ViT-B-16"
_HIGH = 0.9
_APART = 0.5
_RELIABLE = 0.7
_MOST_SETS = 6


def checkpoints(data: Path) -> Page:
    """Make the page."""
    zoo = _read_zoo(data)
    pairs = [name for name in zoo.names if not name.startswith("elevater-") and name not in _NO_PAIRS]
    sets = sorted((_describe_set(zoo, name) for name in pairs), key=lambda one: -one.coco)
    apart = [one for one in sets if (one.interval.high or 0) < _HIGH and one.coco < _APART]
    steps, share = _choose_sets(zoo), 1 / len(zoo.names)
    gains = [after.held_out - before.held_out for before, after in itertools.pairwise(steps)]
    small = next(k for k in range(len(gains)) if max(gains[k:]) <= 2 * share)
    counted, broken = _count_fractions(RESULTS.rows(data))
    values: dict[str, Any] = {"zoo": zoo, "sets": sets, "different": apart, "coco": _correlation(zoo, *_RIVALS)}
    values |= {"steps": steps, "small": small, "share": share, "counted": counted, "broken": broken, "alike": _ONE}
    values |= {"same_data": _kept_groups(zoo.trained_on), "high_bound": _HIGH, "apart": _APART, "reliable": _RELIABLE}
    return Page("checkpoints", partial(_draw_sets, sets), (RESULTS,), values, data)


def _read_zoo(data: Path) -> SimpleNamespace:
    """Return values `(checkpoint, benchmark)`, their standardised ranks, and facts of the checkpoints."""
    rows = RESULTS.rows(data)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "records.toml"
        path.write_text(build(rows), encoding="utf-8")
        found, imported = agreement([path]), read_imported(path)
    values = [[model.scores[one.name][one.metric] for one in found.benchmarks] for model in imported.models]
    ranks = rankdata(values, axis=0)
    return SimpleNamespace(
        names=[one.name for one in found.benchmarks],
        metrics=[one.metric for one in found.benchmarks],
        sizes=[one.n or (find_benchmark(one.name).items if one.name in BENCHMARKS else 0) for one in found.benchmarks],
        values=np.array(values),
        ranks=(ranks - ranks.mean(axis=0)) / ranks.std(axis=0),
        families=np.array([row["family"] for row in rows]),
        architectures=np.array([row["arch"] for row in rows]),
        trained_on=np.array([row["pretrained"] for row in rows]),
        dimensions=found.dimensions,
        shares=found.shares,
    )


def _describe_set(zoo: SimpleNamespace, name: str) -> SimpleNamespace:
    """Return how one set of pairs ranks the checkpoints."""
    at = zoo.names.index(name)
    values, size = zoo.values[:, at], zoo.sizes[at]
    half = items_to_tell_apart(values, size, reliability=0.5) if size else None
    rival = zoo.names.index(_RIVALS[0])
    pair = zoo.ranks[:, [at, rival]]
    one, of_data = zoo.architectures == _ONE, _less_means(pair, zoo.trained_on)
    return SimpleNamespace(
        name=name,
        items=size,
        mean=float(values.mean()),
        chance=_chance(name, zoo.metrics[at]),
        reliability=np.nan if not size else size / (size + half) if half else 0.0,
        coco=_correlation(zoo, name, _RIVALS[0]),
        interval=cluster_bootstrap(_moments(pair), zoo.families, reduce=_correlate_means),
        imagenet=_correlation(zoo, name, _RIVALS[1]),
        one=_correlate(rankdata(zoo.values[one][:, [at, rival]], axis=0)),
        within=_correlate(_less_means(pair, zoo.architectures)),
        data=_correlate(of_data),
        data_interval=cluster_bootstrap(_moments(of_data), _kept_groups(zoo.trained_on), reduce=_correlate_means),
    )


def _chance(name: str, metric: str) -> float | None:
    """Return the score of guessing, as the catalogue has the set's shape; those that it lacks have pairs or ten."""
    if name not in BENCHMARKS:
        return 0.5 if name != "imagecode" else 0.1
    one = find_benchmark(name)
    return METRICS[metric.removeprefix("macro_")].chance(one.shape, one.true)


def _correlation(zoo: SimpleNamespace, a: str, b: str) -> float:
    return _correlate(zoo.ranks[:, [zoo.names.index(a), zoo.names.index(b)]])


def _correlate(pair: NDArray[np.float64]) -> float:
    return float(np.corrcoef(pair, rowvar=False)[0, 1])


def _moments(pair: NDArray[np.float64]) -> NDArray[np.float64]:
    x, y = pair.T
    return np.column_stack([x, y, x * x, y * y, x * y])


def _correlate_means(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return correlations from means of x, y, their squares and their product."""
    x, y, xx, yy, xy = np.moveaxis(means, -1, 0)
    spread = np.sqrt(np.clip(xx - x * x, 1e-12, None) * np.clip(yy - y * y, 1e-12, None))
    return np.asarray((xy - x * y) / spread)


def _kept_groups(groups: NDArray[np.str_]) -> NDArray[np.str_]:
    """Return the groups that `_less_means` keeps, one for each of its rows."""
    names, counts = np.unique(groups, return_counts=True)
    return np.repeat(names[counts > 1], counts[counts > 1])


def _less_means(pair: NDArray[np.float64], groups: NDArray[np.str_]) -> NDArray[np.float64]:
    """Return values less their group's mean, of groups with two members or more."""
    parts = [pair[groups == name] for name in np.unique(groups)]
    return np.concatenate([part - part.mean(axis=0) for part in parts if len(part) > 1])


def _choose_sets(zoo: SimpleNamespace) -> list[SimpleNamespace]:
    """Choose benchmarks greedily, with all families and in turn without one, and predict the ranks on all."""
    ranks = zoo.ranks
    chosen = _choose_greedily(ranks)
    errors = np.zeros(_MOST_SETS)
    for family in np.unique(zoo.families):
        out = zoo.families == family
        kept = _choose_greedily(ranks[~out])
        for k in range(_MOST_SETS):
            errors[k] += (_predict_ranks(ranks[~out], ranks[out], kept[: k + 1]) ** 2).sum()
    total = (ranks**2).sum()
    inside = [(_predict_ranks(ranks, ranks, chosen[: k + 1]) ** 2).sum() for k in range(_MOST_SETS)]
    return [
        SimpleNamespace(added=zoo.names[one], inside=1 - mine / total, held_out=1 - theirs / total)
        for one, mine, theirs in zip(chosen, inside, errors, strict=True)
    ]


def _choose_greedily(ranks: NDArray[np.float64]) -> list[int]:
    chosen: list[int] = []
    for _ in range(_MOST_SETS):
        rest = [k for k in range(ranks.shape[1]) if k not in chosen]
        chosen.append(min(rest, key=lambda k: float((_predict_ranks(ranks, ranks, [*chosen, k]) ** 2).sum())))
    return chosen


def _predict_ranks(known: NDArray[np.float64], other: NDArray[np.float64], columns: list[int]) -> NDArray[np.float64]:
    """Fit all columns by some on known rows; return the errors on other rows."""
    left = np.column_stack([np.ones(len(known)), known[:, columns]])
    weights, *_ = np.linalg.lstsq(left, known, rcond=None)
    return np.asarray(other - np.column_stack([np.ones(len(other)), other[:, columns]]) @ weights)


def _count_fractions(rows: list[dict[str, str]]) -> tuple[int, dict[str, list[int]]]:
    """Return the columns of known size, and by set how many percentages of a column are no whole hits of its items."""
    broken: dict[str, list[int]] = {}
    counted = [column for column in COLUMNS if column.n and column.name in rows[0]]
    for column in counted:
        hits = np.array([float(row[column.name]) for row in rows]) * (column.n or 0) / 100
        if wrong := int((np.abs(hits - hits.round()) > 1e-4 * np.sqrt(column.n or 1)).sum()):
            broken.setdefault(column.benchmark, []).append(wrong)
    return len(counted), broken


def _draw_sets(sets: list[SimpleNamespace]) -> Any:
    figure, (axes,) = make_panels(PHONE, 4.4)
    kinds = (
        (f"reliability {_RELIABLE} or more", lambda one: one.reliability >= _RELIABLE),
        ("less", lambda one: one.reliability < _RELIABLE),
        ("not known", lambda one: bool(np.isnan(one.reliability))),
    )
    for number, (label, belongs) in enumerate(kinds):
        rows, style = [row for row, one in enumerate(sets) if belongs(one)], look(number)
        draw_intervals(axes, rows, [sets[row].interval for row in rows], style.colour, 1)
        axes.scatter([sets[row].coco for row in rows], rows, color=style.colour, marker=style.marker, s=20, label=label)
    axes.axvline(0, color=GREY, linewidth=0.7)
    axes.set_xlim(-1, 1)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    name_rows(figure, axes, [one.name for one in sets], "rank correlation with text recall at 1 on COCO", 3)
    return figure
