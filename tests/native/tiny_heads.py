"""State dicts of task heads at tiny size, files of them, tiny data of VLUE's tasks, and BERT's layers in float64."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tiny_files import (
    SETTINGS,
    Shapes,
    bert_embeddings,
    bert_layer,
    draw,
    linear,
    norm,
    save_tokenizer,
    vit,
    xvlm_state,
)
from tiny_fusion_encoders import roberta
from tiny_meter_fiber import SETTINGS as PAIR_SETTINGS
from tiny_meter_fiber import fiber_state, meter_state

from sets import write_file
from tellapart.models.torch.backend import import_torch

torch = import_torch()

Numbers = NDArray[np.float64]

HEADS = 4
ANSWERS = ["red", "two dogs", "cup", "a blue cup", "dogs"]


@dataclass(frozen=True)
class Size:
    """Sizes of BERT and of a ViT."""

    width: int = 32
    inner: int = 64
    words: int = 100
    positions: int = 64
    side: int = 2
    blocks: int = 2


TINY, PUBLISHED = Size(), Size(768, 3072, 30522, 512, 24, 12)


def albef_text(depth: int, fusion: int, size: Size = TINY) -> Shapes:
    shapes = vit("visual_encoder", size.width, size.blocks, size.side)
    shapes |= bert_embeddings("text_encoder.embeddings", size.width, size.words, size.positions)
    for k in range(depth):
        source = size.width if k >= fusion else None
        shapes |= bert_layer(f"text_encoder.encoder.layer.{k}", size.width, size.inner, source)
    return shapes


def decoder(depth: int = 2, size: Size = TINY) -> Shapes:
    name, width = "text_decoder", size.width
    shapes = bert_embeddings(f"{name}.bert.embeddings", width, size.words, size.positions)
    for k in range(depth):
        shapes |= bert_layer(f"{name}.bert.encoder.layer.{k}", width, size.inner, width)
    head = f"{name}.cls.predictions"
    shapes |= linear(f"{head}.transform.dense", width, width) | norm(f"{head}.transform.LayerNorm", width)
    return shapes | {f"{head}.bias": (size.words,), f"{head}.decoder.weight": (size.words, width)}


def two_image_head(width: int) -> Shapes:
    return linear("cls_head.0", width, width) | linear("cls_head.2", 2, width)


def albef_vqa() -> dict[str, Any]:
    state = draw(albef_text(4, 2) | decoder() | {"text_decoder_m.cls.predictions.bias": (100,)})
    state["text_decoder.cls.predictions.decoder.bias"] = state["text_decoder.cls.predictions.bias"]
    return state


def albef_nlvr2() -> dict[str, Any]:
    return share_pairs(draw(albef_text(6, 2) | two_image_head(TINY.width)))


def share_pairs(state: dict[str, Any]) -> dict[str, Any]:
    """Give the layers of a pair the same keys and values of the image, as the authors' files have them."""
    for k in (2, 4):
        for name in ("key.weight", "key.bias", "value.weight", "value.bias"):
            own, other = (f"text_encoder.encoder.layer.{n}.crossattention.self.{name}" for n in (k, k + 1))
            state[other] = state[own]
    return state


def rename(state: dict[str, Any]) -> dict[str, Any]:
    """Give an X-VLM's text encoder the names of fine-tuned files, and drop the heads of pre-training."""
    kept = {name: one for name, one in state.items() if not name.startswith(("itm_head", "bbox_head", "vision_proj"))}
    return {name.replace("text_encoder.bert.", "text_encoder."): one for name, one in kept.items() if name != "temp"}


def mlp(name: str, out: int, into: int, inner: int | None = None) -> Shapes:
    inner = inner or 2 * into
    return linear(f"{name}.0", inner, into) | norm(f"{name}.1", inner) | linear(f"{name}.3", out, inner)


def without(state: dict[str, Any], *prefixes: str) -> dict[str, Any]:
    return {name: one for name, one in state.items() if not name.startswith(prefixes)}


def xvlm_vqa() -> dict[str, Any]:
    return without(rename(xvlm_state()), "text_proj") | draw(decoder(), 1)


def xvlm_nlvr2() -> dict[str, Any]:
    four, five = (bert_layer(f"text_encoder.encoder.layer.{k}", TINY.width, TINY.inner, 64) for k in (4, 5))
    state = without(rename(xvlm_state()), "text_proj") | draw(four | five, 1)
    return share_pairs(state | draw(mlp("cls_head", 2, TINY.width), 2))


def xvlm_boxes() -> dict[str, Any]:
    return without(xvlm_state(), "itm_head", "vision_proj", "text_proj", "temp")


def meter_head(task: str) -> dict[str, Any]:
    state = without(meter_state(), "itm_score", "rank_output")
    if task == "nlvr2":  # the second image has a type of its own
        state["token_type_embeddings.weight"] = draw({"x": (3, 16)}, 5)["x"]
    return state | classifier(task)


def fiber_head(task: str) -> dict[str, Any]:
    return without(fiber_state(), "itm_score", "rank_output") | classifier(task)


def classifier(task: str) -> dict[str, Any]:
    """The two families' heads, on tokens of width 16."""
    out, into = (len(ANSWERS), 32) if task == "vqa" else (2, 64)
    return draw(mlp(f"{task}_classifier", out, into, 32), 3)


def save(folder: Path, family: str, state: dict[str, Any], **settings) -> Path:
    """Write a file as the authors nest it, with heads, tokenizer and answers beside it."""
    folder.mkdir(exist_ok=True)
    torch.save({"model": state}, folder / "head.pth")
    pairs = family in ("meter", "fiber")
    known = {"model_type": family, **(PAIR_SETTINGS if pairs else SETTINGS), **settings}
    write_file(folder / "config.json", known)
    write_file(folder / "answer_list.json", ANSWERS)
    save_tokenizer(folder, roberta() if pairs else None)
    return folder / "head.pth"


def picture(seed: int, height: int = 40, width: int = 50) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def write_task(folder: Path, task: str) -> Path:
    """Write VLUE's annotation file of a task, six records on four pictures, and the pictures."""
    folder.mkdir()
    for k in range(4):
        Image.fromarray(picture(k, 40 + 9 * k)).save(folder / f"{k}.png")
    texts = ["a red cup", "two dogs", "one blue bowl", "a cup on a bowl", "red dogs", "a bowl"]
    rows = []
    for k, text in enumerate(texts):
        image, boxes = f"{k % 4}.png", [[0, 0, 20, 20], [5, 6, 30, 30], [20, 10, 30, 20]] if k % 2 else []
        size = {"bbox": [1, 2, 30, 20], "width": 50, "height": 40 + 9 * (k % 4)}
        row = {
            "vqa": {"question_id": k, "question": text, "image": image, "answer": ["red"]},
            "nlvr2": {"sentence": text, "images": [image, f"{(k + 1) % 4}.png"], "label": str(k % 2 == 0)},
            "refcoco+": {"ref_id": k, "text": text, "image": image, "dets": boxes, **size},
        }
        rows.append(row[task])
    write_file(folder / f"{task}_vlue_test.json", rows)
    return folder


class PlainBert:
    """BERT's layers of a state dict in float64, formula by formula."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = {name: tensor.double().numpy() for name, tensor in state.items()}

    def linear(self, name: str, x: Numbers) -> Numbers:
        bias = self.state.get(f"{name}.bias", 0.0)
        return np.asarray(x @ self.state[f"{name}.weight"].T + bias)

    def norm(self, name: str, x: Numbers, eps: float = 1e-12) -> Numbers:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
        return np.asarray(scaled * self.state[f"{name}.weight"] + self.state[f"{name}.bias"])

    def embed(self, name: str, ids: list[int]) -> Numbers:
        rows = {part: self.state[f"{name}.{part}_embeddings.weight"] for part in ("word", "position", "token_type")}
        total = rows["word"][ids] + rows["position"][: len(ids)] + rows["token_type"][0]
        return self.norm(f"{name}.LayerNorm", total)

    def words(self, name: str, x: Numbers, eps: float = 1e-12) -> Numbers:
        """Logits of words, of a head of masked language models."""
        x = self.norm(f"{name}.transform.LayerNorm", gelu(self.linear(f"{name}.transform.dense", x)), eps)
        return np.asarray(x @ self.state[f"{name}.decoder.weight"].T + self.state[f"{name}.bias"])

    def shares(self, name: str, x: Numbers, source: Numbers, *, causal: bool = False) -> Numbers:
        """The attention's shares `(heads, queries, keys)`."""
        q, k = (split(self.linear(f"{name}.self.{part}", y)) for part, y in (("query", x), ("key", source)))
        logits = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
        if causal:
            logits += np.triu(np.full(logits.shape[1:], -np.inf), 1)
        return softmax(logits)

    def attend(self, name: str, x: Numbers, source: Numbers, shares: Numbers) -> Numbers:
        values = split(self.linear(f"{name}.self.value", source))
        read = np.einsum("hqk,khd->qhd", shares, values).reshape(len(x), -1)
        return self.norm(f"{name}.output.LayerNorm", self.linear(f"{name}.output.dense", read) + x)

    def layer(self, name: str, x: Numbers, source: Any = None, *, causal: bool = False, shares: Any = None) -> Numbers:
        """One layer; `shares` in place of those that the attention to the source would have."""
        x = self.attend(f"{name}.attention", x, x, self.shares(f"{name}.attention", x, x, causal=causal))
        if source is not None:
            cross = f"{name}.crossattention"
            x = self.attend(cross, x, source, self.shares(cross, x, source) if shares is None else shares)
        inner = gelu(self.linear(f"{name}.intermediate.dense", x))
        return self.norm(f"{name}.output.LayerNorm", self.linear(f"{name}.output.dense", inner) + x)


def softmax(logits: Any) -> Numbers:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def split(x: Numbers) -> Numbers:
    return x.reshape(len(x), HEADS, -1)


def gelu(x: Numbers) -> Numbers:
    return np.asarray(torch.nn.functional.gelu(torch.from_numpy(x)).numpy())
