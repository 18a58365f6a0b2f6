"""Doors of human studies: the key, files of answers as `annotate import` reads them, what `annotate agree` finds."""

import csv
import io
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from doors import Door, door_of
from reshape import FIELDS, ROWS

from tellapart.annotate import study as files
from tellapart.annotate.findings import findings, human_scores, read_groups
from tellapart.annotate.surveys import Study, deal, find_survey
from tellapart.data.folder import read_pair_set

#: Survey -> what each annotator says of the first unit, the second, and so on, in turn.
_SAID: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))

#: The surveys that people can agree on.
_CHOICES = ("i2t", "coco-cf", "match")


def open_study_doors(folder: Path) -> Iterator[Door]:
    """Write a valid file of each format below a folder that holds the pair set `few`, and yield its door."""
    for survey in _SAID:
        yield from _open_survey(folder / "studies" / survey, survey, folder / "few")
    yield door_of(folder / "groups.json", lambda path: sorted(read_groups(path).items()), whole=False)
    for kind in ("json", "txt"):
        yield door_of(folder / f"allowed.{kind}", lambda path: sorted(files.read_allowed(path)), whole=False)


def _open_survey(home: Path, name: str, few: Path) -> Iterator[Door]:
    survey, pairs = find_survey(name), read_pair_set(few)
    study = deal(survey, pairs, ("ann", "bob"))
    files.write_study(home, survey, study, pairs)
    said = _say(study, name)
    sheet = home / "sheets" / "all.csv"

    def imported(path: Path) -> Any:
        replies = files.decode_replies(survey, study, files.read_replies(path, survey, study))
        return [answer.model_dump(mode="json") for answer in replies]

    def recorded(_path: Path) -> Any:
        answers = files.read_answers(home, files.read_study(home))
        rows = survey.records(files.read_study(home), answers) if survey.records else []
        files.write_rows(home / "records.jsonl", rows)
        return [answer.model_dump(mode="json") for answer in answers], rows

    def agreed(_path: Path) -> Any:
        answered = [(earlier.study, earlier.answers) for earlier in [files.read_earlier(home)]]
        scores = human_scores(answered).values.tolist() if name == "match" else []
        return findings(answered).model_dump(mode="json"), scores

    knows = FIELDS | ROWS
    if not all(ask.required for ask in survey.asks):  # what was left empty is no answer
        knows -= {"null", "key dropped", "row dropped"}
    cells = knows - ({"type"} if any(ask.control == "text" for ask in survey.asks) else set())
    door_of_answers = partial(door_of, read=imported, knows=knows, rows=("ann-0", "bob-0"))
    filled = _fill_sheet(home, files.field_names(survey, study), said)
    yield door_of_answers(sheet, content=filled, name=f"{name} sheet", knows=cells, free=_SHOWN)
    if name in ("i2t", "box"):
        exported = json.dumps(_export(study, said))
        yield door_of_answers(home / "export.json", content=exported, name=f"{name} Label Studio")
    if name == "i2t":
        minimal = [{"study": study.token, "task": task, "annotation_id": 1, **values} for task, values in said.items()]
        yield door_of_answers(home / "plain.json", content=json.dumps(minimal), name="i2t Label Studio's minimal")
    sheet.write_text(filled, "utf-8", newline="")
    files.write_answers(home, files.decode_replies(survey, study, files.read_replies(sheet, survey, study)))
    judged = agreed if name in _CHOICES else recorded
    about = {"whole": False, "knows": FIELDS | {"row repeated"}, "free": ("tags", "earlier")}
    yield door_of(home / "answers.jsonl", judged, name=f"{name} answers", **about)
    yield door_of(home / "study.json", judged, name=f"{name} key", **about)


#: Columns of a sheet that are there to be seen, and not read back.
_SHOWN = tuple(f"{kind}_{mark}" for kind in ("image", "text", "option") for mark in "012abc")


def _say(study: Study, name: str) -> dict[str, dict[str, Any]]:
    said = _SAID[name]
    return {task.id: said[number % len(said)] for number, task in enumerate(study.tasks)}


def _fill_sheet(home: Path, fields: tuple[str, ...], said: dict[str, dict[str, Any]]) -> str:
    """Return the sheets of all annotators in one, filled in."""
    sheets = [path.read_text("utf-8") for path in sorted((home / "sheets").glob("*.csv"))]
    rows = [row for sheet in sheets for row in csv.DictReader(io.StringIO(sheet))]
    stream = io.StringIO()
    table = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    table.writeheader()
    for row in rows:
        cells = {field: said[row["task"]][field] for field in fields}
        table.writerow(row | {field: v if isinstance(v, str) else json.dumps(v) for field, v in cells.items()})
    return stream.getvalue()


def _export(study: Study, said: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return Label Studio's export of the same answers."""
    rows = []
    for number, (task, values) in enumerate(said.items()):
        size = {"original_width": 8, "original_height": 8}
        result = [{"from_name": name, "value": _control(name, value), **size} for name, value in values.items()]
        data = {"study": study.token, "task": task}
        rows.append({"id": number, "data": data, "annotations": [{"id": number, "result": result}]})
    return rows


def _control(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"text" if name == "object" else "choices": [value]}
    x, y, width, height = (100 * side / 8 for side in value)
    return {"rectanglelabels": ["box"], "x": x, "y": y, "width": width, "height": height, "rotation": 0}
