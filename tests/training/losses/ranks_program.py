"""Runs every loss on this rank's share of one batch, behind a linear encoder: `ranks_program.py OUT`.

Rank 0 writes the parts and the parameters' gradients as DDP would have them: averaged over ranks.
"""

import os
import sys
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from made_batches import IDS, TEXT_IDS, batch, of_the_catalogue
from torch import Tensor

from tellapart.errors import ModelError
from tellapart.training.losses.contrast import itc
from tellapart.training.losses.eqsim import VARIANTS, eqsim, eqsim_itm
from tellapart.training.losses.loss import Batch, DualLoss, FusionLoss, LossParts, Matches, gather, hard_negatives

DUAL = of_the_catalogue(DualLoss) | {
    "released": partial(eqsim, alpha=0.001, k=4, as_released=True),
    **{f"eqsim {variant}": partial(eqsim, alpha=0.01, k=2, variant=variant) for variant in VARIANTS},
    "block": partial(eqsim, alpha=0.01, k=2, normalise="block"),
    "none": partial(eqsim, alpha=0.001, k=2, normalise="none"),
}
FUSION = of_the_catalogue(FusionLoss) | {"eqsim-itm-released": partial(eqsim_itm, alpha=0.001, as_released=True)}
ENCODED = ("images", "texts", "negative_texts", "positive_texts", "units", "patches", "words")


def share(tensor: Tensor, rank: int, size: int) -> Tensor:
    return tensor.chunk(size)[rank]


def shared_batch(rank: int, size: int, chunk: int | None, alike: bool) -> Batch:
    whole = batch(2, chunk=chunk, step=5, alike=alike)
    mates = whole.mates
    names = ("images", "texts", "image_ids", *(["text_ids"] if alike else []))
    mates = replace(mates, **{n: share(getattr(mates, n), rank, size) for n in names})
    names = (*ENCODED, "image_ids", "has_negative", "real_words", *(TEXT_IDS if alike else ()))
    return replace(whole, mates=mates, **{n: share(getattr(whole, n), rank, size) for n in names})


def encoded(made: Batch, weights: Tensor, scale: Tensor) -> Batch:
    mates = replace(made.mates, images=made.mates.images @ weights, texts=made.mates.texts @ weights)
    return replace(made, mates=mates, scale=scale.exp(), **{n: getattr(made, n) @ weights for n in ENCODED})


def fusion_matches(made: Batch, weights: Tensor, rank: int, size: int) -> Matches:
    """Logits of a bilinear matching head, crossed with shared negatives from all ranks."""
    negatives, whole = hard_negatives(made, 2, shared=True).texts, batch(2)
    at, true = negatives.clamp(min=0), 3 * ((made.images @ weights) * made.texts).sum(1)
    return Matches(
        true=true,
        wrong_texts=3 * torch.einsum("bd,bmd->bm", made.images @ weights, whole.texts[at]),
        wrong_images=3 * torch.einsum("bmd,bd->bm", whole.images[at] @ weights, made.texts),
        counterparts=gather(true)[negatives.clamp(min=0)],
        image_ids=made.image_ids,
        negative_text_ids=torch.where(negatives < 0, -1, whole.image_ids[at]),
        negative_image_ids=torch.where(negatives < 0, -1, whole.image_ids[at]),
    )


def record(parts: LossParts, learned: list[Tensor], size: int) -> dict[str, Tensor]:
    gradients = torch.autograd.grad(parts["total"], learned, allow_unused=True, materialize_grads=True)
    if size > 1:
        for gradient in gradients:
            dist.all_reduce(gradient)
    averaged = {f"gradient {k}": gradient / size for k, gradient in enumerate(gradients)}
    return {name: part.detach() for name, part in parts.items()} | averaged


def unequal_ranks_are_refused(rank: int) -> bool:
    made = batch(ids=list(range(2 + rank)))
    try:
        itc(replace(made, mates=None))
    except ModelError as error:
        return "ranks hold [2, 3] pairs" in str(error)
    return False


def main(out: Path) -> None:
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if size > 1:
        store = dist.FileStore(f"{out}.store", size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(minutes=5))
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(5, 5, dtype=torch.float64, generator=generator) / 2
    scale, found = torch.tensor(1.5, dtype=torch.float64), {}
    for chunk, alike in ((None, False), (2, False), (None, True), (2, True)):
        for name, loss in DUAL.items():
            learned = [weights.clone().requires_grad_(), scale.clone().requires_grad_()]
            made = encoded(shared_batch(rank, size, chunk, alike), *learned)
            found[f"{name} {chunk}{' alike' * alike}"] = record(loss(made), learned, size)
    for name, loss in FUSION.items():
        for alike in (False, True):
            learned = [weights.clone().requires_grad_()]
            made = fusion_matches(shared_batch(rank, size, None, alike), learned[0], rank, size)
            found[name + " alike" * alike] = record(loss(made), learned, size)
    if size > 1:
        found["refused"] = {"itc": torch.tensor(unequal_ranks_are_refused(rank))}
        assert len(IDS) % size == 0
    torch.save(found, f"{out}.{rank}")
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
