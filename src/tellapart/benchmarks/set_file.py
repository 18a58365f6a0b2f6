"""Benchmarks declared in a TOML file: their rows, read and filled into the templates of `set_tables`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.hub import Hub
from tellapart.benchmarks.image_sources import FolderImages, ZipImages, crop_images
from tellapart.benchmarks.locations import Locations, find_files
from tellapart.benchmarks.parquet import ParquetTable, image_columns
from tellapart.benchmarks.set_tables import (
    LINKED,
    GalleryTable,
    ItemTable,
    QuestionTable,
    RatingTable,
    SetFile,
    StatementTable,
)
from tellapart.data.annotations import expect_count, make_item, read_mapping
from tellapart.data.annotations import read_list as read_json_list
from tellapart.data.compressed import plain_suffix
from tellapart.data.fields import Kinds, fill, fill_all, read_list
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_csv, read_json, read_jsonl
from tellapart.data.task_records import (
    BinaryQuestion,
    BinaryQuestionSet,
    RatedImage,
    RatingSet,
    RetrievalSet,
    Statement,
    StatementSet,
    linked_images,
    read_gold,
)
from tellapart.errors import DataError, quote

#: The field with a row's number among the rows of all files, by which a parquet table finds its images.
TABLE_ROW = "@row"


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its fields, or its list of values, and its place for messages."""

    where: str
    fields: Any


def files_of(benchmark: str, patterns: list[str], place: Locations) -> list[Path]:
    """Return the files of all patterns; of `a|b` the first that is there."""
    folder = place.folder(benchmark) or Path()
    found: list[Path] = []
    for pattern in patterns:
        files = find_files(folder, pattern)
        if not files:
            raise DataError(f"{benchmark} needs {pattern}, and {folder} has no such file; name its folder with data=")
        found += files
    return found


def read_rows(path: Path, before: int = 0, suffix: str | None = None, each: str | None = None) -> Iterator[Row]:
    """Yield the rows of a file, by its suffix: a JSON list or object of rows, JSONL, CSV, TSV or parquet.

    Rows get more fields if they have none of these names: `file` (the file's name without its suffix), `folder`
    (that of the folder it is in), `row` (their number, from 0), `key` (of an object of rows), and the places of a list
    or a table's columns, from `0`.
    """
    for number, (place, key, fields) in enumerate(_read_file(path, suffix or plain_suffix(path).removeprefix("."))):
        row_fields: dict[str, Any] = {"file": path.stem, "row": number, "key": key, "folder": path.parent.name}
        row_fields[TABLE_ROW] = before + number
        if isinstance(fields, list):
            row_fields |= {str(k): value for k, value in enumerate(fields)}
        elif isinstance(fields, dict):
            row_fields |= {str(k): value for k, value in enumerate(fields.values())} | fields
        else:
            raise DataError(f"{place}: expected an object {{...}} or a list, got {quote(fields)}")
        if each == "*":
            groups = [(name, row) for name in fields for row in _nested_rows(row_fields, name, place)]
            yield from (Row(place, row | {"each": name, "place": row["each"]}) for name, row in groups)
        else:
            yield from (Row(place, row) for row in _nested_rows(row_fields, each, place))


def _nested_rows(row: dict[str, Any], each: str | None, place: str) -> Iterator[dict[str, Any]]:
    if each is None:
        yield row
        return
    inner = row.get(each)
    if isinstance(inner, dict):
        yield from (row | {"each": key, "value": value} for key, value in inner.items())
        return
    if not isinstance(inner, list) or not all(isinstance(element, dict) for element in inner):
        raise DataError(f"{place}: field {each!r}: expected a list of objects or an object, got {quote(inner)}")
    yield from (row | element | {"each": number} for number, element in enumerate(inner))


def _read_file(path: Path, suffix: str) -> Iterator[tuple[str, str, Any]]:
    if suffix == "jsonl":
        yield from ((f"{path}:{line}", "", row) for line, row in read_jsonl(path))
    elif suffix in ("csv", "tsv"):
        yield from ((f"{path}:{line}", "", row) for line, row in read_csv(path))
    elif suffix == "parquet":
        yield from ((place, "", row) for place, row in ParquetTable([path], images=image_columns(path)).rows())
    elif suffix == "json":
        if isinstance(read_json(path), dict):
            yield from ((f"{path}: {quote(key, 40)}", key, row) for key, row in read_mapping(path).items())
        else:
            yield from ((f"{path}: row {number}", "", row) for number, row in enumerate(read_json_list(path)))
    else:
        raise DataError(f"{path}: rows are read from .json, .jsonl, .csv, .tsv and .parquet")


#: The first letter of an image that is a cell of a parquet table: `@image_0`.
IMAGE_COLUMN = "@"


def images_of_set(name: str, place: Locations, folders: Sequence[str], archive: str | None) -> Callable[[str], bytes]:
    """Return the reader of a set's images; one of `file#x,y,width,height` is that part of the file's image."""
    folder = place.folder(name) or Path()
    if archive and place.named_images(name) is None and (packed := find_files(folder, archive)):
        return crop_images(ZipImages(packed[0]))
    return crop_images(FolderImages(place.pictures(name, *folders), outside=place.outside))


def set_benchmark(declared: SetFile) -> Benchmark:
    """Return the benchmark of a declaration."""
    hub = declared.hub
    return Benchmark(
        name=declared.name,
        title=declared.title,
        items=declared.items or 0,
        rows=declared.digest,
        shape=declared.shape,
        true=declared.true,
        official=declared.official,
        task=declared.task,
        source=declared.source,
        licence=declared.licence,
        citation=declared.citation,
        files=tuple(declared.files),
        media=declared.media,
        languages=declared.languages,
        images=declared.images,
        cluster=declared.clusters,
        ties=declared.ties,
        tie_rule=declared.tie_rule,
        authors=declared.authors,
        usual=tuple(declared.folders),
        mined_by=declared.mined_by,
        hub=None if hub is None else Hub(hub.repo, hub.revision, tuple(hub.files), hub.gated),
        load=partial(_load_records, declared),
        pictures=None if declared.item else partial(_make_reader, declared),
    )


def _make_reader(declared: SetFile, place: Locations) -> Callable[[str], bytes]:
    image_fields = [[table.image] for table in declared.rating] + (
        [[declared.gallery.image]] if declared.gallery else []
    )
    image_fields += [_as_list(table.images) for table in declared.item] + [
        _as_list(table.images) for table in declared.question
    ]
    image_fields += [table.images for table in declared.statement]
    columns = [
        template.removeprefix(IMAGE_COLUMN)
        for templates in image_fields
        for template in templates
        if template.startswith(IMAGE_COLUMN)
    ]
    if columns:
        tables = [path for path in files_of(declared.name, declared.files, place) if path.suffix == ".parquet"]
        return ParquetTable(tables, images=sorted({*columns}))
    return images_of_set(declared.name, place, declared.folders, declared.archive)


_Rows = ItemTable | QuestionTable | StatementTable | RatingTable


def _list_tables(declared: SetFile) -> Sequence[_Rows]:
    return [*declared.item, *declared.question, *declared.statement, *declared.rating]


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _load_records(
    declared: SetFile, place: Locations
) -> PairSet | BinaryQuestionSet | StatementSet | RatingSet | RetrievalSet:
    if declared.gallery is not None:
        return _load_gallery(declared, declared.gallery, place)
    records: list[Any] = []
    lines: dict[str, str] = {}
    kinds: Kinds = {}
    for place_of_row, row in _group_rows(declared, place):
        for table in _list_tables(declared):
            if not _is_chosen(table.where, row, place_of_row):
                continue
            record = _fill_table(table, row, place_of_row, kinds, declared.renamed)
            if record.id in lines:
                raise DataError(f"{place_of_row}: id {quote(record.id)} is repeated, after {lines[record.id]}")
            lines[record.id] = place_of_row
            records.append(record)
    root = place.folder(declared.name) or Path()
    if not records:
        raise DataError(f"{declared.name}: no rows in {', '.join(declared.files)} below {root}")
    if declared.items is not None:
        expect_count(root, len(records), declared.items)
    if declared.question:
        asked = tuple(_correct_answer(one, declared.corrected) for one in records)
        return BinaryQuestionSet(declared.name, asked, declared.reader)
    if declared.statement:
        return StatementSet(declared.name, tuple(records))
    if declared.rating:
        return RatingSet(declared.name, tuple(records))
    if any(table.cluster == LINKED for table in declared.item):
        records = _link_items(records)
    pairs = PairSet(declared.name, tuple(records), root, lines=lines, read=_make_reader(declared, place))
    if declared.shape is not None and (pairs.shape, pairs.true) != (declared.shape, declared.true):
        raise DataError(
            f"{lines[records[0].id]}: the set is declared {declared.shape} with {declared.true} true; its first item "
            "is "
            f"{pairs.shape} with {pairs.true}"
        )
    return pairs


def _load_gallery(declared: SetFile, table: GalleryTable, place: Locations) -> RetrievalSet:
    kinds: Kinds = {}
    images, captions = [], []
    for place_of_row, row in _group_rows(declared, place):
        images.append(_fill_reference(fill(table.image, row, place_of_row, kinds), row))
        captions.append(fill_all(table.captions, row, place_of_row, kinds))
    if declared.items is not None:
        expect_count(place.folder(declared.name) or Path(), len(images), declared.items, what="images")
    return RetrievalSet.of(declared.name, images, captions)


def _group_rows(declared: SetFile, place: Locations) -> Iterator[tuple[str, Any]]:
    """Yield the values that fill templates: a row, or as many rows as belong together."""
    before = 0
    for path in files_of(declared.name, declared.files, place):
        everything = [
            _unpack_lists(row, declared.lists, declared.lines)
            for row in read_rows(path, before, declared.format, declared.each)
        ]
        if declared.joined is not None:
            everything = _join_rows(everything, path, declared.joined, declared.format)
        before += len(everything)
        rows = [row for row in everything if _is_chosen(declared.where, row.fields, row.where)]
        if (count := declared.counts.get(path.stem)) is not None:
            expect_count(path, len(rows), count, what="rows")
        if len(rows) % declared.rows:
            raise DataError(f"{path}: {len(rows):,} rows; each {declared.rows} of them belong together")
        for start in range(0, len(rows), declared.rows):
            block = rows[start : start + declared.rows]
            if declared.rows == 1:
                yield block[0].where, block[0].fields
            else:
                yield block[0].where, _number_rows(block)


def _join_rows(rows: Sequence[Row], path: Path, folder: str, suffix: str | None) -> list[Row]:
    """Return rows with the fields of the row at the same place in the file of the same name in another folder."""
    twin = path.parent.parent / folder / path.name
    others = list(read_rows(twin, suffix=suffix))
    if len(others) != len(rows):
        raise DataError(f"{twin}: {len(others):,} rows, and {path} has {len(rows):,}; each belongs to one of the other")
    return [
        replace(row, fields={**row.fields, "joined": other.fields}) for row, other in zip(rows, others, strict=True)
    ]


def _unpack_lists(row: Row, lists: Sequence[str], lines: Sequence[str]) -> Row:
    """Return a row whose fields of these names are lists instead of a list's text, or of several lines."""
    texts = {name: row.fields[name] for name in (*lists, *lines) if isinstance(row.fields.get(name), str)}
    read = {
        name: text.splitlines() if name in lines else read_list(text, name, row.where) for name, text in texts.items()
    }
    return replace(row, fields={**row.fields, **read}) if read else row


def _number_rows(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Return rows by their places, with the file and the number of the first."""
    numbered = {str(k): row.fields for k, row in enumerate(rows)}
    return numbered | {key: rows[0].fields[key] for key in ("file", "folder", "row", TABLE_ROW)}


def _is_chosen(wanted: Mapping[str, str | list[str]], row: object, place: str) -> bool:
    return all(fill(template, row, place) in _as_list(values) for template, values in wanted.items())


def _fill_table(
    table: _Rows, row: Any, place: str, kinds: Kinds, renamed: Mapping[str, str]
) -> Item | BinaryQuestion | Statement | RatedImage:
    if isinstance(table, ItemTable):
        return _fill_item(table, row, place, kinds, renamed)
    if isinstance(table, QuestionTable):
        return _make_question(table, row, place, kinds)
    if isinstance(table, RatingTable):
        return _rate_image(table, row, place, kinds, renamed)
    return _make_statement(table, row, place, kinds)


def _fill_item(table: ItemTable, row: Any, place: str, kinds: Kinds, renamed: Mapping[str, str]) -> Item:
    cluster = "" if table.cluster in (None, LINKED) else fill(str(table.cluster), row, place, kinds)
    tags = {tag: fill(template, row, place, kinds) for tag, template in table.tags.items()}
    texts = fill_all(table.texts, row, place, kinds)
    return make_item(
        place,
        id=fill(table.id, row, place, kinds),
        images=tuple(_fill_reference(image, row, table.under) for image in fill_all(table.images, row, place, kinds)),
        texts=texts,
        true=_true_places(table.true, texts, row, place, kinds),
        cluster=cluster,
        tags={tag: renamed.get(value, value) for tag, value in tags.items()},
    )


def _fill_reference(image: str, row: Mapping[str, Any], under: str = "") -> str:
    """Return an image's reference; `@image` is the row's cell of that column."""
    if image.startswith(IMAGE_COLUMN):
        return f"{row[TABLE_ROW]}/{image.removeprefix(IMAGE_COLUMN)}"
    return f"{under}/{image}" if under else image


def _true_places(
    true: str | list[int] | int | None, texts: Sequence[str], row: object, place: str, kinds: Kinds
) -> tuple[int, ...]:
    if true is None:
        return ()
    if isinstance(true, int):
        return (true,)
    if isinstance(true, list):
        return tuple(true)
    value = fill(true, row, place, kinds)
    if value.isdigit():
        return (int(value),)
    if value not in texts:
        expected = "the place of the true entry, from 0, or one of the texts"
        raise DataError(f"{place}: field {true!r}: expected {expected}; got {quote(value)}")
    return (texts.index(value),)


def _answer_letter(answer: str, options: Sequence[str], place: str) -> str:
    """Return a, if the answer is the first of two different options, or b."""
    if len(options) != 2 or options.count(answer) != 1:
        raise DataError(f"{place}: expected one of two different options, {quote(list(options))}; got {quote(answer)}")
    return "ab"[options.index(answer)]


def _make_question(table: QuestionTable, row: Any, place: str, kinds: Kinds) -> BinaryQuestion:
    answer_text = fill(table.answer, row, place, kinds)
    if table.options is not None:
        answer_text = _answer_letter(
            answer_text, fill_all(table.options, row, place, kinds), f"{place}: field {table.answer!r}"
        )
    try:
        answer = read_gold(answer_text)
    except ValueError as error:
        raise DataError(f"{place}: field {table.answer!r}: {error}") from error
    return BinaryQuestion(
        id=fill(table.id, row, place, kinds),
        images=tuple(_fill_reference(image, row) for image in fill_all(table.images, row, place, kinds)),
        question=fill(table.question, row, place, kinds),
        answer=answer,
        group=fill(table.group, row, place, kinds) if table.group else "",
        cluster=fill(table.cluster, row, place, kinds) if table.cluster else "",
        question_id=fill(table.question_id, row, place, kinds) if table.question_id else "",
        tags={tag: fill(template, row, place, kinds) for tag, template in table.tags.items()},
    )


def _make_statement(table: StatementTable, row: Any, place: str, kinds: Kinds) -> Statement:
    label_text = fill(table.label, row, place, kinds)
    try:
        answer = read_gold(label_text)
    except ValueError:
        answer = ""
    if answer not in ("yes", "no"):
        raise DataError(f"{place}: field {table.label!r}: expected true or false; got {quote(label_text)}")
    left, right = (_fill_reference(image, row) for image in fill_all(table.images, row, place, kinds))
    return Statement(
        id=fill(table.id, row, place, kinds),
        sentence=fill(table.sentence, row, place, kinds),
        left=left,
        right=right,
        label=answer == "yes",
        group=fill(table.group, row, place, kinds) if table.group else "",
    )


def _rate_image(table: RatingTable, row: Any, place: str, kinds: Kinds, renamed: Mapping[str, str]) -> RatedImage:
    rating_texts = fill_all(table.ratings, row, place, kinds)
    try:
        ratings = tuple(map(float, rating_texts))
    except ValueError as error:
        raise DataError(
            f"{place}: field {table.ratings!r}: expected numbers; got {quote(list(rating_texts))}"
        ) from error
    tags = {tag: fill(template, row, place, kinds) for tag, template in table.tags.items()}
    return RatedImage(
        id=fill(table.id, row, place, kinds),
        image=_fill_reference(fill(table.image, row, place, kinds), row),
        text=fill(table.text, row, place, kinds),
        ratings=ratings,
        cluster=fill(table.cluster, row, place, kinds) if table.cluster else "",
        tags={tag: renamed.get(value, value) for tag, value in tags.items()},
    )


def _correct_answer(question: BinaryQuestion, corrected: Mapping[str, str]) -> BinaryQuestion:
    return replace(question, answer=corrected.get(question.id, question.answer))


def _link_items(items: Sequence[Item]) -> list[Item]:
    """Return items whose cluster is the group of images that they are linked by."""
    links = linked_images([(item.images[0], image) for item in items for image in item.images])
    return [item.model_copy(update={"cluster": links[item.images[0]]}) for item in items]
