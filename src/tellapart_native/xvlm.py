"""X-VLM (Zeng et al. 2022): a Swin transformer, the lower half of BERT, and its upper half over both."""

from __future__ import annotations

import torch
from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.generative.prompts import Prompt
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart_native.heads.answers import DecodesAnswers, add_task_heads
from tellapart_native.heads.decoding import ByToken, Past, Search, Writer
from tellapart_native.heads.matching import (
    AlternatingImages,
    FusedText,
    GradCam,
    MatchLogit,
    ProjectedTokens,
    combine_halves,
)
from tellapart_native.layers.bert import build_text, rename_text
from tellapart_native.layers.swin import Swin
from tellapart_native.module import NativeConfig, build_head, build_linear, nn
from tellapart_native.preprocessing import CLIP_COLOURS, clean_like_albef, resize_window_biases, square_inputs

#: The captioners were trained with these words before every caption.
XVLM_CAPTION = Prompt("xvlm-caption", 1, "a picture of ", "X-VLM (Zeng et al. 2022), configs/Captioning.yaml")

#: Tokens of a caption in the authors' retrieval code.
_CONTEXT = 40


class Xvlm(FusedText):
    """The mean of the image tokens and the tokens, and the lower layers' states of a text."""

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, 1 + tokens, width)`."""
        tokens = self.module.vision_encoder(pixel_values)
        return (torch.cat([tokens.mean(1, keepdim=True), tokens], dim=1),)


class XvlmCaptioner(Writer, Xvlm):
    """A captioner's file: `text_decoder` reads the image in its upper layers, and writes behind "a picture of"."""

    prompt = XVLM_CAPTION
    opening = XVLM_CAPTION.text
    search = Search(beams=3, longest=16, shortest=1, counted=3)

    def decode(self, ids: Tensor, images: Tensors, past: Past | None = None) -> Tensor:
        """Run the decoder: `(batch, tokens, words)`."""
        return self.module.text_decoder(ids, images[0], None, past)


class XvlmBoxes(Xvlm):
    """Grounding's file, and pre-trained ones: the place of the text's object.

    `boxes` equals the authors' output on a tiny pre-trained file; nothing of the fine-tuned ones was there to compare.
    """

    head, match = "bbox_head", None

    def match_head(self, pooled: Tensor) -> Tensor:
        """Return middle x, middle y, width and height as shares of the image: `(batch, 4)`."""
        return super().match_head(pooled).sigmoid()


def _build_xvlm(layout: Layout) -> Network:
    module = nn.Module()
    module.vision_encoder = Swin(layout, "vision_encoder")
    if not layout.has_prefix("text_decoder.") or layout.has_prefix("text_encoder."):
        module.text_encoder = build_text(layout)
    add_task_heads(module, layout)
    words = module.text_encoder if hasattr(module, "text_encoder") else module.text_decoder.bert
    width = words.embeddings.word_embeddings.embedding_dim
    heads = [name for name in ("itm_head", "bbox_head", "cls_head") if layout.has_prefix(f"{name}.")]
    for name in heads:
        setattr(module, name, build_head(layout, name, width))
    if "itm_head" in heads:
        module.vision_proj = build_linear(layout, "vision_proj", module.vision_encoder.width)
        module.text_proj = build_linear(layout, "text_proj", width)
    module.config = NativeConfig(
        "xvlm",
        vocab_size=words.embeddings.word_embeddings.num_embeddings,
        context=_CONTEXT,
        image_size=module.vision_encoder.image_size,
        layout=layout,
    )
    return module


def _caption_reading(halves: type[NativeHalves]) -> Reading:
    """Return the reading of a captioner's file, which is one with a decoder and no encoder of texts."""
    return Reading(
        halves,
        "likelihood",
        "text_decoder.cls.predictions.decoder.weight",
        lacks="text_encoder.embeddings.word_embeddings.weight",
        prompt=f"{XVLM_CAPTION.text}{{}}",
    )


FAMILY = NativeFamily(
    name="xvlm",
    title="X-VLM",
    build=_build_xvlm,
    readings={
        "itm": Reading(Xvlm, "itm", "itm_head.0.weight"),
        "itm_logit": Reading(Xvlm, "itm_logit", "itm_head.0.weight"),
        "match_logit": Reading(combine_halves("XvlmMatch", MatchLogit, Xvlm), "itm", "itm_head.0.weight"),
        "itc": Reading(combine_halves("XvlmCosine", ProjectedTokens, Xvlm), "cosine", "vision_proj.weight"),
        "likelihood": _caption_reading(XvlmCaptioner),
        "mean_likelihood": _caption_reading(combine_halves("XvlmCaptionerMean", ByToken, XvlmCaptioner)),
        "vqa": Reading(
            combine_halves("XvlmAnswers", DecodesAnswers, Xvlm),
            "answers",
            "text_decoder.bert.encoder.layer.0.crossattention.self.key.weight",
        ),
        "nlvr2": Reading(combine_halves("XvlmTwoImages", AlternatingImages, Xvlm), "two_images", "cls_head.0.weight"),
        "boxes": Reading(XvlmBoxes, "box", "bbox_head.0.weight"),
        "grad_cam": Reading(combine_halves("XvlmGradCam", GradCam, Xvlm), "heat", "itm_head.0.weight"),
    },
    images=lambda module: square_inputs(module.config.image_size, CLIP_COLOURS),
    vocabulary="bert-base-uncased",
    ends=False,  # the authors' tokenizer adds no [SEP] to a single text
    rename=rename_text,
    resize=lambda tensors, size: resize_window_biases(tensors, max(size // 32, 1)),
    clean=clean_like_albef,
)
