"""ALBEF (Li et al. 2021, "Align before Fuse"): a ViT, the lower half of BERT, and its upper half over both."""

from __future__ import annotations

from typing import Any

from tellapart.models.fusion.family import Tensors
from tellapart.models.native.answers import AnswerDecoder, DecodesAnswers
from tellapart.models.native.bert import BertEmbeddings, BertEncoder, BertLayer
from tellapart.models.native.captions import clean_like_albef
from tellapart.models.native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart.models.native.grad_cam import GradCam
from tellapart.models.native.images import CLIP_COLOURS, square
from tellapart.models.native.module import NativeConfig, unit
from tellapart.models.native.positions import resize_grid
from tellapart.models.native.two_images import AlternatingImages, share_sources
from tellapart.models.native.vit import build_vit
from tellapart.models.torch.backend import import_torch

torch = import_torch()
nn = torch.nn

__all__ = ["ALBEF", "Albef", "AlbefText", "add_task_heads", "build_text", "rename_text"]

#: Tokens of a caption in the authors' retrieval code.
_CONTEXT = 30


class AlbefText(nn.Module):  # type: ignore[misc, name-defined]
    """BERT whose upper layers, from `fusion` on, also read the image."""

    def __init__(self, embeddings: Any, layers: Any, fusion: int) -> None:
        super().__init__()
        self.embeddings, self.encoder, self.fusion = embeddings, BertEncoder(layers), fusion

    def read(self, ids: Any, mask: Any) -> Any:
        """Run the lower layers on int64 and bool `(batch, tokens)`: `(batch, tokens, width)`."""
        states = self.embeddings(ids)
        for layer in self.encoder.layer[: self.fusion]:
            states = layer(states, mask)
        return states

    def join(self, states: Any, mask: Any, image: Any) -> Any:
        """Run the upper layers on a text's states and an image's tokens `(batch, n, image width)`."""
        for layer in self.encoder.layer[self.fusion :]:
            states = layer(states, mask, image)
        return states


def build_text(layout: Layout, prefix: str = "text_encoder") -> AlbefText:
    """Build the text half, whose sizes and depths follow from the shapes."""
    embeddings = BertEmbeddings(layout, f"{prefix}.embeddings")
    layer = f"{prefix}.encoder.layer"
    depth = layout.count(f"{layer}.{{}}.")
    fusion = depth - layout.count(f"{layer}.{{}}.crossattention.")
    inner, width = layout.shape(f"{layer}.0.intermediate.dense.weight")
    heads = layout.heads(width)
    source = layout.shape(f"{layer}.{depth - 1}.crossattention.self.key.weight")[1]
    sources = [None] * fusion + [source] * (depth - fusion)
    return AlbefText(embeddings, [BertLayer(width, heads, inner, source=source) for source in sources], fusion)


def rename_text(name: str) -> str:
    """Return a text encoder's name as fine-tuned files have it; pre-trained ones say `text_encoder.bert.`."""
    return name.replace("text_encoder.bert.", "text_encoder.", 1)


class Albef(NativeHalves):
    """All image tokens, and the lower layers' states of a text; the upper layers and `itm_head` join them."""

    architecture = "Albef"

    def images(self, pixel_values: Any) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, 1 + patches, width)`."""
        return (self.module.visual_encoder.forward_features(pixel_values),)

    def texts(self, ids: Any, mask: Any) -> Tensors:
        """Run the lower layers: `(batch, tokens, width)`, and the mask."""
        return self.module.text_encoder.read(ids, mask), mask

    def join(self, images: Tensors, texts: Tensors) -> Any:
        """Run the upper layers and the head: `(batch, 2)`; class 1 is the match."""
        (image,), (states, mask) = images, texts
        return self.module.itm_head(self.module.text_encoder.join(states, mask, image)[:, 0])


class AlbefCosine(Albef):
    """One vector of an image and of a text: projections of the first tokens, of length 1."""

    architecture = "AlbefCosine"

    def images(self, pixel_values: Any) -> Tensors:
        """Return float `(batch, dimensions)`."""
        return (unit(self.module.vision_proj(super().images(pixel_values)[0][:, 0])),)

    def texts(self, ids: Any, mask: Any) -> Tensors:
        """Return float `(batch, dimensions)`."""
        return (unit(self.module.text_proj(self.module.text_encoder.read(ids, mask)[:, 0])),)


class AlbefAnswers(DecodesAnswers, Albef):
    """VQA's file: the answer of a list that `text_decoder` finds the likeliest."""

    architecture = "AlbefAnswers"


class AlbefTwoImages(AlternatingImages, Albef):
    """NLVR2's file: `cls_head` behind layers that read the left and the right image in turn."""

    architecture = "AlbefTwoImages"


class AlbefGradCam(GradCam, Albef):
    """Any file with a matching head: where the match comes from."""

    architecture = "AlbefGradCam"


def add_task_heads(module: Any, layout: Layout) -> bool:
    """Add the parts of VQA's and NLVR2's files, as far as a file has them, and return whether it has any."""
    if layout.has("text_decoder."):
        module.text_decoder = AnswerDecoder(layout, "text_decoder")
    if layout.has("cls_head."):
        share_sources(module.text_encoder)
    return layout.has("text_decoder.") or layout.has("cls_head.")


def _build(layout: Layout) -> Any:
    module = nn.Module()
    module.visual_encoder = build_vit(layout, "visual_encoder")
    module.text_encoder = build_text(layout)
    embeddings, context = module.text_encoder.embeddings, _CONTEXT
    if add_task_heads(module, layout):
        context = embeddings.position_embeddings.num_embeddings  # questions and sentences are read whole
    else:
        for name in ("vision_proj", "text_proj", "itm_head"):
            setattr(module, name, nn.Linear(*reversed(layout.shape(f"{name}.weight"))))
    if layout.has("cls_head."):
        first, last = (nn.Linear(*reversed(layout.shape(f"cls_head.{k}.weight"))) for k in (0, 2))
        module.cls_head = nn.Sequential(first, nn.ReLU(), last)
    words, size = embeddings.word_embeddings.num_embeddings, module.visual_encoder.patch_embed.img_size[0]
    module.config = NativeConfig("albef", vocab_size=words, context=context, image_size=size, layout=layout)
    return module


ALBEF = NativeFamily(
    name="albef",
    title="ALBEF",
    build=_build,
    readings={
        "itm": Reading(Albef, "itm", "itm_head.weight"),
        "itm_logit": Reading(Albef, "itm_logit", "itm_head.weight"),
        "itc": Reading(AlbefCosine, "cosine", "vision_proj.weight"),
        "vqa": Reading(AlbefAnswers, "answers", "text_decoder.cls.predictions.decoder.weight"),
        "nlvr2": Reading(AlbefTwoImages, "two_images", "cls_head.2.weight"),
        "grad_cam": Reading(AlbefGradCam, "heat", "itm_head.weight"),
    },
    images=lambda module: square(module.config.image_size, CLIP_COLOURS),
    vocabulary="bert-base-uncased",
    ends=False,  # the authors' own tokenizer adds no [SEP] to a single text
    rename=rename_text,
    ignored=(
        "*_m.*",
        "image_queue",
        "text_queue",
        "idx_queue",
        "queue_ptr",
        "temp",
        "text_encoder*.position_ids",
        "text_encoder.cls.*",
        "text_decoder*.position_ids",
        "text_decoder.cls.predictions.decoder.bias",  # a copy of `predictions.bias`
    ),
    resize=lambda tensors, size: resize_grid(
        tensors, "visual_encoder.pos_embed", "visual_encoder.patch_embed.proj.weight", size
    ),
    clean=clean_like_albef,
)
