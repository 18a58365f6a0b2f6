"""The documents of a pair set: its data card, its datasheet, and Croissant 1.1 metadata of its folder.

A set's card answers a question of the datasheet in its object `datasheet`, by the question's key, or in four of its
fields; an audit answers what it has counted. Nothing is ever invented. The data card is markdown or one HTML file,
which asks nothing of the network and runs no script; both forms escape captions, tags and answers.

Source: Croissant Format Specification 1.1 (MLCommons, 2026).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tellapart.auditing.audit import Audit
from tellapart.auditing.finding import format_interval, format_value
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet, describe
from tellapart.data.rows import read_jsonl, read_toml
from tellapart.errors import DataError, nearest, plain, quote
from tellapart.report.image_sources import Album, album
from tellapart.report.page import page_environment

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class DatasheetQuestion:
    """One question; a card's field, and the property of Croissant's vocabulary, that have its answer, too."""

    key: str
    section: str
    text: str
    card: str = ""
    rai: str = ""


#: Fields of a card beside its `datasheet` that a person fills in: texts, but for `creators`, a list of names.
CARD_FIELDS = ("title", "description", "licence", "url", "creators", "date_published", "citation", "version")

_DATA = read_toml(Path(__file__).with_name("datasheet.toml"))

QUESTIONS: tuple[DatasheetQuestion, ...] = tuple(
    DatasheetQuestion(key, section, text, _DATA["card"].get(key, ""), _DATA["rai"].get(key, ""))
    for section, questions in _DATA["sections"].items()
    for key, text in questions.items()
)
"""All questions, in the datasheet's order."""


def answers(card: Mapping[str, Any], counted: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the card's answer to each question by its key, or else one that was counted in the set; empty without.

    >>> {key: text for key, text in answers({"licence": "CC0", "datasheet": {"purpose": "a test"}}).items() if text}
    {'purpose': 'a test', 'licence': 'CC0'}
    """
    datasheet = card.get("datasheet", {})
    if not isinstance(datasheet, Mapping):
        raise DataError(f"card.json: field 'datasheet': expected an object of answers, got {quote(datasheet)}")
    keys = [question.key for question in QUESTIONS]
    for key, value in datasheet.items():
        if key not in keys:
            raise DataError(f"card.json: field 'datasheet': no question {quote(key)}{nearest(key, keys)}")
        if value is not None and not isinstance(value, str):
            raise DataError(f"card.json: field 'datasheet.{key}': expected a text or null, got {quote(value)}")
    replies = {}
    for question in QUESTIONS:
        in_card = datasheet.get(question.key) or (question.card and field_text(card, question.card))
        replies[question.key] = (in_card or counted.get(question.key, "")).strip()
    return replies


def field_text(card: Mapping[str, Any], name: str) -> str:
    """Return a field of a card as a text, a list's names joined; empty if it is neither."""
    value = card.get(name)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else ""


def with_questions(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the card with the fields of `CARD_FIELDS` and every question in its `datasheet`; null for open ones."""
    datasheet = {key: text or None for key, text in answers(card).items()}
    return {**dict.fromkeys(CARD_FIELDS), **card, "datasheet": datasheet}


#: The beginning of an answer that nobody wrote.
COUNTED = "Counted:"

#: Values of a tag that such an answer lists.
_MOST_VALUES = 20


def count_answers(pairs: PairSet, audit: Audit) -> dict[str, str]:
    """Return the answers by the questions' keys; each begins with "Counted:"."""
    tags = (
        f"; by {tag}: {', '.join(f'{value} {count:,}' for value, count in list(values.items())[:_MOST_VALUES])}"
        + (f" and {len(values) - _MOST_VALUES} more values" if len(values) > _MOST_VALUES else "")
        for tag, values in audit.tags.items()
        if len(values) > 1
    )
    (images, texts), masks = audit.shape, sum(len(item.masks) for item in pairs.items)
    nouns = f"{images} image{'s' * (images > 1)} and {texts} text{'s' * (texts > 1)}"
    pictures = "" if audit.images is None else f"{audit.images:,} pictures and "
    of_things = f"; {masks:,} masks of the things in the images" if masks else ""
    truth = "image k belongs to text k" if images == texts else "the true ones are known by their place"
    lacking = {tag: audit.items - sum(values.values()) for tag, values in audit.tags.items()}
    without = ", ".join(f"{count:,} have no tag {tag}" for tag, count in lacking.items() if count)
    torn = [finding.says for finding in audit.warnings if finding.name == "sides: torn"]
    sides = f"yes, items have torn sides ({torn[0]})" if torn else "every item has its images and texts"
    warned = ", ".join(finding.name for finding in audit.warnings)
    checks = f"{len(audit.warnings)} of {len(audit.findings)} checks of this audit warn"
    replies = {
        "count": f"{audit.items:,} items{''.join(tags)}",
        "instance_data": f"an item has {nouns}; {pictures}{audit.texts:,} texts of the set are distinct{of_things}",
        "labels": f"yes, {truth}, in each of {audit.items:,} items",
        "missing": f"{sides}{f'; {without}' if without else ''}",
        "errors": f"{checks}{f' ({warned})' if warned else ''}",
    }
    if audit.clusters < audit.items:
        replies["relationships"] = f"yes, by the field cluster: {audit.items:,} items in {audit.clusters:,} clusters"
    if pairs.read is None:
        replies["self_contained"] = "yes, the images of every item are files in its folder"
    return {key: f"{COUNTED} {text}." for key, text in replies.items()}


#: Items that a card shows, evenly spread over the set.
SAMPLES = 12

#: Characters that their pictures may take in the file.
_BUDGET = 4_000_000

#: Fields of a set's card that a data card shows.
_FACTS = ("description", "licence", "creators", "source", "citation", "masks")

_HOW_TO_ANSWER = (
    "To answer, fill in these fields of datasheet in card.json, in the folder of the set (or of the table), and audit "
    "again; tellapart audit SET --to DIR writes a card.json that has them all."
)

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def size_text(audit: Audit, unit: str = " (images x texts)") -> str:
    """Write how large a set is."""
    pictures = f", {audit.images:,} distinct pictures" if audit.images is not None else ""
    size = f"{audit.items:,} items of {audit.shape[0]}x{audit.shape[1]}{unit}, {audit.texts:,} distinct captions"
    return f"{size}{pictures}, {audit.clusters:,} clusters"


@dataclass(frozen=True, slots=True)
class Card:
    """The content of both forms of a card; questions of the datasheet by section, and the items that are shown."""

    audit: Audit
    facts: dict[str, str]
    sections: dict[str, list[tuple[DatasheetQuestion, str]]]
    open_questions: dict[str, list[DatasheetQuestion]]
    samples: list[Item]
    pictures: Album
    questions: int = len(QUESTIONS)

    @property
    def answered(self) -> bool:
        """Whether the set's card answers a question; the audit has counted the others' answers."""
        return any(not text.startswith(COUNTED) for group in self.sections.values() for _, text in group)

    @property
    def unanswered(self) -> int:
        """How many questions have no answer."""
        return sum(map(len, self.open_questions.values()))


def make_card(pairs: PairSet, audit: Audit) -> Card:
    """Gather a set's card."""
    replies = answers(pairs.card, count_answers(pairs, audit))
    sections: dict[str, list[tuple[DatasheetQuestion, str]]] = {}
    without: dict[str, list[DatasheetQuestion]] = {}
    for question in QUESTIONS:
        if text := replies[question.key]:
            sections.setdefault(question.section, []).append((question, text))
        else:
            without.setdefault(question.section, []).append(question)
    count = min(SAMPLES, len(pairs))
    samples = [pairs.items[k * len(pairs) // count] for k in range(count)]
    # If no picture was read, none may be readable.
    images = [item.images for item in samples] if audit.images is not None else []
    facts = {name: text for name in _FACTS if (text := field_text(pairs.card, name))}
    return Card(audit, facts, sections, without, samples, album(images, pairs.read_bytes, _BUDGET))


def html(card: Card) -> str:
    """Return the card as one HTML file."""
    return _render(page_environment(), "card.html.j2", card)


def markdown(card: Card) -> str:
    """Return the card as markdown, without pictures."""
    # Its own filter escapes all texts, not as HTML.
    environment = page_environment().overlay(autoescape=False)
    environment.filters = {**environment.filters, "md": _escape_markdown}
    return _render(environment, "card.md.j2", card)


def _render(environment: Environment, name: str, card: Card) -> str:
    template = Path(__file__).with_name(name).read_text(encoding="utf-8")
    shown = {"card": card, "audit": card.audit, "value": format_value, "interval": format_interval}
    shown |= {"how_to_answer": _HOW_TO_ANSWER, "size": size_text(card.audit)}
    return environment.from_string(template).render(shown)


def _escape_markdown(text: str) -> str:
    """Write untrusted text on one line, so that markdown takes it as text."""
    return _MARKDOWN.sub(r"\\\1", plain(" ".join(text.split())))


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
    replies = answers(card)
    rai = {f"rai:{question.rai}": replies[question.key] for question in QUESTIONS if question.rai}
    return properties | {name: text for name, text in rai.items() if text}


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
