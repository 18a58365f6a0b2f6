"""The findings of studies of one pair set, as a record and as tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tellapart.annotate.human import (
    AnsweredStudies,
    Estimate,
    HumanRow,
    LabelAgreement,
    LabelShare,
    Record,
    agreement,
    human_rows,
    human_scores,
    shares,
    usable,
)
from tellapart.annotate.study import read_earlier
from tellapart.annotate.surveys import Study, Survey, SurveyAnswer, SurveyUnit, find_survey
from tellapart.data.arguments import PathGiven, as_path, as_paths
from tellapart.data.rows import read_object
from tellapart.data.scores import join_names
from tellapart.errors import DataError, quote
from tellapart.models.memory.external import write_scores
from tellapart.report.terminal import print_lines, print_tables, table
from tellapart.stats.intervals import interval_for

# Error rates of annotators by tag, by the altered word pair and by groups of words; and how often a word was altered.
#
# An error is an answer other than the image's (or the caption's): the other one, both, or neither
# (COCO-Counterfactuals appendix A.3). Rates are over answers, with intervals that draw clusters.

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
    """A survey's errors: of all answers, by tag, by altered words (most errors first, Table 10), by group of words."""

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

    def list_groups(unit: SurveyUnit) -> list[str]:
        # The paper's "altered subject of its caption": the altered word of the unit's caption.
        word = unit.altered[int(unit.truth)] if unit.altered and unit.truth.isdigit() else ""
        return [name for name, members in (groups or {"human": HUMAN}).items() if word in {*members}]

    return Errors(
        all=_error_rate("all answers", judged, seed),
        by_tag=sorted(
            rates(lambda unit: (f"{tag}: {value}" for tag, value in unit.tags.items())), key=lambda row: row.of
        ),
        by_alteration=sorted(
            rates(lambda unit: ["{} -> {}".format(*unit.altered)] if unit.altered else []),
            key=lambda row: (-row.errors, row.of),
        ),
        by_group=rates(list_groups),
    )


def _error_rate(name: str, judged: Sequence[tuple[SurveyUnit, bool]], seed: int) -> ErrorRate:
    wrong = [float(error) for _, error in judged]
    interval = interval_for(wrong, [unit.cluster for unit, _ in judged], binary=True, seed=seed)
    errors = int(sum(wrong))
    return ErrorRate(of=name, errors=errors, answers=len(judged), rate=Estimate.of(errors / len(judged), interval))


def read_groups(path: Path) -> dict[str, list[str]]:
    """Read groups of words in lower case: a JSON object of lists, such as `{"human": ["girl", "boy"]}`."""
    groups = read_object(path)
    for name, members in groups.items():
        if not isinstance(members, list) or not members or not all(isinstance(word, str) for word in members):
            raise DataError(f"{path}: group {name!r}: expected a list of words, got {quote(members)}")
    return {name: [word.lower() for word in own] for name, own in groups.items()}


#: Rows of altered word pairs that are printed; the JSON has them all.
_MOST_ROWS = 20

_UNDEFINED = (
    "undefined: kappa and alpha compare agreement with luck, and where all answers are one and the same, luck explains "
    "them all (0 / 0); read `same`. On items of one image or one text, who is always right gives one answer, too."
)


class StudyFindings(Record):
    """The findings of one study."""

    survey: str
    answers: int
    skipped: int
    broken: int
    labels: list[LabelShare]
    agreement: list[LabelAgreement]
    errors: Errors | None


class Findings(Record):
    """All studies, and the human row that they give together."""

    studies: list[StudyFindings]
    human: list[HumanRow]


def annotate_agree(
    studies: PathGiven | Sequence[PathGiven],
    *,
    groups: PathGiven | None = None,
    scores: PathGiven | None = None,
    seed: int = 0,
) -> Findings:
    """Return how people agree, their errors, and the human row of a results table; `scores` writes their answers.

    Raises:
        TellapartError: a folder is not a study with answers, or they are not of one pair set.

    >>> import tellapart as ta
    >>> study = ta.annotate_export("i2t", "demo", getfixture("tmp_path") / "study", annotators="ann", sample=2).to
    >>> sheet = study / "sheets" / "ann.csv"
    >>> _ = sheet.write_text(sheet.read_text().replace(",,\\n", ",a,\\n"))  # answers "a" to each
    >>> _ = ta.annotate_import(study, sheet)
    >>> ta.annotate_agree(study).studies[0].answers
    4
    """
    answered = [(earlier.study, earlier.answers) for earlier in map(read_earlier, as_paths(studies, "studies"))]
    record = findings(answered, read_groups(as_path(groups, "groups")) if groups else None, seed=seed)
    if scores:
        write_scores(human_scores(answered), as_path(scores, "scores"))
    return record


def findings(
    answered: AnsweredStudies, groups: Mapping[str, Iterable[str]] | None = None, *, seed: int = 0
) -> Findings:
    """Measure agreement, errors and the human row of studies of one pair set."""
    by_study = []
    for study, answers in answered:
        survey = find_survey(study.survey)
        by_study.append(
            StudyFindings(
                survey=survey.name,
                answers=len(answers),
                skipped=sum(answer.skipped for answer in answers),
                broken=sum(bool(answer.problems) for answer in answers),
                labels=shares(survey, study, answers, seed=seed),
                agreement=agreement(survey, study, answers),
                errors=errors_by(survey, study, answers, groups, seed=seed),
            )
        )
    return Findings(studies=by_study, human=human_rows(answered, seed=seed))


def print_findings(record: Findings) -> None:
    """Print the findings of each study, and the human row."""
    for study in record.studies:
        print_lines(f"{study.survey}: {study.answers:,} answers, {study.skipped:,} skipped, {study.broken:,} not used")
        shares = [(share.label, f"{share.answers:,}", _format_percent(share.share)) for share in study.labels]
        if shares:
            print_tables(table("answer", "n", "share", numbers_from=1, rows=shares), gap=False)
        if not study.agreement:
            print_lines("agreement: none, no unit has labels of two annotators")
        for view in study.agreement:
            _print_agreement(view)
        if study.errors:
            rows = [*study.errors.by_group, *study.errors.by_tag, *study.errors.by_alteration[:_MOST_ROWS]]
            cells = (
                (row.of, f"{row.errors:,}", f"{row.answers:,}", _format_percent(row.rate))
                for row in (study.errors.all, *rows)
            )
            print_tables(table("errors", "n", "of", "rate", numbers_from=1, rows=cells), gap=False)
            if (more := len(study.errors.by_alteration) - _MOST_ROWS) > 0:
                print_lines(f"{more:,} more altered word pairs are in --json")
    people = [
        (
            *(row.metric, f"{row.items:,}", _format_percent(row.strict), f"{100 * row.neutral:.2f}", f"{row.ties:,}"),
            join_names([f"{who} {100 * (share or 0.0):.1f}" for who, share in row.alone.items()]),
        )
        for row in record.human
    ]
    if people:
        heads = ("people", "items", "score", "ties broken by a coin", "items with ties", "each alone")
        print_tables(table(*heads, numbers_from=1, rows=people), gap=False)
    if any(row.ties for row in record.human):
        print_lines(
            "tie: as many people chose another answer as the true one, so that somebody was right; it is not",
            "right in `score`, and half right where a coin breaks it; a third annotator would decide",
        )


def _print_agreement(view: LabelAgreement) -> None:
    cells = (
        (f"{pair.a}, {pair.b}", f"{pair.units:,}", f"{100 * pair.same:.1f}", _format_coefficient(pair.kappa))
        for pair in view.pairs
    )
    print_tables(table("annotators", "units", "same", "kappa", numbers_from=1, rows=cells), gap=False)
    undefined = sum(pair.kappa.value is None for pair in view.pairs)
    mean = "undefined" if view.kappa is None else f"{view.kappa:.2f}"
    some = f" of the {len(view.pairs) - undefined} pairs that have one" if 0 < undefined < len(view.pairs) else ""
    alpha = f"Krippendorff's alpha {_format_coefficient(view.alpha)} on {view.units:,} units"
    print_lines(f"{view.field}, {view.view}: {alpha}; mean kappa {mean}{some}")
    if undefined or view.alpha.value is None:
        print_lines(_UNDEFINED)


def _format_percent(number: Estimate) -> str:
    return "" if number.value is None else f"{100 * number.value:.2f}{_format_bounds(number, 100, 1)}"


def _format_coefficient(number: Estimate) -> str:
    return "undefined" if number.value is None else f"{number.value:.2f}{_format_bounds(number, 1, 2)}"


def _format_bounds(number: Estimate, scale: int, decimals: int) -> str:
    if number.low is None or number.high is None:
        return f" ({number.reason})" if number.reason else ""
    return f" [{scale * number.low:.{decimals}f}, {scale * number.high:.{decimals}f}]"
