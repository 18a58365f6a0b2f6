"""One step of a fusion encoder: pairs are crossed with negatives, joined, and told apart by the matching head.

Every image and every text is encoded once. Negatives are pairs of the batch, of whatever rank, drawn by the contrastive
logits (by nothing but the seed where a model has no towers), or a row's own mined counterparts. EqSim's fourth similarity is
then another pair's true logit: no pass more than matching takes, unless the counterpart is no pair of the batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tellapart.catalog import load
from tellapart.errors import DataError, ModelError
from tellapart.models.fusion.torch_encoder import Tensors, padded
from tellapart.train.config import MatchingConfig, TrainConfig, loss_options
from tellapart.train.encoders import Inputs, Trained, autocast
from tellapart.train.losses.batch import Batch, Parts
from tellapart.train.losses.itc import itc
from tellapart.train.losses.matches import Matches, Negatives, counterparts, hard_negatives
from tellapart.train.losses.ranks import gathered, own_rank, rank_count
from tellapart.train.order import choices
from tellapart.train.rows import Rows

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Crossed", "Matching", "is_matching", "matching_settings"]


@dataclass(frozen=True, slots=True)
class Crossed:
    """What one rank encodes in one step.

    Attributes:
        rows: numbers of the rows that are encoded: the batch's own, then mined ones that are not among them.
        own: how many of them are the batch's own.
        negatives: for each own row the places in `rows` of its mined negatives; None if the batch is drawn from.
        close: which of them are close, if that is known.

    >>> Crossed([4, 7, 9], 2, [[2], [2]], None).own
    2
    """

    rows: list[int]
    own: int
    negatives: list[list[int]] | None
    close: list[list[bool]] | None


def is_matching(loss: str) -> bool:
    """Return whether a loss of the catalogue is one of matching logits, and so of fusion encoders.

    Raises:
        UnknownNameError: no such loss.

    >>> is_matching("eqsim-itm"), is_matching("eqsim")
    (True, False)
    """
    return next(iter(inspect.signature(load("loss", loss)).parameters)) == "matches"


def matching_settings(config: TrainConfig, rows: Rows) -> MatchingConfig:
    """Return `[matching]` with its number of negatives: if not given 15 of a ranking (METER's), else 1.

    Raises:
        DataError: the batch or a row has too few negatives, or the configuration asks for what only dual encoders have.

    >>> from pathlib import Path
    >>> from tellapart.train.rows import Row
    >>> table = {"name": "a", "model": "m", "data": {"train": ["a"]}, "loss": {"name": "ranking"}, "batch": {"size": 8}}
    >>> matching_settings(TrainConfig(**table, optimiser={"learning_rate": 1.0, "steps": 1}), Rows(()))
    Traceback (most recent call last):
    tellapart.errors.DataError: matching.negatives: 15 for each pair, and a batch of 8 pairs has 7 others; raise batch.size, lower matching.negatives, or take mined ones with matching.source = "rows"
    """
    name = str(config.loss["name"])
    told = config.matching or MatchingConfig()
    count = told.negatives or (15 if name.endswith("ranking") else 1)
    if config.data.negative_captions or config.data.negative_images not in {None, "none"}:
        raise DataError(
            f"loss {name!r} matches whole pairs: leave out data.negative_captions and data.negative_images, and set "
            '[matching] source = "rows" to take the hard counterparts of the rows'
        )
    if config.batch.chunk is not None:
        raise DataError(
            f"batch.chunk: loss {name!r} has no matrix of similarities to cut; set batch.micro to save memory"
        )
    if told.source == "batch" and count >= config.batch.size:
        raise DataError(
            f"matching.negatives: {count} for each pair, and a batch of {config.batch.size} pairs has "
            f"{config.batch.size - 1} others; raise batch.size, lower matching.negatives, or take mined ones with "
            'matching.source = "rows"'
        )
    for number, row in enumerate(rows.rows if told.source == "rows" else ()):
        if len(row.counterparts) < count:
            raise DataError(
                f"matching.negatives: {count} for each pair, and row {number} ({row.image.name}: {row.caption!r:.60}) has "
                f"{len(row.counterparts)} hard counterparts; mine more (`tellapart mine`), or lower matching.negatives"
            )
    return told.model_copy(update={"negatives": count})


@dataclass
class Matching:
    """Steps of a fusion encoder.

    Attributes:
        config: of the run.
        encoder: what is trained.
        rows: what is trained on.
        accelerator: of accelerate; it knows the device, the precision and the ranks.
        module: the encoder's module, as the accelerator wrapped it.

    Raises:
        DataError: as `matching_settings`.
        ModelError: negatives are to be the hardest, and the model has no towers to say which those are.

    >>> Matching.backward.__name__
    'backward'
    """

    config: TrainConfig
    encoder: Trained
    rows: Rows
    accelerator: Any
    module: Any

    def __post_init__(self) -> None:
        name = str(self.config.loss["name"])
        self._told = matching_settings(self.config, self.rows)
        self._count = self._told.negatives or 1
        self._loss, self._options = load("loss", name), loss_options(self.config.loss)
        # A loss that compares four similarities needs one negative for both sides, and the negative's own logit.
        self._shared, self._images = name not in {"itm", "ranking"}, name != "ranking"
        self._contrast = self._told.contrast and self.encoder.module.scale is not None
        if self._told.hardest and self.encoder.module.scale is None:
            raise ModelError(
                "matching.hardest: the model has no unimodal towers whose similarities say what is hardest; leave it out, "
                'or mine negatives and set matching.source = "rows"'
            )

    def draw(self, numbers: Sequence[int], step: int) -> Crossed:
        """Return what a step encodes of this rank's rows: mined negatives are drawn by seed, step and row alone."""
        if self._told.source == "batch":
            return Crossed(list(numbers), len(numbers), None, None)
        found, negatives, close = list(numbers), [], []
        place = {number: k for k, number in enumerate(found)}
        for number in numbers:
            pool = self.rows.rows[number].counterparts
            drawn = choices(range(len(pool)), self._count, self.config.seed, step, number)
            for k in drawn:
                if pool[k] not in place:
                    place[pool[k]] = len(found)
                    found.append(pool[k])
            negatives.append([place[pool[k]] for k in drawn])
            close.append([k < (self._told.close or 0) for k in drawn])
        return Crossed(found, len(numbers), negatives, None if self._told.close is None else close)

    def backward(self, drawn: Crossed, images: Sequence[Inputs], step: int) -> Parts:
        """Take the loss of a step and leave its gradients in the parameters; return its parts, detached."""
        import torch

        device, seed = self.accelerator.device, self.config.seed * 1_000_003 + step
        inputs = [{name: tensor.to(device) for name, tensor in image.items()} for image in images]
        texts = [self.rows.rows[number].caption for number in drawn.rows]
        tokens = {name: tensor.to(device) for name, tensor in self.encoder.tokens(texts).items()}
        torch.manual_seed(seed * 4099 + self.accelerator.process_index)  # of dropout
        with autocast(self.config.precision, device.type):
            found = self.module(lambda fusion: self._crossed(fusion, drawn, inputs, tokens, step))
        matches, batch = found["matches"], found["batch"]
        parts: Parts = dict(self._loss(matches) if self._options is None else self._loss(matches, self._options))
        if batch is not None:
            parts["itc"] = itc(batch)["total"]
            parts["total"] = parts["total"] + parts["itc"]
        self.accelerator.backward(parts["total"])
        return {name: part.detach() for name, part in parts.items()}

    def _crossed(
        self, fusion: Any, drawn: Crossed, inputs: Sequence[Inputs], tokens: Inputs, step: int
    ) -> dict[str, Matches | Batch | None]:
        """Encode, choose negatives, and join; the whole of it is one forward of the module, as DDP wants it."""
        import torch

        own, device = drawn.own, self.accelerator.device
        images, texts = fusion.images(inputs), fusion.texts(tokens)
        ids = torch.from_numpy(self.rows.image_ids[drawn.rows]).to(device)
        batch = None
        if self._contrast or drawn.negatives is None:
            image, text = fusion.vectors(*(tuple(tensor[:own] for tensor in side) for side in (images, texts)))
            scale = torch.tensor(fusion.scale or 1.0, device=device)
            batch = Batch(image, text, scale, ids[:own], step=step)
        if drawn.negatives is None:
            assert batch is not None  # noqa: S101  (for the type checker)
            pairs = hard_negatives(batch, self._count, shared=self._shared, hardest=self._told.hardest)
            images, texts, ids, start = _everyone(images), _everyone(texts), gathered(ids), own_rank() * own
        else:
            places, start = torch.tensor(drawn.negatives, device=device), 0
            pairs = Negatives(places, places)
        joint = _Joint(fusion, images, texts, self.config.batch.micro)
        matches = self._matches(joint, pairs, ids, range(start, start + own), drawn)
        return {"matches": matches, "batch": batch if self._contrast else None}

    def _matches(self, joint: _Joint, pairs: Negatives, ids: Tensor, own: range, drawn: Crossed) -> Matches:
        """Join own pairs, crossed pairs, and mined pairs that are nobody's own, in one go."""
        import torch

        mined = drawn.negatives is not None
        device, (b, m) = ids.device, pairs.texts.shape
        mine = torch.arange(own.start, own.stop, device=device)
        here = mine.repeat_interleave(m)
        wrong_texts, wrong_images = (side.clamp(min=0).flatten() for side in (pairs.texts, pairs.images))
        asked = [(mine, mine), (here, wrong_texts)]
        asked += [(wrong_images, here)] if self._images else []
        asked += [(torch.arange(b, len(drawn.rows), device=device),) * 2] if mined and self._shared else []
        logits = joint(*(torch.cat(side) for side in zip(*asked, strict=True)))
        true, crossed, *rest = torch.split(logits, [len(side) for side, _ in asked])
        other = rest[0] if self._images else crossed  # a ranking of texts reads no wrong image
        fourth = None
        if self._shared:
            fourth = torch.cat([true, rest[-1]])[pairs.texts] if mined else counterparts(true, pairs.texts)
        return Matches(
            true=true,
            wrong_texts=crossed.reshape(b, m),
            wrong_images=other.reshape(b, m),
            counterparts=fourth,
            image_ids=ids[mine],
            negative_text_ids=_ids(ids, pairs.texts),
            negative_image_ids=_ids(ids, pairs.images),
            close=None if drawn.close is None else torch.tensor(drawn.close, device=device),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Joint:
    """Joins images and texts by number, `micro` pairs at a time; those are then computed again in the backward pass."""

    fusion: Any
    images: Tensors
    texts: Tensors
    micro: int | None

    def __call__(self, images: Tensor, texts: Tensor) -> Tensor:
        import torch
        from torch.utils.checkpoint import checkpoint

        if self.micro is None:
            return self._some(images, texts)
        pieces = zip(torch.split(images, self.micro), torch.split(texts, self.micro), strict=True)
        return torch.cat([checkpoint(self._some, *piece, use_reentrant=False) for piece in pieces])

    def _some(self, images: Tensor, texts: Tensor) -> Tensor:
        logits: Tensor = self.fusion.join(
            tuple(tensor[images] for tensor in self.images), tuple(tensor[texts] for tensor in self.texts)
        )
        return logits


def _everyone(states: Tensors) -> Tensors:
    """Every rank's states `(n, length, ...)`, padded to the longest of all ranks."""
    if rank_count() == 1:
        return states
    import torch
    import torch.distributed as dist

    length = torch.tensor([states[0].shape[1]], device=states[0].device)
    dist.all_reduce(length, op=dist.ReduceOp.MAX)
    whole = (padded(tensor, int(length)) for tensor in states)
    # Not every backend sends truth values.
    return tuple(gathered(one.byte()).bool() if one.dtype == torch.bool else gathered(one) for one in whole)


def _ids(ids: Tensor, numbers: Tensor) -> Tensor:
    return ids[numbers.clamp(min=0)].masked_fill(numbers < 0, -1)
