"""Croissant 1.1 metadata of a pair set's folder: its files, and how to read items from them.

A fact that the card lacks is left out, never invented; `missing` lists the facts that the format asks for and the card
lacks.

Source: Croissant Format Specification 1.1 (MLCommons, 2026).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from tellapart.auditing.datasheet import answers
from tellapart.data.pairset import PairSet, describe
from tellapart.data.rows import read_jsonl
from tellapart.errors import DataError, quote

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
