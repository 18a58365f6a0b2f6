"""Compare models: the function of `tellapart compare`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal, overload

from tellapart.data.arguments import PathGiven, expect_used
from tellapart.errors import RunError, quote
from tellapart.evaluation.compare import (
    Comparison,
    GateResult,
    ModelsComparison,
    Verdict,
    compare_models,
    regression_gate,
)
from tellapart.evaluation.systems import choose_models
from tellapart.records.zipped import run_folders
from tellapart.report.frame import Frame, Shown, columns_of, html_lines
from tellapart.report.printing import end_lines, print_comparison, print_models
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.report.tables import Table

_COLUMNS = (
    "benchmark", "metric", "subset", "n", "a", "b", "difference", "low", "high", "reason", "only_a", "only_b", "p",
    "p_holm", "detectable",
)  # fmt: skip


@overload
def compare(
    *runs: PathGiven,
    baseline: str | None = None,
    by: str | None = None,
    anytime: bool = False,
    gate: Literal[False] = False,
    seed: int = 0,
    progress: ProgressGiven = None,
) -> Compared: ...
@overload
def compare(
    *runs: PathGiven, gate: Literal[True], max_drop: float | None = None, margin: float | None = None, seed: int = 0
) -> GateResult: ...
def compare(
    *runs: PathGiven,
    baseline: str | None = None,
    by: str | None = None,
    anytime: bool = False,
    gate: bool = False,
    max_drop: float | None = None,
    margin: float | None = None,
    seed: int = 0,
    progress: ProgressGiven = None,
) -> Compared | GateResult:
    """Compare models on the items that they share: paired differences, exact McNemar tests, Holm over all, and tiers.

    Args:
        runs: runs, run folders, or zip archives of them: all their models are compared, but reference models only if
            their folder is named, or as the baseline.
        baseline: the model that all others are compared with; without it, every two models are compared.
        by: a tag: compare also on the items of each of its values.
        anytime: intervals and p that hold at every look while the runs grow, item by item in one fixed order.
            They are wider, and there are no tiers.
        gate: take a base run and a new run, each of one model, and judge the headlines of every benchmark of the base.
            The result has `passed`, and a row for each headline.
        max_drop: the most points by which a headline of a gate may fall, significantly or not; no limit if None.
        margin: the points below which the fall of every headline of a gate must stay, even at the low end of its paired
            95% interval (non-inferiority).
        seed: of the bootstrap and of the sign flips.
        progress: as of `evaluate`.

    Raises:
        RunError: a folder is not a run, fewer than two models are left, or their measurements cannot be compared. A
            gate also refuses other than two runs, a run of several models, and a limit that is out of range.

    >>> import numpy as np
    >>> import tellapart as ta
    >>> def dark(image, text):
    ...     return -float(np.asarray(image).mean())
    >>> dark.fingerprint = "dark-1"
    >>> run = ta.evaluate([dark, "demo-encoder"], "demo", limit=40)
    >>> compared = ta.compare(run)
    >>> compared.models, len(compared)
    (['dark', 'demo-encoder'], 4)
    >>> oracle, random = (ta.evaluate(name, "demo", limit=40) for name in ("oracle", "random"))
    >>> ta.compare(oracle, random, gate=True).passed, ta.compare(random, oracle, gate=True).rows[0].says
    (False, 'improvement')
    """
    for option, value in (("baseline", baseline), ("by", by)):
        if value is not None and not isinstance(value, str):
            raise RunError(f"{option}={quote(value)}: give a name")
    if gate:
        if baseline is not None or by is not None or anytime:
            raise RunError("gate=True judges the headlines of two runs: leave baseline=, by= and anytime= out")
        if len(runs) != 2:
            raise RunError(f"gate=True judges one run against another: got {len(runs)}; name BASE and NEW")
        with run_folders(runs, "runs") as (base, new):
            result = regression_gate(base, new, max_drop=max_drop, margin=margin, seed=seed)
        if result.base != result.new:  # two runs of one model get labels with their paths
            return result
        labels = {side: f"{result.base} ({os.fspath(run)})" for side, run in zip(("base", "new"), runs, strict=True)}
        return result.model_copy(update=labels)
    expect_used("compare", "without gate=True", max_drop=(max_drop, None), margin=(margin, None))
    with run_folders(runs, "runs") as folders:
        choice = choose_models(folders, baseline, two=True)
        with reporting(progress) as report:
            bar = None if report is None else report("comparing")
            record = compare_models(
                choice.runs, baseline=choice.baseline, by=by, anytime=anytime, seed=seed, progress=bar
            )
        return Compared(record, choice.left_out)


class Compared(Shown, Frame):
    """A comparison: a row for each two models, benchmark and metric; printed as `tellapart compare` does.

    Attributes:
        record: the full comparison, with tiers.
        left_out: the reference models that were not compared.
    """

    def __init__(self, record: ModelsComparison, left_out: Sequence[str] = ()) -> None:
        self.record, self.left_out = record, tuple(left_out)
        rows = (
            {"model_a": pair.a, "model_b": pair.b} | {name: getattr(row, name) for name in _COLUMNS}
            for pair in record.pairs
            for row in pair.rows
        )
        super().__init__(columns_of(rows))

    @property
    def models(self) -> list[str]:
        """The models that are compared."""
        return list(self.record.models)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The outcome in words, of each benchmark's main metric."""
        return self.record.verdicts

    @property
    def two(self) -> Comparison | None:
        """The comparison of two models; None if there are more."""
        return self.record.pairs[0] if len(self.record.models) == 2 else None

    def tables(self) -> list[Table]:
        """Return the table of a notebook: the most important columns."""
        columns = ("model_a", "model_b", "benchmark", "metric", "subset", "n", "difference", "low", "high", "p_holm")
        used = {name: self.columns[name] for name in columns if name != "subset" or any(self.columns[name])}
        return Frame(used, "b minus a: fractions, 95% intervals, p corrected for all rows (Holm)").tables()

    def _repr_html_(self) -> str:
        tiers = self.two is None and bool(self.record.tiers)
        record, models = self.record, self.record.models
        lines = end_lines(record.pairs, self.left_out, record.verdicts, tiers=tiers, models=models)
        return super()._repr_html_() + html_lines(lines)

    def show(self) -> None:
        """Print it as `tellapart compare` does."""
        if self.two is not None:
            print_comparison(self.two, self.left_out)
        else:
            print_models(self.record, self.left_out)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield repr(self)
