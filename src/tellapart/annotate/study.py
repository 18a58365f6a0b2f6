"""A human study of a pair set: its folder, and the answers that come back.

- `study.json`: the key. It holds the right answers; do not give it to annotators.
- `label_studio/config.xml` and `label_studio/tasks_NAME.json`: a project for each annotator.
- `sheets/NAME.csv`: the same as a spreadsheet.
- `images/`: named by their content.
- `answers.jsonl`: made by `tellapart annotate import`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.annotate.forms import (
    Reply,
    check_answer,
    configuration,
    decode_replies,
    field_names,
    image_address,
    read_allowed,
    read_export,
    read_image_file,
    read_sheet,
    sheet,
    task_parts,
    tasks_json,
)
from tellapart.annotate.surveys import Deal, Earlier, Study, Survey, SurveyAnswer, SurveyUnit, deal, find_survey, usable
from tellapart.benchmarks.arguments import PairsGiven, load_pairs
from tellapart.data.annotations import check_row
from tellapart.data.arguments import PathGiven, as_path, as_paths, expect_used
from tellapart.data.atomic import atomic_file, atomic_folder
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_json, read_jsonl, read_object
from tellapart.data.strict_json import plain_suffix
from tellapart.errors import DataError, TellapartError, quote

_KEY, _ANSWERS = "study.json", "answers.jsonl"


def write_study(
    folder: Path, survey: Survey, study: Study, pairs: PairSet, *, embed: bool = False, prefix: str = ""
) -> None:
    """Write a study's folder atomically.

    Label Studio's tasks embed the images as `data:` addresses, or name files of `prefix`: the folder below
    LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT, of the study's name if empty.
    """
    served = None if embed else prefix or folder.resolve().name
    names: dict[tuple[str, tuple[float, ...]], str] = {}
    addresses: dict[tuple[str, tuple[float, ...]], str] = {}
    with atomic_folder(folder) as draft:
        for name in ("images", "label_studio", "sheets"):
            (draft / name).mkdir()
        parts = (part for unit in study.units for part in task_parts(unit, range(len(unit.options))) if part.image)
        for part in parts:
            if (key := (part.value, part.box)) not in names:
                names[key], data = read_image_file(pairs, part)
                (draft / "images" / names[key]).write_bytes(data)
                addresses[key] = image_address(names[key], data, served)
        files = {_KEY: study.model_dump_json(indent=1) + "\n", "label_studio/config.xml": configuration(survey, study)}
        for annotator in study.annotators:
            files[f"label_studio/tasks_{annotator}.json"] = tasks_json(
                study, annotator, lambda part: addresses[part.value, part.box]
            )
            files[f"sheets/{annotator}.csv"] = sheet(
                survey, study, annotator, lambda part: f"../images/{names[part.value, part.box]}"
            )
        for name, text in files.items():
            (draft / name).write_text(text, encoding="utf-8", newline="")


def read_study(folder: Path) -> Study:
    """Read the key of a study."""
    path = folder / _KEY
    if not path.is_file():
        raise DataError(f"{folder}: has no {_KEY}; name a folder that `tellapart annotate export` wrote")
    study = check_row(Study, read_object(path), str(path))
    try:
        _check_study(study)
    except TellapartError as error:
        raise DataError(f"{path}: {error}") from error
    return study


def _check_study(study: Study) -> None:
    """Hold a key to what `deal` makes."""
    survey = find_survey(study.survey)
    Deal(tuple(study.annotators))
    if not study.units:
        raise DataError("has no units")
    if len(study.shape) != 2 or min(study.shape) < 1:
        raise DataError(f"field 'shape': expected how many images and texts an item has, got {quote(study.shape)}")
    names: list[tuple[str, list[Hashable]]] = [
        ("unit", [unit.id for unit in study.units]),
        ("task", [task.id for task in study.tasks]),
        ("task of annotator and unit", [(task.annotator, task.unit) for task in study.tasks]),
    ]
    for name, ids in names:
        if repeated := [id_ for id_, count in Counter(ids).items() if count > 1]:
            raise DataError(f"{name} {quote(repeated[0])} is there twice")
    for unit in study.units:
        _check_unit(survey, study, unit)
    for task in study.tasks:
        if task.unit not in study.unit_of:
            raise DataError(f"task {task.id} asks a unit that is not there")
        if task.annotator not in study.annotators:
            raise DataError(f"task {task.id}: field 'annotator': {task.annotator!r} is not one of the study's")
        if sorted(task.order) != (options := [*range(len(study.unit_of[task.unit].options))]):
            raise DataError(f"task {task.id}: field 'order': expected an order of {options}, got {quote(task.order)}")
    answers = len(study.units[0].options) if survey.choice and survey.choice.options else 1
    for item, units in Counter(unit.item for unit in study.units).items():
        if survey.judged and units * answers != study.shape[0] * study.shape[1]:
            images, texts = study.shape
            raise DataError(f"item {item!r} has {units} units, which ask of other pairs than its {images}x{texts}")


def _check_unit(survey: Survey, study: Study, unit: SurveyUnit) -> None:
    if unit.layout != study.units[0].layout:
        raise DataError(f"unit {unit.id!r} shows other numbers of images, texts or options than the first unit")
    if not (unit.texts if survey.choice and survey.choice.options and not unit.images else unit.images or unit.options):
        raise DataError(f"unit {unit.id!r} shows nothing to ask about")
    ask = survey.choice
    truths = [*map(str, range(len(unit.options)))] if ask and ask.options else ask.choices if ask else ()
    if unit.truth not in (truths if survey.judged else ("",)):
        expected = f"expected one of {', '.join(truths)}" if survey.judged else f"a {survey.name} survey has none"
        raise DataError(f"unit {unit.id!r}: field 'truth': {expected}, got {unit.truth!r}")
    if len(unit.altered) not in (0, 2):
        raise DataError(f"unit {unit.id!r}: field 'altered': expected two words or none, got {quote(unit.altered)}")


def write_answers(folder: Path, answers: Sequence[SurveyAnswer]) -> Path:
    """Write all of a study's answers atomically."""
    path = folder / _ANSWERS
    write_rows(path, [answer.model_dump(mode="json") for answer in answers])
    return path


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows atomically: as JSONL, or as one JSON list if the file's name ends in `.json`."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    listed = ",\n".join(lines)
    text = f"[{listed}]\n" if path.suffix == ".json" else "".join(f"{line}\n" for line in lines)
    try:
        with atomic_file(path) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error})") from error


def read_answers(folder: Path, study: Study, *, missing_ok: bool = False) -> list[SurveyAnswer]:
    """Read a study's answers; with `missing_ok`, there may be none yet."""
    path = folder / _ANSWERS
    if not path.is_file():
        if missing_ok:
            return []
        raise DataError(f"{folder}: has no {_ANSWERS}; read them in with `tellapart annotate import`")
    survey, tasks = find_survey(study.survey), {task.id: task for task in study.tasks}
    answers: dict[str, tuple[SurveyAnswer, int]] = {}
    for line, row in read_jsonl(path):
        answer = check_row(SurveyAnswer, row, f"{path}:{line}")
        if answer.task not in tasks:
            raise DataError(
                f"{path}:{line}: task {answer.task!r} is unknown to {folder / _KEY}; import the answers again"
            )
        if answer.task in answers:
            raise DataError(
                f"{path}:{line}: a second answer to task {answer.task}, answered in line {answers[answer.task][1]}; "
                "keep one of them"
            )
        check_answer(survey, tasks[answer.task], answer, f"{path}:{line}")
        answers[answer.task] = answer, line
    return [answer for answer, _ in answers.values()]


def read_earlier(folder: Path) -> Earlier:
    """Read a study that another one starts from."""
    study = read_study(folder)
    return Earlier(study, tuple(read_answers(folder, study)))


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
        after: an earlier study's folder, of surveys that need one (error-category: coco-cf; expression: box).
        embed: put the images into Label Studio's tasks.
        prefix: the folder's path below Label Studio's local files; its name if not given.
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
    names = [name.strip() for name in annotators.split(",")]
    if annotators.isascii() and annotators.isdigit():
        if not 1 <= int(annotators) <= 999:
            raise DataError(f"annotators={annotators}: give 1 to 999, or names")
        names = [f"annotator-{number}" for number in range(1, int(annotators) + 1)]
    options = Deal(tuple(names), each, seed, sample)
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
