"""The interface of a loaded model that writes text, and the parts that its implementations share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from tellapart.errors import ModelError
from tellapart.models.generative import prompts
from tellapart.models.generative.prompts import Prompt
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime
from tellapart.models.torch.likelihood import LogProbability
from tellapart.models.torch.network import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin

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


class Reader(ABC):
    """A loaded model that writes text about images.

    Attributes:
        source: its folder or hub id.
        describe_prompt: precedes a caption whose likelihood is measured; None if none can be.
        tasks: prompts of the tasks that the model was trained for.
        takes_frames: whether a video comes as its frames, `(frames, height, width, 3)`, and is asked about in one
            prompt.
        method: a later method than the first, part of the fingerprint; empty for the first.
        truncated: texts so far that did not fit the context and lost their end.
    """

    describe_prompt: Prompt | None = None
    tasks: Mapping[Task, Prompt] = MappingProxyType({})
    takes_frames = False
    method = ""
    truncated = 0

    def __init__(self, source: str, model: PreTrainedModel, processor: ProcessorMixin, runtime: Runtime) -> None:
        self.source, self.model, self.processor, self.runtime = source, model, processor, runtime
        self.tokenizer = processor.tokenizer

    @abstractmethod
    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text; a video's frames are read as images."""

    @abstractmethod
    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to one prompt about some images, without blanks at the ends."""

    def process_inputs(self, pictures: Sequence[Pixels], text: str, **options: Any) -> dict[str, Any]:
        """Run the processor on a text and its images: tensors of one row, on the device."""
        from PIL import Image

        images = [Image.fromarray(pixels) for pixels in pictures]
        inputs = self.processor(text=[text], images=images or None, return_tensors="pt", **options)
        return {
            name: value.to(self.runtime.torch_dtype) if value.is_floating_point() else value
            for name, value in inputs.to(self.runtime.device).items()
        }

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of an answer's tokens, without special ones and blanks at the ends."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def only_picture(self, pictures: Sequence[Pixels]) -> Pixels:
        """Return the one picture of a prompt; others are refused."""
        if len(pictures) != 1:
            raise ModelError(
                f"{self.source} reads one image at a time; {len(pictures)} were given: name a chat model, such as "
                "LLaVA or Qwen2-VL"
            )
        return pictures[0]


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
        ids = tokenizer(short, add_special_tokens=False).input_ids
        left = str(tokenizer.decode(ids[: max(0, len(ids) - needed + context)], skip_special_tokens=True)).rstrip()
        # A cut through a character decodes to a replacement mark, and might then come back as long as it went.
        left = left.rstrip("\N{REPLACEMENT CHARACTER}")
        short = left if len(left) < len(short) else short[: len(short) // 2]


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
