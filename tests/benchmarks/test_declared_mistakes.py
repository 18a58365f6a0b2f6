"""The first records of every declared set are known, and no mistake in what its tables say leaves them as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, pairwise, permutations
from pathlib import Path
from typing import Any

import pytest
from declared_set_files import MADE, SPEC, made
from pydantic import ValidationError

from tellapart.benchmarks import set_file
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.set_file import SetFile, read_set_file
from tellapart.benchmarks.shipped_sets import SETS
from tellapart.catalog import BENCHMARKS
from tellapart.errors import DataError

#: Name -> its records of the first rows that are made in the form of the real ones.
FIRST = json.loads(Path(__file__).with_name("declared_first_records.json").read_text("utf-8"))
#: Sets whose files can be made; of several variants with the same tables, one.
SPECS = [f"spec-{subset}-{way}" for subset in SPEC for way in ("i2t", "t2i")]
NAMES = [*(name for name in MADE if name != "genai-bench"), *SPECS, "whatsup-coco-one", "whatsup-vg-two"]

Records = list[dict[str, Any]]


def declared(name: str) -> SetFile:
    file, _, variant = BENCHMARKS[name].partition(":")[2].partition("/")
    return read_set_file(SETS / f"{file}.toml", variant).model_copy(update={"items": None, "counts": {}})


def records_of(one: SetFile, groups: list[Any], place: Locations) -> Records | str:
    """What is made of the rows: items, questions, or images with their captions; or what is wrong."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(set_file, "_group_rows", lambda *_: iter(groups))
        try:
            loaded: Any = set_file._load_records(one, place)
        except DataError as error:
            return str(error)
    if one.gallery:
        return [{"images": [*loaded.images], "captions": [*loaded.captions], "pairs": [*map(list, loaded.pairs)]}]
    rows = loaded.questions if one.question else loaded.items
    own = ("question_id", "question", "answer", "group") if one.question else ("texts", "true")
    fields = ("id", "images", *own, "cluster", "tags")
    # A set without ids of questions has none in its first records.
    fields = tuple(field for field in fields if field != "question_id" or any(row.question_id for row in rows))
    return json.loads(json.dumps([{field: getattr(row, field) for field in fields} for row in rows]))


@pytest.fixture(params=NAMES)
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, SetFile, list[Any], Locations]:
    """A set, its declaration, the first rows of its files, and where they lie."""
    name, place = request.param, Locations(tmp_path)
    made(name, tmp_path)
    one = declared(name)
    return name, one, list(islice(set_file._group_rows(one, place), 14))[-2:], place


@pytest.mark.few(10)
def test_the_first_records_are_these(rows: tuple[str, SetFile, list[Any], Locations]) -> None:
    name, one, groups, place = rows
    assert records_of(one, groups, place) == FIRST[name]


def mistakes(one: SetFile) -> Iterator[tuple[str, SetFile]]:
    """Small mistakes in a set's tables: a value that another key has, neighbours exchanged, a value or table less."""
    kind = "item" if one.item else "question" if one.question else "gallery"
    tables = [*one.item, *one.question] or [one.gallery]
    for number, table in enumerate(tables):
        own = table.model_dump(exclude_none=True, exclude_defaults=True)
        for label, changed in changes(own):
            with suppress(ValidationError):  # else it is noticed when the file is read
                wrong = [*tables[:number], type(table).model_validate(changed), *tables[number + 1 :]]
                update = {kind: wrong if kind != "gallery" else wrong[0]}
                yield f"{kind} {number}: {label}", one.model_copy(update=update)
        if len(tables) > 1:
            yield f"no {kind} {number}", one.model_copy(update={kind: tables[:number] + tables[number + 1 :]})


def changes(own: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    texts = {key: value for key, value in own.items() if isinstance(value, str)}
    for key, other in permutations(texts, 2):
        if texts[key] != texts[other]:
            yield f"{key} = {other}", own | {key: texts[other]}
    for key, value in own.items():
        if isinstance(value, list):
            for k, (left, right) in enumerate(pairwise(value)):
                yield f"{key}: {k} and {k + 1} exchanged", own | {key: [*value[:k], right, left, *value[k + 2 :]]}
        if isinstance(value, dict):
            for tag in value:
                yield f"no {key}.{tag}", own | {key: {name: text for name, text in value.items() if name != tag}}
        elif key in ("true", "cluster", "group", "under", "options"):
            yield f"no {key}", {name: each for name, each in own.items() if name != key}


@pytest.mark.few(10)
def test_no_mistake_in_its_tables_leaves_the_records_as_they_are(
    rows: tuple[str, SetFile, list[Any], Locations],
) -> None:
    name, one, groups, place = rows
    unnoticed = [label for label, wrong in mistakes(one) if records_of(wrong, groups, place) == FIRST[name]]
    assert unnoticed == []
