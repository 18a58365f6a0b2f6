"""Training steps: rows are drawn, images and texts encoded, the loss taken, and gradients left in the parameters.

Dual encoders may have a gradient cache (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory
Limited Setup"): a few pairs are encoded at a time, and again for their gradients. A fusion encoder encodes each image
and text once and then joins pairs: true ones, and negatives of the batch or of the rows' counterparts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import DataError, ModelError, quote
from tellapart.models.fusion.family import Tensors, pad_tokens
from tellapart.training.config import MatchingConfig, TrainConfig
from tellapart.training.data.pictures import JoinedRows, draw_joined
from tellapart.training.data.rows import TextIds, TrainingRows, draw_choices, draw_units
from tellapart.training.encoders import Inputs, Trainable
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.contrast import itc
from tellapart.training.losses.loss import (
    Batch,
    FusionLoss,
    LossParts,
    LossTerm,
    Matches,
    NegativePairs,
    gather,
    hard_negatives,
    rank_and_count,
    recompute,
    sum_terms,
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The inputs of one rank in one part of a step.

    `rows` are the numbers of the rows to encode: first the `own` rows of the batch, then their hard counterparts.

    For a dual encoder, `joined` has for each row the row that its picture is joined to; it is empty if no pictures are.
    `texts` maps each field of the `Batch` to its texts, in the field's shape. `every_text` has all of them in the order
    of encoding. `real` marks the `negative_texts` that are false; the others are the true caption, as a filling.

    For a fusion encoder, `negatives` has for each row of the batch the positions in `rows` of its mined negatives; it
    is None if negatives are drawn from the batch. `close` marks those among its first `matching.close` counterparts.
    """

    rows: list[int]
    own: int
    texts: dict[str, NDArray[np.object_]] = field(default_factory=dict)
    every_text: list[str] = field(default_factory=list)
    real: list[list[bool]] | None = None
    joined: list[JoinedRows] = field(default_factory=list)
    negatives: list[list[int]] | None = None
    close: list[list[bool]] | None = None


@dataclass
class TrainingStep:
    """Steps of one family of encoders, with accelerate's accelerator and the module that it wrapped."""

    config: TrainConfig
    trainable: Trainable
    rows: TrainingRows
    accelerator: Any
    module: Any

    def __post_init__(self) -> None:
        from accelerate.utils import send_to_device

        self._send = partial(send_to_device, device=self.accelerator.device)
        self._terms: tuple[LossTerm, ...] = self.config.loss_terms()
        self._text_ids: TextIds | None = TextIds(self.trainable.reader)
        if self.config.data.duplicates == "negatives":  # as released: no two files, and no two texts, count as equal
            self.rows, self._text_ids = self.rows.with_pictures({}), None

    def _seed_dropout(self, step: int, piece: int | None = None) -> None:
        """Let dropout depend on the seed, the step, the rank and the piece alone."""
        number = (self.config.seed * 1_000_003 + step) * 4099 + self.accelerator.process_index
        torch.manual_seed((number if piece is None else number * 4099 + piece) % (1 << 64))


#: Some prepared images and some texts that are encoded at a time.
_Piece = tuple[Sequence[Inputs], Sequence[str]]


class DualStep(TrainingStep):
    """Training steps of a dual encoder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        losses: list[Any] = [term.loss for term in self._terms]
        self._units, self._name = max(loss.units for loss in losses), " + ".join(term.name for term in self._terms)
        data, rows = self.config.data, self.rows
        if self._units:
            self._expect_rows([row.units for row in rows.rows], "no units; give units in its file, or leave it out")
        if self.config.batch.micro is not None and any(loss.local for loss in losses):
            raise DataError(f"batch.micro: loss {self._name!r} reads patches and words, which go in no pieces")
        # The losses' published numbers, the largest of several, fill in the keys that the configuration leaves out.
        published_captions = max(loss.negative_captions for loss in losses)
        self._captions = published_captions if data.negative_captions is None else data.negative_captions
        complete = all(rows.counterparts)
        published = max((loss.negative_images for loss in losses), key=["none", "pairs", "mate"].index)
        self._counterparts = data.negative_images or ("none" if published == "pairs" and not complete else published)
        if self._counterparts != "none" and not complete:
            remedy = 'give negative_images in its file, or set data.negative_images = "none"'
            self._expect_rows(rows.counterparts, f'no hard counterpart, for "{self._counterparts}"; {remedy}')
        self._join, self._positives = self._choose_joins(any(loss.joins for loss in losses))

    def _expect_rows(self, values: Sequence[Sequence[object]], lack: str) -> None:
        """Refuse the first row whose value, which the loss reads, is empty."""
        for number, (row, value) in enumerate(zip(self.rows.rows, values, strict=True)):
            if not value:
                place = f"row {number} ({row.image.name}: {quote(row.caption)})"
                raise DataError(f"loss {self._name!r}: {place} has {lack}")

    def _choose_joins(self, joins: bool) -> tuple[str, int]:
        """Return which steps join pictures (`none`, `always`, `alternate`), and the number of further true captions."""
        data = self.config.data
        how = data.join or ("alternate" if joins else "none")
        if not joins and (how != "none" or data.positive_captions):
            keys = "data.join, data.positive_captions"
            raise DataError(f"{keys}: {self._name!r} reads no joined pictures; leave them out")
        if how == "none":
            return how, 0
        if self._units or self._counterparts != "none":
            raise DataError(
                f"loss {self._name!r}: joined pictures have no units and no hard counterparts; leave out a loss that "
                'reads them, and set data.negative_images = "none"'
            )
        if len(set(self.rows.image_ids.tolist())) < 2:
            raise DataError(f'data.join = "{how}": all rows show one picture, and there is no other to join to it')
        if count := 2 if data.positive_captions is None else data.positive_captions:
            remedy = "give positive_captions in its file, or set data.positive_captions = 0"
            self._expect_rows([row.positives for row in self.rows.rows], f"no further true caption; {remedy}")
        return how, count

    def draw(self, numbers: Sequence[int], step: int) -> Drawn:
        """Return the inputs of this rank's rows of a part, by the seed, the part's number and the row only."""
        seed, rows, joined, real = self.config.seed, list(numbers), list[JoinedRows](), list[list[bool]]()
        joins = self._join == "always" or (self._join == "alternate" and step // self.config.batch.accumulate % 2 == 0)
        count = self._captions if joins or self._join == "none" else 0
        if self._counterparts != "none":
            for number in numbers:
                rows += draw_choices(self.rows.counterparts[number], 1, seed, step, number)
        fields: dict[str, list[Any]] = {"texts": [], "negative_texts": [], "positive_texts": [], "units": []}
        for place, number in enumerate(rows):
            row = self.rows.rows[number]
            caption, false = row.caption, list[str]()
            if joins:
                joined.append(pair := draw_joined(self.rows, number, self._positives, seed, step))
                caption, *positives = pair.captions
                fields["positive_texts"].append(positives)
                false += [pair.false] if pair.false else []
            elif count:
                false += draw_choices(row.negatives, count, seed, step, number)
            fields["texts"].append(caption)
            if count:  # the true caption fills the place of a missing false one; the mask leaves it out
                missing = count - len(false)
                fields["negative_texts"].append([*false, *[caption] * missing])
                real.append([True] * len(false) + [False] * missing)
            if self._units and (place < len(numbers) or self._counterparts != "mate"):  # a mate is no pair of a batch
                fields["units"].append(draw_units(row, self._units, seed, step, number))
        texts, every_text = dict[str, NDArray[np.object_]](), list[str]()
        for name in filter(fields.get, fields):  # the fields that have texts
            texts[name] = np.array(fields[name], dtype=object)
            every_text += texts[name].ravel().tolist()
        return Drawn(rows, len(numbers), texts, every_text, real or None, joined)

    def backward(self, drawn: Drawn, images: Sequence[Inputs], step: int) -> LossParts:
        """Take the loss of drawn rows, in pieces if `batch.micro` asks for it, and add its gradients."""
        whole, count = (images, drawn.every_text), -(-len(images) // (self.config.batch.micro or len(images)))
        encoded = self._encode_piece(whole, step, 0) if count == 1 else self._encode_pieces(whole, count, step)
        parts = sum_terms(self._terms, [self._make_batch(drawn, encoded, step)] * len(self._terms))
        # Ranks wait for the gradient of every weight: a scale or a bias that no loss reads gets one of 0.
        parts["total"] = parts["total"] + 0 * (encoded["scale"] + encoded.get("bias", 0))
        self.accelerator.backward(parts["total"])
        return {name: part.detach() for name, part in parts.items()}

    def _encode_pieces(self, whole: _Piece, count: int, step: int) -> dict[str, Tensor]:
        """Encode `count` pieces and keep no activations: the backward pass encodes them again, for gradients."""
        (images, texts), pieces = whole, list[_Piece]()
        for k in range(count):  # of nearly equal sizes
            image_part, text_part = (slice(k * n // count, (k + 1) * n // count) for n in (len(images), len(texts)))
            pieces.append((images[image_part], texts[text_part]))
        alone, passes = partial(self.accelerator.no_sync, self.module), list[dict[str, Tensor]]()
        # Pieces are encoded from the last to piece 0, so the backward pass adds up gradients from piece 0 on. All but
        # piece 0 run without an exchange between ranks: gradients of all pieces are exchanged once.
        for number in reversed(range(len(pieces))):
            contexts = alone() if number else nullcontext(), alone()
            options = {"preserve_rng_state": False, "context_fn": lambda contexts=contexts: contexts}
            passes.insert(0, recompute(self._encode_piece, pieces[number], step, number, **options))
        # Scale and bias are the last piece's: it is encoded again last, and no gradient is complete before.
        return passes[-1] | {side: torch.cat([encoded[side] for encoded in passes]) for side in ("images", "texts")}

    def _encode_piece(self, piece: _Piece, step: int, number: int) -> dict[str, Tensor]:
        prepared, texts = piece
        device = self.accelerator.device
        inputs = torch.utils.data.default_collate([*prepared]), self.trainable.tokens(texts)
        images, tokens = self._send(inputs)
        self._seed_dropout(step, number)  # so that the second pass drops what the first one dropped
        with torch.autocast(device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
            return cast("dict[str, Tensor]", self.module(images, tokens))

    def _make_batch(self, drawn: Drawn, encoded: dict[str, Tensor], step: int) -> Batch:
        device = encoded["images"].device
        ids = torch.from_numpy(self.rows.image_ids[drawn.rows]).to(device)
        if drawn.joined:  # an id for two rows in either order: smaller number * rows + larger number
            others = torch.from_numpy(self.rows.image_ids[[row.second for row in drawn.joined]]).to(device)
            ids = torch.minimum(ids, others) * len(self.rows) + torch.maximum(ids, others)

        fields: dict[str, Any] = {"images": encoded["images"], "image_ids": ids}
        sizes = [*map(np.size, drawn.texts.values())]
        for (name, texts), vectors in zip(drawn.texts.items(), encoded["texts"].split(sizes), strict=True):
            fields[name] = vectors.reshape(*texts.shape, vectors.shape[1])
        if self._text_ids is not None:
            text_ids = torch.tensor(self._text_ids(drawn.every_text), device=device).split(sizes)
            for (name, texts), numbers in zip(drawn.texts.items(), text_ids, strict=True):
                fields[f"{name.removesuffix('s')}_ids"] = numbers.reshape(texts.shape)
        if "patches" in encoded:
            fields["patches"] = encoded["patches"]
            b, f = len(drawn.rows), len(drawn.real[0]) if drawn.real is not None else 0  # rows, false texts of each
            for name in ("words", "real_words"):  # the rows' true texts come first, then all false ones
                true, false = encoded[name][:b, None], encoded[name][b : b + b * f]
                fields[name] = torch.cat([true, false.reshape(b, f, *true.shape[2:])], dim=1)
        if drawn.real is not None:
            fields["has_negative"] = torch.tensor(drawn.real, dtype=torch.bool, device=device)
        shared: dict[str, Any] = {"scale": encoded["scale"], "chunk": self.config.batch.chunk, "step": step}
        if self._counterparts == "mate":
            of_pair = fields.keys() & {"images", "texts", "image_ids", "text_ids"}
            mates = Batch(**{name: fields[name][drawn.own :] for name in of_pair}, **shared)
            fields = {name: tensor[: drawn.own] for name, tensor in fields.items()} | {"mates": mates}
        return Batch(bias=encoded.get("bias"), **fields, **shared)


def matching_settings(config: TrainConfig, rows: TrainingRows) -> MatchingConfig:
    """Return `[matching]` with the number of negatives filled in: the loss's default if the configuration has none."""
    name, matching = config.loss["name"], config.matching or MatchingConfig()
    losses, part, data = [term.loss for term in config.loss_terms()], config.batch.part, config.data
    count = matching.negatives or max(loss.negatives for loss in losses if isinstance(loss, FusionLoss))
    if data.negative_captions or data.positive_captions or {data.negative_images, data.join} - {None, "none"}:
        raise DataError(
            f"loss {name!r} takes pairs of an image and its caption: leave out data.negative_captions, .negative_images"
            ', .join and .positive_captions, and set [matching] source = "rows" to take the hard counterparts of rows'
        )
    if config.batch.chunk is not None:
        raise DataError(f"batch.chunk: loss {name!r} has no matrix of similarities to cut; set batch.micro instead")
    if matching.source == "batch" and count >= part:
        raise DataError(
            f"matching.negatives: {count} a pair, and {part - 1} others in {part} pairs; raise batch.size, lower "
            'batch.accumulate or matching.negatives, or set matching.source = "rows"'
        )
    for number, row in enumerate(rows.rows if matching.source == "rows" else ()):
        if (hard := len(rows.counterparts[number])) < count:
            place = f"row {number} ({row.image.name}: {quote(row.caption)})"
            raise DataError(
                f"matching.negatives: {count} a pair, and {place} has {hard} hard counterparts of other pictures; "
                "mine more (`tellapart mine`), or lower matching.negatives"
            )
    return matching.model_copy(update={"negatives": count})


class FusionStep(TrainingStep):
    """Training steps of a fusion encoder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._matching = matching_settings(self.config, self.rows)
        self._count = self._matching.negatives or 1
        towers = self.trainable.module.scale is not None
        losses = [term.loss for term in self._terms if isinstance(term.loss, FusionLoss)]
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
            lack = "needs matching.contrast and a model with unimodal towers"
            raise ModelError(f"loss.also.{contrasts[0]}: {lack}; leave it out")
        if self._matching.hardest and not towers:
            remedy = 'leave it out, or set matching.source = "rows"'
            raise ModelError(f"matching.hardest: the model has no unimodal towers; {remedy}")

    def draw(self, numbers: Sequence[int], step: int) -> Drawn:
        """Return this rank's inputs of a step: its batch rows, and their mined negatives if there are any."""
        if self._matching.source == "batch":
            return Drawn(list(numbers), len(numbers))
        seed, count, close = self.config.seed, self._count, self._matching.close
        pools = [self.rows.counterparts[number] for number in numbers]
        drawn = [draw_choices(range(len(pools[k])), count, seed, step, number) for k, number in enumerate(numbers)]
        mined = [[pool[k] for k in choices] for pool, choices in zip(pools, drawn, strict=True)]
        rows = list(dict.fromkeys([*numbers, *chain.from_iterable(mined)]))
        position = {number: k for k, number in enumerate(rows)}
        negatives = [[position[number] for number in others] for others in mined]
        are_close = None if close is None else [[k < close for k in choices] for choices in drawn]
        return Drawn(rows, len(numbers), negatives=negatives, close=are_close)

    def _find_true(self, rows: list[int], negatives: list[list[int]]) -> tuple[list[list[bool]], list[list[bool]]]:
        """Return `(b, m)` which mined texts are true of the row's image, and of which mined images its text is true."""
        if self._text_ids is None:
            none = [[False] * len(others) for others in negatives]
            return none, none
        images, texts = self.rows.image_ids[rows].tolist(), self._text_ids(self.rows.captions(rows))
        of_image = {image: set(self._text_ids(self.rows.captions(self._rows_of[image]))) for image in set(images)}
        return (
            [[texts[other] in of_image[images[row]] for other in others] for row, others in enumerate(negatives)],
            [[texts[row] in of_image[images[other]] for other in others] for row, others in enumerate(negatives)],
        )

    def backward(self, drawn: Drawn, images: Sequence[Inputs], step: int) -> LossParts:
        """Take the loss of drawn pairs and their negatives, and add its gradients."""
        device = self.accelerator.device
        tokens = self.trainable.tokens(self.rows.captions(drawn.rows))
        inputs, tokens = self._send(([*images], tokens))
        self._seed_dropout(step)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
            joined = self.module(lambda fusion: self._join_pairs(fusion, drawn, inputs, tokens, step))
        names: Any = self.trainable.module.heads
        batch, heads = joined["batch"], dict(zip(names, joined["matches"], strict=True))
        inputs = [
            heads[term.reading or names[0]] if isinstance(term.loss, FusionLoss) else batch for term in self._terms
        ]
        parts = sum_terms(self._terms, inputs)
        if self._itc:
            parts["itc"] = itc(batch)["total"]
            parts["total"] = parts["total"] + parts["itc"]
        self.accelerator.backward(parts["total"])
        return {name: part.detach() for name, part in parts.items()}

    def _join_pairs(
        self, fusion: Any, drawn: Drawn, inputs: Sequence[Inputs], tokens: Inputs, step: int
    ) -> dict[str, Any]:
        """Encode, choose negatives and join, in one forward call of the module: DDP allows one a step."""
        count, device = drawn.own, self.accelerator.device
        images, texts = fusion.images(inputs), fusion.texts(tokens)
        ids = torch.from_numpy(self.rows.image_ids[drawn.rows]).to(device)
        batch = None
        if self._contrast or drawn.negatives is None:
            image, text = fusion.vectors(*(tuple(tensor[:count] for tensor in side) for side in (images, texts)))
            scale = torch.as_tensor(fusion.scale or 1.0, device=device)
            numbers = None if self._text_ids is None else self._text_ids(self.rows.captions(drawn.rows[:count]))
            text_ids = None if numbers is None else torch.tensor(numbers, device=device)
            batch = Batch(image, text, scale, ids[:count], step=step, text_ids=text_ids)
        if drawn.negatives is None:
            assert batch is not None  # noqa: S101  (for the type checker)
            hardest, shared = self._matching.hardest, self._counterparts
            pairs = hard_negatives(batch, self._count, shared=shared, hardest=hardest)
            images, texts, every_id = _gather_states(images), _gather_states(texts), gather(ids)
            wrong = [every_id[side.clamp(min=0)].masked_fill(side < 0, -1) for side in pairs]
            start = rank_and_count()[0] * count
        else:  # a negative that is true of the row gets the row's image id, by which losses leave it out
            positions, start = torch.tensor(drawn.negatives, device=device), 0
            pairs, true = NegativePairs(positions, positions), self._find_true(drawn.rows, drawn.negatives)
            wrong = [torch.where(torch.tensor(side, device=device), ids[:count, None], ids[positions]) for side in true]

        def join(*sides: Tensor) -> Tensor:
            """Join the images at some positions with the texts at others."""
            states = zip((images, texts), sides, strict=True)
            return cast("Tensor", fusion.join(*(tuple(t[numbers] for t in side) for side, numbers in states)))

        matches = self._make_matches(join, pairs, (ids[:count], wrong[0], wrong[1]), start, drawn)
        return {"matches": matches, "batch": batch if self._contrast else None}

    def _make_matches(
        self, join: Callable[..., Tensor], pairs: NegativePairs, ids: tuple[Any, Any, Any], start: int, drawn: Drawn
    ) -> list[Matches]:
        """Join the true pairs from `start` on, their negatives, and mined pairs from outside the batch, in one call."""
        device, (b, m), mined = pairs.texts.device, pairs.texts.shape, drawn.negatives is not None
        true_rows = torch.arange(start, start + b, device=device)
        repeated = true_rows.repeat_interleave(m)
        wrong_texts, wrong_images = (side.clamp(min=0).flatten() for side in pairs)
        # A call is the positions of images and of texts to join; the last call gives EqSim's fourth similarity.
        calls = [(true_rows, true_rows), (repeated, wrong_texts)]
        calls += [(wrong_images, repeated)] if self._wrong_images else []
        calls += [(torch.arange(b, len(drawn.rows), device=device),) * 2] if mined and self._counterparts else []
        every: Any = [torch.cat(side) for side in zip(*calls, strict=True)]
        if (micro := self.config.batch.micro) is None:
            logits = join(*every)
        else:  # `micro` pairs at a time
            pieces = zip(*(torch.split(side, micro) for side in every), strict=True)
            logits = torch.cat([recompute(join, *piece) for piece in pieces])
        close = None if drawn.close is None else torch.tensor(drawn.close, device=device)
        sizes, heads = [len(side) for side, _ in calls], []
        for head_logits in logits.unbind(1):
            true, crossed, *rest = torch.split(head_logits, sizes)
            wrong = (rest[0] if self._wrong_images else crossed).reshape(b, m)
            fourth = None
            if self._counterparts:
                fourth = torch.cat([true, rest[-1]])[pairs.texts] if mined else gather(true)[pairs.texts.clamp(min=0)]
            heads.append(Matches(true, crossed.reshape(b, m), wrong, fourth, *ids, close=close))
        return heads


def _gather_states(states: Tensors) -> Tensors:
    """Return every rank's states `(n, length, ...)`, padded to the largest length of all ranks."""
    if rank_and_count()[1] == 1:
        return states
    length = torch.tensor([states[0].shape[1]], device=states[0].device)
    torch.distributed.all_reduce(length, op=torch.distributed.ReduceOp.MAX)
    padded = (pad_tokens(tensor, int(length)) for tensor in states)
    # Not every backend of torch.distributed can send bool tensors.
    return tuple(gather(state.byte()).bool() if state.dtype == torch.bool else gather(state) for state in padded)


def make_step(config: TrainConfig, *parts: Any) -> DualStep | FusionStep:
    """Return steps of the kind that the configuration's loss takes, with the other fields of `TrainingStep`."""
    return (FusionStep if isinstance(config.loss_terms()[0].loss, FusionLoss) else DualStep)(config, *parts)
