"""Commands whose options of one value are given once: the parser would take the last of several without a word."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

__all__ = ["OnceCommand"]


class OnceCommand(TyperCommand):
    """A command that refuses an option of one value that is given twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line.

        Raises:
            UsageError: an option of one value is given twice.
        """
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        seen = set()
        for parameter in given:
            repeatable = parameter.multiple or parameter.nargs == -1 or getattr(parameter, "is_flag", False)
            if parameter.name in seen and not repeatable:
                name = max(parameter.opts, key=len)
                ctx.fail(f"{name} is given twice; give it once")
            seen.add(parameter.name)
        return super().parse_args(ctx, args)
