"""All that a set of studies says, as one record, and as tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from tellapart.annotate.agreement import Agreement, Bounded, Share, agreement, shares
from tellapart.annotate.errors_by import ErrorRate, Errors, errors_by
from tellapart.annotate.human import Answered, HumanRow, human_rows
from tellapart.annotate.surveys import find_survey
from tellapart.report.numbers import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["Findings", "StudyFindings", "findings", "print_findings"]

#: Rows of altered word pairs that are printed; the JSON has them all.
_MOST_ROWS = 20


class StudyFindings(BaseModel):
    """One study.

    >>> StudyFindings(survey="i2t", answers=0, skipped=0, broken=0, labels=[], agreement=[], errors=None).survey
    'i2t'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    survey: str
    answers: int
    skipped: int
    broken: int
    labels: list[Share]
    agreement: list[Agreement]
    errors: Errors | None


class Findings(BaseModel):
    """All studies, and the human row that they give together.

    >>> Findings(studies=[], human=[]).human
    []
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    studies: list[StudyFindings]
    human: list[HumanRow]


def findings(answered: Answered, groups: Mapping[str, Iterable[str]] | None = None, *, seed: int = 0) -> Findings:
    """Work out what studies of one pair set say.

    Raises:
        ScoreError: they are of different pair sets.

    >>> findings([]).studies
    []
    """
    found = []
    for study, answers in answered:
        survey = find_survey(study.survey)
        found.append(
            StudyFindings(
                survey=survey.name,
                answers=len(answers),
                skipped=sum(answer.skipped for answer in answers),
                broken=sum(bool(answer.problems) for answer in answers),
                labels=shares(survey, study, answers, seed=seed),
                agreement=agreement(survey, study, answers, seed=seed),
                errors=errors_by(survey, study, answers, groups, seed=seed),
            )
        )
    return Findings(studies=found, human=human_rows(answered, seed=seed))


def print_findings(found: Findings) -> None:
    """Print them.

    >>> study = StudyFindings(survey="i2t", answers=2, skipped=1, broken=0, labels=[], agreement=[], errors=None)
    >>> print_findings(Findings(studies=[study], human=[]))
    i2t: 2 answers, 1 skipped, 0 not used
    agreement: none to be had, no unit has labels of two annotators
    """
    from rich.console import Console

    console = Console()
    console = console if console.is_terminal else Console(width=120)
    for study in found.studies:
        _say(
            console, f"{study.survey}: {study.answers:,} answers, {study.skipped:,} skipped, {study.broken:,} not used"
        )
        if study.labels:
            table = _table("answer", "n", "share")
            for share in study.labels:
                table.add_row(share.label, f"{share.answers:,}", _percent(share.share))
            console.print(table)
        _print_agreement(console, study)
        if study.errors:
            _print_errors(console, study.errors)
    if found.human:
        table = _table("people", "items", "score", "ties broken by a coin", "items with ties")
        for row in found.human:
            table.add_row(
                row.metric, f"{row.items:,}", _percent(row.strict), f"{100 * row.neutral:.2f}", f"{row.ties:,}"
            )
        console.print(table)


def _print_agreement(console: Console, study: StudyFindings) -> None:
    if not study.agreement:
        _say(console, "agreement: none to be had, no unit has labels of two annotators")
    for view in study.agreement:
        table = _table("annotators", "units", "same", "kappa")
        for pair in view.pairs:
            table.add_row(f"{pair.a}, {pair.b}", f"{pair.units:,}", f"{100 * pair.same:.1f}", _plain(pair.kappa))
        mean = "none" if view.kappa is None else f"{view.kappa:.2f}"
        console.print(table)
        _say(
            console,
            f"{view.field}, {view.view}: Krippendorff's alpha {_plain(view.alpha)} on {view.units:,} units; mean kappa {mean}",
        )


def _print_errors(console: Console, errors: Errors) -> None:
    table = _table("errors", "n", "of", "rate")
    rows = [errors.all, *errors.by_group, *errors.by_tag, *errors.by_alteration[:_MOST_ROWS]]
    for row in rows:
        table.add_row(*_error_row(row))
    console.print(table)
    if (left := len(errors.by_alteration) - _MOST_ROWS) > 0:
        _say(console, f"{left:,} more altered word pairs are in --json")


def _error_row(row: ErrorRate) -> tuple[str, str, str, str]:
    from rich.markup import escape

    return escape(plain(row.of)), f"{row.errors:,}", f"{row.answers:,}", _percent(row.rate)


def _percent(found: Bounded) -> str:
    bounds = "" if found.low is None or found.high is None else f" [{100 * found.low:.1f}, {100 * found.high:.1f}]"
    return "" if found.value is None else f"{100 * found.value:.2f}{bounds}"


def _plain(found: Bounded) -> str:
    if found.value is None:
        return found.method
    bounds = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.value:.2f}{bounds}"


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left", overflow="fold")
    return table


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
