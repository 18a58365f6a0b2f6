"""The declaration of a benchmark in a TOML file: its files, and the templates that turn rows into records.

A set of a known shape needs no code: its file names the files of the rows (JSON, JSONL, CSV, TSV or parquet), and each
`[[item]]`, `[[question]]`, `[[statement]]` or `[[rating]]` is the template of one row, or of several that belong
together. The sets that ship are such files, in `benchmarks/sets/`; a user's is named by its path, `-b my_set.toml`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tellapart.benchmarks.benchmark import Media
from tellapart.data.fields import check_several, check_template
from tellapart.data.rows import read_toml
from tellapart.data.validation import validate_table
from tellapart.errors import DataError, quote
from tellapart.metrics.ties import TieRule

#: The value of `cluster` instead of a template.
LINKED = "linked images"

Template = Annotated[str, AfterValidator(check_template)]
Templates = Annotated[str | list[str], AfterValidator(check_several)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ItemTable(_Table):
    """One item of a row: templates of its fields; `under` is the folder that its images are named in.

    `true` is the place of the true text or image, or a template of that place or of the true text.
    """

    id: Template
    images: Templates
    texts: Templates
    under: str = ""
    true: Template | list[int] | int | None = None
    where: dict[Template, str | list[str]] = Field(default_factory=dict)
    cluster: Template | None = None
    tags: dict[str, Template] = Field(default_factory=dict)


class QuestionTable(_Table):
    """One question of a row: templates of its fields; an answer that is the first or second option becomes a or b."""

    id: Template
    images: Templates
    question: Template
    question_id: Template | None = None
    answer: Template
    options: Templates | None = None
    group: Template | None = None
    where: dict[Template, str | list[str]] = Field(default_factory=dict)
    cluster: Template | None = None
    tags: dict[str, Template] = Field(default_factory=dict)


class StatementTable(_Table):
    """One statement about two images of a row: templates of its fields; the label is true or false."""

    id: Template
    images: list[Template] = Field(min_length=2, max_length=2)
    sentence: Template
    label: Template
    group: Template | None = None
    where: dict[Template, str | list[str]] = Field(default_factory=dict)


class RatingTable(_Table):
    """One rated image of a row: templates of its fields; `ratings` are numbers, one a person, or a label, 0 or 1."""

    id: Template
    image: Template
    text: Template
    ratings: Templates
    where: dict[Template, str | list[str]] = Field(default_factory=dict)
    cluster: Template | None = None
    tags: dict[str, Template] = Field(default_factory=dict)


class GalleryTable(_Table):
    """One image of a gallery, of a row, and its captions: templates of its fields."""

    image: Template
    captions: Templates


class HubTable(_Table):
    """A dataset on the hub, at a revision."""

    repo: str
    revision: str = Field(min_length=7)
    files: list[str]
    gated: bool = False


class SetFile(_Table):
    """A declared set; `item`, `question`, `statement`, `rating` or `gallery` are the templates of rows.

    Attributes:
        files: of the rows, as `Benchmark.files`; all files of each pattern are read.
        format: of the rows, if a file's suffix does not give it.
        each: the field that holds a list of objects; each of them, with the fields around it, is a row. Of an object
            of values that are none, each is a row, with its key as `each` and itself as `value`.
            `*` is every field, each of which holds such a list: its name is `each`, a row's number in it `place`.
        rows: so many rows in a row fill the tables below together, and are then `{0.field}`, `{1.field}`...
        joined: a folder beside that of each file, with a file of the same name and as many rows: `{joined.field}`.
        lists: fields whose text is a list as Python writes it, and is read as one.
        lines: fields whose text is read as the list of its lines.
        counts: file (without its suffix) or `all` -> how many rows it must hold.
        ordered: the texts of an item stand from the most to the least true of its image.
        media, languages: as in `Benchmark`.
        images: the images that are needed, in words.
        folders: names of the folders in which images usually lie, next to the annotations.
        archive: the zip archive that holds them instead.
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
    format: Literal["json", "jsonl", "csv", "parquet"] | None = None
    each: str | None = None
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
    clusters: str = "the item"
    ties: str = "not stated"
    tie_rule: TieRule = "wrong"
    authors: str = ""
    hub: HubTable | None = None
    mined_by: tuple[str, ...] = ()
    corrected: dict[str, str] = Field(default_factory=dict)
    reader: Literal["", "mvp", "tempcompass"] = ""
    renamed: dict[str, str] = Field(default_factory=dict)
    where: dict[Template, str | list[str]] = Field(default_factory=dict)
    item: list[ItemTable] = Field(default_factory=list)
    question: list[QuestionTable] = Field(default_factory=list)
    statement: list[StatementTable] = Field(default_factory=list)
    rating: list[RatingTable] = Field(default_factory=list)
    gallery: GalleryTable | None = None

    @property
    def task(self) -> str:
        """The name of the task that its records are of."""
        if self.statement:
            return "nlvr2"
        if self.rating:
            return "ratings"
        of_items = "ordered-texts" if self.ordered else "pairs"
        return "retrieval" if self.gallery else "yes-no" if self.question else of_items


def read_set_file(path: Path, variant: str = "") -> SetFile:
    """Return the declaration of a file: the set, or the one of its `[[variants]]` that has this name."""
    content = read_toml(path)
    variants = content.pop("variants", [])
    place = str(path)
    if variants:
        variant_table = next(
            (table for table in variants if isinstance(table, dict) and table.get("name") == variant), None
        )
        if variant_table is None:
            variant_names = ", ".join(str(table.get("name")) for table in variants if isinstance(table, dict))
            raise DataError(f"{path} declares {variant_names}; {quote(variant)} is none of them")
        content, place = content | variant_table, f"{path}: {variant}"
    declared = validate_table(SetFile, content, place)
    kinds = (declared.item, declared.question, declared.statement, declared.rating, declared.gallery)
    if sum(map(bool, kinds)) != 1:
        raise DataError(
            f"{place}: declare [[item]], [[question]], [[statement]] or [[rating]] tables or a [gallery], one kind of "
            "them"
        )
    return declared
