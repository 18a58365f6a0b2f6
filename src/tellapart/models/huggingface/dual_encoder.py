"""Dual encoders of transformers: the image and text towers of each architecture, loaded, held and tested.

A tower takes the model and a batch of inputs to features of any length, `(n, dimensions)`; of images with several
vectors `(n, queries, dimensions)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from tellapart.errors import ModelError
from tellapart.models.captions import caption_rule
from tellapart.models.huggingface import files
from tellapart.models.huggingface.inputs import TokenReader, check_images, check_tokenizer, image_inputs, text_config
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import Runtime, import_torch, runtime
from tellapart.models.torch.dual_encoder import Inputs, TorchDual, Towers
from tellapart.models.torch.network import (
    Network,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    ProcessorMixin,
    Tensor,
)
from tellapart.models.torch.shared_beginnings import HIDDEN, CausalLayer, CausalTower, are_untouched, encode_packs

Tower = Callable[["PreTrainedModel", Inputs], "Tensor"]


def _features(side: str, *, inputs: tuple[str, ...] = (), first: bool = False) -> Tower:
    """Return the tower of `get_image_features` or `get_text_features`; of every token's features perhaps the first."""

    def compute(model: PreTrainedModel, batch: Inputs) -> Tensor:
        read = getattr(getattr(model, "flava", model), f"get_{side}_features")  # FlavaForPreTraining holds a FlavaModel
        features = read(**{name: batch[name] for name in inputs or batch}).pooler_output
        return features[:, 0] if first else features

    return compute


_IMAGE, _TEXT = _features("image"), _features("text")

#: SigLIP was trained on padded texts without a mask; a tokenizer whose configuration names no inputs would send one.
_UNMASKED = _features("text", inputs=("input_ids",))


@dataclass(frozen=True, slots=True)
class Architecture:
    """The towers of one architecture, whose family's name in `config.json` is `model_type`."""

    model_type: str
    image: Tower = _IMAGE
    text: Tower = _TEXT
    pools_at_end: bool = False  # a text's vector is read at its end-of-text token
    #: Texts are padded to the full context, as the tower was trained; else to a bucket, and padding changes nothing.
    whole: bool = False
    limit: int | None = None  # of tokens, if the library's processor names one below the tower's positions
    padded_positions: bool = False  # counted from behind the padding's id (RoBERTa): so many fewer can be used
    unused: tuple[str, ...] = ()  # heads of other readings, which a checkpoint may hold, too
    tested: bool = True  # compared with the library's forward pass; another model is tested when it loads


def _blip_image(model: PreTrainedModel, batch: Inputs) -> Tensor:
    return model.vision_proj(model.vision_model(**batch).last_hidden_state[:, 0])


def _blip_text(model: PreTrainedModel, batch: Inputs) -> Tensor:
    states = model.text_encoder(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    return model.text_proj(states[:, 0])


def _blip_2_image(model: PreTrainedModel, batch: Inputs) -> Tensor:
    patches = model.vision_model(**batch).last_hidden_state
    queries = model.query_tokens.expand(len(patches), -1, -1)
    states = model.qformer(query_embeds=queries, encoder_hidden_states=patches).last_hidden_state
    return model.vision_projection(states.to(model.vision_projection.weight.dtype))  # (n, queries, dimensions)


def _blip_2_text(model: PreTrainedModel, batch: Inputs) -> Tensor:
    tokens = model.embeddings(input_ids=batch["input_ids"])
    mask = batch["attention_mask"]
    states = model.qformer(query_embeds=tokens, query_length=0, attention_mask=mask).last_hidden_state
    return model.text_projection(states[:, 0].to(model.text_projection.weight.dtype))


def _aimv2_text(model: PreTrainedModel, batch: Inputs) -> Tensor:
    # The library leaves out a mask that hides no padding, and with it the causal one: a text would then be read in both
    # directions where nothing in its batch is padded. This mask hides later tokens, padding included.
    torch = import_torch()
    rows, length = batch["input_ids"].shape
    causal = torch.ones((rows, 1, length, length), dtype=torch.bool, device=batch["input_ids"].device).tril()
    return model.get_text_features(input_ids=batch["input_ids"], attention_mask=causal).pooler_output


def _bridgetower_image(model: PreTrainedModel, batch: Inputs) -> Tensor:
    # The contrastive heads read the towers' last layers; those between them and the cross layers are not run.
    tower = model.bridgetower
    visual = tower.vision_model.visual
    states = visual.forward_pre(batch["pixel_values"])
    for block in visual.transformer.resblocks:
        states = block(states)
    states = tower.cross_modal_image_transform(visual.forward_post(states)[:, 0])
    return model.itc_image_head(states + tower.token_type_embeddings.weight[1])


def _bridgetower_text(model: PreTrainedModel, batch: Inputs) -> Tensor:
    return model.itc_text_head(model.bridgetower.text_model(**batch).last_hidden_state[:, 0])


#: Tokens of a text whose tower and tokenizer name no bound.
_LONGEST = 2**16

#: OpenAI's configurations name this as the end of the text; transformers then takes the highest token of a text.
LEGACY_END = 2

#: Folders of transformers with towers of that rule, and with towers that take the highest token in any case.
_LEGACY, _HIGHEST = frozenset({"clip", "clipseg", "groupvit", "x_clip"}), frozenset({"owlvit", "owlv2"})

_FLAVA = Architecture("flava", _features("image", first=True), _features("text", first=True))

#: Architecture (a class of transformers) -> its towers, if they need more than `get_image_features` and
#: `get_text_features` on texts of any padding.
TOWERS: Mapping[str, Architecture] = MappingProxyType(
    {
        "CLIPModel": Architecture("clip", pools_at_end=True),
        "MetaClip2Model": Architecture("metaclip_2", pools_at_end=True),
        "SiglipModel": Architecture("siglip", text=_UNMASKED, whole=True),
        "Siglip2Model": Architecture("siglip2", text=_UNMASKED, whole=True),
        "AlignModel": Architecture("align", limit=64),
        "Aimv2Model": Architecture("aimv2", text=_aimv2_text, pools_at_end=True),
        "AltCLIPModel": Architecture("altclip", padded_positions=True),
        "FlavaModel": _FLAVA,
        "FlavaForPreTraining": _FLAVA,
        "BridgeTowerForContrastiveLearning": Architecture(
            "bridgetower",
            _bridgetower_image,
            _bridgetower_text,
            padded_positions=True,
            unused=("itm_score", "mlm_score"),
        ),
        "BlipForImageTextRetrieval": Architecture("blip", _blip_image, _blip_text),
        "Blip2ForImageTextRetrieval": Architecture("blip-2", _blip_2_image, _blip_2_text),
    }
)


def is_siglip(towers: Architecture) -> bool:
    """Return whether towers are SigLIP's or SigLIP 2's, of which libraries and authors read captions differently."""
    return towers.text is _UNMASKED


def find_towers(architecture: str) -> Architecture | None:
    """Return the towers of an architecture: the table's, or those of any class with features of images and of texts."""
    if architecture in TOWERS or not architecture:
        return TOWERS.get(architecture)
    kind: Any = getattr(files.import_transformers(), architecture, None)
    if not all(hasattr(kind, name) for name in ("get_image_features", "get_text_features")):
        return None
    pools = _folder_of(kind) in _LEGACY
    return Architecture(kind.config_class.model_type, pools_at_end=pools, tested=False)


def fit_towers(towers: Architecture, model: PreTrainedModel, processor: ProcessorMixin) -> Architecture:
    """Read from a model of no row of the table how it counts positions, and from its processor how many it is given."""
    parts = model.named_modules()
    positions = [part for name, part in parts if name.endswith("position_embeddings")]
    padded = any(getattr(part, "padding_idx", None) is not None for part in positions)
    text_options = getattr(processor, "text_kwargs", None) or {}
    return replace(towers, padded_positions=padded, limit=text_options.get("max_length"))


def _folder_of(kind: type) -> str:
    """Return the folder of transformers that a class comes from, as `clip`."""
    return kind.__module__.split(".")[-2] if kind.__module__.startswith("transformers.models.") else ""


def pool_at_end(name: str, model: Network, tokenizer: PreTrainedTokenizerBase, *, held: bool = False) -> str:
    """Have CLIP's text towers read a text at the tokenizer's end of it, if tokens were added behind that.

    With OpenAI's configuration transformers takes the highest token for the end: an added word, or padding.
    """
    end, highest = tokenizer.eos_token_id, max(tokenizer.get_vocab().values())
    if end is None or highest <= end:
        return ""
    kinds = [(part, _folder_of(type(part))) for part in model.modules()]
    legacy = [part for part, kind in kinds if kind in _LEGACY and getattr(part, "eos_token_id", None) == LEGACY_END]
    if (held and legacy) or any(kind in _HIGHEST for _, kind in kinds):
        fix = f"set eos_token_id = {end} on its text tower" if legacy else "remove them from its tokenizer"
        raise ModelError(
            f"{name}: its text tower reads a text at the highest token, its tokenizer ends texts with {end} and has "
            f"added tokens up to {highest}; {fix}"
        )
    for part in legacy:
        part.eos_token_id = end
    for part in (part for part, kind in kinds if legacy and kind in _LEGACY):
        config = getattr(part, "config", None)
        for settings in filter(None, (config, getattr(config, "text_config", None))):
            if getattr(settings, "eos_token_id", None) == LEGACY_END:
                settings.eos_token_id = end
    read = f"texts are read at the tokenizer's end token, {end}; transformers takes the highest, up to {highest}"
    return f"{read}, for the eos_token_id {LEGACY_END} of config.json" if legacy else ""


def context_length(
    name: str, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, towers: Architecture
) -> int:
    """Check the tokenizer against the text tower, and return how many tokens a text may have."""
    check_tokenizer(name, config, tokenizer, side=None if towers.whole else "right")
    text = text_config(config)
    if towers.padded_positions and tokenizer.pad_token_id != text.pad_token_id:
        raise ModelError(
            f"{name}: its tokenizer pads with token {tokenizer.pad_token_id}, its text encoder expects "
            f"{text.pad_token_id}; set pad_token in tokenizer_config.json"
        )
    legacy = {LEGACY_END} if towers.model_type in _LEGACY else set()
    if towers.pools_at_end and text.eos_token_id not in {tokenizer.eos_token_id, *legacy}:
        raise ModelError(
            f"{name}: its tokenizer ends a text with token {tokenizer.eos_token_id}, and its text encoder looks for "
            f"{text.eos_token_id} there; set eos_token_id of text_config in config.json to the tokenizer's"
        )
    # Towers of relative positions have no bound.
    positions = getattr(text, "max_position_embeddings", tokenizer.model_max_length)
    usable = positions - (text.pad_token_id + 1 if towers.padded_positions else 0)
    return int(min(usable, tokenizer.model_max_length, towers.limit or usable, _LONGEST))


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
    def shares(self) -> bool:
        """Whether the text tower is CLIP's, of untouched modules, with torch's fused attention."""
        model, kind = self._model, type(self._model)
        return (
            f"{kind.__module__}.{kind.__qualname__}" == _CLIP + "CLIPModel"
            and "get_text_features" not in vars(model)
            and model.config.text_config._attn_implementation == "sdpa"
            and are_untouched([model.text_model, model.text_projection], _PARTS)
        )

    def encode_shared(self, inputs: Inputs, size: int) -> Tensor | None:
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

    return CausalLayer(attention.num_heads, project, attention.out_proj, lambda x: layer.mlp(layer.layer_norm2(x)))


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
    config = files.read_config(source)
    architecture = next(iter(config.get("architectures") or ()), "")
    if not architecture:  # then the family's class without other heads
        listed = files.import_transformers().models.auto.modeling_auto.MODEL_MAPPING_NAMES.get(config["model_type"])
        architecture = listed if isinstance(listed, str) else ""
    if (form := find_towers(architecture)) is None:
        raise ModelError(
            f"{source}: {architecture or 'a model without an architecture'} has no contrastive heads, so it has no "
            f"reading 'itc'; name another reading, or a checkpoint of {', '.join(TOWERS)}, or of another class with "
            "get_image_features and get_text_features"
        )
    processor = files.load_processor(source)
    model = files.load_weights(architecture, source, place, unused=form.unused)
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
    facts: tuple[str, ...] = ()
    if not fingerprint:
        facts = (type(model).__name__, place.dtype, f"{length} tokens", files.config_facts(model.config))
        facts += (files.processor_facts(processor), *([rule] if clean else []))
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
        save=partial(files.save, model, processor) if type(model).__name__ in SCALED else None,
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
