"""Templates of pages: every one escapes its texts, and lets none of them steer what shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.errors import steer_nothing

if TYPE_CHECKING:
    from jinja2 import BaseLoader, Environment


def make_environment(loader: BaseLoader | None = None) -> Environment:
    """Return a new environment of templates.

    >>> make_environment().from_string("{{ name }}").render(name="<b>\\x1b")
    '&lt;b&gt;\\\\x1b'
    """
    from jinja2 import Environment, StrictUndefined

    return Environment(
        loader=loader,
        autoescape=True,  # everywhere, not by the file's name
        finalize=steer_nothing,
        undefined=StrictUndefined,  # a name that a template misspells is an error
        trim_blocks=True,
        lstrip_blocks=True,
    )
