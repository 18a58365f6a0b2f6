"""Parameters of the Python interface as options of the running command, so that an error names the typed option.

Messages of the Python interface name a parameter as a call does: `limit=0: give a number`, "leave costs= out".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from tellapart.cli.options import NEGATIONS

__all__ = ["options_of", "restate"]


class _Parameter(Protocol):
    """An option or an argument, as typer and click have it."""

    @property
    def name(self) -> str | None: ...
    @property
    def opts(self) -> list[str]: ...


class _Command(Protocol):
    @property
    def params(self) -> Sequence[_Parameter]: ...


def options_of(command: _Command) -> dict[str, str]:
    """Map each parameter to its long option or its argument's metavar; a key `name=False` has the negative option.

    >>> from tellapart.cli.main import app
    >>> import typer
    >>> table = options_of(typer.main.get_command(app).commands["table"])
    >>> table["labels"], table["runs"], table["with_tiers=False"]
    ('--label', 'RUNS', '--no-tiers')
    """
    table = {"plugin": "--plugin"}  # which any command takes
    for parameter in command.params:
        if parameter.name is None:
            continue
        word = max(parameter.opts, key=len)
        option = word if word.startswith("-") else word.upper()
        if parameter.name in NEGATIONS:
            table[f"{NEGATIONS[parameter.name]}=False"] = option
        else:
            table[parameter.name] = option
    return table


def restate(message: str, options: Mapping[str, str]) -> str:
    """Return a message with a command's options in place of the parameters that it names.

    >>> restate("limit=0: give a number, or leave limit= out", {"limit": "--limit"})
    '--limit 0: give a number, or leave --limit out'
    >>> restate("with_tiers=False and average=True", {"with_tiers=False": "--no-tiers", "average": "--average"})
    '--no-tiers and --average'
    >>> restate("columns={'image_0': 'left', 'image_1': 'right'} names both", {"columns": "--columns"})
    '--columns image_0=left,image_1=right names both'
    """

    def replace(match: re.Match[str]) -> str:
        whole = options.get(match[0])
        if whole is not None:
            return whole
        option = options.get(match["name"])
        if option is None:
            return match[0]
        value = match["value"] or ""
        return option if value in {"", "True"} else f"{option} {value}"

    message = re.sub(r"(?<=\w=)\{(?P<pairs>'[^{}]*')\}", _restate_mapping, message)
    return re.sub(r"(?<![\w./=-])(?P<name>[a-z][a-z_]*)=(?P<value>True|False|(?=[^\s,.;:)])\S)?", replace, message)


def _restate_mapping(match: re.Match[str]) -> str:
    """Return a mapping's literal as options write it: `FIELD=VALUE,FIELD=VALUE`."""
    return re.sub(r"'([^']*)': '([^']*)'", r"\1=\2", match["pairs"]).replace(", ", ",")
