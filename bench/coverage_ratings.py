"""Agreement with people's ratings, simulated: prompts of four images each (TIFA has five, GenAI-Bench six)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from coverage_data import Draws, Floats
from coverage_intervals import Found, one_by_one
from scipy.stats import kendalltau, rankdata, spearmanr

from tellapart.metrics.per_item import PerItem
from tellapart.metrics.ratings import kendall_tau_b, pairwise_accuracy, pearson_r, roc_auc, spearman_rho
from tellapart.stats.intervals import interval_for

#: Images of one prompt.
IMAGES = 4
METRICS = ("pairwise_accuracy", "kendall_tau_b", "spearman_rho", "pearson_r", "roc_auc")


def draw_ratings(rng: Draws, prompts: int, noise: float, *, labels: bool) -> tuple[Floats, Floats]:
    """Draw a model's scores and people's ratings (1 to 5, or labels 0 and 1), four images after another of a prompt.

    >>> [values.shape for values in draw_ratings(np.random.default_rng(0), 3, 1.0, labels=False)]
    [(12,), (12,)]
    """
    better = np.repeat(rng.normal(size=prompts), IMAGES) + rng.normal(size=prompts * IMAGES)
    ratings = (better > 0).astype(np.float64) if labels else np.clip(np.round(1.2 * better), -2, 2) + 3
    return better + noise * rng.normal(size=len(better)), ratings


@lru_cache
def true_agreement(metric: str, noise: float) -> float:
    """Return a metric of endlessly many prompts: images of two prompts are independent.

    >>> true_agreement("roc_auc", 0.0)
    1.0
    """
    scores, ratings = draw_ratings(np.random.default_rng(97), 400_000, noise, labels=metric == "roc_auc")
    if metric == "kendall_tau_b":
        return float(kendalltau(scores, ratings).statistic)
    if metric == "spearman_rho":
        return float(spearmanr(scores, ratings).statistic)
    if metric == "pearson_r":
        return float(np.corrcoef(scores, ratings)[0, 1])
    if metric == "roc_auc":
        true = ratings == 1
        return float((rankdata(scores)[true].mean() - (true.sum() + 1) / 2) / (~true).sum())
    half = len(scores) // 2
    apart, people = scores[:half] - scores[half:], ratings[:half] - ratings[half:]
    equal, ordered = np.sort(np.abs(apart[people == 0])), np.sort((apart * np.sign(people))[people != 0])
    right = np.arange(1, len(equal) + 1) + len(ordered) - np.searchsorted(ordered, equal, "right")
    return float(max(right.max(), (ordered > 0).sum()) / half)


def agreement_with_people(rng: Draws, datasets: int, *, metric: str, prompts: int, noise: float) -> Found:
    """One of the metrics of the task `ratings`, its interval over prompts."""
    codes = np.repeat(np.arange(prompts), IMAGES)

    def draw() -> tuple[float, object]:
        scores, ratings = draw_ratings(rng, prompts, noise, labels=metric == "roc_auc")
        values = _values(metric, scores, ratings)
        one = PerItem(name=metric, strict=values)
        return float(values.mean()), interval_for(values, codes, binary=False, reduce=one.reduce, bounds=one.bounds)

    return one_by_one(datasets, true_agreement(metric, noise), draw)


def _values(metric: str, scores: Floats, ratings: Floats) -> Floats:
    if metric == "pairwise_accuracy":
        return pairwise_accuracy(scores, ratings).values
    if metric == "roc_auc":
        return roc_auc(scores, ratings).strict
    return {"kendall_tau_b": kendall_tau_b, "spearman_rho": spearman_rho, "pearson_r": pearson_r}[metric](
        scores, ratings
    )
