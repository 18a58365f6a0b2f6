"""What a text model is asked, and what its answer costs: the shapes shared by chat models and captioners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from tellapart.errors import ModelError
from tellapart.models.generative.prompts import Prompt
from tellapart.models.protocols import Pixels
from tellapart.models.torch_backend import fixed_batches
from tellapart.models.torch_forward import bucket, grouped

__all__ = [
    "ROWS",
    "Ask",
    "Asked",
    "LogProbability",
    "Reader",
    "log_probability_of",
    "new_tokens",
    "one_image",
    "read_batches",
    "shorten",
    "too_long",
]

#: Texts that are read together after one image. Part of what the models are: every forward has this many rows.
ROWS = 4
#: Text lengths are rounded up to a multiple of this.
_STEP = 16


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


class LogProbability(NamedTuple):
    """The log-probability of an answer, in nats, and of how many tokens it is the sum.

    >>> LogProbability(-6.0, 3).total
    -6.0
    """

    total: float
    tokens: int


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


def log_probability_of(logits: Any, tokens: Sequence[int]) -> LogProbability:
    """Sum the log-probabilities of tokens, in nats: log-softmax in float32, the sum in float64.

    Args:
        logits: a tensor `(token, vocabulary)`: what the model expected at the place of each token.
        tokens: the ids that stand there.

    >>> from tellapart.models.torch_backend import import_torch
    >>> log_probability_of(import_torch().zeros(2, 4), [0, 3]).tokens
    2
    """
    logs = logits.float().log_softmax(-1)
    return LogProbability(float(logs[range(len(tokens)), list(tokens)].double().sum()), len(tokens))


def read_batches(
    read: Sequence[list[int]], answers: Sequence[list[int]], limit: int | None, logits: Callable[[list[list[int]]], Any]
) -> list[LogProbability]:
    """Return the log-probability of each answer, whose tokens are expected at the end of what is read.

    Rows are padded on the right, where a causal model cannot look, to a length that follows from the row alone.

    Args:
        read: the ids of each row, without the last one, which nothing is expected after.
        answers: the ids that are expected at the last places of each.
        limit: what no row may be padded beyond.
        logits: computes what is expected after each token of `ROWS` rows of one length: `(row, token, vocabulary)`.

    >>> from tellapart.models.torch_backend import import_torch
    >>> read_batches([[5, 6]], [[3]], None, lambda rows: import_torch().zeros(len(rows), len(rows[0]), 4))[0].tokens
    1
    """
    values = [LogProbability(0.0, 0)] * len(read)
    for length, rows in grouped(bucket(len(ids), limit, step=_STEP) for ids in read).items():
        for batch, real in fixed_batches(rows, ROWS):
            found = logits([read[row] + read[row][-1:] * (length - len(read[row])) for row in batch])
            for place, row in enumerate(batch[:real]):
                end, answer = len(read[row]), answers[row]
                values[row] = log_probability_of(found[place, end - len(answer) : end], answer)
    return values


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
