"""Words for a gap in a sentence, by a masked language model of transformers: all gaps of a caption in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from tellapart.errors import ModelError
from tellapart.models.huggingface.files import read_config
from tellapart.models.text.text_model import ROWS, TextModel
from tellapart.models.torch_backend import Runtime, import_torch
from tellapart.models.torch_forward import forward

__all__ = ["Gap", "MaskedLanguageModel", "Proposal", "Replacer"]

#: What checkpoints of masked language models keep of other tasks, by `model_type`.
_OTHER_HEADS = {"bert": ("bert.pooler", "cls.seq_relationship"), "roberta": ("roberta.pooler",)}


class Gap(NamedTuple):
    """A sentence with one word taken out: what stands before it and what stands after it, blanks included.

    >>> Gap("a ", " on a mat").before
    'a '
    """

    before: str
    after: str


class Proposal(NamedTuple):
    """A word for a gap, with its probability there.

    >>> Proposal("cat", 0.25).word
    'cat'
    """

    word: str
    probability: float


class Replacer(Protocol):
    """What fills gaps.

    >>> class Cats:
    ...     fingerprint = "cats:1"
    ...     def fill(self, gaps, choices): return [[Proposal("cat", 1.0)] for _ in gaps]
    >>> replacer: Replacer = Cats()
    >>> replacer.fill([Gap("a ", "")], 10)[0][0].word
    'cat'
    """

    @property
    def fingerprint(self) -> str:
        """Changes whenever its answers may."""

    def fill(self, gaps: Sequence[Gap], choices: int) -> list[list[Proposal]]:
        """Return the most probable words of each gap, the best first: at most `choices`."""


class MaskedLanguageModel:
    """A masked language model: what it expects at the mask, the best tokens first, those alone that are a word by themselves.

    A token is a word by itself if the sentence with the word in the gap is read with that very token there: a piece that
    would be glued to its neighbour ("##ing", or "s" without the blank before it) is dropped, a special one too, and none
    takes its place.
    A gap is padded to a length that depends on it alone, so its answers depend on no other gap.

    >>> MaskedLanguageModel.load("nowhere/at/all", Runtime("cpu"))
    Traceback (most recent call last):
    tellapart.errors.ModelError: nowhere/at/all is no folder, and no id of the hub (owner/name)
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
        """Load a folder or a hub id; every forward pass has so many rows.

        Raises:
            ModelError: it is not to be had, its weights do not fit, or it has no mask.
            MissingDependencyError: torch or transformers is not installed.
        """
        heads = _OTHER_HEADS.get(read_config(source)["model_type"], ())
        return cls(TextModel.load("AutoModelForMaskedLM", source, runtime, unused=heads, rows=rows))

    def fill(self, gaps: Sequence[Gap], choices: int) -> list[list[Proposal]]:
        """Return the most probable words of each gap, the best first: at most `choices`.

        Raises:
            ModelError: a sentence holds the mask's own name, or is longer than the model's context.
        """
        rows = self._rows(gaps)
        found: list[list[Proposal]] = [[] for _ in gaps]
        for places, inputs in self._text_model.batches(rows):
            tops = self._tops(inputs, choices)[: len(places)]
            for place, (ids, chances) in zip(places, tops, strict=True):
                found[place] = self._words(gaps[place], rows[place], ids, chances)
        return found

    def _rows(self, gaps: Sequence[Gap]) -> list[list[int]]:
        mask = self._tokenizer.mask_token
        for gap in gaps:
            if mask in gap.before or mask in gap.after:
                raise ModelError(
                    f"{self._text_model.source}: a caption holds {mask!r}, by which the model knows a gap; take it out"
                )
        return self._text_model.ids([f"{gap.before}{mask}{gap.after}" for gap in gaps])

    def _tops(self, inputs: dict[str, Any], choices: int) -> list[tuple[list[int], list[float]]]:
        """Return the best tokens at each row's mask with their probabilities; among equals the lower id."""
        model = self._text_model.model
        with forward(self._text_model.source, model):
            logits = model(**inputs).logits  # (row, token, vocabulary)
            places = (inputs["input_ids"] == self._tokenizer.mask_token_id).int().argmax(1)
            chances = logits[import_torch().arange(len(places)), places].float().softmax(-1).cpu().numpy()
        best = np.argsort(-chances, axis=1, kind="stable")[:, :choices]
        return [(ids.tolist(), row[ids].tolist()) for ids, row in zip(best, chances, strict=True)]

    def _words(self, gap: Gap, row: list[int], ids: Sequence[int], chances: Sequence[float]) -> list[Proposal]:
        words = [str(self._tokenizer.decode([token])).strip() for token in ids]
        sentences = [f"{gap.before}{word}{gap.after}" for word in words]
        # Not held against the model's context: what is read as more tokens than the gap is no word of one token.
        read = self._tokenizer(sentences, padding=False, truncation=False, verbose=False)["input_ids"]
        place, special = row.index(self._tokenizer.mask_token_id), set(self._tokenizer.all_special_ids)
        return [
            Proposal(word, chance)
            for word, chance, token, tokens in zip(words, chances, ids, read, strict=True)
            if word and token not in special and tokens == [*row[:place], token, *row[place + 1 :]]
        ]
