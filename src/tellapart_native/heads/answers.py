"""Heads that answer a question from a list (VQA): a decoder that ranks the list, or a classifier over it.

No published output was there to compare with: they are built from descriptions of the authors' graphs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tellapart.data.strict_json import read_json
from tellapart.errors import ModelError
from tellapart.models.fusion.family import Tensors
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeHalves
from tellapart_native.heads.decoding import Past, read_before
from tellapart_native.heads.matching import share_projections
from tellapart_native.layers.bert import BertEmbeddings, BertEncoder, WordHead, build_crossed
from tellapart_native.module import nn

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


#: The list of answers beside a model's file: ALBEF's name of it.
ANSWERS_FILE = "answer_list.json"

#: Answers of the list that are read to their end: those with the likeliest first token (`k_test`).
_RANKED = 128


def read_answer_list(path: Path) -> tuple[str, ...]:
    """Read the answers that a model chooses from: a list, or, as ViLT's release has, an object of their numbers."""
    if not path.is_file():
        raise ModelError(
            f"{path} is not there: the list of answers that this model chooses from; get it from the authors "
            "(answer_list.json of ALBEF's and X-VLM's data, vqa_dict.json of ViLT's release for METER and FIBER), and "
            "put it there"
        )
    content = read_json(path)
    if isinstance(content, Mapping):
        if set(content) != {str(k) for k in range(len(content))}:
            raise ModelError(f"{path} is an object, and its keys are not the numbers from 0 to {len(content) - 1}")
        content = [content[str(k)] for k in range(len(content))]
    if not isinstance(content, list) or not content or not all(isinstance(text, str) and text for text in content):
        raise ModelError(f"{path} must hold a list of answers, or an object of their numbers")
    if len(set(content)) < len(content):
        again = next(answer for k, answer in enumerate(content) if answer in content[:k])
        raise ModelError(f"{path} holds the answer {again!r} twice")
    return tuple(content)


class Answers(NativeHalves):
    """Halves whose joint puts out a number for each answer of a list: `(batch, answers)`.

    Attributes:
        answers: the list, once `take_words` was called.
    """

    match = None
    answers: tuple[str, ...] = ()

    def take_words(self, tokenizer: PreTrainedTokenizerBase, folder: Path = Path()) -> None:
        """Take the list of answers in the file's folder, which is a part of the model."""
        path = folder / ANSWERS_FILE
        self.answers = read_answer_list(path)
        self.fit_answers(path, tokenizer)

    @abstractmethod
    def fit_answers(self, path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
        """Prepare the head for the list that was read at a path; one that does not fit it is refused."""

    @property
    def facts(self) -> str:
        """The configuration and the list."""
        return f"{super().facts} answers {self.answers}"


class AnswerDecoder(nn.Module):
    """BERT as a decoder: each token reads those before it, and predicts the next one.

    The layers that have cross-attention also read a question's states, or an image's.
    """

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__()
        layer = f"{prefix}.bert.encoder.layer"
        self.bert = nn.Module()
        self.bert.embeddings = BertEmbeddings(layout, f"{prefix}.bert.embeddings")
        self.bert.encoder = BertEncoder(build_crossed(layout, layer)[0])
        self.cls = nn.Module()
        self.cls.predictions = WordHead(layout, f"{prefix}.cls.predictions")

    def forward(self, ids: Tensor, source: Tensor, source_mask: Tensor, past: Past | None = None) -> Tensor:
        """Return log P of every word behind each of int64 `(batch, n)`, or each that is not past: `(batch, n, words)`.

        Padding is on the right, so no real token reads it.
        """
        new = ids.shape[1] - (past.length if past else 0)
        before, states = read_before(ids, new), self.bert.embeddings(ids)[:, -new:]
        for k, layer in enumerate(self.bert.encoder.layer):
            seen = None if past is None else past.add_states(k, states)
            crossed = source if hasattr(layer, "crossattention") else None
            states = layer(states, before, crossed, source_mask, seen=seen)
        return self.cls.predictions(states).log_softmax(-1)


class DecodesAnswers(Answers):
    """ALBEF's and X-VLM's: all text layers read question and image; `text_decoder` ranks the answers of the list.

    The answers with the likeliest first tokens (128) are read to their end. An answer's number is log P of all its
    tokens, its end included, and of the first one once more, as the authors add them; that of the others is minus
    infinity. An answer list's order changes no number.
    """

    def fit_answers(self, path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
        """Take the answers as tokens: start, the answer's, end."""
        start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
        rows = [[start, *ids, end] for ids in tokenizer(list(self.answers), add_special_tokens=False)["input_ids"]]
        longest = max(map(len, rows))
        room = self.module.text_decoder.bert.embeddings.position_embeddings.num_embeddings
        if longest > room:
            raise ModelError(f"{path}: an answer of the list has {longest} tokens, and the decoder takes {room}")
        padded = [row + [tokenizer.pad_token_id] * (longest - len(row)) for row in rows]
        self._ids, self._real = torch.tensor(padded), torch.tensor([len(row) for row in rows])

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the upper layers and the decoder: `(batch, answers)`."""
        (image,), (states, mask) = images, texts
        question = self.module.text_encoder.join(states, mask, image)
        return torch.stack([self._rank_answers(question[k : k + 1], mask[k : k + 1]) for k in range(len(question))])

    def _rank_answers(self, question: Tensor, mask: Tensor) -> Tensor:
        """Return the numbers of all answers to one question, whose states are `(1, tokens, width)`: `(answers,)`."""
        ids, real = self._ids.to(question.device), self._real.to(question.device)
        first = self.module.text_decoder(ids[:1, :1], question, mask)[0, 0][ids[:, 1]]
        likeliest = first.topk(min(_RANKED, len(ids))).indices
        rows = ids[likeliest]
        logs = self.module.text_decoder(rows, question.expand(len(rows), -1, -1), mask.expand(len(rows), -1))
        of_tokens = logs[:, :-1].gather(2, rows[:, 1:, None])[..., 0]
        inside = torch.arange(1, rows.shape[1], device=rows.device)[None] < real[likeliest, None]
        numbers = torch.full_like(first, -torch.inf)
        numbers[likeliest] = first[likeliest] + of_tokens.where(inside, of_tokens.new_zeros(())).sum(1)
        return numbers


class ClassifiesAnswers(Answers):
    """METER's and FIBER's: `vqa_classifier` puts out a logit for each answer, given their pooled states."""

    head = "vqa_classifier"

    def fit_answers(self, path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
        """Check that there is an answer for each class."""
        del tokenizer
        classes = self.module.vqa_classifier[-1].out_features
        if len(self.answers) != classes:
            raise ModelError(f"{path}: the list has {len(self.answers)} answers and the classifier {classes} classes")


def add_task_heads(module: Network, layout: Layout) -> bool:
    """Add the parts of VQA's and NLVR2's files, as far as a file has them, and return whether it has any."""
    if layout.has_prefix("text_decoder."):
        module.text_decoder = AnswerDecoder(layout, "text_decoder")
    if layout.has_prefix("cls_head."):
        share_projections(module.text_encoder)
    return layout.has_prefix("text_decoder.") or layout.has_prefix("cls_head.")
