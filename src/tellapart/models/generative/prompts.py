"""Prompts of generative models: each has a name, a version, a wording and a source, in `prompts.toml`."""

from __future__ import annotations

import string
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from tellapart.errors import ModelError

__all__ = [
    "BLIP_CAPTION", "CAPTION", "DESCRIBE", "EQBEN_CHOICE", "FLORENCE_CAPTION", "GROUNDING_JSON", "GROUNDING_SENTENCE",
    "NLVR2", "QUESTION", "SHORT_ANSWER", "SUGARCREPE_CHOICE", "VQASCORE", "Prompt",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prompt:
    """One wording, with a `{field}` for each value to fill in, and its source."""

    name: str
    version: int
    text: str
    source: str

    @property
    def label(self) -> str:
        """Name and version, as results show them: `vqascore/1`."""
        return f"{self.name}/{self.version}"

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields, in order of first appearance."""
        fields = (field for _, field, _, _ in string.Formatter().parse(self.text) if field is not None)
        return tuple(dict.fromkeys(fields))

    def fill(self, **values: str) -> str:
        """Return the text with every field filled in; braces in the values stay as they are.

        Raises:
            ModelError: not exactly the prompt's fields were given.

        >>> VQASCORE.fill(text="a {red} cup")
        'Does this figure show "a {red} cup"? Please answer yes or no.'
        """
        if set(values) != set(self.fields):
            names = ", ".join(sorted(values)) or "nothing"
            raise ModelError(
                f"prompt {self.label} is filled with {', '.join(self.fields) or 'nothing'}; {names} was given"
            )
        return self.text.format_map(values)


def _read_prompts() -> dict[str, Prompt]:
    with files("tellapart.models.generative").joinpath("prompts.toml").open("rb") as file:
        return {name: Prompt(name, **facts) for name, facts in tomllib.load(file).items()}


_PROMPTS = _read_prompts()
VQASCORE, EQBEN_CHOICE, SUGARCREPE_CHOICE, NLVR2 = (
    _PROMPTS[name] for name in ("vqascore", "eqben-choice", "sugarcrepe-choice", "nlvr2")
)
DESCRIBE, CAPTION, BLIP_CAPTION, FLORENCE_CAPTION = (
    _PROMPTS[name] for name in ("describe", "caption", "blip-caption", "florence-caption")
)
QUESTION, SHORT_ANSWER, GROUNDING_SENTENCE, GROUNDING_JSON = (
    _PROMPTS[name] for name in ("question", "short-answer", "grounding-sentence", "grounding-json")
)
