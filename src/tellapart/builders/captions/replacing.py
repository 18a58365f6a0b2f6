"""Proposals of words for gaps in sentences, by a masked language model of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from tellapart.errors import ModelError
from tellapart.models.huggingface.files import read_config
from tellapart.models.text.text_model import ROWS, TextModel
from tellapart.models.torch.backend import Runtime, forward, import_torch

#: Heads of other tasks in checkpoints of masked language models, by `model_type`.
_OTHER_HEADS = {"bert": ("bert.pooler", "cls.seq_relationship"), "roberta": ("roberta.pooler",)}


class SentenceGap(NamedTuple):
    """A sentence with one word taken out: the text before it and the text after it, blanks included."""

    before: str
    after: str


class Proposal(NamedTuple):
    """A word for a gap, with its probability there."""

    word: str
    probability: float


class MaskedLanguageModel:
    """A masked language model: the most probable tokens at the mask, without those that are not words by themselves.

    A token is a word by itself if the tokenizer reads the sentence with the word in the gap as that very token there: a
    piece that would be glued to its neighbour ("##ing", or "s" without the blank before it) is dropped, a special one
    too, and none takes its place. All gaps are filled in few forward passes, each padded to a length that depends on it
    alone, so its proposals depend on no other gap.
    """

    def __init__(self, text_model: TextModel) -> None:
        self._text_model, self._tokenizer = text_model, text_model.tokenizer
        if self._tokenizer.mask_token_id is None:
            raise ModelError(
                f"{text_model.source}: its tokenizer has no mask; name a masked language model, such as roberta-base"
            )
        self.fingerprint = text_model.fingerprint()

    @classmethod
    def load(cls, source: str, runtime: Runtime, rows: int = ROWS) -> Self:
        """Load a folder or a hub id; every forward pass has so many rows."""
        heads = _OTHER_HEADS.get(read_config(source)["model_type"], ())
        return cls(TextModel.load("AutoModelForMaskedLM", source, runtime, unused=heads, rows=rows))

    def fill(self, gaps: Sequence[SentenceGap], choices: int) -> list[list[Proposal]]:
        """Return the most probable words of each gap, the best first: at most `choices`."""
        rows = self._token_rows(gaps)
        proposals: list[list[Proposal]] = [[] for _ in gaps]
        for positions, inputs in self._text_model.batches(rows):
            tops = self._best_tokens(inputs, choices)[: len(positions)]
            for position, (ids, chances) in zip(positions, tops, strict=True):
                proposals[position] = self._list_words(gaps[position], rows[position], ids, chances)
        return proposals

    def _token_rows(self, gaps: Sequence[SentenceGap]) -> list[list[int]]:
        mask = self._tokenizer.mask_token
        for gap in gaps:
            if mask in gap.before or mask in gap.after:
                raise ModelError(
                    f"{self._text_model.source}: a caption holds {mask!r}, by which the model knows a gap; take it out"
                )
        return self._text_model.ids([f"{gap.before}{mask}{gap.after}" for gap in gaps], masked=True)

    def _best_tokens(self, inputs: dict[str, Any], choices: int) -> list[tuple[list[int], list[float]]]:
        """Return the best tokens at each row's mask with their probabilities; among equals the lower id."""
        model = self._text_model.model
        with forward(self._text_model.source, model):
            logits = model(**inputs).logits  # (row, token, vocabulary)
            masks = (inputs["input_ids"] == self._tokenizer.mask_token_id).int().argmax(1)
            chances = logits[import_torch().arange(len(masks)), masks].float().softmax(-1).cpu().numpy()
        best = np.argsort(-chances, axis=1, kind="stable")[:, :choices]
        return [(ids.tolist(), row[ids].tolist()) for ids, row in zip(best, chances, strict=True)]

    def _list_words(
        self, gap: SentenceGap, row: list[int], ids: Sequence[int], chances: Sequence[float]
    ) -> list[Proposal]:
        words = [str(self._tokenizer.decode([token])).strip() for token in ids]
        sentences = [f"{gap.before}{word}{gap.after}" for word in words]
        # Longer than the model's context is not an error here: a word of several tokens is dropped anyway.
        read = self._tokenizer(sentences, padding=False, truncation=False, verbose=False)["input_ids"]
        mask, special = row.index(self._tokenizer.mask_token_id), set(self._tokenizer.all_special_ids)
        return [
            Proposal(word, chance)
            for word, chance, token, tokens in zip(words, chances, ids, read, strict=True)
            if word and token not in special and tokens == [*row[:mask], token, *row[mask + 1 :]]
        ]
