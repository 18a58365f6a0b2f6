"""What a parameter is on the command line, the words of `commands.toml`, and options of the form NAME=TEXT."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

#: Negative options, and the parameters of the Python interface that they are the opposite of.
NEGATIONS = {"no_cache": "cache", "no_images": "read_images", "no_tiers": "with_tiers"}


@cache
def read_words() -> dict[str, dict[str, Any]]:
    """Return the tables of `commands.toml`."""
    return tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))


def make_hint(parameter: str, *options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a parameter is on the command line, if the function of the interface does not hold it.

    That is what commands share, then that of each mapping; a text is its help. Settings are typer's, and `names` of the
    option, if not `--name`. Others are whether it is read as `text`, though a path may be given in Python; is an
    `argument`; may be given `several` times, though the function takes one value; is `needed`, if it has no default.
    """
    hint: dict[str, Any] = {}
    for given in (read_words()["shared"], *options):
        settings = given.get(parameter, {})
        hint |= {"help": settings} if isinstance(settings, str) else settings
    return hint


def columns_of(given: list[str]) -> dict[str, str]:
    """Read `--columns FIELD=COLUMN,...`; a comma in a column's name parts nothing unless a field and `=` follow.

    >>> columns_of(["image_0=left,image_1=right", "caption_0=first, shown"])
    {'image_0': 'left', 'image_1': 'right', 'caption_0': 'first, shown'}
    """
    parts = (part for text in given for part in re.split(r",(?=[\w:]+=)", text))
    return read_mapping("--columns", parts, "FIELD=COLUMN, each field once: image_0=left,image_1=right")


def labels_of(given: list[str] | None) -> dict[str, str]:
    """Read `--label NAME=TEXT`.

    >>> labels_of(["ViT-B-32/openai=CLIP B/32"])
    {'ViT-B-32/openai': 'CLIP B/32'}
    """
    return read_mapping("--label", given or (), "NAME=TEXT, the model's name in results and what to call it")


def read_mapping(option: str, parts: Iterable[str], form: str) -> dict[str, str]:
    """Read texts of the form NAME=VALUE, each name once."""
    from tellapart.errors import RunError

    mapping: dict[str, str] = {}
    for part in parts:
        name, separator, value = part.partition("=")
        if not (name and separator and value):
            raise RunError(f"{option} {part}: write {form}")
        if name in mapping:
            raise RunError(f"{option} {part}: {name}= is given twice; name it once")
        mapping[name] = value
    return mapping
