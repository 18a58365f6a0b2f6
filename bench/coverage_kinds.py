"""The catalogue of intervals: every kind that is printed, with its method, its settings and its simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from coverage_data import BASE_SEED, LATER_SEED, MEASURED, SIZES
from coverage_intervals import (
    GROUPS,
    Found,
    alphas,
    clustered_share,
    corpus_bleu,
    difference_in_clusters,
    difference_of_means,
    difference_of_shares,
    gaps,
    hidden_share,
    in_parts,
    independent_share,
    item_discrimination,
    item_reliability,
    kappas,
    macro_of_means,
    macro_of_shares,
    mean_of_six,
    measured_mean,
    over_seeds,
    ratio_of_counts,
    smallest_of_two,
    undrawn_share,
)
from coverage_ratings import METRICS, agreement_with_people

CLUSTERS = (5, 10, 20, 50, 150, 400)
SHARES = (0.02, 0.1, 0.5, 0.98)
CORRELATIONS = (0.0, 0.6)


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of interval: how it is made, the fewest items that it is printed for, its settings, its simulation.

    `simulate` takes a generator, a number of data sets, and a setting's values by name. Data are drawn from
    `base_seed`, which no method was chosen on.
    """

    name: str
    method: str
    fewest: str
    settings: tuple[dict[str, Any], ...]
    simulate: Callable[..., Found]
    base_seed: int = BASE_SEED


def _grid(**axes: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    return tuple(dict(zip(axes, values, strict=True)) for values in product(*axes.values()))


def _measured_grid(*, bounded: bool) -> tuple[dict[str, Any], ...]:
    values = tuple(name for name, (bounds, _) in MEASURED.items() if (bounds is not None) == bounded)
    return (
        *_grid(clusters=CLUSTERS, sizes=("1",), values=values, correlation=(0.0,)),
        *_grid(clusters=CLUSTERS, sizes=("1 to 8", "Pareto"), values=values, correlation=(0.6,)),
    )


_KORN = "Korn and Graubard's, or the cluster bootstrap with 20 even clusters of which 10 differ"
_HALL = "Hall's, or the bootstrap with 20 and 50 for each squared skewness"
_CLUSTERED = _grid(clusters=CLUSTERS, sizes=SIZES, share=SHARES[:3], correlation=CORRELATIONS)
_FEW_CLUSTERS = _grid(clusters=(2, 3, 4), sizes=SIZES, share=(0.02, 0.5, 0.66), correlation=(0.0, 0.95))
_ITEMS = (1, 2, 3, 4, 6, 8, 10, 13, 20, 25, 50, 100, 300)


def all_kinds() -> Iterator[Kind]:
    """Yield every kind of interval that a table, a record, a page or an export prints."""
    yield Kind(
        "share of independent items",
        "Clopper and Pearson's of 40 or fewer; Wilson's, with Poisson's bound for one to three right or wrong",
        "1 item",
        _grid(items=_ITEMS, share=(0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.98)),
        independent_share,
    )
    few = (*_CLUSTERED, *_FEW_CLUSTERS)
    yield Kind("share of items in clusters", _KORN, "2 clusters", few, clustered_share)
    yield Kind("share in clusters, without draws", "Korn and Graubard's", "2 clusters", few, undrawn_share)
    yield Kind(
        "mean of measured values",
        f"{_HALL}; Korn and Graubard's below ten",
        "2 items",
        _measured_grid(bounded=True),
        measured_mean,
    )
    yield Kind(
        "mean of measured values without bounds",
        "the wider of Hall's and Student's, or the bootstrap with 20 and 50 for each squared skewness",
        "10 items",
        _measured_grid(bounded=False),
        measured_mean,
        LATER_SEED,
    )
    yield Kind(
        "mean of groups' shares",
        "MOVER of the groups' intervals, and of all together; the bootstrap for even groups of 20 items",
        "1 item in a group",
        _grid(groups=tuple(GROUPS), share=("0.02", "0.5", "0.7", "0.98", "0.5 to 0.98"), correlation=(0.0, 0.6)),
        in_parts(macro_of_shares),
    )
    yield Kind(
        "mean of groups' means",
        "MOVER of the groups' intervals",
        "1 item in a group",
        _grid(
            groups=tuple(GROUPS),
            values=("CIDEr", "rank correlation", *(name for name in MEASURED if name.startswith("soft accuracy"))),
        ),
        in_parts(macro_of_means),
    )
    yield Kind(
        "mean of groups' means without bounds",
        "MOVER of the groups' intervals",
        "10 items in a group",
        _grid(groups=tuple(GROUPS), values=("normal", "lognormal")),
        in_parts(macro_of_means),
        LATER_SEED,
    )
    yield Kind(
        "precision, recall and F1",
        "that of a share among the items that count",
        "1 item that counts",
        _grid(
            of=("precision", "F1"),
            clusters=(5, 40),
            sizes=("1", "1 to 8", "Pareto"),
            right=(0.1, 0.5, 0.98),
            correlation=(0.6,),
        ),
        ratio_of_counts,
    )
    yield Kind(
        "the smaller of two shares",
        "the smaller low end, and the smaller high end at half the error",
        "1 item",
        _grid(items=(5, 20, 100), first=(0.1, 0.5, 0.9, 0.98), second=(0.5, 0.98)),
        smallest_of_two,
    )
    yield Kind(
        "mean of six recalls",
        f"delete-an-image jackknife: {_HALL}; Korn and Graubard's below ten",
        "2 images",
        _grid(images=(5, 20, 60), recalls=((0.02, 0.05, 0.1), (0.3, 0.6, 0.7), (0.9, 0.97, 0.99))),
        mean_of_six,
    )
    yield Kind(
        "BLEU of a set of captions",
        f"delete-an-image jackknife: {_HALL}; Korn and Graubard's below ten",
        "2 images",
        _grid(images=(5, 10, 20, 50, 120), order=(1, 4)),
        corpus_bleu,
    )
    agreement = _grid(
        units=(5, 10, 20, 50, 200), shares=((0.5, 0.5), (0.9, 0.1), (0.5, 0.3, 0.15, 0.05)), kappa=(0.0, 0.6, 0.95)
    )
    method = "Korn and Graubard's of the disagreement, with the jackknife's error"
    yield Kind("Cohen's kappa", method, "10 units", agreement, kappas)
    yield Kind("Krippendorff's alpha", method, "10 units", agreement, alphas)
    yield Kind(
        "agreement with people's ratings",
        "Hall's, or the bootstrap, of the images' influences, over prompts",
        "11 prompts",
        _grid(metric=METRICS, prompts=(12, 20, 40, 100), noise=(1.0,)),
        agreement_with_people,
    )
    systems = (5, 10, 20, 60)
    several = tuple(
        {"systems": families * size, "spread": spread, "of_family": size}
        for families, size in ((5, 4), (8, 5), (10, 10), (20, 10))
        for spread in (0.3, 1.5)
    )
    yield Kind(
        "discrimination of an item",
        "delete-a-family jackknife on Fisher's scale",
        "5 families, a tenth of the systems differing",
        (
            *_grid(systems=systems, spread=(0.3, 1.5), item=(0, 1, 2, 3)),
            *(of | {"item": item} for of in several for item in range(4)),
        ),
        item_discrimination,
        LATER_SEED,
    )
    yield Kind(
        "reliability of a set of items",
        "delete-a-family jackknife of log(1 - alpha) among systems of different families",
        "5 families",
        (*_grid(systems=systems, spread=(0.3, 1.5)), *several),
        item_reliability,
        LATER_SEED,
    )
    only = ((0.02, 0.02), (0.0, 0.05), (0.2, 0.1), (0.4, 0.4))
    nearly_all = ((0.5, 0.5), (0.9, 0.0), (0.97, 0.02), (0.97, 0.0), (0.99, 0.0), (0.995, 0.0))
    yield Kind(
        "paired difference of shares",
        "the cluster bootstrap where 10 even clusters differ from the most frequent change, else Bonett and Price's",
        "2 clusters",
        (
            *_grid(clusters=CLUSTERS, sizes=("1",), only=only, correlation=(0.0,)),
            *_grid(clusters=CLUSTERS, sizes=SIZES[1:], only=only, correlation=(0.4,)),
            *_grid(clusters=(2, 7, 12, 24, 50, 100, 200), sizes=("1",), only=nearly_all, correlation=(0.0,)),
            *_grid(clusters=(5, 12, 24, 50, 100), sizes=SIZES, only=nearly_all, correlation=(0.4,)),
            *_grid(clusters=(12, 24, 100), sizes=("1 of 2",), only=nearly_all, correlation=(0.0,)),
        ),
        difference_of_shares,
    )
    yield Kind(
        "paired difference of measured values",
        "the wider of Hall's and Student's, or the bootstrap; Bonett and Price's where fewer than 10 clusters differ",
        "2 items",
        _grid(items=(5, 10, 20, 50), values=("normal", "lognormal", "soft accuracy"), same=(0.0, 0.9)),
        difference_of_means,
    )
    yield Kind(
        "paired difference of measured values in clusters",
        "as of independent items",
        "2 clusters",
        _grid(
            clusters=(5, 20, 60),
            sizes=SIZES[1:],
            values=("normal", "long tails", "lognormal", "soft accuracy"),
            same=(0.0, 0.5),
        ),
        difference_in_clusters,
        LATER_SEED,
    )
    yield Kind(
        "gap between two benchmarks",
        "MOVER of both intervals",
        "1 item of each",
        _grid(inside=(5, 50, 400), outside=(5, 50, 400), shares=((0.5, 0.5), (0.9, 0.5), (0.98, 0.9), (0.02, 0.02))),
        gaps,
    )
    yield Kind(
        "share of a hidden benchmark",
        "that of independent items, each cluster one; of uneven ones as many as Kish's rule says",
        "1 cluster",
        _CLUSTERED,
        hidden_share,
    )
    yield Kind("difference over seeds", "Student's", "2 seeds", _grid(seeds=(2, 3, 5, 10, 25)), over_seeds)


KINDS = {kind.name: kind for kind in all_kinds()}
