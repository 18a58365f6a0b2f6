"""Prompts of generative models, word for word: each has a name, a version and a source.

A number that a prompt produced belongs to that wording. A prompt is therefore never edited: a change is a new version,
and name, version and text are part of the fingerprint of every model that asks with it.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

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


VQASCORE = Prompt(
    "vqascore", 1, 'Does this figure show "{text}"? Please answer yes or no.', "VQAScore (Lin et al. 2024), section 3"
)
EQBEN_CHOICE = Prompt(
    "eqben-choice",
    1,
    "There are two images (left and right). Now you have two captions: caption 1: {first}; caption 2: {second}. "
    "Please indicate which caption corresponds to the left image and which caption corresponds to the right one. The "
    'answer should follow the format: "#index for the left image; #index for the right image". For example, "1;2" '
    "represents that caption 1 corresponds to image left.",
    "EqBen (Wang et al. 2023), section 5.5",
)
#: The blank before `(2)` is the authors' own.
SUGARCREPE_CHOICE = Prompt(
    "sugarcrepe-choice",
    1,
    "Which caption best describes the image?\n(1) {first}\n (2) {second}\nOutput (1) or (2).",
    "SugarCrepe (Hsieh et al. 2023), gpt-4v-results/readme.md",
)
#: Chat models only: precedes a caption whose likelihood is measured.
DESCRIBE = Prompt("describe", 1, "Describe this image in one sentence.", "ours")
#: BLIP's captioners were trained with these words before every caption.
BLIP_CAPTION = Prompt("blip-caption", 1, "a picture of ", "BLIP (Li et al. 2022), configs/caption_coco.yaml")
CAPTION = Prompt(
    "caption",
    1,
    "Provide a one-sentence caption for the provided image.",
    "LLaVA-1.5 (Liu et al. 2023), the prompt of TextCaps",
)
#: The prompt of Florence-2's processor for its task `<CAPTION>`.
FLORENCE_CAPTION = Prompt(
    "florence-caption", 1, "What does the image describe?", "Florence-2 (Xiao et al. 2023), the prompt of captions"
)
#: The bare question, for models trained to answer one (BLIP's).
QUESTION = Prompt("question", 1, "{question}", "BLIP (Li et al. 2022), section 5.3")
SHORT_ANSWER = Prompt(
    "short-answer",
    1,
    "{question}\nAnswer the question using a single word or phrase.",
    "LLaVA-1.5 (Liu et al. 2023), the prompt of VQAv2",
)
NLVR2 = Prompt(
    "nlvr2",
    1,
    'There are two images (left and right). Is this statement true or false of them: "{sentence}" '
    "Answer with one word, true or false.",
    "ours",
)
GROUNDING_SENTENCE = Prompt(
    "grounding-sentence",
    1,
    "Please provide the bounding box coordinate of the region this sentence describes: {text}",
    "LLaVA-1.5 (Liu et al. 2023), the prompt of RefCOCO",
)
GROUNDING_JSON = Prompt(
    "grounding-json",
    1,
    "Locate {text}, output its bbox coordinates using JSON format.",
    "ours, after the examples of Qwen2.5-VL",
)
