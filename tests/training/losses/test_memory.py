"""Chunks bound what is held: no tensor, forwards or backwards, is larger than a chunk of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from made_batches import batch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tellapart.training.losses.batch import Batch, LossParts
from tellapart.training.losses.captions import ce_clip, cs_clip, fsc_global, negbench, negclip
from tellapart.training.losses.contrast import cyclip, hardneg, itc, siglip, tripletclip, trohn_img
from tellapart.training.losses.eqsim import eqsim
from tellapart.training.losses.matching import hard_negatives


class Largest(TorchDispatchMode):
    """Remembers the number of elements of the largest tensor that any operation made."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor):
                self.elements = max(self.elements, leaf.untyped_storage().nbytes() // leaf.element_size())
        return made


N, CHUNK = 96, 4

LOSSES: dict[str, Callable[[Batch], LossParts]] = {
    "itc": itc,
    "siglip": siglip,
    "negclip": negclip,
    "trohn-img": trohn_img,
    "tripletclip": tripletclip,
    "ce-clip": ce_clip,
    "cs-clip": cs_clip,
    "fsc-global": fsc_global,
    "negbench": negbench,
    "hardneg": hardneg,
    "cyclip": cyclip,
    "eqsim": eqsim,
    "eqsim-block": lambda made: eqsim(made, normalise="block"),
    "eqsim-released": lambda made: eqsim(made, as_released=True),
}


def used(loss: Callable[[Batch], LossParts], chunk: int | None, alike: bool) -> tuple[int, int]:
    """Elements of the largest tensor, and of all that is saved between the forward and the backward pass."""
    made = batch(ids=list(range(N)), chunk=chunk, alike=alike)
    learned = [made.images, made.texts, made.negative_texts, made.mates.images, made.mates.texts]
    for tensor in learned:
        tensor.requires_grad_()
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with Largest() as largest:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            total = loss(made)["total"]
        total.backward()
    assert made.images.grad is not None
    return largest.elements, sum(saved.values())


@pytest.mark.few(2)
@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_no_tensor_is_larger_than_a_chunk_of_rows(name: str, alike: bool) -> None:
    # Columns: the pairs; with false captions two more each; with mates twice the pairs and as many rows.
    columns = {
        "negclip": 2 * N + 1,
        "ce-clip": 2 * N + 1,
        "cs-clip": 2 * N + 1,
        "trohn-img": 2 * N,
        "tripletclip": 2 * N,
    }.get(name, N + 1)
    kept = 8 * N * 20  # a few values a row: inputs of 5 dimensions, normalisers, neighbours
    largest, saved = used(LOSSES[name], CHUNK, alike)
    # Or the two units of each pair and their foils, or the ids of each image with its true texts, of both sides.
    assert largest <= max(CHUNK * columns, 4 * N * 5, 2 * 11 * N * alike)
    assert saved <= kept
    whole_largest, whole_saved = used(LOSSES[name], None, alike)
    assert whole_largest >= N * N
    assert whole_saved >= 2 * N * N > 2 * largest


def test_hard_negatives_are_found_in_chunks_too() -> None:
    made = batch(ids=list(range(N)), chunk=CHUNK)
    with Largest() as largest:
        hard_negatives(made, 2)
    assert largest.elements <= max(CHUNK * N, 2 * N * 5)
