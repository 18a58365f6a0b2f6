"""The interface of a loaded model that writes text, and the parts that its implementations share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from tellapart.data.images import pixel_hash
from tellapart.errors import ModelError
from tellapart.models.captions import list_control_tokens, refusal
from tellapart.models.generative import prompts
from tellapart.models.generative.prompts import Prompt
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime
from tellapart.models.torch.likelihood import LogProbability
from tellapart.models.torch.network import PreTrainedModel, ProcessorMixin

__all__ = ["CHAT_TASKS", "NO_LIMIT", "PromptedAnswer", "Reader", "Task", "new_tokens"]

T = TypeVar("T")


class PromptedAnswer(NamedTuple):
    """A question: a prompt, and the answer whose probability is computed, with its end token if `ends`.

    `fill` puts a text in place of `{text}` in the prompt and the answer.
    """

    prompt: str
    answer: str
    ends: bool = False

    def fill(self, text: str) -> PromptedAnswer:
        """Return the question with a text in place of `{text}`."""
        return self._replace(prompt=self.prompt.replace("{text}", text), answer=self.answer.replace("{text}", text))


#: The context, in tokens, of a model whose configuration states none.
NO_LIMIT = 1 << 30

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


class Reader(ABC):
    """A loaded model that writes text about images.

    Attributes:
        describe_prompt: precedes a caption whose likelihood is measured; None if the model gives no likelihood.
        tasks: prompts of the tasks that the model was trained for.
        takes_frames: whether a video comes as its frames, `(frames, height, width, 3)`, and is asked about in one
            prompt.
        draws: whether its answers can be drawn at a temperature.
        method: what in the computation differs from most models of the class, for the fingerprint; or empty.
        end: the end token of answers, for the fingerprint of scores that include it; empty if it is the tokenizer's.
        image_mark: the token in a prompt that stands for an image; empty if there is none.
        truncated: texts so far that did not fit the context and lost their end.
    """

    describe_prompt: Prompt | None = None
    tasks: Mapping[Task, Prompt] = MappingProxyType({})
    takes_frames = False
    draws = False
    method = ""
    end = ""
    image_mark = ""
    truncated = 0

    def __init__(
        self, source: str, model: PreTrainedModel, processor: ProcessorMixin, runtime: Runtime, template: str = ""
    ) -> None:
        self.source, self.model, self.processor, self.runtime = source, model, processor, runtime
        self.tokenizer = processor.tokenizer
        self.language = model.config.get_text_config()
        self.context = int(getattr(self.language, "max_position_embeddings", None) or NO_LIMIT)
        self._control = list_control_tokens(processor, template)
        self._last: tuple[str, Any] = ("", None)  # hash of the last image's pixels, and what `read_once` made of it

    @abstractmethod
    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], question: PromptedAnswer) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text; a video is read as its frames."""

    @abstractmethod
    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to one prompt about some images, without blanks at the ends."""

    def generate_all(self, requests: Sequence[tuple[Sequence[Pixels], str]], max_new_tokens: int) -> list[str]:
        """Return the greedy answer to each prompt about some images."""
        return [self.generate(pictures, prompt, max_new_tokens) for pictures, prompt in requests]

    def check_text(self, text: str) -> None:
        """Refuse a text that the model would take for an image, or for the end of a turn."""
        if self.image_mark and self.image_mark in text:
            raise refusal(self.source, text, self.image_mark)
        for control in self._control:
            control.refuse_in_prompt(self.source, text)

    def process_inputs(self, pictures: Sequence[Pixels], text: str, **options: Any) -> dict[str, Any]:
        """Run the processor on a text and its images: tensors of one row, on the device."""
        from PIL import Image

        images = [Image.fromarray(pixels) for pixels in pictures]
        inputs = self.processor(text=[text], images=images or None, return_tensors="pt", **options)
        return {
            name: value.to(self.runtime.torch_dtype) if value.is_floating_point() else value
            for name, value in inputs.to(self.runtime.device).items()
        }

    def read_once(self, pixels: Pixels, read: Callable[[], T]) -> T:
        """Return the result of `read()` for an image, without a second call while the image stays the same."""
        key = pixel_hash(pixels)
        if self._last[0] != key:
            self._last = ("", None)  # frees its memory first
            self._last = (key, read())
        value: T = self._last[1]
        return value

    def fit(self, question: PromptedAnswer, text: str, tokenize: Callable[[PromptedAnswer], tuple[T, int]]) -> T:
        """Return the tokens of the question about a text; if they exceed the context, the text's end is cut off.

        `tokenize` returns a question's tokens, and how many tokens of the context the question needs.
        """
        start = text
        while True:
            tokens, needed = tokenize(question.fill(start))
            if needed <= self.context:
                self.truncated += start != text
                return tokens
            if not start:
                self.expect_room(needed)  # raises
            ids = self.tokenizer(start, add_special_tokens=False).input_ids[: -(needed - self.context)]
            # Half a character decodes to a replacement mark; with it, the text might never become shorter.
            cut = str(self.tokenizer.decode(ids, skip_special_tokens=True)).rstrip().rstrip("\N{REPLACEMENT CHARACTER}")
            start = cut if len(cut) < len(start) else start[: len(start) // 2]

    def expect_room(self, needed: int) -> None:
        """Refuse an image, a prompt and an answer that need more tokens than the context."""
        if needed > self.context:
            raise ModelError(
                f"{self.source}: image, prompt and answer take {needed} tokens and its context holds {self.context}; "
                "use a smaller image, a shorter prompt, or fewer frames of a video"
            )

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of an answer's tokens, without special ones and blanks at the ends."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def expect_one_picture(self, pictures: Sequence[Pixels]) -> Pixels:
        """Return the only picture of a prompt; more or fewer are refused."""
        if len(pictures) != 1:
            raise ModelError(
                f"{self.source} reads one image at a time; {len(pictures)} were given: name a chat model, such as "
                "LLaVA or Qwen2-VL"
            )
        return pictures[0]


def new_tokens(generated: Sequence[int], prompt: Sequence[int]) -> list[int]:
    """Return the tokens generated after the prompt; some families give them alone, others repeat the prompt first."""
    tokens, start = list(generated), list(prompt)
    return tokens[len(start) :] if tokens[: len(start)] == start else tokens
