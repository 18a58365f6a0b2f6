"""What a text model is asked, and what its answer costs: the shapes shared by chat models and captioners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tellapart.errors import ModelError
from tellapart.models.generative.prompts import Prompt
from tellapart.models.likelihood import LogProbability
from tellapart.models.protocols import Pixels

__all__ = [
    "Ask",
    "Asked",
    "Reader",
    "new_tokens",
    "one_image",
    "shorten",
    "too_long",
]


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, and an answer whose probability is wanted.

    Attributes:
        prompt: what the model is told, after the image.
        answer: the text whose probability is wanted.
        ends: whether the end of the text is part of the answer.

    >>> Asked("Is it red?", "Yes").ends
    False
    """

    prompt: str
    answer: str
    ends: bool = False


#: What a model may be asked for besides scores.
Task = Literal["vqa", "nlvr2", "caption", "grounding"]

#: Makes of a caption what is asked about it.
Ask = Callable[[str], Asked]


class Reader(Protocol):
    """A loaded model, as the readings use it.

    >>> Reader.__name__
    'Reader'
    """

    source: str
    model: Any
    processor: Any
    #: What stands before a caption whose likelihood is measured; None where none can be.
    describe_prompt: Prompt | None
    #: What the model is asked for each task that it was made for.
    tasks: Mapping[Task, Prompt]

    @property
    def truncated(self) -> int:
        """Texts so far that did not fit the context and lost their end."""
        ...

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of what is asked about each text."""
        ...

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to one prompt about some images."""
        ...


def shorten(tokenizer: Any, text: str, excess: int) -> str:
    """Return a text without its last `excess` tokens, or an empty one.

    >>> class Letters:
    ...     def __call__(self, text, add_special_tokens): return type("", (), {"input_ids": list(text)})
    ...     def decode(self, ids, skip_special_tokens): return "".join(ids)
    >>> shorten(Letters(), "a red cup", 4)
    'a red'
    """
    ids = tokenizer(text, add_special_tokens=False).input_ids
    kept = str(tokenizer.decode(ids[: max(0, len(ids) - excess)], skip_special_tokens=True)).rstrip()
    # A cut through a character decodes to a replacement mark, and might then come back as long as it went.
    kept = kept.rstrip("\N{REPLACEMENT CHARACTER}")
    return kept if len(kept) < len(text) else text[: len(text) // 2]


def new_tokens(generated: Any, prompt: Any) -> Any:
    """Return what was generated after the prompt; some families give it alone, others repeat the prompt first.

    >>> new_tokens([5, 6, 7], [5, 6])
    [7]
    """
    out, before = list(generated), list(prompt)
    return out[len(before) :] if out[: len(before)] == before else out


def too_long(source: str, needed: int, context: int) -> ModelError:
    """Say that image and prompt leave too little of the context.

    >>> too_long("m", 700, 512)
    ModelError('m: image, prompt and answer take 700 tokens and its context holds 512; use a smaller image or a shorter prompt')
    """
    return ModelError(
        f"{source}: image, prompt and answer take {needed} tokens and its context holds {context}; use a smaller image or "
        "a shorter prompt"
    )


def one_image(source: str, given: int) -> ModelError:
    """Say that a model of BLIP reads one image.

    >>> one_image("m", 2)
    ModelError('m reads one image at a time; 2 were given: name a chat model, such as LLaVA or Qwen2-VL')
    """
    return ModelError(
        f"{source} reads one image at a time; {given} were given: name a chat model, such as LLaVA or Qwen2-VL"
    )
