"""The interface of a loaded model that writes text, and the parts that its implementations share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from tellapart.errors import ModelError
from tellapart.models.generative import prompts
from tellapart.models.generative.prompts import Prompt
from tellapart.models.protocols import Pixels
from tellapart.models.torch.likelihood import LogProbability

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["CHAT_TASKS", "Ask", "PromptedAnswer", "Reader", "Task", "fit", "new_tokens", "too_long"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PromptedAnswer:
    """A prompt, and the answer whose probability is computed; `ends` if the end of the text is part of it."""

    prompt: str
    answer: str
    ends: bool = False


#: Tasks other than scoring.
Task = Literal["vqa", "nlvr2", "choice", "caption", "grounding"]

#: The tasks of every chat model, and their prompts.
CHAT_TASKS: Mapping[Task, Prompt] = MappingProxyType(
    {
        "vqa": prompts.SHORT_ANSWER,
        "nlvr2": prompts.NLVR2,
        "choice": prompts.SUGARCREPE_CHOICE,
        "caption": prompts.CAPTION,
    }
)

#: Takes a caption to the question about it.
Ask = Callable[[str], PromptedAnswer]


class Reader(Protocol):
    """A loaded model that writes text about images; `source` is its folder or hub id."""

    source: str
    model: Any
    processor: Any
    #: Precedes a caption whose likelihood is measured; None if none can be.
    describe_prompt: Prompt | None
    #: Prompts of the tasks that the model was trained for.
    tasks: Mapping[Task, Prompt]
    #: Whether a video comes as its frames, `(frames, height, width, 3)`, and is asked about in one prompt.
    takes_frames: bool

    @property
    def method(self) -> str:
        """A later method than the first, part of the fingerprint; empty for the first."""
        ...

    @property
    def truncated(self) -> int:
        """Texts so far that did not fit the context and lost their end."""
        ...

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text."""
        ...

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to one prompt about some images."""
        ...


def fit(
    source: str, tokenizer: PreTrainedTokenizerBase, context: int, text: str, tokenize: Callable[[str], tuple[T, int]]
) -> tuple[T, bool]:
    """Tokenize a text, which loses its end if it exceeds the context; return its tokens and whether it did."""
    short = text
    while True:
        tokens, needed = tokenize(short)
        if needed <= context:
            return tokens, short != text
        if not short:
            raise too_long(source, needed, context)
        short = _shorten_text(tokenizer, short, needed - context)


def _shorten_text(tokenizer: PreTrainedTokenizerBase, text: str, excess: int) -> str:
    """Return a text without its last `excess` tokens, or an empty one."""
    ids = tokenizer(text, add_special_tokens=False).input_ids
    shorter = str(tokenizer.decode(ids[: max(0, len(ids) - excess)], skip_special_tokens=True)).rstrip()
    # A cut through a character decodes to a replacement mark, and might then come back as long as it went.
    shorter = shorter.rstrip("\N{REPLACEMENT CHARACTER}")
    return shorter if len(shorter) < len(text) else text[: len(text) // 2]


def new_tokens(generated: Sequence[int], prompt: Sequence[int]) -> list[int]:
    """Return the tokens generated after the prompt; some families give them alone, others repeat the prompt first."""
    out, before = list(generated), list(prompt)
    return out[len(before) :] if out[: len(before)] == before else out


def too_long(source: str, needed: int, context: int) -> ModelError:
    """Return the error for an image and a prompt that leave too little of the context."""
    return ModelError(
        f"{source}: image, prompt and answer take {needed} tokens and its context holds {context}; use a smaller "
        "image, a shorter prompt, or fewer frames of a video"
    )
