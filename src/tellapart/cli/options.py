"""What a parameter is on the command line, the words of `commands.toml`, and options of the form NAME=TEXT."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

#: Negative options, and the parameters of the Python interface that they are the opposite of.
NEGATIONS = {"no_cache": "cache", "no_images": "read_images", "no_tiers": "with_tiers"}


@dataclass(frozen=True)
class Hint:
    """What a parameter is on the command line, if the function of the interface does not hold it.

    Attributes:
        help: its text, if not the first sentence of the function's `Args:`.
        names: of the option, if not `--name`.
        metavar: the placeholder of its value in the help.
        min: the least number; if not given 1 for a whole number.
        max: the largest.
        text: whether it is read as text, though a path may be given in Python.
        argument: whether it is an argument; if not given, it is one if it is needed and not by keyword alone.
        several: whether it may be given several times, though the function takes one value.
        needed: whether it must be given, if the function needs it.
        envvar: the environment variable that it is read from, too.
        callback: checks a value as it is read.
    """

    help: str = ""
    names: tuple[str, ...] = ()
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    text: bool = False
    argument: bool | None = None
    several: bool = False
    needed: bool = True
    envvar: str | None = None
    callback: Callable[..., Any] | None = None


@cache
def read_words() -> dict[str, dict[str, Any]]:
    """Return the tables of `commands.toml`."""
    return tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))


def make_hint(parameter: str, *options: Mapping[str, Any]) -> Hint:
    """Return the hint for a parameter: what commands share, then that of each mapping; a text is its help."""
    hints = [given.get(parameter, {}) for given in (read_words()["shared"], *options)]
    fields: dict[str, Any] = {}
    for hint in hints:
        fields |= {"help": hint} if isinstance(hint, str) else hint
    return Hint(**fields)


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
