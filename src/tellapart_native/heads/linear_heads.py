"""Heads of dense layers that METER's and FIBER's files have under the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.models.torch.backend import import_torch
from tellapart_native.family import Layout
from tellapart_native.module import build_head, build_linear

if TYPE_CHECKING:
    from tellapart.models.torch.network import Network

nn = import_torch().nn


def add_linear(module: Network, layout: Layout, width: int, *names: str) -> None:
    """Give a module the named linear layers on states of a width, as far as the file has them."""
    for name in names:
        if layout.has_prefix(f"{name}."):
            parent, _, leaf = name.rpartition(".")
            setattr(module.get_submodule(parent), leaf, build_linear(layout, name, width))


def add_classifiers(module: Network, layout: Layout, width: int) -> None:
    """Give a module the heads of matching, retrieval, VQA and NLVR2 on pooled states, as far as the file has them."""
    module.itm_score = nn.Module()
    add_linear(module, layout, width, "itm_score.fc", "rank_output")
    for name, images in (("vqa_classifier", 1), ("nlvr2_classifier", 2)):
        if layout.has_prefix(f"{name}."):
            setattr(module, name, build_head(layout, name, images * width))


def add_rank_output(module: Network, reading: str) -> None:
    """Add the head of retrieval, if that is read and the file lacks it: it begins as the matching head's class 1."""
    if reading == "rank" and not hasattr(module, "rank_output") and hasattr(module.itm_score, "fc"):
        matching = module.itm_score.fc
        module.rank_output = nn.Linear(matching.in_features, 1, device=matching.weight.device)
        for part in ("weight", "bias"):
            getattr(module.rank_output, part).data.copy_(getattr(matching, part)[1:])
