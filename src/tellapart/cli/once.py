"""The base of every command: options of one value are given once, and any command takes `--plugin` and `--debug`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from typer.core import TyperCommand

from tellapart.cli.options import NEGATIONS
from tellapart.errors import quote

# Parameters of the Python interface as options of the running command, so that an error names the typed option.
#
# Messages of the Python interface name a parameter as a call does: `limit=0: give a number`, "leave costs= out".


def options_of(command: Any) -> dict[str, str]:
    """Map each parameter to its long option or its argument's metavar; a key `name=False` has the negative option."""
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


class OnceCommand(TyperCommand):
    """A command that refuses an option of one value that is given twice; the parser would take the last.

    Attributes:
        debug: whether an error shows its traceback, in this process.
        running: the command that was parsed last.
    """

    debug: ClassVar[bool] = False
    running: ClassVar[OnceCommand | None] = None

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if hasattr(self.callback, "declaration"):
            del self.params

    @cached_property
    def params(self) -> list[Any]:  # type: ignore[override]
        """The options and arguments; of a declared command made on first use, since they need a function's source."""
        made: TyperCommand = self.callback.declaration.make()  # type: ignore[union-attr]
        self.callback = made.callback
        return made.params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line."""
        OnceCommand.running = self
        for word in args:
            if broken := re.search("[\ud800-\udfff]", word):  # no record, page or terminal could hold it
                byte = f"byte 0x{ord(broken[0]) & 0xFF:02x}" if broken[0] >= "\udc80" else "half of a character"
                ctx.fail(f"{quote(word)} is not UTF-8 ({byte}); type it in UTF-8, or rename the file")
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        seen = set()
        for parameter in given:
            repeatable = parameter.multiple or parameter.nargs == -1 or getattr(parameter, "is_flag", False)
            if parameter.name in seen and not repeatable:
                name = max(parameter.opts, key=len)
                ctx.fail(f"{name} is given twice; give it once")
            seen.add(parameter.name)
        return super().parse_args(ctx, args)


def load_plugins(names: Sequence[str] | None) -> None:
    """Load the plugins that `--plugin` names."""
    if names:
        from tellapart.benchmarks.plugins import load_plugin

        for name in names:
            load_plugin(name)


def name_options(message: object) -> str:
    """Return a message with the options of the running command in place of the parameters that it names."""
    running = OnceCommand.running
    return str(message) if running is None else restate(str(message), options_of(running))
