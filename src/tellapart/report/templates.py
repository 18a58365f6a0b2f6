"""Templates of pages, which escape every text, and of sentences; no text of theirs steers what shows it."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

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


def _steer_nothing(value: Any) -> Any:
    """Spell out a text's control characters and turns of direction; marks that single letters need stay."""
    return _STEERING.sub(lambda match: ascii(match[0])[1:-1], value) if type(value) is str else value


@cache
def _text_environment() -> Environment:
    from jinja2 import PackageLoader

    from tellapart.report import numbers

    # A line of a template is a sentence: line ends of names are hidden until it is split.
    def hide(value: Any) -> Any:
        return value.replace("\n", "\0") if isinstance(value, str) else value

    environment = make_environment(PackageLoader("tellapart.report", ""), autoescape=False, finalize=hide)
    names = ("counted", "join_few", "join_names", "percent", "points", "thousands")
    environment.globals |= {name: getattr(numbers, name) for name in names}
    return environment


def write_lines(template: str, **facts: Any) -> tuple[str, ...]:
    """Return the lines of a text's template (`NAME.txt.j2`) that are not empty."""
    text = _text_environment().get_template(f"{template}.txt.j2").render(facts)
    return tuple(line.replace("\0", "\n") for line in text.split("\n") if line)
