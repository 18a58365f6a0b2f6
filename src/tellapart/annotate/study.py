"""Write a human study of a pair set, and read the answers that come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tellapart.annotate.agreement import usable
from tellapart.annotate.folder import (
    read_answers,
    read_earlier,
    read_study,
    write_answers,
    write_rows,
    write_study,
)
from tellapart.annotate.label_studio import read_export
from tellapart.annotate.replies import Reply, decode_replies, field_names, read_allowed
from tellapart.annotate.sheets import read_sheet
from tellapart.annotate.survey import Deal, Study, Survey, SurveyAnswer, deal
from tellapart.annotate.surveys import find_survey
from tellapart.benchmarks.arguments import PairsGiven, load_pairs
from tellapart.data.arguments import PathGiven, as_path, as_paths, expect_used
from tellapart.data.rows import read_json
from tellapart.data.strict_json import plain_suffix
from tellapart.errors import DataError


def read_replies(path: Path, survey: Survey, study: Study, columns: Mapping[str, str] | None = None) -> Iterator[Reply]:
    """Yield the replies of a file: `.json` that Label Studio exported, or a `.csv` sheet or table."""
    if plain_suffix(path) == ".csv":
        yield from read_sheet(path, survey, study, columns or {})
    elif plain_suffix(path) == ".json":
        yield from read_export(read_json(path), str(path), field_names(survey, study))
    else:
        raise DataError(
            f"{path}: answers are read from the .json files that Label Studio exports, and from .csv sheets and tables"
        )


@dataclass(frozen=True, slots=True)
class WrittenStudy:
    """A study that was written: its folder, its survey's name, and its key."""

    to: Path
    survey: str
    study: Study


@dataclass(frozen=True, slots=True)
class ImportedAnswers:
    """Answers that were read into a study's folder.

    Attributes:
        to: the file.
        answers: all of the study's, with those that were imported before.
        broken: those that break a rule of the survey: kept, and not used.
        skipped: how many were skipped.
        of: how many tasks there are.
    """

    to: Path
    answers: Sequence[SurveyAnswer]
    broken: Sequence[SurveyAnswer]
    skipped: int
    of: int


def annotate_export(
    survey: str,
    pairs: PairsGiven,
    to: PathGiven,
    *,
    annotators: str = "1",
    each: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    after: PathGiven | None = None,
    embed: bool = False,
    prefix: str = "",
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
) -> WrittenStudy:
    """Write a survey of a pair set: Label Studio projects and spreadsheets, one an annotator, and the key.

    Args:
        survey: its name.
        pairs: as `load_pairs` takes them.
        to: the study's folder; new or empty.
        annotators: how many, or their names, separated by commas.
        each: how many annotators see each unit; all if None.
        sample: ask of so many items, drawn at random; of all if None.
        seed: of the sample, the orders and the sides.
        after: an earlier study's folder, of surveys that need one.
        embed: put the images into Label Studio's tasks.
        prefix: the folder's path below Label Studio's local files.
        data, images, outside_images: as of `evaluate`.

    Raises:
        TellapartError: no such survey or set, or the folder holds something.

    >>> import tellapart as ta
    >>> written = ta.annotate_export("i2t", "demo", getfixture("tmp_path") / "study", annotators="ann,bob", sample=5)
    >>> sorted(path.name for path in (written.to / "sheets").iterdir())
    ['ann.csv', 'bob.csv']
    """
    chosen = find_survey(survey)
    if not chosen.after:
        expect_used("annotate export", f"on a {survey} survey, which follows no other", after=(after, None))
    if embed:
        expect_used("annotate export", "with embed=True: no picture is served", prefix=(prefix, ""))
    options = Deal(_annotator_names(annotators), each, seed, sample)
    source = load_pairs(pairs, data=data, images=images, outside_images=outside_images)
    study = deal(chosen, source, options, None if after is None else read_earlier(as_path(after, "after")))
    folder = as_path(to, "to")
    write_study(folder, chosen, study, source, embed=embed, prefix=prefix)
    return WrittenStudy(folder, chosen.name, study)


def annotate_import(
    study: PathGiven,
    files: PathGiven | Sequence[PathGiven],
    *,
    partial: bool = False,
    answer_list: PathGiven | None = None,
    records: PathGiven | None = None,
    columns: Mapping[str, str] | None = None,
) -> ImportedAnswers:
    """Add answers to those in a study's folder, strictly: nothing is guessed, dropped or taken twice.

    An answer that was imported before may come again, if it is the same. Of tables but sheets and MTurk's,
    `columns` has the column of `study`, `task`, `worker`, `skip` and each answer, or of `answer` if one is asked for.

    Raises:
        TellapartError: a file does not fit its format or the study, or contradicts an answer that was imported before.

    >>> import tellapart as ta
    >>> study = ta.annotate_export("i2t", "demo", getfixture("tmp_path") / "study", annotators="ann", sample=2).to
    >>> sheet = study / "sheets" / "ann.csv"
    >>> _ = sheet.write_text(sheet.read_text().replace(",,\\n", ",a,\\n"))  # answers "a" to each
    >>> read = ta.annotate_import(study, sheet)
    >>> len(read.answers), read.of, list(read.broken)
    (4, 4, [])
    """
    folder, paths = as_path(study, "study"), as_paths(files, "files")
    if not any(plain_suffix(path) == ".csv" for path in paths):
        expect_used("annotate import", "without a table (.csv)", columns=(dict(columns or {}), {}))
    key = read_study(folder)
    survey = find_survey(key.survey)
    if records and survey.records is None:
        raise DataError(
            f"records={records}: a {survey.name} survey makes no records; `tellapart annotate agree` reads its answers"
        )
    if key.survey != "question":
        expect_used("annotate import", f"on a {key.survey} survey", answer_list=(answer_list, None))
    allowed = read_allowed(as_path(answer_list, "answer_list")) if answer_list else frozenset()
    replies = [reply for path in paths for reply in read_replies(path, survey, key, columns)]
    earlier = read_answers(folder, key, missing_ok=True)
    answers = decode_replies(survey, key, replies, allowed=allowed, partial=partial, earlier=earlier)
    to = write_answers(folder, answers)
    if records and survey.records:
        write_rows(as_path(records, "records"), survey.records(key, usable(answers)))
    return ImportedAnswers(
        to,
        answers,
        [answer for answer in answers if answer.problems],
        sum(answer.skipped for answer in answers),
        len(key.tasks),
    )


def _annotator_names(annotators: str) -> tuple[str, ...]:
    """Return the names of so many annotators, or the names that were given."""
    if annotators.isascii() and annotators.isdigit():
        if not 1 <= int(annotators) <= 999:
            raise DataError(f"annotators={annotators}: give 1 to 999, or names")
        return tuple(f"annotator-{number}" for number in range(1, int(annotators) + 1))
    return tuple(name.strip() for name in annotators.split(","))
