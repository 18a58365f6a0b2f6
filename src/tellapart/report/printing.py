"""What commands print of comparisons, gates, two implementations of a model, gaps, costs, listings and builds."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from tellapart.data.scores import join_names
from tellapart.errors import plain
from tellapart.evaluation.compare import (
    ALPHA,
    Comparison,
    GateResult,
    GateRow,
    MetricComparison,
    MetricTiers,
    ModelsComparison,
    Verdict,
    count_items,
    count_needed,
    count_nouns,
)
from tellapart.metrics.registry import defined_for
from tellapart.records.timing_record import PARTS, Duration, Timings
from tellapart.report.numbers import count_text, percent, points, thousands
from tellapart.report.terminal import add_row, print_lines, print_tables, table
from tellapart.tasks.registry import headline, main_metric

if TYPE_CHECKING:
    from tellapart.builders.captions.pairs_file import PairsWritten
    from tellapart.builders.pipeline import BuildResult
    from tellapart.diagnosis.parity import Parity
    from tellapart.evaluation.check import Gate
    from tellapart.evaluation.gap import Gaps
    from tellapart.evaluation.verify import Verification


#: Names of the columns of every comparison, after those that name a row's subject.
_COMPARED = ("a", "b", "b - a", "only a", "only b", "p", "p (Holm)", "detectable")

#: Facts of a verified run that are equal, named if they are so few; and its lines.
_MOST_EQUAL, _MOST_LINES = 3, 40

#: A note on runs whose items cannot be compared.
_ON_TRUST = "scores made elsewhere, so that only the ids are known to be the same"

#: Letters of a first heading beyond which a table is too wide for a terminal.
_LONGEST_HEAD = 24


def print_comparison(comparison: Comparison, left_out: Sequence[str] = ()) -> None:
    """Print two models side by side."""
    print_lines(f"a = {plain(comparison.a)}, b = {plain(comparison.b)}: percent, 95% intervals")
    for benchmark in _list_benchmarks([comparison]):
        rows = [row for row in comparison.rows if row.benchmark == benchmark]
        if comparison.by is None:
            sizes = [] if len({row.n for row in rows}) == 1 else ["n"]
            title = plain(benchmark) if sizes else f"{plain(benchmark)} ({count_items(rows[0])})"
            fits = len(title) <= _LONGEST_HEAD  # else it would take the numbers' room
            labelled = [([row.metric, *(thousands(row.n) for _ in sizes)], row) for row in rows]
            _print_rows([title if fits else "metric", *sizes], labelled, title=None if fits else title)
            continue
        for metric in dict.fromkeys(row.metric for row in rows):
            labelled = [
                ([row.subset or "all items", count_text(row.n, None if row.subset else row.limited_from)], row)
                for row in rows
                if row.metric == metric
            ]
            _print_rows([comparison.by, "items"], labelled, title=f"{plain(benchmark)}: {metric}")
    _print_end([comparison], left_out, comparison.verdicts)


def print_models(comparison: ModelsComparison, left_out: Sequence[str] = ()) -> None:
    """Print many models side by side: their tiers, and a row a pair."""
    pairs, baseline = comparison.pairs, comparison.baseline
    number_of = {label: str(number) for number, label in enumerate(comparison.models, start=1)}
    against = "" if baseline is None else f", each (b) with {plain(baseline)} (a)"
    print_lines(f"{len(comparison.models)} models{against}: percent, 95% intervals")
    for benchmark in _list_benchmarks(pairs):
        if rankings := [ranking for ranking in comparison.tiers if ranking.benchmark == benchmark]:
            _print_tiers(benchmark, rankings, number_of)
        rows = [(pair, row) for pair in pairs for row in pair.rows if row.benchmark == benchmark]
        for metric, subset in dict.fromkeys((row.metric, row.subset) for _, row in rows):
            named = [
                ([f"{number_of[pair.b]} - {number_of[pair.a]}" if baseline is None else pair.b], row)
                for pair, row in rows
                if (row.metric, row.subset) == (metric, subset)
            ]
            part = "" if subset is None else f", {plain(f'{pairs[0].by} = {subset}')}"
            title = f"{plain(benchmark)}: {metric}{part} ({count_items(named[0][1])})"
            _print_rows(["pair" if baseline is None else "model"], named, title=title)
    tiers = ["tier: no model differs from its best, and all of later tiers do; Holm over the pairs of a metric, 5%"]
    _print_end(pairs, left_out, comparison.verdicts, *(tiers if comparison.tiers else ()))


def _print_end(
    pairs: Sequence[Comparison], left_out: Sequence[str], verdicts: Sequence[Verdict], *further: str
) -> None:
    print_lines("", *_write_notes(pairs, left_out), *further)
    several = len({verdict.benchmark for verdict in verdicts}) > 1
    sentences = [plain(f"{f'{verdict.benchmark}: ' if several else ''}{verdict.sentence}") for verdict in verdicts]
    if lines := [line for sentence in sentences for line in wrap(sentence, 120, break_on_hyphens=False)]:
        print_lines("", *lines)


def _list_benchmarks(pairs: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(row.benchmark for pair in pairs for row in pair.rows))


def _print_tiers(benchmark: str, rankings: Sequence[MetricTiers], number_of: dict[str, str]) -> None:
    """Print models from best to worst by the main metric, with their value and tier by each."""
    cells = {
        ranking.metric: {
            name: (percent(mean), str(tier.rank))
            for tier in ranking.tiers
            for name, mean in zip(tier.names, tier.means, strict=True)
        }
        for ranking in rankings
    }
    rows = (
        (number_of[name], name, *(cell for of_metric in cells.values() for cell in of_metric[name]))
        for name in cells[main_metric(list(cells))]
    )
    heads = ("", "model", *(heading for metric in cells for heading in (metric, "tier")))
    sizes = {count_items(ranking): ranking.metric for ranking in rankings}
    parts = [size if len(sizes) == 1 else f"{size} ({metric})" for size, metric in sizes.items()]
    print_lines("", f"{plain(benchmark)}: tiers of {', '.join(parts)}")
    print_tables(table(*heads, numbers_from=2, rows=rows), gap=False)


def _print_rows(
    heads: Sequence[str], rows: Sequence[tuple[Sequence[str], MetricComparison]], *, title: str | None = None
) -> None:
    """Print rows: the subject of each, the number of its items if that differs; then its numbers."""
    cells = (
        (*label, percent(row.a), percent(row.b), points(row.difference, row.low, row.high, row.reason),
         thousands(row.only_a), thousands(row.only_b), row.p_text, row.p_holm_text,
         "-" if row.detectable is None else percent(row.detectable, 1))
        for label, row in rows
    )  # fmt: skip
    print_lines("", *([] if title is None else [title]))
    print_tables(table(*heads, *_COMPARED, numbers_from=1, rows=cells), gap=False)


def _list_needed(rows: Sequence[MetricComparison]) -> list[str]:
    """Return a line with the items that would show each difference that is not significant, if there is one."""
    several = len({row.benchmark for row in rows}) > 1
    needed = [
        f"{f'{row.benchmark} ' if several else ''}{row.metric} {count_needed(row, ALPHA / len(rows))}"
        for row in rows
        if row.p_holm > ALPHA and row.only_a != row.only_b and row.detectable is not None
    ]
    return wrap(f"items needed to show these as often by p (Holm): {', '.join(needed)}", 120) if needed else []


def _write_notes(pairs: Sequence[Comparison], left_out: Sequence[str]) -> list[str]:
    notes = []
    needed = _list_needed(pairs[0].rows) if len(pairs) == 1 and pairs[0].by is None else []
    if rows := [row for pair in pairs for row in pair.rows]:
        tests = " or ".join(dict.fromkeys(row.test for row in rows))
        notes += [
            f"only a, only b: items that one of the two alone got right; p: {tests}, two-sided; Holm over "
            f"{thousands(len(rows))} tests",
            "detectable: the smallest difference, in points, that this many items would show four times in five by p, "
            "not p (Holm)",
            *map(plain, needed),
        ]
    if unknown := [row.only_a + row.only_b for row in rows if row.detectable is None]:
        reasons = ["the two agree on every item"] * (0 in unknown)
        reasons += ["so few items would show none, or the metric has no right and wrong items"] * any(unknown)
        notes.append(f"detectable -: {'; or '.join(reasons)}")
    if flips := max((row.flips for row in rows if row.at_floor and row.flips), default=0):
        notes.append(f"<=: none of {thousands(flips)} sign flips was as extreme")
    notes += [
        f"computed in different precisions: {plain(pair.a)} in {pair.dtypes[0]}, {plain(pair.b)} in {pair.dtypes[1]}"
        for pair in pairs
        if pair.dtypes
    ]
    trusted, untagged, unshared = (
        [name for pair in pairs for name in getattr(pair, field)] for field in ("on_trust", "untagged", "unshared")
    )
    for note, names in (
        (_ON_TRUST, trusted),
        (f"not compared, without the tag {plain(pairs[0].by or '')}", untagged),
        ("not compared, measured in one run only", unshared),
        ("not compared, reference models beside a run (name their folders to compare them)", left_out),
    ):
        if names:
            notes.append(f"{note}: {', '.join(map(plain, dict.fromkeys(names)))}")
    return notes


_LISTED = {
    "benchmarks": ("name", "shape", "items", "metrics", "about", "licence", "files"),
    "models": ("name", "role", "kind", "about"),
    **dict.fromkeys(("losses", "builders"), ("name", "about")),
}


def print_listing(what: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows that `tellapart.ls` returns."""
    cells = (_listing_cells(what, row) for row in rows)
    columns = _LISTED[what]
    print_tables(table(*columns, rows=[[str(of.get(name) or "") for name in columns] for of in cells]), gap=False)
    if notes := [*_listing_notes(what, rows)]:
        print_lines("", *notes)


def _listing_cells(what: str, row: Mapping[str, Any]) -> dict[str, Any]:
    metrics = tuple(row.get("official") or ())
    if not metrics and row.get("shape"):
        metrics = headline({metric.name for metric in defined_for(row["shape"], "similarity", row["true"])})
    # Images by texts of an item; for a task, the kind of its output.
    shape = "x".join(map(str, row["shape"])) if row.get("shape") else str(row.get("output") or "")
    cells = {**row, "shape": shape, "metrics": _join_few(metrics or headline(row.get("metrics") or ()))}
    cells["items"] = thousands(row["items"]) if row.get("items") else ""
    if what == "benchmarks" and row["media"]:
        languages, year = ", ".join(row["languages"] or ()) or "unknown", row["year"] or "year unknown"
        cells["about"] = f"{row['media']}, {year}; language {languages}; a tie: {row['tie_rule']}"
    if what == "benchmarks" and row["files"] is None:
        cells["licence"] = row["title"]
    return cells


def _listing_notes(what: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if what == "models":
        from tellapart.models.find import name_forms

        yield "also, by what it is made of:"
        yield from (f"  {form}: {meaning}" for form, meaning in name_forms().items())
    if what == "benchmarks":
        yield from (
            "also: folder:PATH, a pair set of your own; FILE.toml, a set that it declares; pairing:NAME, a set of 2x2",
            "pairs asked in words, and choice:NAME, one of 1x2 pairs; texts:NAME, the texts alone of a set with two "
            "true",
            "ones; ranking:FILE, rankings by people; classes:DIR, a folder of pictures for each class",
        )
        for row in rows:
            if row["files"] and row["missing"]:
                place = f"; {row['files']}" if row["hub"] else ""
                needs = f"{_join_few(row['needs'])} (images: {row['images']})"
                yield f"{row['name']} needs {needs}{place}: {row['source']}"


def _join_few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def print_timings(timings: Timings) -> None:
    """Print latency by part, then throughput and size, then how they were measured."""
    models, size = timings.models, _write_amount
    parts = [part for part in PARTS if any(part in timing.parts for timing in models)]
    device = ["on the device"] * any(timing.peak_device_memory is not None for timing in models)
    latency = (
        (timing.model.name, _write_spread(timing.latency),
         *(_write_milliseconds(timing.parts[part].median) if part in timing.parts else "" for part in parts))
        for timing in models
    )  # fmt: skip
    sizes = (
        (timing.model.name, str(timing.throughput.batch_size),
         *map(_write_rate, (timing.throughput.images, timing.throughput.texts, timing.throughput.pairs)),
         size(timing.parameters), "not counted" if timing.flops is None else size(timing.flops),
         size(timing.peak_memory, "B"), *(size(timing.peak_device_memory, "B") for _ in device))
        for timing in models
    )  # fmt: skip
    columns = ("batch", "images/s", "texts/s", "pairs/s", "parameters", "FLOPs a pair", "memory", *device)
    print_tables(
        table("model", "median [5%, 95%]", *parts, numbers_from=1, title="latency of one pair, milliseconds",
              rows=latency, folds=True),
        table("model", *columns, numbers_from=1, title="throughput and size", rows=sizes, folds=True),
    )  # fmt: skip
    # How it was measured stands once if it is the same for all; then the parts that each model leaves out.
    methods = []
    for timing in models:
        machine = timing.machine
        threads = f", {machine.torch_threads} threads" if machine.torch_threads is not None else ""
        accelerator = f", {machine.accelerator}" if machine.accelerator else ""
        measured_on = plain(f"{timing.device}: {machine.processor}, {machine.cores} cores{threads}{accelerator}")
        methods.append(
            f"{timing.repeats} pairs of {plain(timing.benchmark)} one by one, after {timing.warm_up} to warm up; "
            f"throughput: median of {timing.batches} batches, images decoded and prepared before; {measured_on}; "
            f"{timing.dtype}"
        )
    scope = (
        "FLOPs: matrix products and convolutions only; memory: the process's peak above what it held before the model"
    )
    notes = (f"{plain(timing.model.name)}: {plain(note)}" for timing in models for note in timing.notes)
    print_lines(*dict.fromkeys([*methods, scope, *notes]))


def _write_spread(latency: Duration) -> str:
    median, low, high = map(_write_milliseconds, (latency.median, latency.low, latency.high))
    return f"{median} [{low}, {high}]"


def _write_rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _write_milliseconds(seconds: float) -> str:
    """Write three significant digits, and nothing below a hundredth."""
    value = 1000 * seconds
    return "<0.01" if value < 0.01 else f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _write_amount(number: int | None, unit: str = "") -> str:
    """Write three significant digits with a prefix of the SI."""
    if number is None:
        return ""
    value, prefixes = float(number), ["", "k", "M", "G", "T"]
    while value >= 999.5 and len(prefixes) > 1:
        value /= 1000
        prefixes.pop(0)
    return f"{value:.3g} {prefixes[0]}{unit}".rstrip()


def build_json(built: BuildResult, page: Path | None, verdict: str | None = None) -> dict[str, Any]:
    """Return a build as one object: its folder, its cards and its funnel."""
    files = {"out": str(built.folder), "card": str(built.folder / "card.json"), "page": page and str(page)}
    return {**files, "verdict": verdict, "resumed": built.resumed, "funnel": built.funnel.to_record()}


def print_build(built: BuildResult, page: Path | None = None, verdict: str | None = None) -> None:
    """Print a build's funnel, the path of its card (the page if there is one), and its audit's verdict."""
    _print_funnel(built.funnel.rows())
    resumed = [f"{thousands(built.resumed)} were decided by an earlier build"] if built.resumed else []
    measure = f"measure with: tellapart run -b {shlex.quote(f'folder:{built.folder}')}"
    audited = [plain(verdict)] if verdict is not None else []
    print_lines("", *resumed, measure, f"card: {page or built.folder / 'card.json'}", *audited)


def caption_pairs_json(written: PairsWritten) -> dict[str, Any]:
    """Return the fate of a recipe's captions as one object."""
    counts = {"pairs": written.pairs, "rejected": _list_rejections(written), "resumed": written.resumed}
    return {**counts, "out": str(written.path)}


def print_caption_pairs(written: PairsWritten) -> None:
    """Print how many caption pairs were written, and how many each step rejected."""
    _print_funnel([*_list_rejections(written), ("pairs", "", written.pairs)])
    print_lines("", f"caption pairs: {written.path}")


def _list_rejections(written: PairsWritten) -> list[tuple[str, str, int]]:
    return [(step, reason, count) for (step, reason), count in sorted(written.rejected.items())]


def _print_funnel(rows: Iterable[tuple[str, str, int]]) -> None:
    cells = ((step, reason, thousands(count)) for step, reason, count in rows)
    print_tables(table("step", "reason", "number", numbers_from=2, rows=cells), gap=False)


def print_parity(parity: Parity) -> None:
    """Print each step with its differences and their likely cause, then the outcomes, then the answer."""
    title = f"A: {plain(parity.a)}, B: {plain(parity.b)}, on {plain(parity.benchmark)}"
    rows = (
        (step.step, step.unseen, "", "", "")
        if step.unseen
        else (step.step, step.cause, thousands(step.compared), thousands(step.differ),
              "" if step.largest is None else f"{step.largest:.2g}")
        for step in parity.steps
    )  # fmt: skip
    heads = ("step", "likely cause", "compared", "differ", "largest difference")
    print_tables(table(*heads, numbers_from=2, title=title, rows=rows))
    for text, of_a, of_b in parity.steps[0].examples:
        print_lines(plain(text), f"  A: {list(of_a)}", f"  B: {list(of_b)}")
    for outcome in parity.outcomes:
        between = "(no interval)"
        if outcome.low is not None and outcome.high is not None:
            between = f"[{percent(outcome.low)}, {percent(outcome.high)}]"
        print_lines(
            f"{outcome.metric}: {outcome.flipped:,} of {outcome.items:,} outcomes differ; {percent(outcome.a)} and "
            f"{percent(outcome.b)} percent, B - A {percent(outcome.b - outcome.a)} {between}"
        )
    if (first := parity.first) is None:
        print_lines("no step differs by more than rounding")
    else:
        print_lines(f"A and B part at the {first.step}{f': {plain(first.cause)}' if first.cause else ''}")


def print_verifications(runs: Iterable[Verification]) -> None:
    """Print what `verify` found."""
    for run in runs:
        print_lines(*map(plain, _describe_run(run)))


def _describe_run(run: Verification) -> list[str]:
    """Return a line of counts, and below it everything that is not equal: what one reason is of, in one line."""
    equal = [check.fact for check in run.checks if check.state == "equal"]
    names = f" ({', '.join(equal)})" if 0 < len(equal) <= _MOST_EQUAL else ""
    counts = f"{len(equal)} equal{names}, {run.count('different')} different"
    by_reason: dict[tuple[str, str], list[str]] = {}
    for check in run.checks:
        if check.state == "different":
            numbers = [f"{value:.12g}" if value is not None else "none" for value in (check.recorded, check.measured)]
            both = f"recorded {numbers[0]}, measured {numbers[1]} in " if numbers != ["none", "none"] else ""
            by_reason[check.benchmark, f"{check.fact}: different: {both}{check.why}"] = []
        elif check.state != "equal":
            by_reason.setdefault((check.benchmark, f"cannot be checked: {check.why}"), []).append(check.fact)
    lines = [
        ": ".join(filter(None, (benchmark, join_names(facts), reason)))
        for (benchmark, reason), facts in by_reason.items()
    ]
    more = [f"  ... {len(lines):,} lines in all"] if len(lines) > _MOST_LINES else []
    head = f"{run.run} ({run.model}): {counts}, {run.count('cannot be checked')} cannot be checked"
    unknown = f"  not known: {'; '.join(run.unknown)}"
    return [head, *(f"  {line}" for line in lines[:_MOST_LINES]), *more, unknown]


def print_gaps(gaps: Gaps) -> None:
    """Print models' losses out of domain."""
    from tellapart.evaluation.gap import FEWEST_CORRELATED

    def write_side(value: float, n: int, limit: int | None) -> str:
        return percent(value) if limit is None else f"{percent(value)} ({count_text(n, limit)} items)"

    rows = (
        (row.model, row.task, write_side(row.in_domain, row.in_domain_items, row.in_domain_limited_from),
         write_side(row.out_of_domain, row.out_of_domain_items, row.out_of_domain_limited_from),
         points(row.gap, row.low, row.high, row.reason))
        for row in gaps.rows
    )  # fmt: skip
    print_tables(table("model", "task", "in domain", "out of domain", "gap", numbers_from=2, rows=rows))
    for task, r in gaps.correlation.items():
        n, few = gaps.models[task], f"it takes {FEWEST_CORRELATED} models or more"
        none = f"none, {'one side does not vary' if n >= FEWEST_CORRELATED else few}"
        over = f"{task}: Pearson's r over {count_nouns(n, 'model')}, in domain with out of domain"
        print_lines(f"{over}: {none if r is None else f'{r:.2f}'}")


def print_gates(gates: Sequence[Gate]) -> None:
    """Print sanity gates, and how many hold."""
    lines = table("", "model", "on", "what", "must be", "is")
    for gate in gates:
        cells = ("ok" if gate.passed else "FAILS", gate.subject, gate.on, gate.what, gate.must, gate.got)
        add_row(lines, cells, "" if gate.passed else "bold red")
    print_tables(lines)
    print_lines(f"{sum(gate.passed for gate in gates)} of {len(gates)} gates hold")


_COLUMNS = ("benchmark", "metric", "items", "base", "new", "new - base", "p (Holm)", "verdict")

#: Reasons that stop a gate, as they are counted.
_STOPS = {
    "regression": "regression",
    "missing": "missing result",
    "not comparable": "incomparable benchmark",
    "too few items": "blind headline",
    "not within the margin": "headline not within the margin",
}


def headline_of(result: GateResult) -> str:
    """Return the gate's verdict in one line."""
    if not result.passed:
        stopped = Counter(_STOPS[row.verdict] for row in result.rows if row.fails)
        return f"the gate stops: {', '.join(count_nouns(count, noun) for noun, count in stopped.items())}"
    headlines = count_nouns(sum(row.metric is not None for row in result.rows), "headline")
    benchmarks = count_nouns(len({row.benchmark for row in result.rows}), "benchmark")
    better = sum(row.verdict == "improvement" for row in result.rows)
    within = "" if result.margin is None else f", each shown to fall by less than {result.margin:g} points"
    text = f"the gate passes: no regression in {headlines} of {benchmarks}{within}"
    return f"{text}, {count_nouns(better, 'improvement')}" if better else text


def print_gate(result: GateResult) -> None:
    """Print every headline with its verdict, and the gate's verdict."""
    print_lines(f"base = {plain(result.base)}, new = {plain(result.new)}: percent, 95% intervals", "")
    lines = table(*_COLUMNS, numbers_from=2)
    lines.columns[-1].justify, lines.columns[-1].no_wrap = "left", False
    for row in result.rows:
        add_row(lines, (row.benchmark, row.metric or "-", *_gate_cells(row, "-")), "bold red" if row.fails else "")
    print_tables(lines)
    print_lines(*map(plain, _gate_notes(result)), headline_of(result))


def gate_markdown(result: GateResult) -> str:
    """Return the gate as GitHub's Markdown, for a comment on a pull request.

    Names are in code: a model called `@someone` must not call anybody.
    """

    def code(text: str) -> str:
        return f"`{plain(text).replace('`', chr(39)).replace('|', chr(92) + '|')}`"

    lines = [f"**tellapart: {headline_of(result)}**", "", f"| {' | '.join(_COLUMNS)} |"]
    lines.append(f"|:---|:---|{'---:|' * (len(_COLUMNS) - 3)}:---|")
    for row in result.rows:
        *cells, verdict = _gate_cells(row, "–")
        verdict = f"**{verdict}**" if row.fails else verdict
        names = (code(row.benchmark), code(row.metric) if row.metric else "–")
        lines.append(f"| {' | '.join([*names, *cells, verdict])} |")
    lines += ["", f"base: {code(result.base)}; new: {code(result.new)}; percent, 95% intervals", ""]
    if notes := [f"- {code(line)}" for line in _gate_notes(result)]:
        lines += [*notes, ""]
    return "\n".join(lines)


def _gate_cells(row: GateRow, no_items: str) -> list[str]:
    """Return a row's cells from its items on; the verdict without its reason, which does not fit a table."""
    numbers = ["-"] * 4
    if row.base is not None and row.new is not None and row.change is not None:
        change = points(row.change, row.low, row.high, row.no_interval)
        numbers = [percent(row.base), percent(row.new), change, row.p_holm_text or "-"]
    items = count_text(row.n, row.limited_from) if row.n else no_items
    return [items, *numbers, row.verdict if row.reason else row.says]


def _gate_notes(result: GateResult) -> list[str]:
    notes = [f"{' '.join(filter(None, (row.benchmark, row.metric)))}: {row.says}" for row in result.rows if row.reason]
    if any(row.verdict == "no difference seen" and (row.low or 0) * (row.high or 0) > 0 for row in result.rows):
        notes.append("an interval without 0, yet no difference seen: p is corrected for all headlines, no interval is")
    if result.by_chance is not None and result.by_chance >= 0.01:
        share = f"up to {percent(result.by_chance, 0)}% of comparisons of this size"
        notes.append(f"--max-drop {result.max_drop:g}: by chance alone it stops a model as good as the base in {share}")
    if result.on_trust:
        notes.append(f"{_ON_TRUST}: {', '.join(result.on_trust)}")
    if result.dtypes:
        notes.append(f"computed in different precisions: the base in {result.dtypes[0]}, the new in {result.dtypes[1]}")
    if result.added:
        notes.append(f"not judged, the base did not measure it: {', '.join(result.added)}")
    return notes
