"""Templates of pages, which escape every text, and of sentences; no text of theirs steers what shows it."""

from __future__ import annotations

import re
from functools import cache
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from tellapart.errors import counted

if TYPE_CHECKING:
    from jinja2 import BaseLoader, Environment

#: Control characters but for tabs and line ends, and embeddings, overrides and isolates of direction.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def make_environment(loader: BaseLoader | None = None, **options: Any) -> Environment:
    """Return a new environment of templates."""
    from jinja2 import Environment, StrictUndefined

    # Escaped everywhere, not by the file's name; a name that a template misspells is an error.
    rules = {"autoescape": True, "finalize": _steer_nothing, "undefined": StrictUndefined}
    return Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, **{**rules, **options})  # noqa: S701


def number_functions() -> dict[str, Any]:
    """Return the functions that write numbers and names, by their names."""
    from tellapart.report import numbers  # late: the command line's help shows none

    return {name: function for name, function in vars(numbers).items() if isfunction(function)} | {"counted": counted}


def _steer_nothing(value: Any) -> Any:
    """Spell out a text's control characters and turns of direction; marks that single letters need stay."""
    if type(value) is not str or value.isprintable():  # as most are
        return value
    return _STEERING.sub(lambda match: ascii(match[0])[1:-1], value)


@cache
def _text_environment() -> Environment:
    from jinja2 import PackageLoader

    environment = make_environment(
        PackageLoader("tellapart.report", "text"), autoescape=False, finalize=_hide_marks, keep_trailing_newline=True
    )
    environment.globals |= number_functions()
    return environment


#: Begins the line of a table.
TABLE = "\ufdd3"

#: What has a meaning in the text of a template, and not in a value: line ends, borders of cells and marks of rows.
_MARKS = {"\n": "\ufdd0", "|": "\ufdd1", "~": "\ufdd2"}
_HIDE = {ord(mark): hidden for mark, hidden in _MARKS.items()}
_HIDE |= {ord(hidden): "\ufffd" for hidden in (*_MARKS.values(), TABLE)}
_SHOW = {ord(hidden): mark for mark, hidden in _MARKS.items()}


def _hide_marks(value: Any) -> Any:
    return value.translate(_HIDE) if isinstance(value, str) else value


def show_marks(text: str) -> str:
    """Return a part of a rendered text with the marks that its values hold."""
    return text.translate(_SHOW)


def render_text(template: str, **facts: Any) -> list[str]:
    """Return the lines of a text's template (`text/NAME.txt.j2`); `show_marks` makes a line or a cell readable."""
    return _text_environment().get_template(f"{template}.txt.j2").render(facts).split("\n")


def write_lines(template: str, **facts: Any) -> tuple[str, ...]:
    """Return the lines of a text's template that are not empty."""
    return tuple(map(show_marks, filter(None, render_text(template, **facts))))
