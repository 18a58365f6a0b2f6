"""One step of a dual encoder: rows are read and encoded, the loss is taken, and gradients flow back to the towers.

With a gradient cache (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup") the towers
first run without gradients, a few pairs at a time; the loss gives each vector its gradient; then the towers run again, with
gradients, and each vector's gradient flows on. Memory is that of a few pairs, the numbers are those of the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tellapart.catalog import load
from tellapart.errors import DataError
from tellapart.train.config import TrainConfig, loss_options
from tellapart.train.encoders import Encoded, Inputs, Trained, autocast
from tellapart.train.losses.batch import Batch, Parts
from tellapart.train.order import choices
from tellapart.train.rows import Rows

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Contrastive", "Drawn", "Needs", "needs"]

#: Some prepared images and some texts that are encoded at a time.
_Piece = tuple[Sequence[Inputs], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a loss wants beside images and captions.

    Attributes:
        captions: false captions for each image.
        images: what becomes of a hard counterpart: `none`, `pairs` or `mate`.

    >>> Needs(1, "pairs").captions
    1
    """

    captions: int
    images: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """What one rank encodes in one step.

    Attributes:
        rows: numbers of the rows whose images and captions are encoded: the batch's own, then their hard counterparts.
        own: how many of them are the batch's own.
        negatives: for each row its false captions, as many as are drawn; fewer where it has fewer.

    >>> Drawn([4, 7], 1, [["three clocks"], []]).own
    1
    """

    rows: list[int]
    own: int
    negatives: list[list[str]]


def needs(config: TrainConfig, rows: Rows) -> Needs:
    """Return what the configuration says of negatives, or else what its loss was published with.

    Raises:
        DataError: rows lack the hard counterparts that are asked for.

    >>> from pathlib import Path
    >>> from tellapart.train.rows import Row
    >>> table = {"name": "a", "model": "m", "data": {"train": ["a"]}, "loss": {"name": "trohn-img"}, "batch": {"size": 2}}
    >>> config = TrainConfig(**table, optimiser={"learning_rate": 1.0, "steps": 1})
    >>> needs(config, Rows((Row(Path("a.png"), "a cat"),)))
    Traceback (most recent call last):
    tellapart.errors.DataError: loss 'trohn-img' with negative_images = "mate": row 0 (a.png: 'a cat') has no hard counterpart; give negative_images in its file, or set data.negative_images = "none"
    """
    name = str(config.loss["name"])
    every = all(row.counterparts for row in rows.rows)
    published = {"negclip": (1, "pairs" if every else "none"), "trohn-img": (0, "mate")}.get(name, (0, "none"))
    captions = published[0] if config.data.negative_captions is None else config.data.negative_captions
    images = config.data.negative_images or published[1]
    if images != "none" and not every:
        number, row = next((n, row) for n, row in enumerate(rows.rows) if not row.counterparts)
        raise DataError(
            f'loss {name!r} with negative_images = "{images}": row {number} ({row.image.name}: {row.caption!r:.60}) has no '
            'hard counterpart; give negative_images in its file, or set data.negative_images = "none"'
        )
    return Needs(captions, images)


@dataclass
class Contrastive:
    """Steps of a dual encoder.

    Attributes:
        config: of the run.
        encoder: what is trained.
        rows: what is trained on.
        accelerator: of accelerate; it knows the device, the precision and the ranks.
        module: the encoder's module, as the accelerator wrapped it.

    >>> Contrastive.backward.__name__
    'backward'
    """

    config: TrainConfig
    encoder: Trained
    rows: Rows
    accelerator: Any
    module: Any

    def __post_init__(self) -> None:
        self._needs = needs(self.config, self.rows)
        self._loss, self._options = load("loss", str(self.config.loss["name"])), loss_options(self.config.loss)

    def draw(self, numbers: Sequence[int], step: int) -> Drawn:
        """Return what a step encodes of this rank's rows: the draws depend on the seed, the step and each row alone."""
        seed, found = self.config.seed, list(numbers)
        if self._needs.images != "none":
            found += [choices(self.rows.rows[n].counterparts, 1, seed, step, n)[0] for n in numbers]
        negatives = [self._negatives(number, step) for number in found] if self._needs.captions else []
        return Drawn(found, len(numbers), negatives)

    def _negatives(self, number: int, step: int) -> list[str]:
        texts = self.rows.rows[number].negatives
        return [texts[k] for k in choices(range(len(texts)), self._needs.captions, self.config.seed, step, number)]

    def backward(self, drawn: Drawn, images: Sequence[Inputs], step: int) -> Parts:
        """Take the loss of a step and leave its gradients in the parameters; return its parts, detached."""
        texts = [self.rows.rows[number].caption for number in drawn.rows]
        for row, false in zip(drawn.rows, drawn.negatives, strict=False):
            # A place without a false caption is filled by the true one, which the mask leaves out.
            texts += false + [self.rows.rows[row].caption] * (self._needs.captions - len(false))
        pieces = list(self._pieces(images, texts))
        if len(pieces) == 1:
            parts = self._loss_of(drawn, self._encode(pieces[0], step, 0), step)
            self.accelerator.backward(parts["total"])
        else:
            parts = self._cached(drawn, pieces, step)
        return {name: part.detach() for name, part in parts.items()}

    def _pieces(self, images: Sequence[Inputs], texts: Sequence[str]) -> Iterator[_Piece]:
        """Cut images and texts into as many pieces, each with some of both."""
        count = -(-len(images) // (self.config.batch.micro or len(images)))
        for k in range(count):
            image = slice(k * len(images) // count, (k + 1) * len(images) // count)
            text = slice(k * len(texts) // count, (k + 1) * len(texts) // count)
            yield images[image], texts[text]

    def _encode(self, piece: _Piece, step: int, place: int) -> Encoded:
        import torch

        prepared, texts = piece
        device = self.accelerator.device
        images = {name: torch.stack([one[name] for one in prepared]).to(device) for name in prepared[0]}
        tokens = {name: tensor.to(device) for name, tensor in self.encoder.tokens(texts).items()}
        # Dropout draws from the step, the rank and the piece alone: the second pass sees what the first saw.
        torch.manual_seed(
            ((self.config.seed * 1_000_003 + step) * 4099 + self.accelerator.process_index) * 4099 + place
        )
        with autocast(self.config.precision, device.type):
            return Encoded(*self.module(images, tokens))

    def _cached(self, drawn: Drawn, pieces: Sequence[_Piece], step: int) -> Parts:
        import torch

        with torch.no_grad():
            first = [self._encode(piece, step, place) for place, piece in enumerate(pieces)]
        images = torch.cat([one.images for one in first]).requires_grad_()
        texts = torch.cat([one.texts for one in first]).requires_grad_()
        scale = first[0].scale.detach().clone().requires_grad_()
        bias = None if first[0].bias is None else first[0].bias.detach().clone().requires_grad_()
        parts = self._loss_of(drawn, Encoded(images, texts, scale, bias), step)
        torch.autograd.backward(parts["total"])
        image = text = 0
        for place, piece in enumerate(pieces):
            last = place == len(pieces) - 1
            # Gradients of all pieces are added up here, and exchanged between ranks once, with the last.
            with nullcontext() if last else self.accelerator.no_sync(self.module):
                again = self._encode(piece, step, place)
                flow = _dot(again.images, images, image) + _dot(again.texts, texts, text)
                if last:  # the scale is one for all pieces
                    flow = flow + _dot(again.scale.reshape(1), scale.reshape(1), 0, scale.grad)
                    if again.bias is not None and bias is not None:
                        flow = flow + _dot(again.bias.reshape(1), bias.reshape(1), 0, bias.grad)
                self.accelerator.backward(flow)
            image, text = image + len(again.images), text + len(again.texts)
        return parts

    def _loss_of(self, drawn: Drawn, encoded: Encoded, step: int) -> Parts:
        batch = self._batch(drawn, encoded, step)
        parts: Parts = self._loss(batch) if self._options is None else self._loss(batch, self._options)
        return parts

    def _batch(self, drawn: Drawn, encoded: Encoded, step: int) -> Batch:
        import torch

        device = encoded.images.device
        count, own = len(drawn.rows), drawn.own
        ids = torch.from_numpy(self.rows.image_ids[drawn.rows]).to(device)
        texts, rest = encoded.texts[:count], encoded.texts[count:]
        false = there = None
        if self._needs.captions:
            false = rest.reshape(count, self._needs.captions, -1)
            found = torch.tensor([len(texts) for texts in drawn.negatives], device=device)
            there = torch.arange(self._needs.captions, device=device)[None, :] < found[:, None]
        shared: dict[str, Any] = {"scale": encoded.scale, "chunk": self.config.batch.chunk, "step": step}
        bias = None if encoded.bias is None else encoded.bias.reshape(())
        if self._needs.images != "mate":
            return Batch(
                encoded.images, texts, image_ids=ids, bias=bias, negative_texts=false, has_negative=there, **shared
            )
        mates = Batch(encoded.images[own:], texts[own:], image_ids=ids[own:], **shared)
        return Batch(
            encoded.images[:own],
            texts[:own],
            image_ids=ids[:own],
            bias=bias,
            negative_texts=None if false is None else false[:own],
            has_negative=None if there is None else there[:own],
            mates=mates,
            **shared,
        )


def _dot(values: Tensor, leaf: Tensor, start: int, gradient: Tensor | None = None) -> Tensor:
    """A number whose gradient with respect to `values` is that of the leaf's rows from `start` on; 0 if it has none."""
    found = leaf.grad if gradient is None else gradient.reshape(leaf.shape)
    return (values * (0.0 if found is None else found[start : start + len(values)])).sum()
