"""Dual encoders of open_clip: published weights, hub models, folders and checkpoint files."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.errors import ModelError, first_line, require
from tellapart.models.caption_rules import caption_rule
from tellapart.models.openclip.library import import_open_clip
from tellapart.models.openclip.source import CONFIG, FOLDER, resolve
from tellapart.models.openclip.tokens import TextTower, Tokens
from tellapart.models.openclip.weights import Parts, assemble, complete_name, is_siglip, name_activation
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix, files_below
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, forward, import_torch, move, runtime
from tellapart.models.torch.checkpoint import split_part
from tellapart.models.torch.dual_encoder import Inputs, LocalFeatures, TorchDual, Towers
from tellapart.models.torch.network import Network, Tensor
from tellapart.models.torch.shared_beginnings import HIDDEN, CausalLayer, CausalTower, are_untouched, encode_packs

_MODELS = frozenset({"open_clip.model.CLIP", "open_clip.model.CustomTextCLIP", "open_clip.coca_model.CoCa"})
_KINDS = ("LayerNorm", "LayerNormFp32", "LayerScale", "QuickGELU", "ResidualAttentionBlock", "TextTransformer")
_PARTS = frozenset(f"open_clip.transformer.{name}" for name in (*_KINDS, "Transformer"))


class SharedTexts:
    """The text tower of a model of `open_clip.create_model`, on a CPU, with shared beginnings."""

    def __init__(self, model: Network, tower: TextTower) -> None:
        self._model, self._tower = model, tower
        self._text = getattr(model, "text", model)
        # CoCa's embedding of a token that is appended to every text, and at which the text is read.
        self._last = getattr(self._text, "cls_emb", None)

    @property
    def works(self) -> bool:
        """Whether the tower is one of those known here: causal, read at one token, and of untouched modules."""
        kind, text = type(self._model), self._text
        if f"{kind.__module__}.{kind.__qualname__}" not in _MODELS or "encode_text" in vars(self._model):
            return False
        names = ("token_embedding", "transformer", "ln_final")  # of CLIP, which is its own text tower
        parts = [text] if text is not self._model else [getattr(text, name) for name in names]
        causal = self._tower.shortens or (self._last is not None and getattr(text, "attn_mask", None) is not None)
        return causal and are_untouched(parts, _PARTS)

    def encode(self, inputs: Inputs, size: int) -> Tensor:
        """Return the features, `(n, dimensions)`, of `input_ids`, `(n, length)`."""
        torch, ids, text = import_torch(), inputs["input_ids"], self._text
        (count, length), dtype = ids.shape, text.transformer.get_cast_dtype()
        marker = text.token_embedding.num_embeddings  # stands for the token that CoCa appends
        if self._last is None:
            ends, keys = self._tower.pooling_positions(ids), None
            tokens = torch.where(torch.arange(length) <= ends[:, None], ids, HIDDEN)
        else:
            ends, shown, appended = torch.full((count,), length), ids != text.pad_id, ids.new_ones(count, 1).bool()
            # In CoCa's released weights the mask is one place off, which open_clip keeps for them.
            keys = torch.cat([shown, appended] if text.correct_cls_mask else [appended, shown], dim=1)
            tokens = torch.cat([torch.where(keys[:, :-1], ids, HIDDEN), ids.new_full((count, 1), marker)], dim=1)
        causal = text.attn_mask[: tokens.shape[1], : tokens.shape[1]].to(dtype)

        def embed(tokens: Tensor, depths: Tensor) -> Tensor:
            words = text.token_embedding(tokens.clamp(max=marker - 1))
            if self._last is not None:
                words = torch.where((tokens == marker)[:, None], self._last, words)
            return words.to(dtype) + text.positional_embedding[depths].to(dtype)

        def read(states: Tensor) -> Tensor:
            features = self._tower.project(self._tower.last_norm(states))
            return features if self._last is None else torch.nn.functional.normalize(features, dim=-1)

        def mask(texts: Sequence[int]) -> Tensor:
            return causal if keys is None else causal.masked_fill(~keys[texts][:, None, None], float("-inf"))

        tower = CausalTower(embed, [_cut_layer(block) for block in text.transformer.resblocks], read, mask)
        return encode_packs(tower, tokens.numpy(), ends.numpy(), size)


def _cut_layer(block: Network) -> CausalLayer:
    """Cut a residual attention block of open_clip at its attention."""
    attention = block.attn

    def project(states: Tensor) -> Tensor:
        # Product, then bias, as torch's attention computes it: one fused step may round otherwise.
        product = block.ln_1(states) @ attention.in_proj_weight.T
        return product if attention.in_proj_bias is None else product + attention.in_proj_bias

    def finish(states: Tensor, mixed: Tensor) -> Tensor:
        states = states + block.ls_1(attention.out_proj(mixed))
        return states + block.ls_2(block.mlp(block.ln_2(states)))

    return CausalLayer(attention.num_heads, project, finish)


#: Names the way from pixels and texts to vectors; part of the fingerprint, changed when that way changes.
_VERSION = "open_clip-1"


def load(name: str, options: ModelOptions) -> TorchDual:
    """Load an open_clip model by its name (see `tellapart.models.openclip.source.resolve`)."""
    options.expect_itc(name, "a dual encoder of open_clip")
    place, source = runtime(options), resolve(complete_name(name))
    parts = assemble(source, texts=options.texts)
    dual = make_dual(source.name, parts, place, import_open_clip().get_model_config(source.architecture))
    parts.model.to(place.device, place.torch_dtype)  # the fingerprint is of the weights as they were read
    return dual


def hold_encoder(name: str, model: Network, transform: Any, tokenizer: Any, place: Runtime) -> TorchDual:
    """Return a caller's model as an encoder, without moving it; its identity is the caller's affair."""
    tokenizer = copy.copy(tokenizer)
    if hasattr(tokenizer, "tokenizer"):
        tokenizer.tokenizer = copy.copy(tokenizer.tokenizer)
    rule, _ = caption_rule(is_siglip(model, tokenizer), tokenizer)
    tokens = move(Tokens(tokenizer).tokens(["a"], tokenizer.context_length)["input_ids"], place)
    with forward(name, model):
        width = int(model.encode_text(tokens).shape[-1])
    return make_dual(name, Parts(model, transform, tokenizer, rule), place, {"embed_dim": width}, "held")


def make_dual(name: str, parts: Parts, place: Runtime, config: Mapping[str, Any], fingerprint: str = "") -> TorchDual:
    """Make the encoder of a model that lies on its device, or will: open_clip's row of `Towers`."""
    model = parts.model
    tower = TextTower(model)
    reader = Tokens(parts.tokenizer, tower)
    # The last two of open_clip's steps, to a tensor and to mean and deviation, are done a batch at a time.
    *shaping, _, scaling = parts.transform.transforms
    shape = type(parts.transform)(shaping)
    # Not by torchvision's step, which copies these again and asks the device about zeros, a wait in every batch.
    try:
        mean, deviation = (
            import_torch().as_tensor(numbers, device=place.device).view(-1, 1, 1)
            for numbers in (scaling.mean, scaling.std)
        )
    except (RuntimeError, TypeError, ValueError) as error:  # each of torch's, for what is no number
        raise ModelError(f"{name}: mean and std must be a number for each colour ({first_line(error)})") from error

    def prepare(pixels: Pixels) -> Inputs:
        from PIL import Image

        return {"pixels": import_torch().from_numpy(np.array(shape(Image.fromarray(pixels))))}

    def scale(pixels: Tensor) -> Tensor:
        values = pixels.permute(0, 3, 1, 2).contiguous().to(import_torch().float32)  # (n, 3, height, width)
        return values.div(255).sub_(mean).div_(deviation).to(place.torch_dtype)

    preprocessing = import_open_clip().get_model_preprocess_cfg(model)
    # All that a prepared image depends on; mean and deviation are applied later, a batch at a time.
    shaping_facts = {key: value for key, value in preprocessing.items() if key not in {"mean", "std"}}
    libraries = {library: version(library) for library in ("open_clip_torch", "torchvision", "pillow")}
    facts = (json.dumps(fact, sort_keys=True) for fact in (config, preprocessing, reader.facts))
    towers = Towers(
        name=name,
        module=model,
        place=place,
        image=lambda inputs: model.encode_image(scale(inputs["pixels"])),
        text=lambda inputs: tower.encode(inputs["input_ids"]),
        prepare=prepare,
        reader=reader,
        facts=(_VERSION, place.dtype, *facts),
        provenance=parts.checkpoint.weights if parts.checkpoint else "",
        checkpoint=parts.checkpoint,
        offers={
            "texts": parts.texts,
            "preparation": json.dumps([_VERSION, shaping_facts, libraries], sort_keys=True),
            "pack_image": lambda prepared: prepared["pixels"].numpy(),
            "unpack_image": lambda packed: {"pixels": import_torch().from_numpy(packed)},
            "traits": {
                "activation": name_activation(getattr(model, "text", None) or model.transformer),
                "image activation": name_activation(model.visual),
                "context": f"{reader.length} tokens",
                "dtype": place.dtype,
                "texts": parts.texts,
            },
        },
        dimensions=int(config["embed_dim"]),
        shown=lambda inputs: scale(move(inputs["pixels"], place)[None])[0].float().cpu(),
        shared=SharedTexts(model, tower),
        save=lambda folder: _save(parts, config, folder),
        local=lambda: _find_local(model, tower),
    )
    return TorchDual(towers, fingerprint=fingerprint)


def _save(parts: Parts, config: Mapping[str, Any], folder: Path) -> str:
    """Write `open_clip_config.json` and `open_clip_model.safetensors`; its tokenizer, too, if it has one."""
    folder.mkdir(parents=True)
    preprocessing = dict(import_open_clip().get_model_preprocess_cfg(parts.model))
    facts = {"model_cfg": config, "preprocess_cfg": preprocessing}
    (folder / CONFIG).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in parts.model.state_dict().items()}
    require("safetensors.torch", extra="train").save_file(tensors, folder / "open_clip_model.safetensors")
    if (inner := getattr(parts.tokenizer, "tokenizer", None)) is not None:
        inner.save_pretrained(folder)
    return f"{FOLDER}{folder}"


def _find_local(model: Network, tower: TextTower) -> LocalFeatures | None:
    """Find the last norms and projections of a ViT that pools by its first token, and of a causal text tower."""
    vision = model.visual
    if not tower.shortens or getattr(vision, "pool_type", None) != "tok" or vision.attn_pool is not None:
        return None

    def project(states: Tensor) -> Tensor:
        return states if vision.proj is None else states @ vision.proj

    return LocalFeatures((vision.ln_post, project), (tower.last_norm, tower.project), tower.words)


def _checkpoint_files(name: str) -> list[Path] | None:
    _, at, path = name.partition("@")
    file = Path(split_part(path)[0]).expanduser()
    if not at or not file.is_file():
        return None
    # The files near a checkpoint may show how it was trained.
    neighbours = sorted(path for path in file.parent.iterdir() if path.suffix in {".json", ".txt"} and path.is_file())
    return [file, *neighbours]


_TAKES = frozenset({"device", "dtype", "reading", "texts"})

OPEN_CLIP = ModelPrefix(
    {
        "open_clip:ARCH/TAG": "weights that open_clip lists, for example open_clip:ViT-B-32/laion2b_s34b_b79k",
        "open_clip:ARCH@FILE": "a checkpoint of an open_clip architecture; ViT-B-32-quickgelu@FILE if fine-tuned from "
        "OpenAI's",
        "open_clip:ARCH/TAG@FILE": "a checkpoint fine-tuned from the weights of that tag, or a folder of peft's LoRA",
        "open_clip:ARCH@FILE#ema": "the averaged weights of a checkpoint that holds both; #PART is any of its entries",
    },
    load,
    _checkpoint_files,
    takes=_TAKES,
)
HF_HUB = ModelPrefix({"hf-hub:ORG/REPO": "a model of open_clip on the hub"}, load, takes=_TAKES)
LOCAL_DIR = ModelPrefix(
    {"local-dir:PATH": "a folder with open_clip_config.json, of any architecture, and one file of weights"},
    load,
    lambda name: files_below(split_part(name.removeprefix(FOLDER))[0]),
    takes=_TAKES,
)
