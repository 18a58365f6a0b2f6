"""Training steps of fusion encoders: pairs are crossed with negatives, joined, and scored by the matching head.

Every image and every text is encoded once. Negatives are pairs of the batch, on any rank, drawn by the contrastive
logits (by the seed alone if a model has no towers), or a row's mined counterparts. EqSim's fourth similarity is
then another pair's true logit: no pass more than matching takes, unless the counterpart is not a pair of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tellapart.errors import DataError, ModelError, quote
from tellapart.models.fusion.family import Tensors, pad_tokens
from tellapart.training.config import MatchingConfig, TrainConfig
from tellapart.training.data.batch_order import draw_choices
from tellapart.training.data.rows import TrainingRows
from tellapart.training.encoders.trainable import Inputs, autocast
from tellapart.training.losses.batch import Batch, LossParts
from tellapart.training.losses.itc import itc
from tellapart.training.losses.loss import FusionLoss
from tellapart.training.losses.matches import Matches, NegativePairs, counterparts, hard_negatives
from tellapart.training.losses.ranks import gather, own_rank, rank_count
from tellapart.training.losses.terms import LossTerm
from tellapart.training.steps.step import TrainingStep

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DrawnPairs", "FusionStep", "matching_settings"]


@dataclass(frozen=True, slots=True)
class DrawnPairs:
    """The inputs of one rank in one step.

    Attributes:
        rows: numbers of the rows that are encoded: the batch's, then mined ones that are not among them.
        own: how many of them are the batch's.
        negatives: for each row of the batch the positions in `rows` of its mined negatives; None if they come from the
            batch.
        close: which of them are close, if that is known.
    """

    rows: list[int]
    own: int
    negatives: list[list[int]] | None
    close: list[list[bool]] | None
    joined: ClassVar[tuple[()]] = ()  # no picture of a fusion encoder is joined to another


def matching_settings(config: TrainConfig, rows: TrainingRows) -> MatchingConfig:
    """Return `[matching]` with its number of negatives; the loss's number if it is not given.

    Raises:
        DataError: the batch or a row has too few negatives, or the configuration has an option of dual encoders only.
    """
    name, matching = config.loss["name"], config.matching or MatchingConfig()
    count = matching.negatives or max(loss.negatives for loss in _matching_losses(config.loss_terms()))
    part = config.batch.part
    if config.data.negative_captions or config.data.negative_images not in {None, "none"}:
        raise DataError(
            f"loss {name!r} matches full pairs: leave out data.negative_captions and "
            'data.negative_images, and set [matching] source = "rows" to take the hard counterparts of the rows'
        )
    if config.batch.chunk is not None:
        raise DataError(
            f"batch.chunk: loss {name!r} has no matrix of similarities to cut; set batch.micro to save memory"
        )
    if matching.source == "batch" and count >= part:
        raise DataError(
            f"matching.negatives: {count} for each pair, and a batch of {part} pairs has {part - 1} others; raise "
            "batch.size, or lower batch.accumulate or matching.negatives, or take mined ones with "
            'matching.source = "rows"'
        )
    for number, row in enumerate(rows.rows if matching.source == "rows" else ()):
        if len(row.counterparts) < count:
            raise DataError(
                f"matching.negatives: {count} for each pair, and row {number} ({row.image.name}: {quote(row.caption)}) "
                f"has {len(row.counterparts)} hard counterparts; mine more (`tellapart mine`), or lower "
                "matching.negatives"
            )
    return matching.model_copy(update={"negatives": count})


def _matching_losses(terms: Sequence[LossTerm]) -> list[FusionLoss]:
    return [term.loss for term in terms if isinstance(term.loss, FusionLoss)]


class FusionStep(TrainingStep[DrawnPairs]):
    """Training steps of a fusion encoder.

    Raises:
        DataError: as `matching_settings`.
        ModelError: negatives are to be the hardest, or a loss is contrastive, and the model has no towers for that.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._matching = matching_settings(self.config, self.rows)
        self._count = self._matching.negatives or 1
        losses, towers = _matching_losses(self._terms), self.trainable.module.scale is not None
        self._wrong_images = any(loss.wrong_images for loss in losses)
        self._counterparts = any(loss.counterparts for loss in losses)
        contrasts = [term.name for term in self._terms if not isinstance(term.loss, FusionLoss)]
        # A contrastive loss that is named takes the place of the plain one.
        self._itc = self._matching.contrast and towers and not contrasts
        self._contrast = self._itc or bool(contrasts)
        if contrasts and not (towers and self._matching.contrast):
            raise ModelError(
                f"loss.also.{contrasts[0]}: a contrastive loss needs matching.contrast and a model with unimodal "
                "towers; leave it out"
            )
        if self._matching.hardest and not towers:
            raise ModelError(
                "matching.hardest: the model has no unimodal towers whose similarities name the hardest pairs; leave "
                'it out, or mine negatives and set matching.source = "rows"'
            )

    def draw(self, numbers: Sequence[int], step: int) -> DrawnPairs:
        """Return the inputs of a step, of this rank's rows."""
        if self._matching.source == "batch":
            return DrawnPairs(list(numbers), len(numbers), None, None)
        rows, negatives, close = list(numbers), [], []
        position = {number: k for k, number in enumerate(rows)}
        for number in numbers:
            pool = self.rows.rows[number].counterparts
            choices = draw_choices(range(len(pool)), self._count, self.config.seed, step, number)
            for k in choices:
                if pool[k] not in position:
                    position[pool[k]] = len(rows)
                    rows.append(pool[k])
            negatives.append([position[pool[k]] for k in choices])
            close.append([k < (self._matching.close or 0) for k in choices])
        return DrawnPairs(rows, len(numbers), negatives, None if self._matching.close is None else close)

    def _backward_step(self, drawn: DrawnPairs, images: Sequence[Inputs], step: int) -> LossParts:
        device = self.accelerator.device
        inputs = [{name: tensor.to(device) for name, tensor in image.items()} for image in images]
        tokens = self._read_tokens([self.rows.rows[number].caption for number in drawn.rows])
        self._seed_dropout(step)
        with autocast(self.config.precision, device.type):
            joined = self.module(lambda fusion: self._join_pairs(fusion, drawn, inputs, tokens, step))
        names: Any = self.trainable.module.heads
        batch, heads = joined["batch"], dict(zip(names, joined["matches"], strict=True))
        parts = self._sum_losses(
            [heads[term.reading or names[0]] if isinstance(term.loss, FusionLoss) else batch for term in self._terms]
        )
        if self._itc:
            parts["itc"] = itc(batch)["total"]
            parts["total"] = parts["total"] + parts["itc"]
        self.accelerator.backward(parts["total"])
        return parts

    def _join_pairs(
        self, fusion: Any, drawn: DrawnPairs, inputs: Sequence[Inputs], tokens: Inputs, step: int
    ) -> dict[str, Any]:
        """Encode, choose negatives, and join, in one forward pass of the module, as DDP requires."""
        import torch

        own, device = drawn.own, self.accelerator.device
        images, texts = fusion.images(inputs), fusion.texts(tokens)
        ids = torch.from_numpy(self.rows.image_ids[drawn.rows]).to(device)
        batch = None
        if self._contrast or drawn.negatives is None:
            image, text = fusion.vectors(*(tuple(tensor[:own] for tensor in side) for side in (images, texts)))
            scale = torch.as_tensor(fusion.scale or 1.0, device=device)
            batch = Batch(image, text, scale, ids[:own], step=step)
        if drawn.negatives is None:
            assert batch is not None  # noqa: S101  (for the type checker)
            hardest, shared = self._matching.hardest, self._counterparts
            pairs = hard_negatives(batch, self._count, shared=shared, hardest=hardest)
            images, texts, ids, start = _gather_states(images), _gather_states(texts), gather(ids), own_rank() * own
        else:
            positions, start = torch.tensor(drawn.negatives, device=device), 0
            pairs = NegativePairs(positions, positions)
        join = _Join(fusion, images, texts, self.config.batch.micro)
        matches = self._make_matches(join, pairs, ids, range(start, start + own), drawn)
        return {"matches": matches, "batch": batch if self._contrast else None}

    def _make_matches(
        self, join: _Join, pairs: NegativePairs, ids: Tensor, own: range, drawn: DrawnPairs
    ) -> list[Matches]:
        """Join the batch's pairs, crossed pairs, and further mined pairs, in one go: for each head its logits."""
        import torch

        mined = drawn.negatives is not None
        device, (b, m) = ids.device, pairs.texts.shape
        mine = torch.arange(own.start, own.stop, device=device)
        repeated = mine.repeat_interleave(m)
        wrong_texts, wrong_images = (side.clamp(min=0).flatten() for side in (pairs.texts, pairs.images))
        calls = [(mine, mine), (repeated, wrong_texts)]
        calls += [(wrong_images, repeated)] if self._wrong_images else []
        calls += [(torch.arange(b, len(drawn.rows), device=device),) * 2] if mined and self._counterparts else []
        logits = join(*(torch.cat(side) for side in zip(*calls, strict=True)))
        sizes, heads = [len(side) for side, _ in calls], []
        for of_head in logits.unbind(1):
            true, crossed, *rest = torch.split(of_head, sizes)
            fourth = None
            if self._counterparts:
                fourth = torch.cat([true, rest[-1]])[pairs.texts] if mined else counterparts(true, pairs.texts)
            heads.append(
                Matches(
                    true=true,
                    wrong_texts=crossed.reshape(b, m),
                    wrong_images=(rest[0] if self._wrong_images else crossed).reshape(b, m),
                    counterparts=fourth,
                    image_ids=ids[mine],
                    negative_text_ids=_take_ids(ids, pairs.texts),
                    negative_image_ids=_take_ids(ids, pairs.images),
                    close=None if drawn.close is None else torch.tensor(drawn.close, device=device),
                )
            )
        return heads


@dataclass(frozen=True, slots=True, eq=False)
class _Join:
    """Joins images and texts by number, `micro` pairs at a time; those are computed again in the backward pass."""

    fusion: Any
    images: Tensors
    texts: Tensors
    micro: int | None

    def __call__(self, images: Tensor, texts: Tensor) -> Tensor:
        import torch
        from torch.utils.checkpoint import checkpoint

        if self.micro is None:
            return self._join_some(images, texts)
        pieces = zip(torch.split(images, self.micro), torch.split(texts, self.micro), strict=True)
        return torch.cat([checkpoint(self._join_some, *piece, use_reentrant=False) for piece in pieces])

    def _join_some(self, images: Tensor, texts: Tensor) -> Tensor:
        logits: Tensor = self.fusion.join(
            tuple(tensor[images] for tensor in self.images), tuple(tensor[texts] for tensor in self.texts)
        )
        return logits


def _gather_states(states: Tensors) -> Tensors:
    """Return every rank's states `(n, length, ...)`, padded to the longest of all ranks."""
    if rank_count() == 1:
        return states
    import torch
    import torch.distributed as dist

    length = torch.tensor([states[0].shape[1]], device=states[0].device)
    dist.all_reduce(length, op=dist.ReduceOp.MAX)
    whole = (pad_tokens(tensor, int(length)) for tensor in states)
    # Not every backend sends truth values.
    return tuple(gather(one.byte()).bool() if one.dtype == torch.bool else gather(one) for one in whole)


def _take_ids(ids: Tensor, numbers: Tensor) -> Tensor:
    return ids[numbers.clamp(min=0)].masked_fill(numbers < 0, -1)
