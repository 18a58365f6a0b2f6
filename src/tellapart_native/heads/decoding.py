"""Decoders that write a caption: its likelihood, and beam search, which keeps the states of earlier tokens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.generative.prompts import Prompt
from tellapart_native.family import NativeHalves

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Search:
    """How the likeliest caption is looked for.

    Attributes:
        beams: the most captions that are continued at a time.
        longest: the most tokens of a caption, without its end.
        shortest: the fewest tokens of a caption, without its end.
        repeats: no run of so many tokens occurs twice in a caption; 0 allows every run.
        counted: tokens before the caption that count as part of its length, by which log P is divided.
    """

    beams: int
    longest: int
    shortest: int = 1
    repeats: int = 0
    counted: int = 0


class Past:
    """The inputs of each layer at the tokens so far, `(rows, tokens, width)`: only new tokens are computed."""

    def __init__(self) -> None:
        self._layers: list[Tensor] = []

    @property
    def length(self) -> int:
        """How many tokens are there already."""
        return self._layers[0].shape[1] if self._layers else 0

    def add_states(self, layer: int, states: Tensor) -> Tensor:
        """Add a layer's input at the new tokens, and return that of all tokens."""
        if layer == len(self._layers):
            self._layers.append(states)
        else:
            self._layers[layer] = torch.cat([self._layers[layer], states], dim=1)
        return self._layers[layer]

    def take_rows(self, rows: Tensor) -> None:
        """Go on from these rows, int64 `(new rows,)`."""
        self._layers = [states[rows] for states in self._layers]


def read_before(ids: Tensor, new: int) -> Tensor:
    """Return which of all tokens each of the new ones may read, itself included: bool `(rows, new, tokens)`."""
    rows, length = ids.shape
    mask = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
    return mask[length - new :].expand(rows, -1, -1)


#: Takes ids `(rows, tokens)`, and the rows of the step before that they go on from (None in the first step), to log P
#: of every word behind them, `(rows, words)`.
Step = Callable[["Tensor", "Tensor | None"], "Tensor"]


def search_beams(step: Step, start: Sequence[int], end: int, search: Search, device: str = "cpu") -> list[int]:
    """Return the tokens of the caption with the greatest mean log P by the token, its end included, without the end.

    As in fairseq: of twice as many continuations as beams, the best that do not end go on; the best that end are done,
    if they are among the first so many; and the search is over when as many are done as there are beams. One beam is
    greedy.
    """
    ids = torch.tensor([list(start)], device=device)
    totals, rows = torch.zeros(1, device=device), None
    done: list[tuple[float, list[int]]] = []
    for length in range(search.longest + 1):
        logs = _allow_words(step(ids, rows).float(), ids, end, length, search)
        words = logs.shape[1]
        best, places = (totals[:, None] + logs).flatten().topk(min(2 * search.beams, logs.numel()))
        parents, following = places // words, places % words
        beams = []
        for rank, (total, parent, word) in enumerate(zip(best.tolist(), parents, following, strict=True)):
            if total == -torch.inf:
                break
            if word != end:
                beams.append(rank)
            elif rank < search.beams:
                done.append((total / (length + 1 + search.counted), ids[parent, len(start) :].tolist()))
        beams = beams[: search.beams]
        if len(done) >= search.beams or not beams:
            break
        rows = parents[beams]
        ids, totals = torch.cat([ids[rows], following[beams, None]], dim=1), best[beams]
    return max(done[: search.beams], key=itemgetter(0))[1]


def _allow_words(logs: Tensor, ids: Tensor, end: int, length: int, search: Search) -> Tensor:
    """Return log P `(rows, words)` without forbidden words: too early an end, no end at last, a run once more."""
    logs = logs.clone()
    if length < search.shortest:
        logs[:, end] = -torch.inf
    for row, read in enumerate(ids.tolist() if search.repeats else ()):
        last = read[len(read) - search.repeats + 1 :]
        for start in range(len(read) - search.repeats + 1):
            if read[start : start + search.repeats - 1] == last:
                logs[row, read[start + search.repeats - 1]] = -torch.inf
    if length == search.longest:
        logs[:, :end] = logs[:, end + 1 :] = -torch.inf
    return logs


class Likelihood(NativeHalves):
    """An image's half and a caption's ids; log P(caption and its end | image), in nats, summed over its tokens.

    Attributes:
        mean: whether the score is the mean over tokens; else it is their sum.
        given: the number of tokens that every caption begins with, and that are not predicted.
    """

    match = None
    mean: ClassVar[bool] = False
    given = 1

    @abstractmethod
    def decode(self, ids: Tensor, images: Tensors, past: Past | None = None) -> Tensor:
        """Return logits of the word behind each of int64 `(batch, tokens)`, or each that is not past yet.

        Padding is on the right, so no real token reads it.
        """

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Pass ids and mask on."""
        return ids, mask

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Return the log-likelihood of each caption, behind the prompt: float64 `(batch, 1)`."""
        ids, mask = texts
        logs = self.decode(ids[:, :-1], images).float().log_softmax(-1)[:, self.given - 1 :]
        ids, mask = ids[:, self.given :], mask[:, self.given :]
        tokens = logs.gather(-1, ids[..., None])[..., 0].double().where(mask, 0.0)
        total = tokens.sum(1, keepdim=True)
        return total / mask.sum(1, keepdim=True) if self.mean else total


class ByToken(Likelihood):
    """The mean by the token in place of the sum."""

    mean = True


class Writer(Likelihood):
    """A captioner whose authors' search is known: it also writes.

    Attributes:
        prompt: the text that asks for a caption, or begins it.
        opening: words that every caption begins with.
        search: the settings of the authors' search.
    """

    prompt: ClassVar[Prompt]
    opening: ClassVar[str] = ""
    search: ClassVar[Search]

    def take_words(self, tokenizer: PreTrainedTokenizerBase, folder: Path = Path()) -> None:
        """Take the tokens before and behind a caption; the tokenizer marks a text's beginning and end."""
        del folder
        *self.start, self.end = tokenizer(self.opening)["input_ids"]
        self.given, self.tokenizer = len(self.start), tokenizer

    def write_text(self, images: Tensors, longest: int | None = None) -> str:
        """Write a caption of one image, whose half is `(1, ...)`."""
        search, past = replace(self.search, longest=min(self.search.longest, longest or self.search.longest)), Past()

        def next_logs(ids: Tensor, rows: Tensor | None) -> Tensor:
            if rows is not None:
                past.take_rows(rows)
            expanded = tuple(tensor.expand(len(ids), *tensor.shape[1:]) for tensor in images)
            return self.decode(ids, expanded, past)[:, -1].float().log_softmax(-1)

        return self.spell_words(search_beams(next_logs, self.start, self.end, search, str(images[0].device)))

    def spell_words(self, ids: Sequence[int]) -> str:
        """Return the words of a caption's tokens."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True)).strip()
