"""Benchmarks declared in a TOML file: the files of their rows, and the templates that turn rows into records.

A set of a known shape needs no code: its file names the files of the rows (JSON, JSONL, CSV, TSV, parquet or texts),
and each `[[item]]`, or `[[question]]` and its like, is the template of one row, or of several that belong together. The
sets that ship are such files, in `benchmarks/sets/`; a user's is named by its path, `-b my_set.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tellapart.benchmarks.benchmark import Benchmark, Hub, Media
from tellapart.benchmarks.locations import FolderImages, Locations, ZipImages, crop_images, find_files
from tellapart.benchmarks.parquet import ParquetTable, image_columns
from tellapart.data.fields import (
    LIST,
    Kinds,
    check_several,
    check_template,
    exchange_words,
    field_fault,
    fill,
    fill_all,
    read_box,
    read_list,
)
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.rows import expect_count, make_item, read_object, read_toml
from tellapart.data.rows import read_rows as read_table
from tellapart.data.strict_json import decode_text, plain_stem, plain_suffix, read_whole
from tellapart.data.task_records import (
    BinaryQuestionSet,
    PreferenceSet,
    QuestionSet,
    RatingSet,
    Record,
    RecordSet,
    RetrievalSet,
    StatementSet,
    linked_images,
    read_choice,
    read_gold,
)
from tellapart.data.validation import validate
from tellapart.errors import DataError, quote
from tellapart.metrics.ties import TieRule

#: The value of `cluster` instead of a template.
LINKED = "linked images"

Template = Annotated[str, AfterValidator(check_template)]
Templates = Annotated[str | list[str], AfterValidator(check_several)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _RowTable(_Table):
    """Templates of the fields that records of every kind may have."""

    id: Template
    where: dict[Template, str | list[str]] = Field(default_factory=dict)
    cluster: Template | None = None
    tags: dict[str, Template] = Field(default_factory=dict)

    def record(self, row: _Filler, images: tuple[str, ...], text: str, gold: object, **others: Any) -> Record:
        """Return the record of a row, with its id, cluster and tags."""
        cluster, tags = row.text(self.cluster), row.tags(self.tags)
        return Record(row.text(self.id), images, (row.text(text),), gold, cluster=cluster, tags=tags, **others)


class ItemTable(_RowTable):
    """One item of a row: templates of its fields; `under` is the folder that its images are named in.

    `true` is the place of the true text or image, or a template of that place or of the true text. `crop` is the field
    with the box of its images that is shown alone: x, y, width and height in pixels. `exchange` is the field with words
    of the text, whose other orders make the false texts.
    """

    images: Templates
    texts: Templates
    under: str = ""
    true: Template | list[int] | int | None = None
    crop: str | None = None
    exchange: str | None = None

    def make(self, row: _Filler) -> Item:
        """Return the item of a row."""
        texts, part = row.all(self.texts), row.part(self.crop)
        if self.exchange:
            try:
                texts += exchange_words(texts[0], row.all([f"{{{self.exchange}|{LIST}}}"]))
            except ValueError as error:
                raise field_fault(row.place, self.exchange, str(error)) from error
        return make_item(
            row.place,
            id=row.text(self.id),
            images=[image + part for image in row.images(self.images, self.under)],
            texts=texts,
            true=self._true_places(texts, row),
            cluster="" if self.cluster == LINKED else row.text(self.cluster),
            tags=row.tags(self.tags),
        )

    def _true_places(self, texts: Sequence[str], row: _Filler) -> tuple[int, ...]:
        if not isinstance(self.true, str):
            return () if self.true is None else (self.true,) if isinstance(self.true, int) else tuple(self.true)
        value = row.text(self.true)
        in_texts = len(texts) > 1 and value in texts
        is_place = value.isascii() and value.isdecimal() and (not in_texts or int(value) < len(texts))
        is_number = row.kinds.get(self.true.strip("{}").partition("|")[0]) is int
        if is_place and in_texts and texts[int(value)] != value and not is_number:
            fault = "is a place, from 0, or a text, and both name another entry; make the texts sentences"
            raise field_fault(row.place, self.true, f"{quote(value)} {fault}, or the place a number")
        if is_place:
            return (int(value),)
        if value not in texts:
            expected = "the place of the true entry, from 0, or one of the texts"
            raise DataError(f"{row.place}: field {self.true!r}: expected {expected}; got {quote(value)}")
        return (texts.index(value),)


class QuestionTable(_RowTable):
    """One question of a row: templates of its fields; an answer that is the first or second option becomes a or b."""

    images: Templates
    question: Template
    question_id: Template | None = None
    answer: Template
    options: Templates | None = None
    group: Template | None = None

    def make(self, row: _Filler) -> Record:
        """Return the question of a row."""
        answer, place = row.text(self.answer), f"{row.place}: field {self.answer!r}"
        if self.options is not None:
            options = row.all(self.options)
            if len(options) != 2 or options.count(answer) != 1:
                expected = f"expected one of two different options, {quote(list(options))}"
                raise DataError(f"{place}: {expected}; got {quote(answer)}")
            answer = "ab"[options.index(answer)]
        try:
            answer = read_gold(answer)
        except ValueError as error:
            raise DataError(f"{place}: {error}") from error
        facts = {"question_id": row.text(self.question_id)}
        return self.record(row, row.images(self.images), self.question, answer, group=row.text(self.group), facts=facts)


class OpenTable(_RowTable):
    """One question of a row that is answered in words: templates of its fields.

    `biased` is a wrong answer to count, `abstain` the answer of a model that abstains.
    """

    image: Template
    question: Template
    answer: Template
    biased: Template | None = None
    abstain: Template | None = None
    group: Template | None = None

    def make(self, row: _Filler) -> Record:
        """Return the question of a row."""
        images, gold = row.images([self.image]), (row.text(self.answer),)
        wrong = {"biased": row.text(self.biased), "abstain": row.text(self.abstain)}
        facts = {name: answer for name, answer in wrong.items() if answer}
        return self.record(row, images, self.question, gold, group=row.text(self.group), facts=facts)


class PreferenceTable(_RowTable):
    """People's choice between two images of a row: templates of its fields; `ranking` is such as `A>B` or `A=B`."""

    images: list[Template] = Field(min_length=2, max_length=2)
    text: Template
    ranking: Template
    group: Template | None = None

    def make(self, row: _Filler) -> Record:
        """Return the choice of a row."""
        try:
            choice = read_choice(row.text(self.ranking))
        except ValueError as error:
            raise DataError(f"{row.place}: field {self.ranking!r}: {error}") from error
        return self.record(row, row.images(self.images), self.text, choice, group=row.text(self.group))


class StatementTable(_Table):
    """One statement about two images of a row: templates of its fields; the label is true or false."""

    id: Template
    images: list[Template] = Field(min_length=2, max_length=2)
    sentence: Template
    label: Template
    group: Template | None = None
    where: dict[Template, str | list[str]] = Field(default_factory=dict)

    def make(self, row: _Filler) -> Record:
        """Return the statement of a row."""
        label = row.text(self.label)
        try:
            is_true = {"yes": True, "no": False}[read_gold(label)]
        except (ValueError, KeyError) as error:
            message = f"{row.place}: field {self.label!r}: expected true or false; got {quote(label)}"
            raise DataError(message) from error
        images, texts = row.images(self.images), (row.text(self.sentence),)
        return Record(row.text(self.id), images, texts, is_true, row.text(self.group))


class RatingTable(_RowTable):
    """One rated image of a row: templates of its fields; `ratings` are numbers, one a person, or a label, 0 or 1."""

    image: Template
    text: Template
    ratings: Templates

    def make(self, row: _Filler) -> Record:
        """Return the rated image of a row."""
        texts = row.all(self.ratings)
        try:
            ratings = tuple(map(float, texts))
        except ValueError as error:
            place = f"{row.place}: field {self.ratings!r}"
            raise DataError(f"{place}: expected numbers; got {quote(list(texts))}") from error
        return self.record(row, row.images([self.image]), self.text, ratings)


class GalleryTable(_Table):
    """One image of a gallery and its captions, of a row or of several rows of the image: templates of their fields."""

    image: Template
    captions: Templates


class SetFile(_Table):
    """A declared set; `item`, `question`, `open`, `statement`, `rating`, `preference` or `gallery` are for rows.

    Attributes:
        files: of the rows, as `Benchmark.files`; all files of each pattern are read.
        format: of the rows, if a file's suffix does not give it. Of `object` a JSON file is one row, and of `text`, or
            with the suffix .txt, a file is one row with the field `text`.
        each: the field that holds a list of objects; each of them, with the fields around it, is a row. Of an object
            of values that are none, each is a row, with its key as `each` and itself as `value`.
            `*` is every field, each of which holds such a list: its name is `each`, a row's number in it `place`.
            A list in the list is an object whose keys are places.
        beside: fields with lists as long as that of `each`; a row has its entry of them.
        by_id: field of an id, or of a list of them -> the list of objects with such ids, and what stands for each:
            `{ image_id = "images.file_name" }`.
        rows: so many rows in a row fill the tables below together, and are then `{0.field}`, `{1.field}`...
        joined: a folder beside that of each file, with a file of the same name and as many rows: `{joined.field}`.
        lists: fields whose text is a list as Python writes it, and is read as one.
        lines: fields whose text is read as the list of its lines.
        counts: file (without its suffix) or `all` -> how many rows it must hold.
        ordered: the texts of an item stand from the most to the least true of its image.
        media, languages: as in `Benchmark`.
        images: the images that are needed, in words.
        folders: names of the folders in which images usually lie, next to the annotations.
        archive: the zip archive that holds them instead, `packed_under` this folder of it.
        texts: name -> a text that templates take as the field of that name.
        ties, tie_rule, authors: as in `Benchmark`.
        mined_by: as `Benchmark.mined_by`.
        corrected: id of a question -> its right answer, if the published one is known to be wrong.
        reader: how its authors read answers to questions, if they do it otherwise: a name of `READERS`.
        renamed: value of an item's tag -> its name here; parts that the authors take as one get one name.
        where: only rows with these values, or one of several, are read; in a table below, only those make its item.
    """

    name: str
    title: str
    source: str
    licence: str = "not stated"
    citation: str = "not stated"
    files: list[str] = Field(min_length=1)
    format: Literal["json", "jsonl", "csv", "parquet", "object", "text"] | None = None
    each: str | None = None
    beside: list[str] = Field(default_factory=list)
    by_id: dict[str, str] = Field(default_factory=dict)
    rows: int = Field(1, ge=1)
    joined: str | None = None
    lists: list[str] = Field(default_factory=list)
    lines: list[str] = Field(default_factory=list)
    counts: dict[str, int] = Field(default_factory=dict)
    items: int | None = None
    digest: str = ""
    shape: tuple[int, int] | None = None
    true: int = 1
    ordered: bool = False
    official: tuple[str, ...] = ()
    media: Media = "images"
    languages: tuple[str, ...] = ()
    images: str = "its own"
    folders: list[str] = ["images"]
    archive: str | None = None
    packed_under: str = ""
    texts: dict[str, str] = Field(default_factory=dict)
    clusters: str = "the item"
    ties: str = "not stated"
    tie_rule: TieRule = "wrong"
    authors: str = ""
    hub: Hub | None = None
    mined_by: tuple[str, ...] = ()
    corrected: dict[str, str] = Field(default_factory=dict)
    reader: Literal["", "mvp", "tempcompass"] = ""
    renamed: dict[str, str] = Field(default_factory=dict)
    where: dict[Template, str | list[str]] = Field(default_factory=dict)
    item: list[ItemTable] = Field(default_factory=list)
    question: list[QuestionTable] = Field(default_factory=list)
    open: list[OpenTable] = Field(default_factory=list)
    statement: list[StatementTable] = Field(default_factory=list)
    rating: list[RatingTable] = Field(default_factory=list)
    preference: list[PreferenceTable] = Field(default_factory=list)
    gallery: GalleryTable | None = None

    @property
    def task(self) -> str:
        """The name of the task that its records are of."""
        of_items = "retrieval" if self.gallery else "ordered-texts" if self.ordered else "pairs"
        return next((task for kind, (_, task) in _RECORD_SETS.items() if getattr(self, kind)), of_items)


#: The kinds of tables that make records of rows, other than items -> the set of the records, and its task.
_RECORD_SETS: Mapping[str, tuple[Callable[..., RecordSet], str]] = MappingProxyType(
    {
        "question": (BinaryQuestionSet, "yes-no"),
        "open": (QuestionSet, "open"),
        "statement": (StatementSet, "nlvr2"),
        "rating": (RatingSet, "ratings"),
        "preference": (PreferenceSet, "preference"),
    }
)


def read_set_table(path: Path, variant: str = "") -> dict[str, Any]:
    """Return the table of a file: the set, or the one of its `[[variants]]` that has this name, with what all share."""
    content = read_toml(path)
    tables = [table for table in content.pop("variants", []) if isinstance(table, dict)]
    if not tables:
        return content
    for table in tables:
        if table.get("name") == variant:
            return content | table
    names = ", ".join(str(table.get("name")) for table in tables)
    raise DataError(f"{path} declares {names}; {quote(variant)} is none of them")


def read_set_file(path: Path, variant: str = "") -> SetFile:
    """Return the declaration of a file: the set, or the one of its `[[variants]]` that has this name."""
    content, place = read_set_table(path, variant), f"{path}: {variant}" if variant else str(path)
    declared = validate(SetFile, content, place)
    kinds = ("item", *_RECORD_SETS)
    if sum(bool(getattr(declared, kind)) for kind in (*kinds, "gallery")) != 1:
        tables = " or ".join(f"[[{kind}]]" for kind in kinds)
        raise DataError(f"{place}: declare {tables} tables or a [gallery], one kind of them")
    if declared.corrected and not declared.question:
        raise DataError(f"{place}: 'corrected' has answers to [[question]] tables; correct other files themselves")
    return declared


#: The field with a row's number among the rows of all files, by which a parquet table finds its images.
TABLE_ROW = "@row"

#: Rows with their places for messages.
_Rows = list[tuple[str, Any]]


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


def read_rows(
    path: Path,
    places: Iterator[int] | None = None,
    form: str | None = None,
    each: str | None = None,
    beside: Sequence[str] = (),
) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a file with their places, by its suffix: JSON, JSONL, CSV, TSV, parquet or a text.

    Rows get more fields if they have none of these names: `file` (the file's name without its suffix), `folder`
    (that of the folder it is in), `row` (their number, from 0), `key` (of an object of rows), and the places of a list
    or a table's columns, from `0`. `places` number the rows of all files.
    """
    places = places or count()
    for number, (place, key, fields) in enumerate(_read_file(path, f".{form}" if form else "")):
        row_fields: dict[str, Any] = {"file": plain_stem(path), "row": number, "key": key, "folder": path.parent.name}
        row_fields[TABLE_ROW] = next(places)
        if isinstance(fields, list):
            row_fields |= {str(k): value for k, value in enumerate(fields)}
        elif isinstance(fields, dict):
            row_fields |= {str(k): value for k, value in enumerate(fields.values())} | fields
        else:
            raise DataError(f"{place}: expected an object {{...}} or a list, got {quote(fields)}")
        if each == "*":
            if not isinstance(fields, dict):
                raise DataError(f"{place}: expected an object of lists, as each = '*' reads it, got {quote(fields)}")
            groups = [(name, row) for name in fields for row in _nested_rows(row_fields, name, place)]
            yield from ((place, row | {"each": name, "place": row["each"]}) for name, row in groups)
        else:
            yield from ((place, row) for row in _nested_rows(row_fields, each, place, beside))


def _nested_rows(
    row: dict[str, Any], each: str | None, place: str, beside: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    if each is None:
        yield row
        return
    inner = row.get(each)
    if isinstance(inner, dict):
        yield from (row | {"each": key, "value": value} for key, value in inner.items())
        return
    if not isinstance(inner, list) or not all(isinstance(element, dict | list) for element in inner):
        raise field_fault(place, each, "expected a list of objects or an object", inner)
    for name in beside:
        if not isinstance(row.get(name), list) or len(row[name]) != len(inner):
            raise field_fault(place, name, f"expected a list of {len(inner)} entries, as {each!r} has", row.get(name))
    for number, element in enumerate(inner):
        named = element if isinstance(element, dict) else {str(k): value for k, value in enumerate(element)}
        yield row | {name: row[name][number] for name in beside} | named | {"each": number}


def _read_file(path: Path, kind: str) -> Iterator[tuple[str, str, Any]]:
    suffix = kind or plain_suffix(path)
    if suffix in (".text", ".txt"):
        return iter([(str(path), "", {"text": decode_text(read_whole(path), path)})])
    if suffix == ".object":
        return iter([(str(path), "", read_object(path))])
    if suffix == ".parquet":
        return ((place, "", row) for place, row in ParquetTable([path], images=image_columns(path)).rows())
    return read_table(path, (".json", ".jsonl", ".csv", ".tsv", ".parquet"), "rows", kind=kind)


#: An image that is a cell of a parquet table: `@image_0`; of several rows, `@1.image` is of the second.
_CELL = re.compile(r"@(?:(?P<row>\d+)\.)?(?P<column>.+)")


#: What a declaration and a benchmark call by one name.
_FACTS = (
    *("name", "title", "shape", "true", "official", "task", "source", "licence", "citation", "media", "languages"),
    *("images", "ties", "tie_rule", "authors", "mined_by", "hub"),
)


def set_benchmark(declared: SetFile) -> Benchmark:
    """Return the benchmark of a declaration."""
    return Benchmark(
        **{name: getattr(declared, name) for name in _FACTS},
        items=declared.items or 0,
        rows=declared.digest,
        files=tuple(declared.files),
        cluster=declared.clusters,
        usual=tuple(declared.folders),
        load=partial(_load_records, declared),
        pictures=None if declared.item else partial(_make_reader, declared),
    )


def _make_reader(declared: SetFile, place: Locations) -> Callable[[str], bytes]:
    """Return the reader of a set's images; one of `file#x,y,width,height` is that part of the file's image."""
    tables = [*_list_tables(declared), *([declared.gallery] if declared.gallery else [])]
    templates = chain(*(_as_list(table.images if hasattr(table, "images") else table.image) for table in tables))
    columns = {cell["column"] for template in templates if (cell := _CELL.fullmatch(template))}
    if columns:
        files = [path for path in files_of(declared.name, declared.files, place) if path.suffix == ".parquet"]
        return crop_images(ParquetTable(files, images=sorted(columns)))
    folder = place.folder(declared.name) or Path()
    if (
        declared.archive
        and place.named_images(declared.name) is None
        and (packed := find_files(folder, declared.archive))
    ):
        return crop_images(ZipImages(packed[0], prefix=declared.packed_under))
    return crop_images(FolderImages(place.pictures(declared.name, *declared.folders), outside=place.outside))


def _list_tables(declared: SetFile) -> list[Any]:
    return [table for kind in ("item", *_RECORD_SETS) for table in getattr(declared, kind)]


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _load_records(declared: SetFile, place: Locations) -> PairSet | RecordSet | RetrievalSet:
    if declared.gallery is not None:
        return _load_gallery(declared, declared.gallery, place)
    records: list[Any] = []
    lines: dict[str, str] = {}
    kinds: Kinds = {}
    for place_of_row, row in _group_rows(declared, place):
        for table in _list_tables(declared):
            if not _is_chosen(table.where, row, place_of_row):
                continue
            record = table.make(_Filler(row, place_of_row, kinds, declared.renamed))
            if record.id in lines:
                raise DataError(f"{place_of_row}: field 'id': {quote(record.id)} is in {lines[record.id]} already")
            lines[record.id] = place_of_row
            records.append(record)
    root = place.folder(declared.name) or Path()
    if not records:
        raise DataError(f"{declared.name}: no rows in {', '.join(declared.files)} below {root}")
    if declared.items is not None:
        expect_count(root, len(records), declared.items)
    for kind, (record_set, _) in _RECORD_SETS.items():
        if getattr(declared, kind):
            rows = (replace(row, gold=declared.corrected.get(row.id, row.gold)) for row in records)
            reader = {"reader": declared.reader} if kind == "question" else {}
            return record_set(declared.name, tuple(rows), **reader)
    if any(table.cluster == LINKED for table in declared.item):
        links = linked_images([(item.images[0], image) for item in records for image in item.images])
        records = [item.model_copy(update={"cluster": links[item.images[0]]}) for item in records]
    pairs = PairSet(declared.name, tuple(records), root, lines=lines, read=_make_reader(declared, place))
    if declared.shape is not None and (pairs.shape, pairs.true) != (declared.shape, declared.true):
        raise DataError(
            f"{lines[records[0].id]}: the set is declared {declared.shape} with {declared.true} true; its first item "
            f"is {pairs.shape} with {pairs.true}"
        )
    return pairs


def _load_gallery(declared: SetFile, table: GalleryTable, place: Locations) -> RetrievalSet:
    kinds: Kinds = {}
    captions: dict[str, list[str]] = {}  # of an image: a file may have a row for each of them
    for place_of_row, row in _group_rows(declared, place):
        filler = _Filler(row, place_of_row, kinds, {})
        for image in filler.images([table.image]):
            captions.setdefault(image, []).extend(filler.all(table.captions))
    if declared.items is not None:
        expect_count(place.folder(declared.name) or Path(), len(captions), declared.items, what="images")
    return RetrievalSet.of(declared.name, [*captions], [*captions.values()])


def _group_rows(declared: SetFile, place: Locations) -> Iterator[tuple[str, Any]]:
    """Yield the values that fill templates: a row, or as many rows as belong together."""
    places = count()  # a row may have several entries, or none
    for path in files_of(declared.name, declared.files, place):
        read = read_rows(path, places, declared.format, declared.each, declared.beside)
        rows = [(at, _unpack_lists(row, at, declared)) for at, row in read]
        if declared.by_id:
            rows = _replace_ids(rows, declared.by_id)
        if declared.joined is not None:
            rows = _join_rows(rows, path, declared.joined, declared.format)
        rows = [(at, row) for at, row in rows if _is_chosen(declared.where, row, at)]
        if (counted := declared.counts.get(plain_stem(path), declared.counts.get(path.stem))) is not None:
            expect_count(path, len(rows), counted, what="rows")
        if len(rows) % declared.rows:
            raise DataError(f"{path}: {len(rows):,} rows; each {declared.rows} of them belong together")
        for start in range(0, len(rows), declared.rows):
            block = rows[start : start + declared.rows]
            at, fields = block[0]
            if declared.rows > 1:
                shared = {key: fields[key] for key in ("file", "folder", "row", TABLE_ROW)}
                fields = {str(k): row for k, (_, row) in enumerate(block)} | shared
            yield at, fields | declared.texts


def _join_rows(rows: _Rows, path: Path, folder: str, form: str | None) -> _Rows:
    """Return rows with the fields of the row at the same place in the file of the same name in another folder."""
    twin = path.parent.parent / folder / path.name
    others = list(read_rows(twin, form=form))
    if len(others) != len(rows):
        raise DataError(f"{twin}: {len(others):,} rows, and {path} has {len(rows):,}; each belongs to one of the other")
    return [(at, {**row, "joined": other}) for (at, row), (_, other) in zip(rows, others, strict=True)]


def _replace_ids(rows: _Rows, by_id: Mapping[str, str]) -> _Rows:
    """Return rows of one file in whose fields of ids stands what the objects with these ids hold."""
    found: dict[tuple[str, int], dict[Any, Any]] = {}  # by the list itself: all rows share it, or each has another
    replaced = []
    for at, row in rows:
        fields = dict(row)
        for field, target in by_id.items():
            listed, _, name = target.partition(".")
            try:
                objects, ids = row[listed], fields[field]
                if (key := (target, id(objects))) not in found:
                    found[key] = _by_id(objects, name, at, listed)
                fields[field] = [found[key][id_] for id_ in ids] if isinstance(ids, list) else found[key][ids]
            except (KeyError, TypeError) as error:
                expected = f"expected ids of the objects in {listed!r}, each with an id and {name!r}"
                raise field_fault(at, field, expected, fields.get(field)) from error
        replaced.append((at, fields))
    return replaced


def _by_id(objects: Any, name: str, place: str, listed: str) -> dict[Any, Any]:
    held: dict[Any, Any] = {}
    for entry in objects:
        if held.setdefault(entry["id"], entry[name]) != entry[name]:
            raise field_fault(place, listed, f"has two objects of the id {quote(entry['id'])}, with another {name!r}")
    return held


def _unpack_lists(row: Mapping[str, Any], place: str, declared: SetFile) -> dict[str, Any]:
    """Return a row whose fields with a list's text, or with several lines, are lists."""
    fields = dict(row)
    for name in (*declared.lists, *declared.lines):
        if isinstance(text := fields.get(name), str):
            fields[name] = text.splitlines() if name in declared.lines else read_list(text, name, place)
    return fields


def _is_chosen(wanted: Mapping[str, str | list[str]], row: object, place: str) -> bool:
    return all(fill(template, row, place) in _as_list(values) for template, values in wanted.items())


@dataclass(frozen=True, slots=True)
class _Filler:
    """A row, or several that belong together, that fills templates; `kinds` are the types of fields in earlier rows."""

    row: Any
    place: str
    kinds: Kinds
    renamed: Mapping[str, str]

    def text(self, template: str | None) -> str:
        return fill(template, self.row, self.place, self.kinds) if template else ""

    def all(self, templates: str | list[str]) -> tuple[str, ...]:
        return fill_all(templates, self.row, self.place, self.kinds)

    def images(self, templates: str | list[str], under: str = "") -> tuple[str, ...]:
        """Return references of images; `@image` is the row's cell of that column."""
        references = []
        for image in self.all(templates):
            if cell := _CELL.fullmatch(image):
                row = self.row if cell["row"] is None else self.row.get(cell["row"])
                if not isinstance(row, Mapping):
                    raise field_fault(self.place, image, "is missing; several rows make an item by rows = 2 or more")
                references.append(f"{row[TABLE_ROW]}/{cell['column']}")
            else:
                references.append(f"{under}/{image}" if under else image)
        return tuple(references)

    def part(self, box: str | None) -> str:
        """Return what follows the reference of an image of which only the box in that field is shown."""
        return "#" + ",".join(map(str, read_box(self.row, box, self.place))) if box else ""

    def tags(self, templates: Mapping[str, str]) -> dict[str, str]:
        tags = {tag: self.text(template) for tag, template in templates.items()}
        return {tag: self.renamed.get(value, value) for tag, value in tags.items()}
