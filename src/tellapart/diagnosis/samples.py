"""Several draws of a model's answers, against its likeliest ones: expected accuracy, and items that change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from tellapart.evaluation.systems import System, is_testable, lay_out_outcomes, share_items
from tellapart.models.generative.sampling import read_sampled
from tellapart.records.result import Sample
from tellapart.records.samples import read_samples
from tellapart.stats.clusters import is_binary
from tellapart.stats.intervals import interval_for
from tellapart.tasks.registry import headline


class Share(BaseModel):
    """A mean over items with its 95% interval over clusters, or the `reason` why it has none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    low: float | None
    high: float | None
    reason: str = ""


class SamplesRow(BaseModel):
    """One metric of one model on a set, over the draws of a temperature.

    Attributes:
        greedy: of the model's likeliest answers.
        expected: the mean over items of the mean over draws.
        all_right, any_right: the shares of items that are right in all draws, and in at least one.
        changed: the share of items whose answer is not the same in all draws.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    benchmark: str
    metric: str
    temperature: float
    draws: int
    n: int
    greedy: float | None
    expected: Share
    all_right: Share
    any_right: Share
    changed: Share


def samples_rows(systems: Sequence[System], *, seed: int = 0) -> list[SamplesRow]:
    """Summarise the systems of a run that are draws, by model, temperature and set, if there are two or more."""
    groups: dict[tuple[str, float], list[System]] = {}
    by_label = {system.label: system for system in systems}
    for system in systems:
        if (sampled := read_sampled(system.label)) is not None:
            sampling, model = sampled
            groups.setdefault((model, sampling.temperature), []).append(system)
    return [
        row
        for (model, temperature), drawn in groups.items()
        if len(drawn) > 1
        for row in _rows_of(model, temperature, by_label.get(model), drawn, seed)
    ]


def _rows_of(
    model: str, temperature: float, greedy: System | None, drawn: Sequence[System], seed: int
) -> Iterator[SamplesRow]:
    """Yield the rows of a model's draws: of each set, the metrics that are right or wrong for an item."""
    for benchmark in drawn[0].result.benchmarks:
        measured = [system for system in drawn if benchmark in system.result.benchmarks]
        metrics = [*filter(is_testable, headline(measured[0].record(benchmark).metrics))]
        draws = share_items(read_samples(run.folders[benchmark], benchmark, run.record(benchmark)) for run in measured)
        clusters = np.array([sample.cluster for sample in draws[0]])
        outcomes = lay_out_outcomes(draws, metrics) if len(measured) > 1 else {}
        record = greedy.result.benchmarks.get(benchmark) if greedy is not None else None
        changed = np.array([len({*map(_answer, item)}) > 1 for item in zip(*draws, strict=True)], np.float64)
        for metric, by_draw in outcomes.items():
            has_value = ~np.isnan(by_draw).any(axis=1)  # a group of questions has no outcome of a question's metric
            values = by_draw[has_value]
            if not is_binary(values):  # a difference between orders is not right or wrong
                continue
            share = partial(_measure_share, clusters=clusters[has_value], seed=seed)
            yield SamplesRow(
                model=model,
                benchmark=benchmark,
                metric=metric,
                temperature=temperature,
                draws=len(measured),
                n=len(values),
                greedy=record.metrics[metric].value if record and metric in record.metrics else None,
                expected=share(values.mean(axis=1)),
                all_right=share((values.min(axis=1) >= 1).astype(np.float64)),
                any_right=share((values.max(axis=1) >= 1).astype(np.float64)),
                changed=share(changed[has_value]),
            )


def _measure_share(values: NDArray[np.float64], clusters: NDArray[np.str_], seed: int) -> Share:
    bounds = interval_for(values, clusters, binary=is_binary(values), seed=seed)
    return Share(value=float(values.mean()), low=bounds.low, high=bounds.high, reason=bounds.reason or "")


def _answer(sample: Sample) -> str:
    return repr(sample.outcomes if sample.output is None else sample.output)
