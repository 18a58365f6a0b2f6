"""OFA, and the captioners of X-VLM and FIBER, written anew in float64: head by head, pair of places by pair of places.

No output of the authors' code is at hand: formulas and modules were written by the same hand from the same facts.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from golden import build
from numpy.typing import NDArray
from tiny_captioners import OFA_SETTINGS, TINY, fiber_captioner, ofa_state, save_captioner, xvlm_captioner
from tiny_files import PICTURES
from tiny_heads import PlainBert, gelu, split

from tellapart.models.find import find_model
from tellapart.models.torch.backend import import_torch

torch = import_torch()

Numbers = NDArray[np.float64]
EACH = TINY.width // TINY.heads


class PlainOfa:
    """The encoder and the decoder of a state dict."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = {name: tensor.double().numpy() for name, tensor in state.items()}

    def linear(self, name: str, x: Numbers) -> Numbers:
        return np.asarray(x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"])

    def norm(self, name: str, x: Numbers) -> Numbers:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return np.asarray(scaled * self.state[f"{name}.weight"] + self.state[f"{name}.bias"])

    def convolve(self, name: str, norm: str, x: Any, stride: int) -> Any:
        weight = torch.from_numpy(self.state[f"{name}.weight"])
        x = torch.nn.functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        mean, variance, scale, shift = (
            torch.from_numpy(self.state[f"{norm}.{one}"])[:, None, None]
            for one in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (variance + 1e-5).sqrt() * scale + shift

    def look(self, pixels: Any) -> Any:
        """The grid of cells, `(width, rows, columns)`."""
        own = "encoder.embed_images"
        x = self.convolve(f"{own}.conv1", f"{own}.bn1", pixels.double(), 2).relu()
        x = torch.nn.functional.max_pool2d(x, 3, 2, 1)
        for stage, depth in enumerate(TINY.blocks, start=1):
            for k in range(depth):
                block, stride = f"{own}.layer{stage}.{k}", 2 if stage > 1 and k == 0 else 1
                inner = self.convolve(f"{block}.conv1", f"{block}.bn1", x, 1).relu()
                inner = self.convolve(f"{block}.conv2", f"{block}.bn2", inner, stride).relu()
                inner = self.convolve(f"{block}.conv3", f"{block}.bn3", inner, 1)
                if k == 0:
                    x = self.convolve(f"{block}.downsample.0", f"{block}.downsample.1", x, stride)
                x = (x + inner).relu()
        return x[0]

    def attend(self, name: str, x: Numbers, source: Numbers, bias: Numbers) -> Numbers:
        """Attention with a bias `(heads, queries, keys)`."""
        q, k, v = (
            self.linear(f"{name}.{part}_proj", y).reshape(len(y), TINY.heads, EACH)
            for part, y in (("q", x), ("k", source), ("v", source))
        )
        read = []
        for head in range(TINY.heads):
            logits = q[:, head] @ k[:, head].T / math.sqrt(2 * EACH) + bias[head]
            shares = np.exp(logits - logits.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            read.append(shares @ v[:, head] * self.state[f"{name}.c_attn"][head])
        return self.linear(f"{name}.out_proj", np.concatenate(read, axis=1))

    def places(self, query: str, key: str, queries: Numbers, keys: Numbers) -> Numbers:
        """The bias of absolute places, `(heads, queries, keys)`."""
        q, k = (self.linear(name, x).reshape(len(x), TINY.heads, EACH) for name, x in ((query, queries), (key, keys)))
        return np.asarray(np.einsum("qhd,khd->hqk", q, k) / math.sqrt(2 * EACH))

    def feed(self, name: str, x: Numbers) -> Numbers:
        inner = self.norm(
            f"{name}.ffn_layernorm", gelu(self.linear(f"{name}.fc1", self.norm(f"{name}.final_layer_norm", x)))
        )
        return np.asarray(x + self.linear(f"{name}.fc2", inner))

    def encode(self, pixels: Any, ids: list[int]) -> tuple[Numbers, Numbers]:
        """States and normalised places of cells, then tokens."""
        grid = self.look(pixels)
        rows, columns = grid.shape[1:]
        cells = [(row, column) for row in range(rows) for column in range(columns)]
        image = self.linear("encoder.image_proj", np.array([grid[:, row, column].numpy() for row, column in cells]))
        types, words = (self.state[f"encoder.{one}.weight"] for one in ("type_embedding", "embed_tokens"))
        x = np.concatenate(
            [
                self.norm("encoder.patch_layernorm_embedding", image + types[1]),
                self.norm("encoder.layernorm_embedding", words[ids] + types[0]),
            ]
        )
        image_places = self.state["encoder.embed_image_positions.weight"]
        image_places = image_places[[row * TINY.side + column + 1 for row, column in cells]]
        text_places = self.state["encoder.embed_positions.weight"][: len(ids)]
        places = np.concatenate(
            [self.norm("encoder.image_pos_ln", image_places), self.norm("encoder.pos_ln", text_places)]
        )
        absolute = self.places("encoder.pos_q_linear", "encoder.pos_k_linear", places, places)
        for k in range(TINY.depth):
            bias, own = absolute.copy(), f"encoder.layers.{k}"
            table = self.state[f"encoder.image_rel_pos_table_list.{k}.weight"]
            for a, (row, column) in enumerate(cells):
                for b, (other, beside) in enumerate(cells):
                    step = 2 * TINY.side - 1
                    bias[:, a, b] += table[(row - other + TINY.side - 1) * step + column - beside + TINY.side - 1]
            bias[:, len(cells) :, len(cells) :] += self.relative("encoder", k, len(ids))
            normed = self.norm(f"{own}.self_attn_layer_norm", x)
            x = x + self.norm(f"{own}.attn_ln", self.attend(f"{own}.self_attn", normed, normed, bias))
            x = self.feed(own, x)
        return self.norm("encoder.layer_norm", x), places

    def relative(self, tower: str, layer: int, length: int) -> Numbers:
        """The bias of relative places among few tokens: each distance has a row."""
        assert length <= TINY.half // 2 + 1
        table = self.state[f"{tower}.token_rel_pos_table_list.{layer}.weight"]
        return np.array([[table[a - b + TINY.half - 1] for b in range(length)] for a in range(length)]).transpose(
            2, 0, 1
        )

    def decode(self, ids: list[int], states: Numbers, places: Numbers) -> Numbers:
        """Logits of the words behind each."""
        words = self.state["encoder.embed_tokens.weight"]
        x = self.norm("decoder.layernorm_embedding", words[ids])
        own_places = self.norm("decoder.pos_ln", self.state["decoder.embed_positions.weight"][: len(ids)])
        absolute = self.places("decoder.self_pos_q_linear", "decoder.self_pos_k_linear", own_places, own_places)
        absolute = absolute + np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
        crossed = self.places("decoder.cross_pos_q_linear", "decoder.cross_pos_k_linear", own_places, places)
        for k in range(TINY.depth):
            own, bias = f"decoder.layers.{k}", absolute + self.relative("decoder", k, len(ids))
            normed = self.norm(f"{own}.self_attn_layer_norm", x)
            x = x + self.norm(f"{own}.self_attn_ln", self.attend(f"{own}.self_attn", normed, normed, bias))
            normed = self.norm(f"{own}.encoder_attn_layer_norm", x)
            x = x + self.norm(f"{own}.cross_attn_ln", self.attend(f"{own}.encoder_attn", normed, states, crossed))
            x = self.feed(own, x)
        return np.asarray(self.norm("decoder.layer_norm", x) @ words.T)


def test_ofa_is_the_formula() -> None:
    state = ofa_state()
    module, plain = build("ofa", state, OFA_SETTINGS)[1], PlainOfa(state)
    pixels = torch.randn((1, 3, 48, 32), generator=torch.Generator().manual_seed(3))  # three rows of two cells
    question, caption = [0, 7, 8, 9, 2], [0, 11, 6, 13]
    states, places = plain.encode(pixels, question)
    expected = plain.decode(caption, states, places)
    with torch.inference_mode():
        ids, words = torch.tensor([question]), module.encoder.embed_tokens
        source, theirs = module.encoder(
            module.encoder.embed_picture(pixels), ids, torch.ones_like(ids, dtype=torch.bool)
        )
        np.testing.assert_allclose(source[0], states, atol=1e-4)
        decoded = module.decoder(torch.tensor([caption]), words, (source, theirs, source.new_zeros(())))
        ours = torch.nn.functional.linear(decoded, words.weight)[0].numpy()
    np.testing.assert_allclose(ours, expected, atol=1e-4)
    assert np.ptp(expected, axis=1).min() > 1


def image_of(model: Any) -> Any:
    (state,) = model._encoder.encode_images([PICTURES[0]])
    return tuple(tensor[None] for tensor in state.tensors)


def decode(model: Any, ids: Any, image: Any) -> Any:
    with torch.inference_mode():
        return model._halves.decode(ids, image)


class PlainRoberta(PlainBert):
    """RoBERTa's layers in float64, and FIBER's that read an image."""

    def norm(self, name: str, x: Any, eps: float = 1e-5) -> Any:
        return super().norm(name, x, eps)

    def read(self, name: str, x: Any, source: Any, *, causal: bool = False) -> Any:
        """An attention's output, neither added to anything nor normalised."""
        values = split(self.linear(f"{name}.self.value", source))
        shares = self.shares(name, x, source, causal=causal)
        read = np.einsum("hqk,khd->qhd", shares, values).reshape(len(x), -1)
        return self.linear(f"{name}.output.dense", read)

    def fused(self, name: str, x: Any, image: Any) -> Any:
        own = self.read(f"{name}.attention", x, x, causal=True)
        crossed = self.read(f"{name}.crossattention_t2i", own, image)
        alpha = self.state[f"{name}.alpha_t2i"]
        x = self.norm(f"{name}.attention.output.LayerNorm", alpha * crossed + own + x)
        inner = gelu(self.linear(f"{name}.intermediate.dense", x))
        return self.norm(f"{name}.output.LayerNorm", self.linear(f"{name}.output.dense", inner) + x)


def test_fiber_writes_by_the_formula(tmp_path: Path) -> None:
    model: Any = find_model(save_captioner(tmp_path / "x", "fiber"))
    plain, ids = PlainRoberta(fiber_captioner()), [0, 7, 9, 6, 11]
    images = image_of(model)
    cells = images[-1][0].double().numpy()  # the tower's last stage, of width 32
    rows = {part: plain.state[f"text_transformer.embeddings.{part}_embeddings.weight"] for part in ("word", "position")}
    types = plain.state["text_transformer.embeddings.token_type_embeddings.weight"][0]
    x = rows["word"][ids] + rows["position"][2 : 2 + len(ids)] + types
    x = plain.norm("text_transformer.embeddings.LayerNorm", x)
    for k in range(9):
        name = f"text_transformer.encoder.layer.{k}"
        seen = plain.linear(f"cross_modal_att_layers.{k}", cells) if k in (6, 7) else cells
        x = plain.layer(name, x, causal=True) if k < 6 else plain.fused(name, x, seen)
    x = gelu(plain.linear("mlm_score.transform.dense", plain.linear("cross_modal_text_transform", x)))
    x = plain.norm("mlm_score.transform.LayerNorm", x, 1e-12)
    expected = x @ plain.state["mlm_score.decoder.weight"].T + plain.state["mlm_score.bias"]
    np.testing.assert_allclose(decode(model, torch.tensor([ids]), images)[0], expected, atol=2e-4)


def test_xvlm_writes_by_the_formula(tmp_path: Path) -> None:
    model: Any = find_model(save_captioner(tmp_path / "x", "xvlm"))
    plain, ids = PlainBert(xvlm_captioner()), [2, 7, 9, 6, 11]
    images = image_of(model)
    cells = images[0][0].double().numpy()  # their mean comes first
    np.testing.assert_allclose(cells[0], cells[1:].mean(0), atol=1e-5)
    x = plain.embed("text_decoder.bert.embeddings", ids)
    x = plain.layer("text_decoder.bert.encoder.layer.0", x, causal=True)
    x = plain.layer("text_decoder.bert.encoder.layer.1", x, cells, causal=True)
    head = "text_decoder.cls.predictions"
    x = plain.norm(f"{head}.transform.LayerNorm", gelu(plain.linear(f"{head}.transform.dense", x)))
    logits = x @ plain.state[f"{head}.decoder.weight"].T + plain.state[f"{head}.bias"]
    expected = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    np.testing.assert_allclose(decode(model, torch.tensor([ids]), images)[0], expected, atol=2e-4)
    assert model._halves.start == model._halves.tokenizer("a picture of", add_special_tokens=True)["input_ids"][:-1]
