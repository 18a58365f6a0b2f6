"""What commands print of comparisons, gates, two implementations of a model, gaps, costs, listings and builds."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from tellapart.data.scores import join_names
from tellapart.errors import plain
from tellapart.evaluation.compare import (
    ALPHA,
    Comparison,
    GateResult,
    MetricComparison,
    MetricTiers,
    ModelsComparison,
    Verdict,
    count_items,
    count_needed,
)
from tellapart.metrics.registry import defined_for
from tellapart.records.timing_record import PARTS, Timings
from tellapart.report.templates import render_text, show_marks, write_lines
from tellapart.report.terminal import print_lines, print_template
from tellapart.tasks.registry import headline, main_metric

if TYPE_CHECKING:
    from tellapart.builders.captions.counterfactuals import PairsWritten
    from tellapart.builders.pipeline import BuildResult
    from tellapart.diagnosis.gap import Gaps
    from tellapart.evaluation.verify import Verification


#: The headings of a row's numbers of two models.
_NUMBERS = ["a", "b", "b - a", "only a", "only b", "p", "p (Holm)", "detectable"]


def print_comparison(comparison: Comparison, left_out: Sequence[str] = ()) -> None:
    """Print two models side by side."""
    benchmarks, write = _list_benchmarks([comparison]), {"count_items": count_items, "plain": plain}
    print_template("compared_two", comparison=comparison, benchmarks=benchmarks, heads=_NUMBERS, **write)
    print_lines(*end_lines([comparison], left_out, comparison.verdicts))


def print_models(comparison: ModelsComparison, left_out: Sequence[str] = ()) -> None:
    """Print many models side by side: their tiers, and a row a pair."""
    tables: dict[tuple[str, str, str | None], list[tuple[Comparison, MetricComparison]]] = {}
    for pair in comparison.pairs:
        for row in pair.rows:
            tables.setdefault((row.benchmark, row.metric, row.subset), []).append((pair, row))
    print_template(
        "compared_models",
        comparison=comparison,
        benchmarks=_list_benchmarks(comparison.pairs),
        tables=tables,
        heads=_NUMBERS,
        arrange_tiers=_arrange_tiers,
        count_items=count_items,
    )
    tiers, models = bool(comparison.tiers), comparison.models
    print_lines(*end_lines(comparison.pairs, left_out, comparison.verdicts, tiers=tiers, models=models))


def _arrange_tiers(rankings: Sequence[MetricTiers]) -> dict[str, Any]:
    """Return the models from best to worst by the main metric, with their value and tier by each."""
    cells = {
        ranking.metric: {
            name: (mean, tier.rank) for tier in ranking.tiers for name, mean in zip(tier.names, tier.means, strict=True)
        }
        for ranking in rankings
    }
    return {
        "sizes": {count_items(ranking): ranking.metric for ranking in rankings},
        "heads": [heading for metric in cells for heading in (metric, "tier")],
        "names": [*cells[main_metric(list(cells))]],
        "cells": [*cells.values()],
    }


def end_lines(
    pairs: Sequence[Comparison], left_out: Sequence[str], verdicts: Sequence[Verdict], *,
    tiers: bool = False, models: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """Return the notes and verdicts below the tables of a comparison; `models` are all, also those in no pair."""
    rows = [row for pair in pairs for row in pair.rows]
    # The items that would show each difference that is not significant.
    needed = [
        f"{f'{row.benchmark} ' if len(_list_benchmarks(pairs)) > 1 else ''}{row.metric} "
        f"{count_needed(row, ALPHA / len(rows))}"
        for row in (rows if len(pairs) == 1 and pairs[0].by is None else ())
        if row.p_holm > ALPHA and row.only_a != row.only_b and row.detectable is not None
    ]
    notes = write_lines(
        "compared",
        pairs=pairs,
        rows=rows,
        left_out=left_out,
        unpaired=[model for model in models if not any(model in (pair.a, pair.b) for pair in pairs)],
        tiers=tiers,
        needed=wrap(f"items needed to show these as often by p (Holm): {', '.join(needed)}", 120) if needed else (),
        undetectable=[row.only_a + row.only_b for row in rows if row.detectable is None],
    )
    several = len({verdict.benchmark for verdict in verdicts}) > 1
    sentences = [plain(f"{f'{verdict.benchmark}: ' if several else ''}{verdict.sentence}") for verdict in verdicts]
    lines = [line for sentence in sentences for line in wrap(sentence, 120, break_on_hyphens=False)]
    return ["", *map(plain, notes), *([""] if lines else []), *lines]


def _list_benchmarks(pairs: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(row.benchmark for pair in pairs for row in pair.rows))


def print_listing(what: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows that `tellapart.ls` returns."""
    from tellapart.models.find import name_forms

    forms = name_forms() if what == "models" else {}
    print_template("listing", what=what, rows=rows, forms=forms, metrics=_first_metrics, some=_join_some)


def _first_metrics(row: Mapping[str, Any]) -> Sequence[str]:
    """Return the metrics of a first look of a benchmark that is listed."""
    if row.get("official") or not row.get("shape"):
        return tuple(row.get("official") or headline(row.get("metrics") or ()))
    return headline({metric.name for metric in defined_for(row["shape"], "similarity", row["true"])})


def _join_some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def print_timings(timings: Timings) -> None:
    """Print latency by part, then throughput and size, then how they were measured."""
    models = timings.models
    print_template(
        "timings",
        models=models,
        parts=[part for part in PARTS if any(part in timing.parts for timing in models)],
        device=["on the device"] * any(timing.peak_device_memory is not None for timing in models),
        # A note stands once if it is the same for all models.
        notes=dict.fromkeys(write_lines("method", models=models)),
        amount=_write_amount,
    )


def _write_amount(number: int | None, unit: str = "") -> str:
    """Write three significant digits with a prefix of the SI."""
    if number is None:
        return ""
    value, prefixes = float(number), ["", "k", "M", "G", "T"]
    while value >= 999.5 and len(prefixes) > 1:
        value /= 1000
        prefixes.pop(0)
    return f"{value:.3g} {prefixes[0]}{unit}".rstrip()


#: The JSON of an answer, and what prints it.
_Answered = tuple[dict[str, Any], Callable[[], None]]


def answer_build(built: BuildResult, page: Path | None = None, verdict: str | None = None) -> _Answered:
    """Answer with a build's folder and funnel, the path of its card (the page if there is one), its audit's verdict."""
    name, card = shlex.quote(f"folder:{built.folder}"), built.folder / "card.json"
    files = {"out": str(built.folder), "card": str(card), "page": page and str(page)}
    facts = {"rows": built.funnel.rows(), "built": built, "name": name, "card": page or card, "verdict": verdict}
    answer = {**files, "verdict": verdict, "resumed": built.resumed, "funnel": built.funnel.to_record()}
    return answer, partial(print_template, "built", **facts)


def answer_caption_pairs(written: PairsWritten) -> _Answered:
    """Answer with how many caption pairs were written, and how many each step rejected."""
    rejected = [(step, reason, count) for (step, reason), count in sorted(written.rejected.items())]
    counts = {"pairs": written.pairs, "rejected": rejected, "resumed": written.resumed, "out": str(written.path)}
    return counts, partial(print_template, "built", rows=[*rejected, ("pairs", "", written.pairs)], pairs=written.path)


def list_reasons(run: Verification) -> list[str]:
    """Return a line for each reason for which a fact of a run is not equal, with all the facts that it is of."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for check in run.checks:
        if check.state == "different":
            numbers = [f"{value:.12g}" if value is not None else "none" for value in (check.recorded, check.measured)]
            both = f"recorded {numbers[0]}, measured {numbers[1]} in " if numbers != ["none", "none"] else ""
            by_reason[check.benchmark, f"{check.fact}: different: {both}{check.why}"] = []
        elif check.state != "equal":
            by_reason.setdefault((check.benchmark, f"cannot be checked: {check.why}"), []).append(check.fact)
    return [": ".join(filter(None, (name, join_names(facts), why))) for (name, why), facts in by_reason.items()]


def print_gaps(gaps: Gaps) -> None:
    """Print models' losses out of domain."""
    from tellapart.diagnosis.gap import FEWEST_CORRELATED

    print_template("gaps", gaps=gaps, fewest=FEWEST_CORRELATED)


def gate_facts(result: GateResult) -> dict[str, Any]:
    """Return the facts of the texts of a gate: every headline with its verdict, the notes, and the gate's verdict."""
    apart = any(row.verdict == "no difference seen" and (row.low or 0) * (row.high or 0) > 0 for row in result.rows)
    notes = write_lines("stopped", result=result, apart=apart)
    return {
        "result": result,
        "notes": notes,
        "verdict": write_lines("verdict", result=result)[0],
    }


def gate_markdown(result: GateResult) -> str:
    """Return the gate as GitHub's Markdown, for a comment on a pull request.

    Names are in code: a model called `@someone` must not call anybody.
    """

    def code(text: str) -> str:
        return f"`{plain(text).replace('`', chr(39)).replace('|', chr(92) + '|')}`"

    return "\n".join(map(show_marks, render_text("gate.md", code=code, **gate_facts(result))))
