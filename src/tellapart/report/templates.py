"""Templates of pages: every one escapes its texts, and lets none of them steer what shows it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import BaseLoader, Environment

#: Control characters but for tabs and line ends, and embeddings, overrides and isolates of direction.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def make_environment(loader: BaseLoader | None = None) -> Environment:
    """Return a new environment of templates."""
    from jinja2 import Environment, StrictUndefined

    return Environment(
        loader=loader,
        autoescape=True,  # everywhere, not by the file's name
        finalize=_steer_nothing,
        undefined=StrictUndefined,  # a name that a template misspells is an error
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _steer_nothing(value: Any) -> Any:
    """Spell out a text's control characters and turns of direction; marks that single letters need stay."""
    return _STEERING.sub(lambda match: ascii(match[0])[1:-1], value) if type(value) is str else value
