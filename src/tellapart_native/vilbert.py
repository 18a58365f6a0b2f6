"""ViLBERT and 12-in-1 (Lu et al. 2019, 2020): a stream of words and one of regions, joined by co-attention layers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart_native.layers.bert import AddAndNormalise, BertEmbeddings, BertEncoder, attend_heads, build_layers
from tellapart_native.module import NativeConfig, nn

#: Tokens of a caption in the authors' retrieval code.
_CONTEXT = 30

#: Width of one head in the stream of regions and in the co-attention, as published.
_VISUAL_HEAD = 128

#: Tasks of 12-in-1 that rank captions, by their rows in `task_embeddings`.
_TASKS = {"coco": 7, "flickr30k": 8}
_ROWS = 20


class CoAttention(nn.Module):
    """Words read regions while regions read words; then a feed-forward part for each."""

    def __init__(self, layout: Layout, prefix: str, heads: int, widths: Mapping[str, int], out: int) -> None:
        super().__init__()
        self.heads = heads
        self.biattention, self.biOutput = nn.Module(), nn.Module()
        for stream, width in widths.items():  # 1 are the regions, 2 the words
            for part in ("query", "key", "value"):
                setattr(self.biattention, f"{part}{stream}", nn.Linear(width, out))
            setattr(self.biOutput, f"dense{stream}", nn.Linear(out, width))
            setattr(self.biOutput, f"LayerNorm{stream}", nn.LayerNorm(width, eps=1e-12))
            name = "v" if stream == "1" else "t"
            inner = layout.shape_of(f"{prefix}.{name}_intermediate.dense.weight")[0]
            intermediate = nn.Module()
            intermediate.dense = nn.Linear(width, inner)
            setattr(self, f"{name}_intermediate", intermediate)
            setattr(self, f"{name}_output", AddAndNormalise(inner, width, 1e-12))

    def forward(self, regions: Tensor, region_mask: Tensor, words: Tensor, word_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Take both streams one layer up; each reads the other's old state."""
        part, out = self.biattention, self.biOutput
        of_words = attend_heads(part.query1(regions), part.key2(words), part.value2(words), word_mask, self.heads)
        of_regions = attend_heads(part.query2(words), part.key1(regions), part.value1(regions), region_mask, self.heads)
        regions = out.LayerNorm1(out.dense1(of_words) + regions)
        words = out.LayerNorm2(out.dense2(of_regions) + words)
        gelu = nn.functional.gelu
        return (
            self.v_output(gelu(self.v_intermediate.dense(regions)), regions),
            self.t_output(gelu(self.t_intermediate.dense(words)), words),
        )


class RegionEmbeddings(nn.Module):
    """A region's features and place, projected, added and normalised."""

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__()
        width, features = layout.shape_of(f"{prefix}.image_embeddings.weight")
        self.image_embeddings, self.image_location_embeddings = nn.Linear(features, width), nn.Linear(5, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, features: Tensor, boxes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Embed `(batch, regions, features)`: `(batch, 1 + regions, width)`, and the mask.

        The first row stands for all of the image: the mean of its regions, in a box that covers everything.
        """
        real = mask[..., None].to(features.dtype)
        mean = (features * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True)
        left, top, right, bottom = boxes.unbind(-1)
        places = torch.cat([boxes, ((right - left) * (bottom - top))[..., None]], dim=-1)
        picture = places.new_tensor([0, 0, 1, 1, 1]).expand(len(places), 1, 5)
        features, places = torch.cat([mean, features], dim=1), torch.cat([picture, places], dim=1)
        states = self.image_embeddings(features) + self.image_location_embeddings(places)
        return self.LayerNorm(states), torch.cat([mask.new_ones((len(mask), 1)), mask], dim=1)


class Vilbert(NativeHalves):
    """Embedded regions, and the words' state below the first co-attention; the rest joins them.

    **Class 0 of the pre-trained head is the match**, as in BERT's next-sentence prediction.
    """

    head = "cls.bi_seq_relationship"
    match: int | None = 0

    #: Row of the task's token, which multi-task files put behind the first word; None for other files.
    task: int | None = None

    def images(self, features: Tensor, boxes: Tensor, mask: Tensor) -> Tensors:
        """Embed `(batch, regions, features)`: `(batch, 1 + regions, width)`, and the mask."""
        states, mask = self.module.bert.v_embeddings(features, boxes, mask)
        for layer in self.module.bert.encoder.v_layer[: self.module.first_visual]:
            states = layer(states, mask)
        return states, mask

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Run the word layers below the first co-attention: `(batch, tokens, width)`, and the mask."""
        body = self.module.bert
        states = body.embeddings.add_positions(ids)
        if self.task is not None:  # it has no position
            task = body.embeddings.task_embeddings.weight[self.task].expand(len(states), 1, -1)
            states = torch.cat([states[:, :1], task, states[:, 1:]], dim=1)
            mask = torch.cat([mask.new_ones((len(mask), 1)), mask], dim=1)
        states = body.embeddings.LayerNorm(states)
        for layer in body.encoder.layer[: self.module.first_textual]:
            states = layer(states, mask)
        return states, mask

    def pool_states(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run co-attention and the layers between, and multiply the pooled first states: `(batch, width)`."""
        (regions, region_mask), (words, word_mask) = images, texts
        encoder, textual, visual = self.module.bert.encoder, self.module.first_textual, self.module.first_visual
        for k, joint in enumerate(encoder.c_layer):
            regions, words = joint(regions, region_mask, words, word_mask)
            regions = encoder.v_layer[visual + k](regions, region_mask)
            words = encoder.layer[textual + k](words, word_mask)
        body = self.module.bert
        return body.t_pooler.dense(words[:, 0]).relu() * body.v_pooler.dense(regions[:, 0]).relu()


class VilbertTask(Vilbert):
    """12-in-1 asked to rank captions: a task's token, and `vil_logit`, one logit."""

    head, match = "vil_logit", None

    def __init__(self, module: Network, *, task: str) -> None:
        super().__init__(module)
        self.task = _TASKS[task]

    @property
    def facts(self) -> str:
        """The configuration and the task."""
        return f"{super().facts} task {self.task}"


def _build_vilbert(layout: Layout) -> Network:
    module, body = nn.Module(), nn.Module()
    body.embeddings = BertEmbeddings(layout, "bert.embeddings")
    if layout.has_prefix("vil_logit.") or layout.has_prefix("bert.embeddings.task_embeddings."):
        body.embeddings.task_embeddings = nn.Embedding(_ROWS, body.embeddings.word_embeddings.embedding_dim)
    body.v_embeddings = RegionEmbeddings(layout, "bert.v_embeddings")
    visual_width, region_width = layout.shape_of("bert.v_embeddings.image_embeddings.weight")
    joint_width, width = layout.shape_of("bert.t_pooler.dense.weight")
    words = build_layers(layout, "bert.encoder.layer")
    visual_heads = layout.count_heads(visual_width, "v_num_attention_heads", each=_VISUAL_HEAD)
    regions = build_layers(layout, "bert.encoder.v_layer", visual_heads)
    joint_heads = layout.count_heads(joint_width, "bi_num_attention_heads", each=_VISUAL_HEAD)
    depth = layout.count_parts("bert.encoder.c_layer.{}.")
    body.encoder = BertEncoder(words)
    body.encoder.v_layer = nn.ModuleList(regions)
    joint = partial(CoAttention, heads=joint_heads, widths={"1": visual_width, "2": width}, out=joint_width)
    body.encoder.c_layer = nn.ModuleList(joint(layout, f"bert.encoder.c_layer.{k}") for k in range(depth))
    module.first_textual, module.first_visual = len(words) - depth, len(regions) - depth
    for name, source in (("t_pooler", width), ("v_pooler", visual_width)):
        pooler = nn.Module()
        pooler.dense = nn.Linear(source, joint_width)
        setattr(body, name, pooler)
    module.bert = body
    if layout.has_prefix("cls.bi_seq_relationship."):
        module.cls = nn.Module()
        module.cls.bi_seq_relationship = nn.Linear(joint_width, 2)
    if layout.has_prefix("vil_logit."):
        module.vil_logit = nn.Linear(joint_width, 1)
    module.config = NativeConfig(
        "vilbert",
        vocab_size=body.embeddings.word_embeddings.num_embeddings,
        context=_CONTEXT,
        region_width=region_width,
        layout=layout,
    )
    return module


FAMILY = NativeFamily(
    name="vilbert",
    title="ViLBERT",
    build=_build_vilbert,
    readings={
        "rank": Reading(partial(VilbertTask, task="coco"), "itm", "vil_logit.weight"),
        "rank_f30k": Reading(partial(VilbertTask, task="flickr30k"), "itm", "vil_logit.weight"),
        "itm": Reading(Vilbert, "itm", "cls.bi_seq_relationship.weight"),
        "itm_logit": Reading(Vilbert, "itm_logit", "cls.bi_seq_relationship.weight"),
    },
    vocabulary="bert-base-uncased",
)
