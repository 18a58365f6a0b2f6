"""Training steps of fusion encoders: the matching head scores true pairs, and images with wrong texts or vice versa.

Every image and every text is encoded once; the fusion layers then join each pair. Negatives come from the batch, over
all ranks, sampled by the contrastive logits (by the seed alone if a model has no unimodal towers), or they are a row's
mined counterparts. EqSim needs a fourth similarity, that of the negative's image with its text. For a negative from
the batch it is already computed; a mined one that is not in the batch costs another forward pass of its pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from tellapart.errors import DataError, ModelError, quote
from tellapart.models.fusion.family import Tensors, pad_tokens
from tellapart.training.config import MatchingConfig, TrainConfig
from tellapart.training.data.batch_order import draw_choices
from tellapart.training.data.rows import TrainingRows
from tellapart.training.encoders.trainable import Inputs, autocast
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.batch import Batch, LossParts, Matches
from tellapart.training.losses.contrast import itc
from tellapart.training.losses.loss import FusionLoss, LossTerm
from tellapart.training.losses.matching import NegativePairs, counterparts, hard_negatives
from tellapart.training.losses.matrix_rows import gather, rank_and_count
from tellapart.training.steps.step import TrainingStep


@dataclass(frozen=True, slots=True)
class DrawnPairs:
    """The inputs of one rank in one step: numbers of the batch's `own` rows, then of other, mined rows.

    `negatives` has for each batch row the positions of its mined negatives in `rows`, and `close` whether each is one
    of its first `matching.close` counterparts; both are None if the configuration asks for none.
    """

    rows: list[int]
    own: int
    negatives: list[list[int]] | None
    close: list[list[bool]] | None
    joined: ClassVar[tuple[()]] = ()  # fusion encoders never take two pictures joined into one


def matching_settings(config: TrainConfig, rows: TrainingRows) -> MatchingConfig:
    """Return `[matching]` with the number of negatives filled in: the loss's default if the configuration has none."""
    name, matching = config.loss["name"], config.matching or MatchingConfig()
    count = matching.negatives or max(loss.negatives for loss in _matching_losses(config.loss_terms()))
    part = config.batch.part
    if config.data.negative_captions or config.data.negative_images not in {None, "none"}:
        raise DataError(
            f"loss {name!r} takes pairs of an image and its caption: leave out data.negative_captions and "
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
        if (hard := len(rows.counterparts[number])) < count:
            raise DataError(
                f"matching.negatives: {count} for each pair, and row {number} ({row.image.name}: {quote(row.caption)}) "
                f"has {hard} hard counterparts of other pictures; mine more (`tellapart mine`), or lower "
                "matching.negatives"
            )
    return matching.model_copy(update={"negatives": count})


def _matching_losses(terms: Sequence[LossTerm]) -> list[FusionLoss]:
    return [term.loss for term in terms if isinstance(term.loss, FusionLoss)]


class FusionStep(TrainingStep[DrawnPairs]):
    """Training steps of a fusion encoder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._matching = matching_settings(self.config, self.rows)
        self._count = self._matching.negatives or 1
        losses, towers = _matching_losses(self._terms), self.trainable.module.scale is not None
        self._wrong_images = any(loss.wrong_images for loss in losses)
        self._counterparts = any(loss.counterparts for loss in losses)
        self._rows_of: dict[int, list[int]] = {}
        for number, image in enumerate(self.rows.image_ids.tolist()):
            self._rows_of.setdefault(image, []).append(number)
        contrasts = [term.name for term in self._terms if not isinstance(term.loss, FusionLoss)]
        # A contrastive loss that the configuration names replaces the default one.
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
        """Return this rank's inputs of a step: its batch rows, and their mined negatives if there are any."""
        if self._matching.source == "batch":
            return DrawnPairs(list(numbers), len(numbers), None, None)
        rows, negatives, close = list(numbers), [], []
        position = {number: k for k, number in enumerate(rows)}
        for number in numbers:
            pool = self.rows.counterparts[number]
            choices = draw_choices(range(len(pool)), self._count, self.config.seed, step, number)
            for k in choices:
                if pool[k] not in position:
                    position[pool[k]] = len(rows)
                    rows.append(pool[k])
            negatives.append([position[pool[k]] for k in choices])
            close.append([k < (self._matching.close or 0) for k in choices])
        return DrawnPairs(rows, len(numbers), negatives, None if self._matching.close is None else close)

    def _captions(self, numbers: Sequence[int]) -> list[str]:
        return [self.rows.rows[number].caption for number in numbers]

    def _find_true(self, drawn: DrawnPairs) -> tuple[list[list[bool]] | None, list[list[bool]] | None]:
        """Return which mined texts are true of their row's image, and of which mined images the row's text is true.

        A text is true of an image if a row of the data joins them; of a batch no such pair is drawn.
        """
        if drawn.negatives is None or self._text_ids is None:
            return None, None
        images, texts = self.rows.image_ids[drawn.rows].tolist(), self._text_ids(self._captions(drawn.rows))
        of_image = {image: set(self._text_ids(self._captions(self._rows_of[image]))) for image in set(images)}
        rows = list(enumerate(drawn.negatives))
        return (
            [[texts[other] in of_image[images[row]] for other in others] for row, others in rows],
            [[texts[row] in of_image[images[other]] for other in others] for row, others in rows],
        )

    def backward(self, drawn: DrawnPairs, images: Sequence[Inputs], step: int) -> LossParts:
        """Take the loss of drawn pairs and their negatives, and add its gradients."""
        device = self.accelerator.device
        inputs = [{name: tensor.to(device) for name, tensor in image.items()} for image in images]
        tokens = self._read_tokens(self._captions(drawn.rows))
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
        return {name: part.detach() for name, part in parts.items()}

    def _join_pairs(
        self, fusion: Any, drawn: DrawnPairs, inputs: Sequence[Inputs], tokens: Inputs, step: int
    ) -> dict[str, Any]:
        """Encode, choose negatives and join, in one forward call of the module: DDP allows one a step."""
        count, device = drawn.own, self.accelerator.device
        images, texts = fusion.images(inputs), fusion.texts(tokens)
        ids = torch.from_numpy(self.rows.image_ids[drawn.rows]).to(device)
        batch = None
        if self._contrast or drawn.negatives is None:
            image, text = fusion.vectors(*(tuple(tensor[:count] for tensor in side) for side in (images, texts)))
            scale = torch.as_tensor(fusion.scale or 1.0, device=device)
            numbers = None if self._text_ids is None else self._text_ids(self._captions(drawn.rows[:count]))
            text_ids = None if numbers is None else torch.tensor(numbers, device=device)
            batch = Batch(image, text, scale, ids[:count], step=step, text_ids=text_ids)
        if drawn.negatives is None:
            assert batch is not None  # noqa: S101  (for the type checker)
            hardest, shared = self._matching.hardest, self._counterparts
            pairs = hard_negatives(batch, self._count, shared=shared, hardest=hardest)
            images, texts, ids = _gather_states(images), _gather_states(texts), gather(ids)
            start = rank_and_count()[0] * count
        else:
            positions, start = torch.tensor(drawn.negatives, device=device), 0
            pairs = NegativePairs(positions, positions)
        join = partial(_join_positions, fusion, (images, texts), self.config.batch.micro)
        matches = self._make_matches(join, pairs, ids, range(start, start + count), drawn)
        return {"matches": matches, "batch": batch if self._contrast else None}

    def _make_matches(
        self,
        join: Callable[[Tensor, Tensor], Tensor],
        pairs: NegativePairs,
        ids: Tensor,
        positions: range,
        drawn: DrawnPairs,
    ) -> list[Matches]:
        """Join the true pairs at `positions`, their negatives, and mined pairs from outside the batch, in one call."""
        mined = drawn.negatives is not None
        device, (b, m) = ids.device, pairs.texts.shape
        true_rows = torch.arange(positions.start, positions.stop, device=device)
        repeated = true_rows.repeat_interleave(m)
        wrong_texts, wrong_images = (side.clamp(min=0).flatten() for side in (pairs.texts, pairs.images))
        # Each call is a list of images and one of texts, by position; the last gives EqSim's fourth similarity.
        calls = [(true_rows, true_rows), (repeated, wrong_texts)]
        calls += [(wrong_images, repeated)] if self._wrong_images else []
        calls += [(torch.arange(b, len(drawn.rows), device=device),) * 2] if mined and self._counterparts else []
        true_texts, true_images = self._find_true(drawn)
        logits = join(*(torch.cat(side) for side in zip(*calls, strict=True)))
        sizes, heads = [len(side) for side, _ in calls], []
        for head_logits in logits.unbind(1):
            true, crossed, *rest = torch.split(head_logits, sizes)
            fourth = None
            if self._counterparts:
                fourth = torch.cat([true, rest[-1]])[pairs.texts] if mined else counterparts(true, pairs.texts)
            heads.append(
                Matches(
                    true=true,
                    wrong_texts=crossed.reshape(b, m),
                    wrong_images=(rest[0] if self._wrong_images else crossed).reshape(b, m),
                    counterparts=fourth,
                    image_ids=ids[true_rows],
                    negative_text_ids=_take_ids(ids, pairs.texts, true_rows, true_texts),
                    negative_image_ids=_take_ids(ids, pairs.images, true_rows, true_images),
                    close=None if drawn.close is None else torch.tensor(drawn.close, device=device),
                )
            )
        return heads


def _join_positions(
    fusion: Any, states: tuple[Tensors, Tensors], micro: int | None, images: Tensor, texts: Tensor
) -> Tensor:
    """Join images and texts by position; with `micro`, so many pairs at a time, with gradient checkpointing."""

    def join(*positions: Tensor) -> Tensor:
        sides = zip(states, positions, strict=True)
        logits: Tensor = fusion.join(*(tuple(tensor[numbers] for tensor in side) for side, numbers in sides))
        return logits

    from torch.utils.checkpoint import checkpoint

    if micro is None:
        return join(images, texts)
    pieces = zip(torch.split(images, micro), torch.split(texts, micro), strict=True)
    return torch.cat([checkpoint(join, *piece, use_reentrant=False) for piece in pieces])


def _gather_states(states: Tensors) -> Tensors:
    """Return every rank's states `(n, length, ...)`, padded to the longest of all ranks."""
    if rank_and_count()[1] == 1:
        return states
    import torch.distributed as dist

    length = torch.tensor([states[0].shape[1]], device=states[0].device)
    dist.all_reduce(length, op=dist.ReduceOp.MAX)
    padded = (pad_tokens(tensor, int(length)) for tensor in states)
    # Not every backend of torch.distributed can send bool tensors.
    return tuple(gather(state.byte()).bool() if state.dtype == torch.bool else gather(state) for state in padded)


def _take_ids(ids: Tensor, numbers: Tensor, rows: Tensor, true: Sequence[Sequence[bool]] | None) -> Tensor:
    """Return the images of negatives, and the row's image for those that are true of it."""
    token_ids = ids[numbers.clamp(min=0)].masked_fill(numbers < 0, -1)
    return (
        token_ids if true is None else torch.where(torch.tensor(true, device=ids.device), ids[rows][:, None], token_ids)
    )
