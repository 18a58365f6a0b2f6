"""Training steps of dual encoders.

With a gradient cache (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup") the
towers first run without gradients, a few pairs at a time; the loss gives each vector its gradient; then the towers run
again, with gradients, and each vector's gradient flows on. Memory is that of a few pairs, the numbers are those of the
whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import DataError, quote
from tellapart.training.data.batch_order import draw_choices, draw_units
from tellapart.training.data.pictures import JoinedRows, draw_joined
from tellapart.training.encoders.trainable import Encoded, Inputs, autocast
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.batch import Batch, LossParts
from tellapart.training.losses.loss import DualLoss
from tellapart.training.steps.step import TrainingStep

#: Some prepared images and some texts that are encoded at a time.
_Piece = tuple[Sequence[Inputs], Sequence[str]]

#: Fields of a batch with the vectors of the texts, and with their numbers, in the order of encoding.
_TEXTS = ("texts", "negative_texts", "positive_texts", "units")
_TEXT_IDS = ("text_ids", "negative_text_ids", "positive_text_ids", "unit_ids")


@dataclass(frozen=True, slots=True)
class DrawnRows:
    """The inputs of one rank in one step.

    `rows` are numbers of the rows whose images and captions are encoded: the batch's `own` ones, then their hard
    counterparts. Each has its false captions in `negatives`; `units` are each followed by their foils, and `joined` has
    for each row the one that its picture is joined to, if any is.
    """

    rows: list[int]
    own: int
    negatives: list[list[str]]
    units: list[str]
    joined: list[JoinedRows] = field(default_factory=list)

    @property
    def positives(self) -> int:
        """True captions of each picture after its first."""
        return len(self.joined[0].captions) - 1 if self.joined else 0


class DualStep(TrainingStep[DrawnRows]):
    """Training steps of a dual encoder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._captions, self._counterparts = self._choose_negatives()
        loss = self.config.find_loss()
        self._units: int = getattr(loss, "units", 0)
        if getattr(loss, "local", False) and self.config.batch.micro is not None:
            raise DataError(
                f"batch.micro: loss {self.config.loss['name']!r} reads patches and words, which are not encoded in "
                "pieces; leave it out"
            )
        self._join, self._positives = self._choose_joins()

    def _choose_negatives(self) -> tuple[int, str]:
        """Return how many false captions each image gets, and the use of its hard counterpart.

        The loss's published numbers fill in the keys that the configuration leaves out.
        """
        loss, data, rows = self.config.find_loss(), self.config.data, self.rows.rows
        assert isinstance(loss, DualLoss)  # noqa: S101  (for the type checker)
        complete = all(self.rows.counterparts)
        if loss.units:
            self._expect_rows([row.units for row in rows], "no units; give units in its file, or leave it out")
        captions = loss.negative_captions if data.negative_captions is None else data.negative_captions
        published = "none" if loss.negative_images == "pairs" and not complete else loss.negative_images
        images = data.negative_images or published
        if images != "none" and not complete:
            remedy = 'give negative_images in its file, or set data.negative_images = "none"'
            self._expect_rows(self.rows.counterparts, f'no hard counterpart, for "{images}"; {remedy}')
        return captions, images

    def _expect_rows(self, values: Sequence[Sequence[object]], lack: str) -> None:
        """Refuse the first row without a value that the loss reads."""
        for number, (row, value) in enumerate(zip(self.rows.rows, values, strict=True)):
            if not value:
                place = f"row {number} ({row.image.name}: {quote(row.caption)})"
                raise DataError(f"loss {self.config.loss['name']!r}: {place} has {lack}")

    def _choose_joins(self) -> tuple[str, int]:
        """Return which steps join pictures (`none`, `always`, `alternate`), and further true captions of each."""
        name, data = self.config.loss["name"], self.config.data
        joins = getattr(self.config.find_loss(), "joins", False)
        how = data.join or ("alternate" if joins else "none")
        count = 2 if data.positive_captions is None else data.positive_captions
        if not joins and (how != "none" or data.positive_captions):
            raise DataError(
                f"data.join, data.positive_captions: loss {name!r} reads no joined pictures; leave them out"
            )
        if how == "none":
            return how, 0
        if len(set(self.rows.image_ids.tolist())) < 2:
            raise DataError(f'data.join = "{how}": all rows show one picture, and there is no other to join to it')
        if count:
            remedy = "give positive_captions in its file, or set data.positive_captions = 0"
            self._expect_rows([row.positives for row in self.rows.rows], f"no further true caption; {remedy}")
        return how, count

    def draw(self, numbers: Sequence[int], step: int) -> DrawnRows:
        """Return the inputs of a step, of this rank's rows."""
        seed, rows = self.config.seed, list(numbers)
        if self._join == "always" or (self._join == "alternate" and step // self.config.batch.accumulate % 2 == 0):
            joined = [draw_joined(self.rows, n, self._positives, seed, step) for n in rows]
            return DrawnRows(rows, len(rows), [[row.false] if row.false else [] for row in joined], [], joined)
        if self._join != "none":
            return DrawnRows(rows, len(rows), [], [])
        if self._counterparts != "none":
            rows += [draw_choices(self.rows.counterparts[n], 1, seed, step, n)[0] for n in numbers]
        batch = numbers if self._counterparts == "mate" else rows  # a mate is no pair of the batch
        drawn = [draw_units(self.rows.rows[n], self._units, seed, step, n) for n in batch] if self._units else []
        units = [text for units in drawn for unit in units for text in unit]
        return DrawnRows(
            rows, len(numbers), [self._draw_negatives(n, step) for n in rows] if self._captions else [], units
        )

    def _draw_negatives(self, number: int, step: int) -> list[str]:
        texts = self.rows.rows[number].negatives
        return [texts[k] for k in draw_choices(range(len(texts)), self._captions, self.config.seed, step, number)]

    def backward(self, drawn: DrawnRows, images: Sequence[Inputs], step: int) -> LossParts:
        """Take the loss of drawn rows, in pieces if `batch.micro` asks for it, and add its gradients."""
        captions = [self.rows.rows[number].caption for number in drawn.rows]
        captions = [row.captions[0] for row in drawn.joined] or captions
        texts = list(captions)
        for caption, false in zip(captions, drawn.negatives, strict=False):
            # The true caption fills the place of a missing false one; the mask leaves it out.
            texts += false + [caption] * (self._captions - len(false))
        positives = [text for row in drawn.joined for text in row.captions[1:]]
        texts += drawn.units + positives
        pieces = list(self._cut_pieces(images, texts))
        if len(pieces) > 1:
            return self._backward_in_pieces(drawn, pieces, texts, step)
        batch = self._make_batch(drawn, self._encode_piece(pieces[0], step, 0), texts, step)
        parts = self._sum_losses([batch] * len(self._terms))
        self.accelerator.backward(parts["total"])
        return {name: part.detach() for name, part in parts.items()}

    def _cut_pieces(self, images: Sequence[Inputs], texts: Sequence[str]) -> Iterator[_Piece]:
        """Cut images and texts into as many pieces, each with some of both."""
        count = -(-len(images) // (self.config.batch.micro or len(images)))
        for k in range(count):
            image = slice(k * len(images) // count, (k + 1) * len(images) // count)
            text = slice(k * len(texts) // count, (k + 1) * len(texts) // count)
            yield images[image], texts[text]

    def _encode_piece(self, piece: _Piece, step: int, number: int) -> Encoded:
        prepared, texts = piece
        device = self.accelerator.device
        images = {name: torch.stack([row[name] for row in prepared]).to(device) for name in prepared[0]}
        tokens = self._read_tokens(texts)
        self._seed_dropout(step, number)  # by piece: the second pass sees the inputs of the first
        with autocast(self.config.precision, device.type):
            return Encoded(*self.module(images, tokens))

    def _backward_in_pieces(
        self, drawn: DrawnRows, pieces: Sequence[_Piece], every: Sequence[str], step: int
    ) -> LossParts:
        with torch.no_grad():
            first = [self._encode_piece(piece, step, number) for number, piece in enumerate(pieces)]
        images = torch.cat([row.images for row in first]).requires_grad_()
        texts = torch.cat([row.texts for row in first]).requires_grad_()
        scale = first[0].scale.detach().clone().requires_grad_()
        bias = None if first[0].bias is None else first[0].bias.detach().clone().requires_grad_()
        batch = self._make_batch(drawn, Encoded(images, texts, scale, bias), every, step)
        parts = self._sum_losses([batch] * len(self._terms))
        torch.autograd.backward(parts["total"])
        image = text = 0
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            # Gradients of all pieces are added up here, and exchanged between ranks once, with the last.
            with nullcontext() if last else self.accelerator.no_sync(self.module):
                again = self._encode_piece(piece, step, number)
                flow = _dot_rows(again.images, images, image) + _dot_rows(again.texts, texts, text)
                if last:  # the scale is one for all pieces
                    flow = flow + _dot_rows(again.scale.reshape(1), scale.reshape(1), 0, scale.grad)
                    if again.bias is not None and bias is not None:
                        flow = flow + _dot_rows(again.bias.reshape(1), bias.reshape(1), 0, bias.grad)
                self.accelerator.backward(flow)
            image, text = image + len(again.images), text + len(again.texts)
        return {name: part.detach() for name, part in parts.items()}

    def _make_batch(self, drawn: DrawnRows, encoded: Encoded, every: Sequence[str], step: int) -> Batch:
        device, count = encoded.images.device, len(drawn.rows)
        block, rest = slice(drawn.own if self._counterparts == "mate" else count), slice(drawn.own, count)
        ids = torch.from_numpy(self._image_ids(drawn)).to(device)
        fields: dict[str, Any] = self._part_texts(drawn, encoded.texts, _TEXTS)
        shared: dict[str, Any] = {"scale": encoded.scale, "chunk": self.config.batch.chunk, "step": step}
        rest_ids = None
        if self._text_ids is not None:
            numbers = torch.tensor(self._text_ids(every), device=device)
            fields |= self._part_texts(drawn, numbers, _TEXT_IDS)
            rest_ids = numbers[rest]
        if self._counterparts == "mate":
            fields["mates"] = Batch(
                encoded.images[rest], encoded.texts[rest], image_ids=ids[rest], text_ids=rest_ids, **shared
            )
        if drawn.negatives:
            counts = torch.tensor([len(texts) for texts in drawn.negatives], device=device)[block]
            fields["has_negative"] = torch.arange(self._captions, device=device)[None, :] < counts[:, None]
        return Batch(
            encoded.images[block],
            image_ids=ids[block],
            bias=None if encoded.bias is None else encoded.bias.reshape(()),
            patches=None if encoded.patches is None else encoded.patches[block],
            words=self._of_captions(encoded.words, count, block),
            real_words=self._of_captions(encoded.real_words, count, block),
            **fields,
            **shared,
        )

    def _part_texts(self, drawn: DrawnRows, values: Tensor, names: Sequence[str]) -> dict[str, Tensor | None]:
        """Return the parts of a tensor that has a vector or a number of each text, in the order of encoding."""
        count, rest = len(drawn.rows), values.shape[1:]
        block = slice(drawn.own if self._counterparts == "mate" else count)
        false = values[count : count * (1 + self._captions)]
        parts = (
            values[block],
            false.reshape(count, self._captions, *rest)[block] if drawn.negatives else None,
            values[-count * drawn.positives :].reshape(count, -1, *rest) if drawn.joined else None,
            values[-len(drawn.units) :].reshape(-1, self._units, 2, *rest) if drawn.units else None,
        )
        return dict(zip(names, parts, strict=True))

    def _of_captions(self, tokens: Tensor | None, count: int, own: slice) -> Tensor | None:
        """Return the tokens of each caption and its false ones, `(b, 1 + f, ...)`, from those of all texts in order."""
        if tokens is None:
            return None
        false = tokens[count : count * (1 + self._captions)].reshape(count, self._captions, *tokens.shape[1:])
        return torch.cat([tokens[:count, None], false], dim=1)[own]

    def _image_ids(self, drawn: DrawnRows) -> NDArray[np.int64]:
        """Return one number for each picture; two rows joined in either order make one picture."""
        ids = self.rows.image_ids[drawn.rows]
        if not drawn.joined:
            return ids
        others = self.rows.image_ids[[row.second for row in drawn.joined]]
        return np.minimum(ids, others) * len(self.rows) + np.maximum(ids, others)


def _dot_rows(values: Tensor, leaf: Tensor, start: int, gradient: Tensor | None = None) -> Tensor:
    """Return a number whose gradient by `values` is that of the leaf's rows from `start` on; 0 if the leaf has none."""
    rows = leaf.grad if gradient is None else gradient.reshape(leaf.shape)
    return (values * (0.0 if rows is None else rows[start : start + len(values)])).sum()
