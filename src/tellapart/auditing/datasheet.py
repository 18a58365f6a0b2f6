"""A set's datasheet, its questions and answers, and Croissant 1.1 metadata of its folder. Nothing is ever invented.

An audit answers the questions that it has counted (`counted`). A card answers a question in its object `datasheet`, by
the question's key; four fields of a card answer one, too (`description`, `source`, `licence`, `creators`). A question
without an answer, or with the answer null, is shown as unanswered. `missing` lists the facts that Croissant asks for
and the card lacks.

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
from tellapart.data.rows import read_jsonl
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

_CARD = {"instances": "description", "acquired": "source", "licence": "licence", "creators": "creators"}

_RAI = {
    "acquired": "dataCollection",
    "preprocessing": "dataPreprocessingProtocol",
    "errors": "dataLimitations",
    "sensitive": "personalSensitiveInformation",
    "purpose": "dataUseCases",
    "use_risks": "dataSocialImpact",
    "updates": "dataReleaseMaintenancePlan",
}

# In short, after Gebru et al. (2021), Datasheets for Datasets, Communications of the ACM 64 (12), sec. 3.
_SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Motivation": {
        "purpose": "For what purpose was the set created?",
        "creators": "Who created it, on behalf of whom?",
        "funding": "Who funded its creation?",
        "motivation_comments": "Any other comments on its motivation?",
    },
    "Composition": {
        "instances": "What do the items represent?",
        "count": "How many items are there, of each type?",
        "sample": "Does it hold all possible items, or a sample of them?",
        "instance_data": "What data does each item consist of?",
        "labels": "Is there a label or target for each item?",
        "missing": "Is anything missing from individual items?",
        "relationships": "Are relations between items made explicit?",
        "splits": "Are there recommended splits?",
        "errors": "Are there errors, sources of noise, or redundancies?",
        "self_contained": "Is it self-contained, or does it rely on external resources?",
        "confidential": "Does it hold data that might be confidential?",
        "offensive": "Does it hold data that might offend, threaten or cause anxiety?",
        "subpopulations": "Does it identify subpopulations of people?",
        "identifiable": "Can individuals be identified from it?",
        "sensitive": "Does it hold data that might be sensitive?",
        "composition_comments": "Any other comments on its composition?",
    },
    "Collection": {
        "acquired": "How was the data of each item acquired?",
        "mechanisms": "By what mechanisms was it collected, and how were they validated?",
        "sampling": "If it is a sample, how was it drawn?",
        "collectors": "Who collected it, and how were they paid?",
        "timeframe": "Over what time was it collected?",
        "ethical_review": "Were there ethical reviews?",
        "direct_collection": "Was data about people collected from them, or through others?",
        "notification": "Were the people told of the collection?",
        "consent": "Did they consent to collection and use?",
        "revocation": "Can they revoke their consent?",
        "impact_analysis": "Was the impact on the people in it analysed?",
        "collection_comments": "Any other comments on its collection?",
    },
    "Preprocessing": {
        "preprocessing": "Was the data preprocessed, cleaned or labelled?",
        "raw_data": "Was the raw data kept?",
        "software": "Is the software that did it available?",
        "preprocessing_comments": "Any other comments on its preprocessing?",
    },
    "Uses": {
        "used_already": "Has it been used for any tasks already?",
        "repository": "Is there a list of papers or systems that use it?",
        "other_tasks": "What other tasks could it be used for?",
        "use_risks": "Does anything about it bear on future uses (unfair treatment, other harms)?",
        "misuse": "For which tasks should it not be used?",
        "uses_comments": "Any other comments on its uses?",
    },
    "Distribution": {
        "third_parties": "Will it be distributed to third parties?",
        "distribution_means": "How will it be distributed?",
        "distribution_date": "When will it be distributed?",
        "licence": "Under which licence or terms of use?",
        "ip_restrictions": "Have third parties imposed restrictions on it?",
        "export_controls": "Do export controls or other regulations apply?",
        "distribution_comments": "Any other comments on its distribution?",
    },
    "Maintenance": {
        "maintainer": "Who supports, hosts and maintains it?",
        "contact": "How can the maintainer be contacted?",
        "erratum": "Is there an erratum?",
        "updates": "Will it be updated, how often and by whom?",
        "retention": "If it relates to people, are there limits on how long their data is kept?",
        "old_versions": "Will older versions be supported?",
        "contributions": "Can others extend it, and how?",
        "maintenance_comments": "Any other comments on its maintenance?",
    },
}

QUESTIONS: tuple[DatasheetQuestion, ...] = tuple(
    DatasheetQuestion(key, section, text, _CARD.get(key, ""), _RAI.get(key, ""))
    for section, questions in _SECTIONS.items()
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

#: The field of a card -> Croissant's property, of those that the format asks for or that a card may well have.
_PROPERTIES = {
    "url": "url",
    "citation": "citeAs",
    "version": "version",
    "date_published": "datePublished",
    "licence": "license",
}

_REQUIRED = ("description", "licence", "url", "creators", "date_published")

_SPDX = re.compile(
    r"(Apache-2\.0|MIT|BSD-[23]-Clause|CC0-1\.0|CC-BY(-NC)?(-SA|-ND)?-[1-4]\.0|GPL-[23]\.0-(only|or-later))"
)

#: Tags that need no quoting in a path.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_MEDIA = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".npy": "application/x-npy",
    ".mp4": "video/mp4",
    ".m4v": "video/mp4",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
    ".mkv": "video/matroska",
    ".avi": "video/vnd.avi",
}

# The context that the specification's appendix 1 asks for, term by term.
_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **{
        term: f"cr:{term}"
        for term in (
            *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject"),
            *("fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5"),
            *("parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate"),
            *("separator", "source", "subField", "transform"),
        )
    },
}


def missing(card: Mapping[str, Any]) -> list[str]:
    """Return the fields that Croissant asks for and a card lacks."""
    return [name for name in _REQUIRED if not card.get(name)]


def croissant(pairs: PairSet) -> dict[str, Any]:
    """Return the metadata as JSON-LD; its paths are relative to the set's folder, so the file belongs there.

    A card has more facts in `url`, `citation`, `version`, `date_published`, `licence` and `creators` (a list of names).
    """
    listing = pairs.root / LISTING
    if pairs.read is not None or not listing.is_file():
        raise DataError(
            f"{pairs.name}: Croissant describes the files of a folder with {LISTING}, and this set has none; "
            "write it as one first (tellapart.data.folder.write_pair_set)"
        )
    card = pairs.card
    name = str(card.get("name") or pairs.root.resolve().name)
    return {
        "@context": dict(_CONTEXT),
        "@type": "sc:Dataset",
        "conformsTo": _CONFORMS_TO,
        "name": name,
        "description": str(
            card.get("description") or f"{len(pairs):,} minimal pairs, each of {describe(pairs.shape)}."
        ),
        **_of_card(card),
        "distribution": [_file_entry(listing), *_file_sets(pairs)],
        "recordSet": [_record_set(pairs)],
    }


def _of_card(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that the card and its datasheet give."""
    properties: dict[str, Any] = {
        ours: str(card[property_name]) for property_name, ours in _PROPERTIES.items() if card.get(property_name)
    }
    if _SPDX.fullmatch(properties.get("license", "")):
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


def _file_entry(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {
        "@type": "cr:FileObject",
        "@id": LISTING,
        "name": LISTING,
        "description": "One item a line.",
        "contentUrl": LISTING,
        "contentSize": f"{len(data)} B",
        "encodingFormat": "application/jsonlines",
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _file_sets(pairs: PairSet) -> list[dict[str, Any]]:
    """Return a file set for each kind of picture: the folders that hold some, as patterns."""
    kinds: dict[str, set[str]] = {}
    for item in pairs.items:
        for reference in item.images:
            path = PurePosixPath(reference)
            kinds.setdefault(path.suffix, set()).add(f"{path.parent}/*{path.suffix}".removeprefix("./"))
    paths = (PurePosixPath(mask) for item in pairs.items for mask in item.masks)
    masks = sorted({f"{path.parent}/*{path.suffix}" for path in paths})
    of_masks = {
        "@type": "cr:FileSet",
        "@id": "masks",
        "name": "masks",
        "description": "Masks of the things in the pictures; an item's provenance lists its own.",
        "encodingFormat": "image/png",
        "includes": masks,
    }
    return [
        *([of_masks] if masks else []),
        *(_picture_set(suffix, patterns) for suffix, patterns in sorted(kinds.items())),
    ]


def _picture_set(suffix: str, patterns: set[str]) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": f"images{suffix}",
        "name": f"images{suffix}",
        "description": f"Pictures of the items, {suffix[1:]}.",
        "encodingFormat": _MEDIA[suffix.lower()],
        "includes": sorted(patterns),
    }


def _record_set(pairs: PairSet) -> dict[str, Any]:
    images, texts = pairs.shape
    true = "image k belongs to text k" if images == texts else "image 0 and text 0 belong together"
    fields = [
        _item_field("id", "The item's name, unique in the set."),
        _item_field("images", f"Paths of its pictures, relative to the folder; {true}.", images),
        _item_field("texts", f"Its captions; {true}.", texts),
    ]
    # A field that no line of the file has cannot be read from it; an item fills it in.
    if any("cluster" in row for _, row in read_jsonl(pairs.root / LISTING)):
        fields.append(_item_field("cluster", "What must be resampled together."))
    tags = {tag for item in pairs.items for tag in item.tags}
    fields += [_item_field(f"tags/{tag}", f"The item's tag {tag!r}.") for tag in sorted(tags) if _PLAIN.fullmatch(tag)]
    return {
        "@type": "cr:RecordSet",
        "@id": "items",
        "name": "items",
        "description": f"Minimal pairs: each item has {describe(pairs.shape)}.",
        "key": {"@id": "items/id"},
        "field": fields,
    }


def _item_field(name: str, description: str, length: int | None = None) -> dict[str, Any]:
    """Return a field of the items: a column, or `tags/TAG` out of the column of tags."""
    column, _, tag = name.partition("/")
    return {
        "@type": "cr:Field",
        "@id": f"items/{name}",
        "name": name,
        "description": description,
        "dataType": "sc:Text",
        **({} if length is None else {"isArray": True, "arrayShape": str(length)}),
        "source": {
            "fileObject": {"@id": LISTING},
            "extract": {"column": column},
            **({"transform": {"jsonPath": tag}} if tag else {}),
        },
    }
