"""The commands of the command line, those of groups, too."""

from collections.abc import Iterator
from typing import Any

import typer

from tellapart.cli.main import app


def list_commands(group: Any = None, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each command with its words: `annotate export`."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from list_commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


COMMANDS = dict(list_commands())
