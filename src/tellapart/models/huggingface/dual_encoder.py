"""Dual encoders of transformers: images and texts are encoded apart, by the model's towers and processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tellapart.errors import ModelError
from tellapart.models.caption_rules import caption_rule
from tellapart.models.huggingface.files import (
    config_facts,
    import_transformers,
    load_processor,
    load_weights,
    processor_facts,
    quiet,
    read_config,
)
from tellapart.models.huggingface.inputs import TokenReader, check_images, image_inputs
from tellapart.models.huggingface.towers import (
    LEGACY_END,
    TOWERS,
    Architecture,
    context_length,
    find_towers,
    fit_towers,
    is_siglip,
    pool_at_end,
)
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import Runtime, import_torch, runtime
from tellapart.models.torch.dual_encoder import Inputs, TorchDual, Towers
from tellapart.models.torch.network import Network, PreTrainedConfig, PreTrainedModel, ProcessorMixin, Tensor
from tellapart.models.torch.shared_beginnings import HIDDEN, CausalLayer, CausalTower, are_untouched, encode_packs

_CLIP = "transformers.models.clip.modeling_clip."
_PARTS = frozenset(
    {
        *(_CLIP + name for name in ("CLIPAttention", "CLIPEncoder", "CLIPEncoderLayer", "CLIPMLP")),
        *(_CLIP + name for name in ("CLIPTextEmbeddings", "CLIPTextModel", "CLIPTextTransformer")),
        *(f"transformers.activations.{name}" for name in ("GELUActivation", "QuickGELUActivation")),
    }
)


class SharedTexts:
    """CLIP's text tower, on a CPU, with shared beginnings."""

    def __init__(self, model: Network) -> None:
        self._model = model

    @property
    def works(self) -> bool:
        """Whether the text tower is CLIP's, of untouched modules, with torch's fused attention."""
        model, kind = self._model, type(self._model)
        return (
            f"{kind.__module__}.{kind.__qualname__}" == _CLIP + "CLIPModel"
            and "get_text_features" not in vars(model)
            and model.config.text_config._attn_implementation == "sdpa"
            and are_untouched([model.text_model, model.text_projection], _PARTS)
        )

    def encode(self, inputs: Inputs, size: int) -> Tensor | None:
        """Return the features of texts of one padded length; None if padding is read in one of them."""
        torch, model, ids = import_torch(), self._model, inputs["input_ids"]
        text, embeddings = model.text_model, model.text_model.embeddings
        shown = inputs.get("attention_mask", torch.ones_like(ids))
        end_positions = (ids if text.eos_token_id == LEGACY_END else (ids == text.eos_token_id).int()).argmax(dim=-1)
        read = torch.arange(ids.shape[1]) <= end_positions[:, None]
        if not shown[read].all():
            return None
        length, dtype = ids.shape[1], embeddings.token_embedding.weight.dtype
        mask = torch.full((length, length), float("-inf"), dtype=dtype).triu(1)
        tower = CausalTower(
            lambda tokens, depths: embeddings.token_embedding(tokens) + embeddings.position_embedding(depths),
            [_cut_layer(layer) for layer in text.encoder.layers],
            lambda states: model.text_projection(text.final_layer_norm(states)),
            lambda _: mask,
        )
        return encode_packs(tower, torch.where(read, ids, HIDDEN).numpy(), end_positions.numpy(), size)


def _cut_layer(layer: Network) -> CausalLayer:
    """Cut a layer of CLIP's encoder at its attention."""
    attention = layer.self_attn

    def project(states: Tensor) -> Tensor:
        states = layer.layer_norm1(states)
        return import_torch().cat([attention.q_proj(states), attention.k_proj(states), attention.v_proj(states)], dim=1)

    def finish(states: Tensor, mixed: Tensor) -> Tensor:
        states = states + attention.out_proj(mixed)
        return states + layer.mlp(layer.layer_norm2(states))

    return CausalLayer(attention.num_heads, project, finish)


#: How far a vector of length one may move by influences that must not move it, and by others.
_NOISE = {"float32": 1e-5, "bfloat16": 0.05, "float16": 0.01}
_SAME = 1e-7

#: Samples of a model's test: pictures of three shapes, and texts of two lengths and more.
_SHAPES = ((48, 64), (64, 40), (32, 32))
_TEXTS = ("a cat", "two dogs on a red mat, beside a cat", "a red mat on two dogs")

#: Architectures whose checkpoint holds a scale that is the exponential of `logit_scale`: they can be trained.
SCALED = ("CLIPModel", "MetaClip2Model", "SiglipModel", "Siglip2Model", "AltCLIPModel", "ChineseCLIPModel")


def load_dual(source: str, options: ModelOptions) -> TorchDual:
    """Load a dual encoder of transformers from a folder or the hub."""
    place = runtime(options)
    config = read_config(source)
    architecture = next(iter(config.get("architectures") or ()), "")
    if not architecture:  # then the family's class without other heads
        plain = (name for name, form in TOWERS.items() if form.model_type == config["model_type"])
        listed = import_transformers().models.auto.modeling_auto.MODEL_MAPPING_NAMES.get(config["model_type"])
        architecture = next((name for name in plain if name.endswith("Model")), listed)
        architecture = architecture if isinstance(architecture, str) else ""
    if (form := find_towers(architecture)) is None:
        raise ModelError(
            f"{source}: {architecture or 'a model without an architecture'} has no contrastive heads, so it has no "
            f"reading 'itc'; name another reading, or a checkpoint of {', '.join(TOWERS)}, or of another class with "
            "get_image_features and get_text_features"
        )
    processor = load_processor(source)
    model = load_weights(architecture, source, place, unused=form.unused)
    return make_dual(source, model, processor, form, place, texts=options.texts)


def hold_dual(
    name: str, model: PreTrainedModel, architecture: str, processor: ProcessorMixin, place: Runtime
) -> TorchDual:
    """Return a caller's model as an encoder, without moving it; its identity is the caller's affair."""
    if (form := find_towers(architecture)) is None:
        raise ModelError(f"{name}: {architecture} has no contrastive heads")
    return make_dual(name, model, processor, form, place, fingerprint="held")


def _read_activation(config: PreTrainedConfig, tower: str) -> str:
    """Return the activation of a tower, by the name that open_clip's models have; empty if none is named."""
    activation = str(getattr(getattr(config, tower, config), "hidden_act", ""))
    return {"quick_gelu": "QuickGELU", "gelu": "GELU", "gelu_pytorch_tanh": "GELU (tanh)"}.get(activation, activation)


def make_dual(
    name: str,
    model: PreTrainedModel,
    processor: ProcessorMixin,
    form: Architecture,
    place: Runtime,
    *,
    texts: str = "raw",
    fingerprint: str = "",
) -> TorchDual:
    """Make the encoder of a loaded model: the row of `Towers` of this library. Pillow prepares its images."""
    if not form.tested:
        form = fit_towers(form, model, processor)
    provenance = pool_at_end(name, model, processor.tokenizer, held=bool(fingerprint))
    length = context_length(name, model.config, processor.tokenizer, form)
    rule, clean = caption_rule(is_siglip(form), processor.tokenizer, texts)
    reader = TokenReader(processor.tokenizer, length, whole=form.whole, clean=clean)
    prepare = image_inputs(name, processor.image_processor)
    check_images(name, model.config, prepare)

    def save(folder: Path) -> str:
        folder.mkdir(parents=True)
        with quiet():
            model.save_pretrained(folder)
            processor.save_pretrained(folder)
        return f"hf:{folder}"

    facts: tuple[str, ...] = ()
    if not fingerprint:
        facts = (type(model).__name__, place.dtype, f"{length} tokens", config_facts(model.config))
        facts += (processor_facts(processor), *([rule] if clean else []))
    towers = Towers(
        name=name,
        module=model,
        place=place,
        image=lambda inputs: form.image(model, inputs),
        text=lambda inputs: form.text(model, inputs),
        prepare=prepare,
        reader=reader,
        facts=facts,
        family="tellapart:huggingface:itc:1:",
        provenance=provenance,
        offers={
            "texts": rule,
            "traits": {
                "activation": _read_activation(model.config, "text_config"),
                "image activation": _read_activation(model.config, "vision_config"),
                "context": f"{length} tokens",
                "dtype": place.dtype,
                "texts": rule,
            },
        },
        shared=SharedTexts(model),
        save=save if type(model).__name__ in SCALED else None,
    )
    dual = TorchDual(towers, fingerprint=fingerprint)
    if not form.tested:
        _test_promises(dual, reader, (getattr(processor, "text_kwargs", None) or {}).get("padding") == "max_length")
    return dual


def _test_promises(dual: TorchDual, reader: TokenReader, pads_whole: bool) -> None:
    """Test that a vector is its image's or text's alone, for a model that nobody has looked at."""
    kind, noise = type(dual.towers.module).__name__, _NOISE[dual.towers.place.dtype]
    images = [np.random.default_rng(k).integers(0, 256, (*_SHAPES[k], 3), dtype=np.uint8) for k in range(3)]
    sides: dict[str, tuple[Any, Any]] = {"image": (dual.encode_images, images), "text": (dual.encode_texts, _TEXTS)}
    vectors = {side: encode(samples) for side, (encode, samples) in sides.items()}
    moved: dict[str, Any] = {}
    for side, (encode, samples) in sides.items():
        if np.allclose(vectors[side], vectors[side][0], rtol=0, atol=_SAME):
            raise ModelError(f"{dual.name}: {kind} gives three {side}s one and the same vector")
        alone = np.stack([encode([sample])[0] for sample in samples])
        moved[f"batching moves {side} vectors"] = alone - vectors[side]
        moved[f"the order moves {side} vectors"] = encode(samples[::-1])[::-1] - vectors[side]
    dual.similarity(vectors["image"], vectors["text"])
    reader.whole = True
    padding = dual.encode_texts(_TEXTS) - vectors["text"]
    dual.truncated = 0
    if np.abs(padding).max() <= noise or not pads_whole:
        reader.whole = False
        moved["padding moves text vectors"] = padding
    for influence, difference in moved.items():
        if not (distance := float(np.abs(difference).max())) <= noise:
            raise ModelError(
                f"{dual.name}: {influence} of {kind} by up to {distance:.2g}, so no number of it would be its own; "
                "measure it in memory, tellapart.model(images=f, texts=g), or by its scores, tellapart.score"
            )
