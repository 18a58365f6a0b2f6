"""A set's datasheet, its questions and answers, and Croissant 1.1 metadata of its folder. Nothing is ever invented.

A card answers a question in its object `datasheet`, by the question's key, or in four of its fields; an audit answers
what it has counted.

Source: Croissant Format Specification 1.1 (MLCommons, 2026).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from tellapart.data.pairset import PairSet, describe
from tellapart.data.rows import read_jsonl, read_toml
from tellapart.errors import DataError, nearest, quote


@dataclass(frozen=True, slots=True)
class DatasheetQuestion:
    """One question; a card's field, and the property of Croissant's vocabulary, that have its answer, too."""

    key: str
    section: str
    text: str
    card: str = ""
    rai: str = ""


@dataclass(frozen=True, slots=True)
class DatasheetAnswer:
    """A question and its answer; empty if there is none."""

    question: DatasheetQuestion
    text: str


#: Fields of a card beside its `datasheet` that a person fills in: texts, but for `creators`, a list of names.
CARD_FIELDS = ("title", "description", "licence", "url", "creators", "date_published", "citation", "version")

_DATA = read_toml(Path(__file__).with_name("datasheet.toml"))

QUESTIONS: tuple[DatasheetQuestion, ...] = tuple(
    DatasheetQuestion(key, section, text, _DATA["card"].get(key, ""), _DATA["rai"].get(key, ""))
    for section, questions in _DATA["sections"].items()
    for key, text in questions.items()
)
"""All questions, in the datasheet's order."""


def answers(card: Mapping[str, Any], counted: Mapping[str, str] = MappingProxyType({})) -> list[DatasheetAnswer]:
    """Return every question with the card's answer, or else one that was counted in the set.

    >>> [(a.question.key, a.text) for a in answers({"licence": "CC0", "datasheet": {"purpose": "a test"}}) if a.text]
    [('purpose', 'a test'), ('licence', 'CC0')]
    """
    datasheet = card.get("datasheet", {})
    if not isinstance(datasheet, Mapping):
        raise DataError(f"card.json: field 'datasheet': expected an object of answers, got {quote(datasheet)}")
    known = [question.key for question in QUESTIONS]
    for key, value in datasheet.items():
        if key not in known:
            raise DataError(f"card.json: field 'datasheet': no question {quote(key)}{nearest(key, known)}")
        if value is not None and not isinstance(value, str):
            raise DataError(f"card.json: field 'datasheet.{key}': expected a text or null, got {quote(value)}")
    replies = []
    for question in QUESTIONS:
        written = datasheet.get(question.key) or (field_text(card, question.card) if question.card else "")
        text = written or counted.get(question.key, "")
        replies.append(DatasheetAnswer(question, text.strip()))
    return replies


def field_text(card: Mapping[str, Any], name: str) -> str:
    """Return a field of a card as a text, a list's names joined; empty if it is neither."""
    value = card.get(name)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else ""


def with_questions(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the card with the fields of `CARD_FIELDS` and every question in its `datasheet`; null for open ones."""
    datasheet = {answer.question.key: answer.text or None for answer in answers(card)}
    return {**dict.fromkeys(CARD_FIELDS), **card, "datasheet": datasheet}


_CONFORMS_TO = "http://mlcommons.org/croissant/1.1"

#: The file that lists the items.
LISTING = "pairs.jsonl"

_REQUIRED = ("description", "licence", "url", "creators", "date_published")

_SPDX = r"Apache-2\.0|MIT|BSD-[23]-Clause|CC0-1\.0|CC-BY(-NC)?(-SA|-ND)?-[1-4]\.0|GPL-[23]\.0-(only|or-later)"

#: Tags that need no quoting in a path.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def missing(card: Mapping[str, Any]) -> list[str]:
    """Return the fields that Croissant asks for and a card lacks."""
    return [name for name in _REQUIRED if not card.get(name)]


def croissant(pairs: PairSet) -> dict[str, Any]:
    """Return the metadata as JSON-LD; its paths are relative to the set's folder, so the file belongs there."""
    listing = pairs.root / LISTING
    if pairs.read is not None or not listing.is_file():
        raise DataError(
            f"{pairs.name}: Croissant describes the files of a folder with {LISTING}, and this set has none; "
            "write it as one first (tellapart.data.folder.write_pair_set)"
        )
    card = pairs.card
    name = str(card.get("name") or pairs.root.resolve().name)
    described = f"{len(pairs):,} minimal pairs, each of {describe(pairs.shape)}."
    return {
        "@context": _DATA["context"]["others"] | {term: f"cr:{term}" for term in _DATA["context"]["terms"]},
        "@type": "sc:Dataset",
        "conformsTo": _CONFORMS_TO,
        "name": name,
        "description": str(card.get("description") or described),
        **_of_card(card),
        "distribution": _distribution(pairs, listing),
        "recordSet": [_record_set(pairs)],
    }


def _of_card(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that the card and its datasheet give."""
    properties: dict[str, Any] = {
        ours: str(card[property_name]) for property_name, ours in _DATA["properties"].items() if card.get(property_name)
    }
    if re.fullmatch(_SPDX, properties.get("license", "")):
        properties["license"] = f"https://spdx.org/licenses/{properties['license']}"
    creators = card.get("creators") or []
    if not isinstance(creators, list) or not all(isinstance(name, str) for name in creators):
        raise DataError(f"card.json: field 'creators': expected a list of names, got {quote(creators)}")
    if creators:
        properties["creator"] = [{"@type": "sc:Person", "name": name} for name in creators]
    for answer in answers(card):
        if answer.question.rai and answer.text:
            properties[f"rai:{answer.question.rai}"] = answer.text
    return properties


def _distribution(pairs: PairSet, listing: Path) -> list[dict[str, Any]]:
    """Return the listing, and a file set for each kind of picture: the folders that hold some, as patterns."""
    data, kinds = listing.read_bytes(), dict[str, set[str]]()
    for reference in (reference for item in pairs.items for reference in item.images):
        path = PurePosixPath(reference)
        kinds.setdefault(path.suffix, set()).add(f"{path.parent}/*{path.suffix}".removeprefix("./"))
    paths = (PurePosixPath(mask) for item in pairs.items for mask in item.masks)
    masks = {f"{path.parent}/*{path.suffix}" for path in paths}
    sets = [("masks", "Masks of the things in the pictures; an item's provenance lists its own.", "image/png", masks)]
    for suffix, patterns in sorted(kinds.items()):
        described = f"Pictures of the items, {suffix[1:]}."
        sets.append((f"images{suffix}", described, _DATA["media"][suffix.lower()], patterns))
    entry = {
        **_entry("cr:FileObject", LISTING, "One item a line."),
        "contentUrl": LISTING,
        "contentSize": f"{len(data)} B",
        "encodingFormat": "application/jsonlines",
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    return [
        entry,
        *(
            {**_entry("cr:FileSet", name, described), "encodingFormat": media, "includes": sorted(patterns)}
            for name, described, media, patterns in sets
            if patterns
        ),
    ]


def _entry(kind: str, name: str, description: str, prefix: str = "") -> dict[str, Any]:
    return {"@type": kind, "@id": f"{prefix}{name}", "name": name, "description": description}


def _record_set(pairs: PairSet) -> dict[str, Any]:
    images, texts = pairs.shape
    # A field that no line of the file has cannot be read from it; an item fills it in.
    columns = {column for _, row in read_jsonl(pairs.root / LISTING) for column in row}
    first = "place 0 is true, or those of the field true" if "true" in columns else "image 0 and text 0 belong together"
    true = "image k belongs to text k" if images == texts else first
    fields = [
        _item_field("id", "The item's name, unique in the set."),
        _item_field("images", f"Paths of its pictures, relative to the folder; {true}.", images),
        _item_field("texts", f"Its captions; {true}.", texts),
    ]
    if "true" in columns:
        places = _item_field("true", "The places of the true ones among its captions, or pictures.", -1)
        fields.append(places | {"dataType": "sc:Integer"})
    if "cluster" in columns:
        fields.append(_item_field("cluster", "What must be resampled together."))
    tags = {tag for item in pairs.items for tag in item.tags}
    fields += [_item_field(f"tags/{tag}", f"The item's tag {tag!r}.") for tag in sorted(tags) if _PLAIN.fullmatch(tag)]
    entry = _entry("cr:RecordSet", "items", f"Minimal pairs: each item has {describe(pairs.shape)}.")
    return {**entry, "key": {"@id": "items/id"}, "field": fields}


def _item_field(name: str, description: str, length: int | None = None) -> dict[str, Any]:
    """Return a field of the items: a column, or `tags/TAG` out of the column of tags."""
    column, _, tag = name.partition("/")
    source = {"fileObject": {"@id": LISTING}, "extract": {"column": column}}
    return {
        **_entry("cr:Field", name, description, "items/"),
        "dataType": "sc:Text",
        **({} if length is None else {"isArray": True, "arrayShape": str(length)}),
        "source": {**source, **({"transform": {"jsonPath": tag}} if tag else {})},
    }
