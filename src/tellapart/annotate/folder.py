"""A study's folder: the key, what annotators are given, and their answers.

- `study.json`: the key. It holds the right answers; do not give it to annotators.
- `label_studio/config.xml` and `label_studio/tasks_NAME.json`: a project for each annotator.
- `sheets/NAME.csv`: the same as a spreadsheet.
- `images/`: named by their content.
- `answers.jsonl`: made by `tellapart annotate import`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.annotate.label_studio import configuration, data_uri, local_file, tasks_json
from tellapart.annotate.presentation import Picture, Shown, picture, shown
from tellapart.annotate.sheets import sheet
from tellapart.annotate.survey import Answer, Earlier, Study, Survey, Unit
from tellapart.data.annotations import check_row
from tellapart.data.atomic import atomic_file, atomic_folder
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_jsonl, read_object
from tellapart.errors import DataError

__all__ = ["Given", "read_answers", "read_earlier", "read_study", "write_answers", "write_rows", "write_study"]

_KEY, _ANSWERS = "study.json", "answers.jsonl"


@dataclass(frozen=True, slots=True)
class Given:
    """How Label Studio gets at the images.

    Attributes:
        embed: the images stand in the tasks as `data:` addresses; no server is needed, and the files grow.
        prefix: the study's folder below LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT; its name if empty.

    >>> Given().embed
    False
    """

    embed: bool = False
    prefix: str = ""


def write_study(folder: Path, survey: Survey, study: Study, pairs: PairSet, given: Given) -> None:
    """Write a study's folder, whole or not at all.

    Raises:
        DataError: the folder holds something already or cannot be written, or an image cannot be read.

    >>> import tempfile
    >>> from tellapart.annotate.survey import Deal, deal
    >>> from tellapart.annotate.surveys import find_survey
    >>> from tellapart.data.item import Item
    >>> item = Item(id="a", images=("a.png",), texts=("x", "y"))
    >>> pairs = PairSet("s", (item,), Path("."), read=lambda reference: b"1")
    >>> study = deal(find_survey("i2t"), pairs, Deal(("ann",)))
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     write_study(Path(scratch) / "study", find_survey("i2t"), study, pairs, Given())
    ...     sorted(path.name for path in Path(scratch, "study").rglob("*.*"))
    ['6b86b273ff34fce1.png', 'ann.csv', 'config.xml', 'study.json', 'tasks_ann.json']
    """
    with atomic_folder(folder) as draft:
        _fill(draft, survey, study, pairs, Given(given.embed, given.prefix or folder.resolve().name))


def _fill(folder: Path, survey: Survey, study: Study, pairs: PairSet, given: Given) -> None:
    for name in ("images", "label_studio", "sheets"):
        (folder / name).mkdir()
    pictures: dict[tuple[str, tuple[float, ...]], Picture] = {}
    for each in _images(study.units):
        found = picture(pairs, each)
        (folder / "images" / found.name).write_bytes(found.data)
        # The bytes are needed again only where they are embedded.
        pictures[each.value, each.box] = found if given.embed else Picture(found.name, found.type, b"")

    def embedded(each: Shown) -> str:
        own = pictures[each.value, each.box]
        return data_uri(own) if given.embed else local_file(own, given.prefix)

    def beside(each: Shown) -> str:
        return f"../images/{pictures[each.value, each.box].name}"

    files = {_KEY: study.model_dump_json(indent=1) + "\n", "label_studio/config.xml": configuration(survey, study)}
    for annotator in study.annotators:
        files[f"label_studio/tasks_{annotator}.json"] = tasks_json(study, annotator, embedded)
        files[f"sheets/{annotator}.csv"] = sheet(survey, study, annotator, beside)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")


def _images(units: Iterable[Unit]) -> dict[Shown, None]:
    """Every image that is shown, once."""
    things = (each for unit in units for each in shown(unit, range(len(unit.options))) if each.image)
    return {Shown("", True, each.value, each.box): None for each in things}


def read_study(folder: Path) -> Study:
    """Read the key of a study.

    Raises:
        DataError: the folder has none, or it is not what it must be.

    >>> read_study(Path("no such folder"))
    Traceback (most recent call last):
    tellapart.errors.DataError: no such folder: has no study.json; name a folder that `tellapart annotate export` wrote
    """
    path = folder / _KEY
    if not path.is_file():
        raise DataError(f"{folder}: has no {_KEY}; name a folder that `tellapart annotate export` wrote")
    study = check_row(Study, read_object(path), str(path))
    if not study.units:
        raise DataError(f"{path}: has no units")
    known = study.unit_of
    if odd := [task.id for task in study.tasks if task.unit not in known]:
        raise DataError(f"{path}: task {odd[0]} asks a unit that is not there")
    return study


def write_answers(folder: Path, answers: Sequence[Answer]) -> Path:
    """Write a study's answers, in place of those that it may have had; all of the file or nothing.

    Raises:
        DataError: it cannot be written.

    >>> write_answers(Path("no such folder"), [])
    Traceback (most recent call last):
    tellapart.errors.DataError: no such folder/answers.jsonl cannot be written (No such file or directory)
    """
    path = folder / _ANSWERS
    write_rows(path, [answer.model_dump(mode="json") for answer in answers])
    return path


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as JSONL, or as one JSON list where the file's name ends in `.json`; all of the file or nothing.

    Raises:
        DataError: it cannot be written.

    >>> write_rows(Path("no such folder/a.json"), [])
    Traceback (most recent call last):
    tellapart.errors.DataError: no such folder/a.json cannot be written (No such file or directory)
    """
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    listed = ",\n".join(lines)
    text = f"[{listed}]\n" if path.suffix == ".json" else "".join(f"{line}\n" for line in lines)
    try:
        with atomic_file(path) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error})") from error


def read_answers(folder: Path, study: Study) -> list[Answer]:
    """Read a study's answers.

    Raises:
        DataError: there are none yet, or they are not what they must be.

    >>> study = Study(survey="i2t", pairs="s", shape=[1, 2], seed=0, annotators=[], units=[], tasks=[])
    >>> read_answers(Path("no such folder"), study)
    Traceback (most recent call last):
    tellapart.errors.DataError: no such folder: has no answers.jsonl; read them in with `tellapart annotate import`
    """
    path = folder / _ANSWERS
    if not path.is_file():
        raise DataError(f"{folder}: has no {_ANSWERS}; read them in with `tellapart annotate import`")
    answers = [check_row(Answer, row, f"{path}:{line}") for line, row in read_jsonl(path)]
    known = {task.id for task in study.tasks}
    if odd := [answer.task for answer in answers if answer.task not in known]:
        raise DataError(f"{path}: task {odd[0]!r} is unknown to {folder / _KEY}; import the answers again")
    return answers


def read_earlier(folder: Path) -> Earlier:
    """Read a study that another one starts from.

    Raises:
        DataError: as `read_study` and `read_answers`.

    >>> read_earlier(Path("no such folder"))
    Traceback (most recent call last):
    tellapart.errors.DataError: no such folder: has no study.json; name a folder that `tellapart annotate export` wrote
    """
    study = read_study(folder)
    return Earlier(study, tuple(read_answers(folder, study)))
