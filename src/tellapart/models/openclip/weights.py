"""Building an open_clip model: every weight from its checkpoint, and a tokenizer that fits those weights."""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from tellapart.data.scores import join_names
from tellapart.data.strict_json import read_json
from tellapart.errors import ModelError, TellapartWarning, explain_failure, require
from tellapart.models.captions import caption_rule
from tellapart.models.hub import reach_hub
from tellapart.models.openclip.library import build_model, import_open_clip, quiet_open_clip
from tellapart.models.openclip.source import CONFIG, FOLDER, HUB, NEW_ARCHITECTURE, TAG, Source, name_forms
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.checkpoint import Checkpoint, read_checkpoint
from tellapart.models.torch.network import Network, describe_misfit
from tellapart.models.torch.peft_adapter import ADAPTER_CONFIG, merge_adapter

#: Tensor -> shape.
Shapes = Mapping[str, tuple[int, ...]]

#: The share of tensors that may be missing, unexpected or of another shape in a suggestion.
_TOLERANCE = 0.05

#: Settings of peft under which an update is another product than alpha / rank * B A, or differs by layer.
_OTHER_PRODUCTS = ("use_dora", "rank_pattern", "alpha_pattern", "fan_in_fan_out")

#: Beginnings of names of tensors in transformers' files of CLIP.
_OF_TRANSFORMERS = ("text_model.", "vision_model.")

#: Entries of OpenAI's archives that are not weights.
_OPENAI = ("input_resolution", "context_length", "vocab_size")

#: A buffer that older versions of transformers saved and that counts up from zero.
_COUNTER = "text.transformer.embeddings.position_ids"

#: What open_clip's trainer adds to any architecture with --siglip.
_BIAS = (
    "; it was trained with SigLIP's loss (--siglip), which adds this bias: write local-dir:FOLDER, a folder with the "
    f'file and {CONFIG}, its architecture and "init_logit_bias": -10 in model_cfg'
)

_TOKENIZER_FIX = (
    "; open_clip takes it from the hub: load the model once where there is a network, or put tokenizer.json and "
    "tokenizer_config.json beside open_clip_config.json and use local-dir:"
)


def merge_updates(name: str, tensors: Mapping[str, Any], checkpoint: Path) -> dict[str, Any]:
    """Return the tensors of a checkpoint with loralib's matrices merged into their weights.

    loralib's layers save `NAME.lora_A` beside `NAME.weight`, and `NAME_lora_A` beside a packed `NAME`. A product is
    taken in float64 and rounded once, to float32: added to a weight of 16 bits, a small update would vanish.

    Source: Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1 (W + alpha / rank * B A).
    """
    matrices = {key: tensor for key, tensor in tensors.items() if "lora_" in key.lower()}
    if not matrices:
        return dict(tensors)
    merged = {key: tensor for key, tensor in tensors.items() if key not in matrices}
    place = f"{name}: {checkpoint.name}"
    rank, scale = _read_scale(place, checkpoint.with_name(ADAPTER_CONFIG), matrices)
    stems = dict.fromkeys(key[:-1] for key in matrices)
    pairs = {stem + half for stem in stems for half in "AB"}
    if alone := [key for key in matrices if not {key, key[:-1] + "A", key[:-1] + "B"} <= pairs & matrices.keys()]:
        raise ModelError(f"{place} holds {alone[0]} alone; expected its weight's lora_A and lora_B")
    for stem in stems:
        a, b = matrices[stem + "A"], matrices[stem + "B"]
        weight = stem.removesuffix(".lora_") + ".weight" if stem.endswith(".lora_") else stem.removesuffix("_lora_")
        if weight not in merged:
            raise ModelError(
                f"{place} holds {stem}A without {weight}, which it changes; save the whole state dict, the frozen "
                "weights and the LoRA matrices together"
            )
        shape = merged[weight].shape
        # A convolution's matrices have rank * side; an embedding's lie the other way round.
        side = shape[-1] if len(shape) == 4 else 1
        turned = weight.endswith("embedding.weight")
        rows, columns = shape[0] * side, math.prod(shape[1:]) // side
        expected = [(rank * side, rows if turned else columns), (columns if turned else rows, rank * side)]
        if [tuple(a.shape), tuple(b.shape)] != expected:
            raise ModelError(
                f"{place}: the LoRA matrices of {weight} have shapes {tuple(a.shape)} and {tuple(b.shape)}; a weight "
                f"of {tuple(shape)} and rank {rank} ({ADAPTER_CONFIG}) need {expected[0]} and {expected[1]}"
            )
        update = b.double() @ a.double()
        merged[weight] = (merged[weight].double() + scale * (update.T if turned else update.reshape(shape))).float()
    return merged


def _read_scale(place: str, config: Path, matrices: Mapping[str, Any]) -> tuple[int, float]:
    """Return the rank and the factor of B A."""
    if not config.is_file():
        raise ModelError(
            f"{place} holds {len(matrices)} LoRA matrices, first {min(matrices)}, and no tensor holds their scale, "
            f"alpha / rank; write {ADAPTER_CONFIG} beside it with its authors' numbers, for example "
            '{"r": 4, "lora_alpha": 1}'
        )
    content: Any = read_json(config, error=ModelError)
    stated: dict[str, Any] = content if isinstance(content, dict) else {}
    rank, alpha = (cast("Any", stated.get(key)) for key in ("r", "lora_alpha"))
    if type(rank) is not int or rank < 1 or type(alpha) not in {int, float} or not math.isfinite(alpha):
        raise ModelError(
            f"{config}: expected 'r', a number of at least 1, and 'lora_alpha', a number; got {rank!r} and {alpha!r}"
        )
    if other := [key for key in _OTHER_PRODUCTS if stated.get(key)]:
        raise ModelError(
            f"{config}: {other[0]!r} is set, and only W + alpha / rank * B A is merged here; merge it by its authors' "
            "code, and name the merged state dict"
        )
    return rank, float(alpha) / (math.sqrt(rank) if stated.get("use_rslora") else rank)


@dataclass(frozen=True, slots=True)
class Parts:
    """A loaded open_clip model with open_clip's preprocessing and tokenizer."""

    model: Any
    transform: Any
    tokenizer: Any
    texts: str = ""  # the rule by which captions are changed before the tokenizer; empty if none is
    checkpoint: Checkpoint | None = None  # the file of the weights, without its tensors


def assemble(source: Source, *, texts: str = "raw") -> Parts:
    """Build a model and load its weights.

    open_clip's loader stretches position embeddings of another length, starts from random weights where it finds
    no file, and fills in a missing bias; here each tensor must be there, in its shape.
    """
    open_clip = import_open_clip()
    with explain_failure(f"{source.name}: open_clip cannot build it"):
        steps = {key: value for key, value in source.preprocessing.items() if key != "size"}
        model = build_model(source.architecture, force_preprocess_cfg=steps).eval()
        facts = open_clip.get_model_preprocess_cfg(model)
        transform = open_clip.transform.image_transform_v2(
            open_clip.transform.PreprocessCfg(**facts | {"mode": "RGB"}), False
        )
    stated = source.preprocessing.get("size", facts["size"])
    cuts: Any = getattr(getattr(model.visual, "trunk", None), "patch_embed", None)  # timm's size is not the tower's
    fixed = (getattr(cuts, "strict_img_size", False) and cuts.img_size) or facts["size"]
    sizes = (stated, facts["size"], fixed)
    sides = [tuple(size) if isinstance(size, list | tuple) else (size, size) for size in sizes]
    if len(set(sides)) > 1:
        made = next(side for side in sides if side != sides[2])
        raise ModelError(
            f"{source.name}: its preprocessing makes images of {made} pixels, its vision tower takes {sides[2]}; "
            "correct 'size' or 'image_size' in open_clip_config.json"
        )
    checkpoint = _load_tensors(source, model)
    with (
        quiet_open_clip(),
        explain_failure(f"{source.name}: its tokenizer cannot be loaded", _TOKENIZER_FIX),
        _reach_tokenizer(source),
    ):
        tokenizer = open_clip.get_tokenizer(source.tokenizer or source.architecture)
    _check_tokenizer(source, model, tokenizer)
    rule, _ = caption_rule(is_siglip(model, tokenizer), tokenizer, texts)
    return Parts(model, transform, tokenizer, rule, replace(checkpoint, tensors={}, beside={}))


def name_activation(tower: Network) -> str:
    """Return the activation of a tower's layers; empty if it is none that is known here."""
    kinds = {"GELU": "GELU", "GELUTanh": "GELU (tanh)", "QuickGELU": "QuickGELU"}
    activations = {
        "GELU (tanh)" if "tanh" in part.extra_repr() else kinds[type(part).__name__]
        for part in tower.modules()
        if type(part).__name__ in kinds
    }
    return " and ".join(sorted(activations))


def is_siglip(model: Any, tokenizer: Any) -> bool:
    """Return whether a model was trained by SigLIP's loss, and open_clip strips its captions' punctuation."""
    clean = getattr(getattr(tokenizer, "clean_fn", None), "__name__", "")
    return getattr(model, "logit_bias", None) is not None and "canonicalize" in clean


def _reach_tokenizer(source: Source) -> AbstractContextManager[object]:
    """Ask whether the hub answers before a tokenizer is looked for there; most come with open_clip."""
    name, remote = source.architecture, source.tokenizer.startswith(HUB)
    if not remote and "hf_tokenizer_name" in import_open_clip().get_model_config(name)["text_cfg"]:
        remote = not (name.startswith(FOLDER) and source.checkpoint.with_name("tokenizer_config.json").is_file())
    return reach_hub(require("huggingface_hub", extra="models")) if remote else nullcontext()


def _load_tensors(source: Source, model: Network) -> Checkpoint:
    torch = import_torch()
    checkpoint = read_checkpoint(source.checkpoint, part=source.part)
    tensors: dict[str, Any] = checkpoint.tensors
    if any(key in tensors for key in _OPENAI):
        tensors = {key: tensor for key, tensor in tensors.items() if key not in _OPENAI}
        if name_activation(model) != "QuickGELU":
            raise ModelError(
                f"{source.name}: these are OpenAI's own weights, trained with QuickGELU; use "
                f"{source.architecture}-quickgelu"
            )
    tensors = merge_updates(source.name, tensors, source.checkpoint)
    tensors = _convert_names(source, model, tensors)
    _check_shapes(source, model, tensors)
    dtypes = {name: tensor.dtype for name, tensor in model.state_dict().items()}
    # Assigned, not copied: the model was built without numbers.
    model.load_state_dict({name: tensor.to(dtypes[name]) for name, tensor in tensors.items()}, strict=True, assign=True)
    model.requires_grad_(False)
    if source.adapter is not None:
        merge_adapter(source.name, model, source.adapter)
    for name, tensor in model.state_dict().items():
        # A sum is finite only of finite numbers, and is quick; if it is not, it may just be too large.
        if not torch.isfinite(tensor.sum()) and not torch.isfinite(tensor).all():
            raise ModelError(f"{source.name}: {source.checkpoint.name} holds NaN or infinity, first in {name}")
    return checkpoint


def _check_shapes(source: Source, model: Network, tensors: Mapping[str, Any]) -> None:
    expected, actual = _shapes_of(model.state_dict()), _shapes_of(tensors)
    if expected != actual:
        misfit = describe_misfit(expected, actual, strange="unexpected")
        hint = f"; -m {source.checkpoint} without an architecture names those that fit"
        fits = fitting_architectures(actual, like=source.architecture)
        if better := [name for name, odd in fits.items() if odd < count_odd(expected, actual)]:
            hint = f"; did you mean {better[0]!r}?"
        if actual.keys() - expected.keys() == {"logit_bias"}:
            hint = _BIAS
        raise ModelError(f"{source.name}: {source.checkpoint.name} does not fit {source.architecture}: {misfit}{hint}")


def _shapes_of(tensors: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _convert_names(source: Source, model: Network, tensors: dict[str, Any]) -> dict[str, Any]:
    """Rename the tensors that open_clip itself renames; stretch and fill in nothing."""
    open_clip = import_open_clip()
    if any(name.startswith(_OF_TRANSFORMERS) for name in tensors):
        raise ModelError(
            f"{source.name}: {source.checkpoint} is a checkpoint of transformers, not of open_clip; name its folder, "
            "with config.json in it: hf:FOLDER"
        )
    with explain_failure(f"{source.name}: {source.checkpoint.name} cannot be converted"):
        tensors = open_clip.convert.convert_state_dict(model, tensors)
    if "positional_embedding" in tensors and not hasattr(model, "positional_embedding"):
        tensors = open_clip.model.convert_to_custom_text_state_dict(tensors)
    if not hasattr(model, _COUNTER):
        tensors.pop(_COUNTER, None)
    for name in ("logit_scale", "logit_bias"):  # a number, or one in a list
        current = getattr(model, name, None)
        if current is not None and name in tensors and tensors[name].numel() == 1:
            tensors[name] = tensors[name].reshape(current.shape)
    return tensors


def _check_tokenizer(source: Source, model: Network, tokenizer: Any) -> None:
    """Check that the tokenizer fits the text tower: its entries, its length, and the token that is pooled at."""
    text, sizes = getattr(model, "text", model), import_open_clip().get_model_tokenize_cfg(model)
    rows, context = sizes["vocab_size"], sizes["context_length"]
    inner = getattr(tokenizer, "tokenizer", None)  # of transformers; else open_clip's
    entries = tokenizer.vocab_size if inner is None else max(inner.get_vocab().values()) + 1
    pool = getattr(text, "pool_type", getattr(text, "text_pool_type", None))
    end = tokenizer.eot_token_id if inner is None else inner.eos_token_id
    pooled = entries - 1 if pool == "argmax" else getattr(text, "eos_id", getattr(text, "text_eos_id", None))
    problem, others = "", "they belong to different models"
    if (inner is None and entries != rows) or entries > rows:
        name = "name the right one as 'hf_tokenizer_name'"
        problem = f"tokenizer has {entries} entries, its token embeddings {rows} rows; {others}: {name}"
    elif (length := tokenizer.context_length) > context:
        problem = f"tokenizer makes {length} tokens, its text tower takes {context}; correct 'context_length'"
    elif getattr(tokenizer, "reduction_fn", None) is not None:
        remove = "remove 'reduction_mask' from 'tokenizer_kwargs'"
        problem = f"tokenizer leaves out words of long texts at random, as in training; {remove}"
    elif pool in {"eos", "argmax"} and pooled != end:
        fix = "correct 'eos_id' or 'hf_tokenizer_name'"
        problem = f"text tower pools at token {pooled}, its tokenizer ends texts with {end}; {others}: {fix}"
    if problem:
        raise ModelError(f"{source.name}: its {problem} in {CONFIG}")


def count_odd(expected: Shapes, actual: Shapes) -> int:
    """Count the tensors that only one of two state dicts has, or that differ in shape."""
    # Names are those of a model without a separate text tower; tensors of one number have the shape `()`.
    first, other = (
        {
            name.removeprefix("text."): () if math.prod(shape) == 1 else shape
            for name, shape in shapes.items()
            if not name.endswith("position_ids")
        }
        for shapes in (expected, actual)
    )
    return sum(first.get(name) != other.get(name) for name in first.keys() | other.keys())


def fitting_architectures(shapes: Shapes, like: str = "") -> dict[str, int]:
    """Return the architectures that tensors fit, the best first, and how many are odd; of equals first similar names.

    Those whose text tower is another library's are left out: it would have to be looked for on the hub.
    """
    open_clip = import_open_clip()
    fits: dict[str, int] = {}
    for name in open_clip.list_models():
        if _may_fit(open_clip.get_model_config(name), shapes):
            with suppress(Exception):  # a version of timm without that tower: no suggestion is worth another error
                odd = count_odd(_shapes_of(build_model(name, meta=True).state_dict()), shapes)
                fits |= {name: odd} if odd <= _TOLERANCE * len(shapes) else {}
    likeness = {name: difflib.SequenceMatcher(None, name.lower(), like.lower()).ratio() for name in fits}
    return dict(sorted(fits.items(), key=lambda fit: (fit[1], -likeness[fit[0]], fit[0])))


def _may_fit(config: Mapping[str, Any], shapes: Shapes) -> bool:
    """Look at a few tensors: it costs nothing, and few architectures need to be built."""
    vision, text = config["vision_cfg"], config["text_cfg"]
    words = shapes.get("token_embedding.weight", shapes.get("text.token_embedding.weight"))
    if "hf_model_name" in text or words != (text.get("vocab_size", 49408), text.get("width", 512)):
        return False
    if "timm_model_name" in vision:
        return any(name.startswith("visual.trunk.") for name in shapes)
    if isinstance(vision.get("layers"), list):
        return "visual.layer1.0.conv1.weight" in shapes
    patch = vision.get("patch_size", 16)
    return shapes.get("visual.conv1.weight") == (vision.get("width", 768), 3, patch, patch)


def complete_name(name: str) -> str:
    """Return an open_clip model's name; of a bare file that fits one architecture, with that and a warning."""
    file = name.removeprefix(TAG)
    if not Path(file).expanduser().is_file():
        return name
    form, sentence = explain_weights(file)
    if not form:
        raise ModelError(f"{name} names no architecture: {sentence}")
    warnings.warn(f"{file} fits one architecture of open_clip; read as {form}", TellapartWarning, stacklevel=2)
    return form


def explain_weights(file: str) -> tuple[str, str]:
    """Return the name of a file of weights, and a sentence with the architectures that it fits.

    The name is empty unless the file fits one architecture to the last tensor, and that has one reading.
    """
    try:
        shapes = _shapes_of(read_checkpoint(file, shapes_only=True).tensors)
    except ModelError as error:
        raise ModelError(f"{error}; a file of open_clip's weights is named {TAG}ARCH@FILE") from error
    if any(key.startswith(_OF_TRANSFORMERS) for key in shapes):
        return "", f"{file} is a checkpoint of transformers; write hf:FOLDER, its folder with config.json in it"
    fits = fitting_architectures(shapes, like=Path(file).stem)
    if not fits:
        return "", f"{file} is a file of weights that fit no architecture of open_clip; {NEW_ARCHITECTURE}"
    least = min(fits.values())
    best = [architecture for architecture, odd in fits.items() if odd == least]
    forms = list(dict.fromkeys(form for architecture in best[:4] for form in name_forms(architecture, file)))
    fit = f"come, but for {least} of {len(shapes)} tensors, nearest to" if least else "fit"
    sentence = f"{file} is a file of weights that {fit} {join_names(best, 4)}; write {' or '.join(forms)}"
    return forms[0] if not least and len(forms) == 1 else "", sentence
