"""Heads of dense layers that METER's and FIBER's files have under the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.models.torch.backend import import_torch
from tellapart_native.family import Layout
from tellapart_native.module import build_head

if TYPE_CHECKING:
    from tellapart.models.torch.network import Network

nn = import_torch().nn

__all__ = ["add_classifiers", "add_linear", "add_rank_output"]


def add_linear(module: Network, layout: Layout, *names: str) -> None:
    """Give a module the named linear layers, as far as the file has them."""
    for name in names:
        if f"{name}.weight" in layout:
            parent, _, leaf = name.rpartition(".")
            owner = module.get_submodule(parent)
            setattr(owner, leaf, nn.Linear(*reversed(layout.shape_of(f"{name}.weight"))))


def add_classifiers(module: Network, layout: Layout) -> None:
    """Give a module the heads of VQA and NLVR2, as far as the file has them."""
    for name in ("vqa_classifier", "nlvr2_classifier"):
        if layout.has_prefix(f"{name}."):
            setattr(module, name, build_head(layout, name))


def add_rank_output(module: Network, reading: str) -> None:
    """Add the head of retrieval, if that is read and the file lacks it: it begins as the matching head's class 1."""
    if reading == "rank" and not hasattr(module, "rank_output") and hasattr(module.itm_score, "fc"):
        matching = module.itm_score.fc
        module.rank_output = nn.Linear(matching.in_features, 1, device=matching.weight.device)
        for part in ("weight", "bias"):
            getattr(module.rank_output, part).data.copy_(getattr(matching, part)[1:])
