"""The configuration of a family's module, and small parts that several families share."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from tellapart.models.torch.network import Network
from tellapart_native.family import Layout

#: Untyped: parts of a module have the names of a file, which torch's types do not know.
nn: Any = torch.nn


class NativeConfig:
    """The facts that a module is built from; the weights are in its file.

    Attributes:
        model_type: name of the family.
        vocab_size: words that the embeddings know.
        context: tokens of a text, as the authors' code cuts them.
        image_size: side of the square that the image tower reads, in pixels; None if there is none.
        region_width: numbers of a region's features; None if pixels are read.
        depths: pattern of layers -> their number, if no published size and no setting has it.
    """

    def __init__(
        self,
        model_type: str,
        *,
        vocab_size: int,
        context: int,
        layout: Layout,
        image_size: int | None = None,
        region_width: int | None = None,
    ) -> None:
        self.model_type, self.vocab_size, self.context = model_type, vocab_size, context
        self.image_size, self.region_width = image_size, region_width
        self._settings = {**layout.settings, **layout.heads_found}
        self.depths = dict(layout.unpublished)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of `config.json`: the module is built from them and the tensors' shapes alone."""
        facts = {"model_type": self.model_type, "context": self.context, "image_size": self.image_size}
        facts["depths"] = self.depths or None
        return {**self._settings, **{name: value for name, value in facts.items() if value is not None}}

    def __str__(self) -> str:
        """Return the facts that identify a model beyond its tensors; the tensors' names have the depths."""
        facts = {name: value for name, value in self.to_dict().items() if name != "depths"}
        return json.dumps(facts, sort_keys=True, default=str)


def unit_vectors(vectors: Tensor) -> Tensor:
    """Scale vectors `(n, d)` to length 1."""
    return nn.functional.normalize(vectors, dim=-1)


def build_linear(layout: Layout, name: str, width: int, *, bias: bool = True) -> Network:
    """Build a dense layer that reads states of a width; the width of its output is that in the file."""
    return nn.Linear(width, layout.shape_of(f"{name}.weight")[0], bias=bias)


def build_head(layout: Layout, name: str, width: int) -> Network:
    """Build a head of two dense layers with a norm and GELU between them: X-VLM's, METER's and FIBER's."""
    first = build_linear(layout, f"{name}.0", width)
    inner = first.out_features
    return nn.Sequential(first, nn.LayerNorm(inner), nn.GELU(), build_linear(layout, f"{name}.3", inner))


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
