"""Error rates of annotators by tag, by the altered word pair and by groups of words; and how often a word was altered.

An error is an answer other than the image's (or the caption's): the other one, both, or neither
(COCO-Counterfactuals appendix A.3). Rates are over answers, with intervals that draw clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tellapart.annotate.agreement import Estimate, Record, usable
from tellapart.annotate.survey import Study, Survey, SurveyAnswer, SurveyUnit
from tellapart.data.rows import read_object
from tellapart.errors import DataError, MetricError, quote
from tellapart.stats.intervals import interval_for

#: The words by which COCO-Counterfactuals counts a caption as one about people (appendix A.3.2).
HUMAN = (
    *("girl", "boy", "man", "men", "woman", "guy", "kid"),
    *("person", "people", "child", "children", "couple", "group", "lady"),
)


class ErrorRate(Record):
    """Errors among answers."""

    of: str
    errors: int
    answers: int
    rate: Estimate


class Errors(Record):
    """A survey's errors.

    Attributes:
        all: over all answers.
        by_tag: for each tag and value.
        by_alteration: for each pair of altered words, first caption's -> second's; most errors first (Table 10).
        by_group: for each group of words: units whose altered word is of the group.
    """

    all: ErrorRate
    by_tag: list[ErrorRate]
    by_alteration: list[ErrorRate]
    by_group: list[ErrorRate]


def errors_by(
    survey: Survey,
    study: Study,
    answers: Sequence[SurveyAnswer],
    groups: Mapping[str, Iterable[str]] | None = None,
    *,
    seed: int = 0,
) -> Errors | None:
    """Count errors; None if the survey has no right answers, or nobody answered.

    Source: COCO-Counterfactuals appendix A.3.2, Table 10.
    """
    ask = survey.choice
    rows = [] if ask is None else [(study.unit_of[answer.unit], answer.values[ask.name]) for answer in usable(answers)]
    judged = [(unit, label != unit.truth) for unit, label in rows if unit.truth]
    if not judged:
        return None

    def rates(names_of: Callable[[SurveyUnit], Iterable[str]]) -> list[ErrorRate]:
        by_name: dict[str, list[tuple[SurveyUnit, bool]]] = {}
        for unit, wrong in judged:
            for name in names_of(unit):
                by_name.setdefault(name, []).append((unit, wrong))
        return [_error_rate(name, records, seed) for name, records in by_name.items()]

    words = {name: frozenset(members) for name, members in (groups or {"human": HUMAN}).items()}
    return Errors(
        all=_error_rate("all answers", judged, seed),
        by_tag=sorted(
            rates(lambda unit: (f"{tag}: {value}" for tag, value in unit.tags.items())), key=lambda row: row.of
        ),
        by_alteration=sorted(rates(_alteration_of), key=lambda row: (-row.errors, row.of)),
        by_group=rates(lambda unit: (name for name, listed in words.items() if _own_word(unit) in listed)),
    )


def _error_rate(name: str, judged: Sequence[tuple[SurveyUnit, bool]], seed: int) -> ErrorRate:
    wrong = [float(error) for _, error in judged]
    interval = interval_for(wrong, [unit.cluster for unit, _ in judged], binary=True, seed=seed)
    errors = int(sum(wrong))
    return ErrorRate(of=name, errors=errors, answers=len(judged), rate=Estimate.of(errors / len(judged), interval))


def _alteration_of(unit: SurveyUnit) -> list[str]:
    return [f"{unit.altered[0]} -> {unit.altered[1]}"] if unit.altered else []


def _own_word(unit: SurveyUnit) -> str:
    """Return the altered word of the unit's caption: the paper's "altered subject of its caption"."""
    return unit.altered[int(unit.truth)] if unit.altered and unit.truth.isdigit() else ""


def read_groups(path: Path) -> dict[str, list[str]]:
    """Read groups of words in lower case: a JSON object of lists, such as `{"human": ["girl", "boy"]}`."""
    groups = read_object(path)
    for name, members in groups.items():
        if not isinstance(members, list) or not members or not all(isinstance(word, str) for word in members):
            raise DataError(f"{path}: group {name!r}: expected a list of words, got {quote(members)}")
    return {name: [word.lower() for word in own] for name, own in groups.items()}


def frequency_correlation(frequencies: Sequence[float], changes: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return Pearson's r between datasets' label frequencies and their changes in performance, and its p-value.

    Source: COCO-Counterfactuals appendix A.2, Table 6.

    >>> r, p = frequency_correlation([1, 2, 3], [[1.0], [2.0], [2.5]])
    >>> round(r, 3), round(p, 3)
    (0.982, 0.121)
    """
    from scipy.stats import pearsonr

    if len(frequencies) != len(changes):
        raise MetricError(
            f"frequency_correlation: got {len(frequencies)} frequencies and {len(changes)} rows of changes"
        )
    x = [frequency for frequency, row in zip(frequencies, changes, strict=True) for _ in row]
    y = [change for row in changes for change in row]
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        raise MetricError(f"frequency_correlation: needs 3 or more numbers that vary on both sides; got {len(x)}")
    correlation = pearsonr(x, y)
    return float(correlation.statistic), float(correlation.pvalue)
