"""A vocabulary from a folder of scanned objects: the names of its assets in captions.

Names come from a TOML file (`Folder_Name = "red coffee mug"`, or `Folder_Name = { noun = "red coffee mug", category =
"mug" }`) or a CSV file with the columns folder, noun and, optionally, category. Without one, an asset has its folder's
name, in words, and its category is that of its `metadata.pbtxt` or its last word.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from tellapart.data.rows import read_csv, read_toml
from tellapart.errors import DataError
from tellapart_render.captions.grammar import Noun
from tellapart_render.captions.vocabulary import Vocabulary, add_vocabulary
from tellapart_render.meshes.assets import Up, find_assets, read_asset, register
from tellapart_render.meshes.materials import PALETTE

_CATEGORY = re.compile(r'categories\s*\{\s*first:\s*"([^"\n]{1,80})"')
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class AssetVocabulary(NamedTuple):
    """The vocabulary's name, and the SHA-256 of each asset read for it, by the asset's name."""

    name: str
    inputs: dict[str, str]


def folder_words(folder_name: str) -> str:
    """Return a folder's name in words: split at capitals and signs, without numbers and single letters.

    >>> folder_words("BIA_Porcelain_Ramekin_With_Glazed_Rim_35_45_oz_cup")
    'bia porcelain ramekin with glazed rim oz cup'
    """
    return " ".join(word.lower() for word in _WORDS.findall(folder_name) if len(word) > 1)


def read_names(path: Path) -> dict[str, tuple[str, str]]:
    """Read a names file: noun phrase and category (or "") by folder name."""
    if not path.exists():
        raise DataError(
            f'{path}: no such file; write Folder_Name = "red coffee mug" for each asset (TOML), or a CSV of folder,noun'
        )
    names: dict[str, tuple[str, str]] = {}
    if path.suffix == ".csv":
        for line, row in read_csv(path):
            folder, noun = (row.get(column, "").strip() for column in ("folder", "noun"))
            if not folder or not noun:
                raise DataError(f"{path}:{line}: needs the columns folder and noun, got {row}")
            names[folder] = (noun, row.get("category", "").strip())
        return names
    for folder, value in read_toml(path).items():
        entry = value if isinstance(value, dict) else {"noun": value}
        phrase, category = entry.get("noun"), entry.get("category", "")
        valid = entry.keys() <= {"noun", "category"}
        if not (valid and isinstance(phrase, str) and phrase.strip() and isinstance(category, str)):
            raise DataError(f"{path}: field {folder!r}: needs a noun phrase, or noun and category; got {value!r}")
        names[folder] = (phrase, category)
    return names


def asset_vocabulary(folder: Path, names: Path | None, up: Up = "z") -> AssetVocabulary:
    """Read the named assets (all of them without names) into this process and make their vocabulary known."""
    assets = find_assets(folder)
    entries = dict.fromkeys(assets, ("", "")) if names is None else read_names(names)
    nouns: list[Noun] = []
    inputs: dict[str, str] = {}
    for name, (phrase, category) in entries.items():
        asset = read_asset(folder, name, up)
        inputs[name] = asset.sha256
        nouns.append(
            _split_phrase(phrase or folder_words(name), category or _read_category(folder / name), register(asset))
        )
    twice = [phrase for phrase, count in Counter(noun.phrase() for noun in nouns).items() if count > 1]
    if twice:
        raise DataError(f"{names or folder}: two assets are called {twice[0]!r}; give each a different name")
    groups: dict[str, list[Noun]] = defaultdict(list)
    for each in nouns:
        groups[each.category].append(each)
    if len(groups) < 2:
        raise DataError(f"{names or folder}: all assets are of one category ({', '.join(groups)}); scenes relate two")
    digest = hashlib.sha256(repr([(noun.phrase(), noun.category, noun.shape) for noun in nouns]).encode()).hexdigest()
    varied = {name: tuple(group) for name, group in groups.items() if len(group) > 1}
    vocabulary = Vocabulary(f"assets-{digest[:12]}", varied, tuple(nouns), tuple(nouns))
    add_vocabulary(vocabulary)
    return AssetVocabulary(vocabulary.name, inputs)


def _split_phrase(phrase: str, category: str, shape: str) -> Noun:
    """Split a phrase into attribute words, head and the words after `with`."""
    body, _, tail = " ".join(phrase.split()).partition(" with ")
    *attribute, head = body.split()
    colour = next((word for word in attribute if word in PALETTE), "")
    return Noun(category or head, " ".join(attribute), head, f"with {tail}" if tail else "", shape, colour, False)


def _read_category(folder: Path) -> str:
    """Return the category that an asset's metadata names, or ""."""
    path = folder / "metadata.pbtxt"
    if not path.is_file():
        return ""
    category = _CATEGORY.search(path.read_text(encoding="utf-8", errors="replace")[:100_000])
    return category[1].lower() if category else ""
