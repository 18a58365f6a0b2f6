"""Comparison of many models on the same items: each with each, or with a baseline; and the tiers they fall into."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from pydantic import BaseModel

from tellapart.catalog import nearest
from tellapart.errors import RunError
from tellapart.evaluation.compare import Comparison, compare_pairs, match_benchmarks
from tellapart.evaluation.metric_comparison import MetricTiers
from tellapart.evaluation.shared_benchmarks import SharedBenchmark, read_shared
from tellapart.evaluation.systems import System
from tellapart.evaluation.verdict import Verdict, judge_leaders, judge_tiers
from tellapart.stats.tiers import tiers


class ModelsComparison(BaseModel, frozen=True):
    """The comparison of several models.

    Attributes:
        models: all of them, in the order given.
        baseline: the model that each other one is compared with; None if each is compared with each.
        pairs: two models that share a benchmark; with a baseline, that is `a` of each. p is corrected over all rows of
            all pairs (Holm).
        tiers: rankings, if each is compared with each.
        verdicts: the outcome in words, of each benchmark's main metric: of each pair with a baseline or of two models,
            else the best tier; at every look, the models not shown to differ from the first.
    """

    models: tuple[str, ...]
    baseline: str | None = None
    pairs: tuple[Comparison, ...]
    tiers: tuple[MetricTiers, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


def compare_models(
    runs: Sequence[System],
    *,
    baseline: str | None = None,
    by: str | None = None,
    anytime: bool = False,
    seed: int = 0,
) -> ModelsComparison:
    """Compare models on every benchmark that two of them share, by its headline metrics.

    Args:
        runs: two models or more, with distinct labels.
        baseline: one of the models: each other one is compared with it, else each with each.
        by: a tag: compare on the items of each of its values, too.
        anytime: p and intervals hold however often growing runs are compared; there are no tiers.
        seed: of the bootstrap and of the sign flips.

    Raises:
        RunError: fewer than two models, an unknown baseline, or two of them that `compare` refuses.

    >>> from tellapart.evaluation.run import EmbeddingStore, Settings, run
    >>> settings = Settings(models=("random", "constant", "oracle"), limit="12")
    >>> folders = run(settings, getfixture("tmp_path") / "three", store=EmbeddingStore(None))
    >>> three = compare_models([System.of(folder) for folder in folders])
    >>> len(three.pairs), [tier.names for tier in three.tiers[2].tiers]
    (3, [('oracle',), ('random', 'constant')])
    """
    labels = [run.label for run in runs]
    if len(runs) < 2:
        raise RunError(f"got {', '.join(labels) or 'no model'}: a comparison takes two models or more")
    if baseline is not None and baseline not in labels:
        hint = nearest(baseline, labels) or ";"
        raise RunError(f"no model {baseline!r} to compare with{hint} the models are {', '.join(labels)}")
    pairs = list(combinations(range(len(runs)), 2))
    matched = match_benchmarks([run.result for run in runs])
    if baseline is not None:
        own = labels.index(baseline)
        pairs = [(own, number) for number in range(len(runs)) if number != own]
        matched = {name: held for name, held in matched.items() if own in held}
    shared = read_shared(runs, matched)
    compared = tuple(compare_pairs(runs, shared, pairs, by=by, anytime=anytime, seed=seed))
    rankings = tuple(_rank_models(runs, shared, seed)) if baseline is None and not anytime else ()
    if baseline is not None or len(runs) == 2:
        verdicts = tuple(verdict for pair in compared for verdict in pair.verdicts)
    else:
        leaders = judge_leaders([(pair.a, pair.b, pair.rows) for pair in compared])
        verdicts = tuple(judge_tiers(rankings) if rankings else leaders)
    return ModelsComparison(
        models=tuple(labels),
        baseline=baseline,
        pairs=compared,
        tiers=rankings,
        verdicts=verdicts,
    )


def _rank_models(runs: Sequence[System], shared: Sequence[SharedBenchmark], seed: int) -> list[MetricTiers]:
    rankings = []
    for benchmark in shared:
        for metric in benchmark.outcomes:
            values, clusters = benchmark.values(metric, list(benchmark.records))
            if len(values):
                of = {runs[run].label: column for run, column in zip(benchmark.records, values.T, strict=True)}
                ranking = tuple(tiers(of, clusters, seed=seed))
                rankings.append(
                    MetricTiers(
                        benchmark=benchmark.name,
                        metric=metric,
                        n=len(values),
                        clusters=len({*clusters}),
                        limited_from=benchmark.limited_from,
                        tiers=ranking,
                    )
                )
    return rankings
