"""Building an open_clip model: every weight from its checkpoint, and a tokenizer that fits those weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.data.strict_json import load_json
from tellapart.errors import MissingDependencyError, ModelError, first_line, require
from tellapart.models.caption_rules import caption_rule
from tellapart.models.hub import reach_hub
from tellapart.models.openclip.fitting import Shapes, fitting_architectures, odd
from tellapart.models.openclip.library import (
    import_open_clip,
    import_towers,
    quiet_open_clip,
    without_initialisation,
)
from tellapart.models.openclip.source import CONFIG, FOLDER, HUB, Source
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.checkpoint import Checkpoint, read_checkpoint
from tellapart.models.torch.network import describe_misfit
from tellapart.models.torch.peft_adapter import ADAPTER_CONFIG, merge_adapter

if TYPE_CHECKING:
    from torch import Tensor

    from tellapart.models.openclip.tokens import ClipTokenizer
    from tellapart.models.torch.network import Network


# LoRA checkpoints of open_clip's towers: their updates are merged into the weights when they are read.
#
# Source: Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1 (W + alpha / rank * B A),
# under the names that loralib's layers save: `NAME.lora_A` beside `NAME.weight`, and `NAME_lora_A` beside a packed
# `NAME`.

#: Settings of peft under which an update is another product than alpha / rank * B A, or differs by layer.
_OTHER_PRODUCTS = ("use_dora", "rank_pattern", "alpha_pattern", "fan_in_fan_out")


def merge_updates(name: str, tensors: Mapping[str, Any], checkpoint: Path) -> dict[str, Any]:
    """Return the tensors of a checkpoint with its LoRA matrices merged into their weights, and the rest as it is.

    A product is taken in float64 and rounded once, to float32: added to a weight of 16 bits, a small update would
    vanish.
    """
    matrices = {key: tensor for key, tensor in tensors.items() if "lora_" in key.lower()}
    merged = {key: tensor for key, tensor in tensors.items() if key not in matrices}
    if not matrices:
        return merged
    place = f"{name}: {checkpoint.name}"
    rank, scale = _read_scale(place, checkpoint.with_name(ADAPTER_CONFIG), len(matrices), min(matrices))
    for key, matrix in matrices.items():
        stem, half = key[:-1], key[-1]
        pair = {"A": stem + "B", "B": stem + "A"}
        if half not in pair or pair[half] not in matrices:
            raise ModelError(f"{place} holds {key} alone; expected its weight's lora_A and lora_B")
        weight = stem.removesuffix(".lora_") + ".weight" if stem.endswith(".lora_") else stem.removesuffix("_lora_")
        if weight not in merged:
            raise ModelError(
                f"{place} holds {key} without {weight}, which it changes; save the whole state dict, the frozen "
                "weights and the LoRA matrices together"
            )
        if half == "A":
            update = _multiply_halves(place, weight, merged[weight], (matrix, matrices[pair[half]]), rank)
            merged[weight] = (merged[weight].double() + scale * update).float()
    return merged


def _read_scale(place: str, config: Path, count: int, first: str) -> tuple[int, float]:
    """Return the rank and the factor of B A."""
    if not config.is_file():
        raise ModelError(
            f"{place} holds {count} LoRA matrices, first {first}, and no tensor holds their scale, alpha / rank; write "
            f'{ADAPTER_CONFIG} beside it with its authors\' numbers, for example {{"r": 4, "lora_alpha": 1}}'
        )
    content = load_json(config, error=ModelError)
    stated: dict[str, Any] = content if isinstance(content, dict) else {}
    rank: Any = stated.get("r")
    alpha: Any = stated.get("lora_alpha")
    if not (type(rank) is int and rank >= 1 and type(alpha) in {int, float} and math.isfinite(alpha)):
        raise ModelError(
            f"{config}: expected 'r', a number of at least 1, and 'lora_alpha', a number; got {rank!r} and {alpha!r}"
        )
    if other := [key for key in _OTHER_PRODUCTS if stated.get(key)]:
        raise ModelError(
            f"{config}: {other[0]!r} is set, and only W + alpha / rank * B A is merged here; merge it by its authors' "
            "code, and name the merged state dict"
        )
    return rank, float(alpha) / (math.sqrt(rank) if stated.get("use_rslora") else rank)


def _multiply_halves(place: str, name: str, weight: Tensor, halves: tuple[Any, Any], rank: int) -> Tensor:
    """Return B A in float64, in the shape of its weight."""
    a, b = halves
    side = weight.shape[-1] if weight.ndim == 4 else 1  # of a convolution's kernel: loralib's matrices have rank * side
    rows, columns = (weight.shape[0] * side, weight[0].numel() // side)
    if turned := name.endswith("embedding.weight"):  # loralib keeps an embedding's matrices the other way round
        rows, columns = columns, rows
    if tuple(a.shape) != (rank * side, columns) or tuple(b.shape) != (rows, rank * side):
        raise ModelError(
            f"{place}: the LoRA matrices of {name} have shapes {tuple(a.shape)} and {tuple(b.shape)}; a weight of "
            f"{tuple(weight.shape)} and rank {rank} ({ADAPTER_CONFIG}) need {(rank * side, columns)} and "
            f"{(rows, rank * side)}"
        )
    update = b.double() @ a.double()
    return update.T if turned else update.reshape(weight.shape)


#: Entries of OpenAI's archives that are not weights.
_OPENAI = ("input_resolution", "context_length", "vocab_size")

#: Fields of a preprocessing for `open_clip.image_transform`, without the size.
_STEPS = ("mean", "std", "interpolation", "resize_mode", "fill_color")

#: A buffer that older versions of transformers saved and that counts up from zero.
_COUNTER = "text.transformer.embeddings.position_ids"

#: What open_clip's trainer adds to any architecture with --siglip.
_OTHERS = "; -m {} without an architecture names those that fit"
_BIAS = (
    "; it was trained with SigLIP's loss (--siglip), which adds this bias: write local-dir:FOLDER, a folder with the "
    f'file and {CONFIG}, its architecture and "init_logit_bias": -10 in model_cfg'
)

_TOKENIZER_FIX = (
    "; open_clip takes it from the hub: load the model once where there is a network, or put tokenizer.json and "
    "tokenizer_config.json beside open_clip_config.json and use local-dir:"
)


@dataclass(frozen=True, slots=True)
class Parts:
    """A loaded open_clip model with open_clip's preprocessing and tokenizer.

    Attributes:
        model: in float32, on the CPU, in evaluation mode.
        transform: of `torchvision`, from a picture to a tensor.
        activation: of the transformers that open_clip builds: `QuickGELU` or `GELU`; empty if it builds none.
        texts: the rule by which captions are changed before the tokenizer; empty if they are not.
        checkpoint: read for the weights, without its tensors; None of a caller's model.
    """

    model: Any
    transform: Any
    tokenizer: Any
    activation: str
    texts: str = ""
    checkpoint: Checkpoint | None = None


def assemble(source: Source, *, texts: str = "raw") -> Parts:
    """Build a model and load its weights.

    open_clip's loader stretches position embeddings of another length, starts from random weights where it finds
    no file, and fills in a missing bias; here each tensor must be there, in its shape.
    """
    open_clip = import_open_clip()
    with quiet_open_clip(), _explain_errors(source, "open_clip cannot build it"):
        import_towers(open_clip.get_model_config(source.architecture))
        with without_initialisation():
            model = open_clip.create_model(
                source.architecture,
                load_weights=False,
                pretrained_image=False,
                pretrained_text=False,
                force_preprocess_cfg={key: value for key, value in source.preprocessing.items() if key != "size"},
            )
        facts = open_clip.get_model_preprocess_cfg(model)
        steps = {key: facts[key] for key in _STEPS if key in facts}
        transform = open_clip.image_transform(facts["size"], is_train=False, **steps)
    _check_size(source, facts)
    activation = _activation_of(model)
    checkpoint = _load_tensors(source, model.eval(), activation)
    with (
        quiet_open_clip(),
        _explain_errors(source, "its tokenizer cannot be loaded", _TOKENIZER_FIX),
        _reach_tokenizer(source),
    ):
        tokenizer = open_clip.get_tokenizer(source.tokenizer)
    _check_tokenizer(source, model, tokenizer)
    rule, _ = caption_rule(is_siglip(model, tokenizer), tokenizer, texts)
    return Parts(model, transform, tokenizer, activation, rule, replace(checkpoint, tensors={}, beside={}))


def is_siglip(model: Any, tokenizer: Any) -> bool:
    """Return whether a model was trained by SigLIP's loss, and open_clip strips its captions' punctuation."""
    clean = getattr(getattr(tokenizer, "clean_fn", None), "__name__", "")
    return getattr(model, "logit_bias", None) is not None and "canonicalize" in clean


def _reach_tokenizer(source: Source) -> AbstractContextManager[object]:
    """Ask whether the hub answers before a tokenizer of the hub is looked for; most come with open_clip."""
    remote = source.tokenizer.startswith(HUB)
    if not remote:
        config = import_open_clip().get_model_config(source.tokenizer)
        local_tokenizer = (
            source.tokenizer.startswith(FOLDER) and source.checkpoint.with_name("tokenizer_config.json").is_file()
        )
        remote = "hf_tokenizer_name" in config["text_cfg"] and not local_tokenizer
    return reach_hub(require("huggingface_hub", extra="models")) if remote else nullcontext()


def _check_size(source: Source, facts: Mapping[str, Any]) -> None:
    stated = source.preprocessing.get("size", facts["size"])
    sides = [tuple(size) if isinstance(size, list | tuple) else (size, size) for size in (stated, facts["size"])]
    if sides[0] != sides[1]:
        raise ModelError(
            f"{source.name}: its preprocessing makes images of {sides[0]} pixels, its vision tower takes {sides[1]}; "
            "correct 'size' or 'image_size' in open_clip_config.json"
        )


def _activation_of(model: Network) -> str:
    # Towers of other libraries (timm, transformers) have another activation, which no option of open_clip changes.
    parts = import_open_clip().transformer
    towers = {parts.VisionTransformer, parts.Transformer}
    activations = {parts.QuickGELU, import_torch().nn.GELU}
    kinds = {type(part) for module in model.modules() if type(module) in towers for part in module.modules()}
    return " and ".join(sorted(kind.__name__ for kind in kinds & activations))


def _load_tensors(source: Source, model: Network, activation: str) -> Checkpoint:
    torch = import_torch()
    checkpoint = read_checkpoint(source.checkpoint, part=source.part)
    tensors: dict[str, Any] = checkpoint.tensors
    if any(key in tensors for key in _OPENAI):
        tensors = {key: tensor for key, tensor in tensors.items() if key not in _OPENAI}
        if activation != "QuickGELU":
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
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if source.adapter is not None:
        merge_adapter(source.name, model, source.adapter)
    # A sum is finite only of finite numbers, and is quick; if it is not, it may just be too large.
    odd_sums = [(name, tensor) for name, tensor in model.state_dict().items() if not torch.isfinite(tensor.sum())]
    bad = next((name for name, tensor in odd_sums if not torch.isfinite(tensor).all()), None)
    if bad is not None:
        raise ModelError(f"{source.name}: {source.checkpoint.name} holds NaN or infinity, first in {bad}")
    return checkpoint


def _check_shapes(source: Source, model: Network, tensors: Mapping[str, Any]) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    actual = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if misfit := describe_misfit(expected, actual, strange="unexpected"):
        bias = _BIAS if actual.keys() - expected.keys() == {"logit_bias"} else ""
        raise ModelError(
            f"{source.name}: {source.checkpoint.name} does not fit {source.architecture}: {misfit}"
            f"{bias or _did_you_mean(source, expected, actual) or _OTHERS.format(source.checkpoint)}"
        )


def _did_you_mean(source: Source, expected: Shapes, actual: Shapes) -> str:
    better = [fit for fit in fitting_architectures(actual, like=source.architecture) if fit.odd < odd(expected, actual)]
    return f"; did you mean {better[0].architecture!r}?" if better else ""


def _convert_names(source: Source, model: Network, tensors: dict[str, Any]) -> dict[str, Any]:
    """Rename the tensors that open_clip itself renames; stretch and fill in nothing."""
    open_clip = import_open_clip()
    if any(name.startswith(("text_model.", "vision_model.")) for name in tensors):
        raise ModelError(
            f"{source.name}: {source.checkpoint} is a checkpoint of transformers, not of open_clip; name its folder, "
            "with config.json in it: hf:FOLDER"
        )
    with _explain_errors(source, f"{source.checkpoint.name} cannot be converted"):
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


def _check_tokenizer(source: Source, model: Network, tokenizer: ClipTokenizer) -> None:
    """Check that the tokenizer fits the text tower: its entries, its length, and the token that is pooled at."""
    text = getattr(model, "text", model)
    sizes = import_open_clip().get_model_tokenize_cfg(model)
    rows, context = sizes["vocab_size"], sizes["context_length"]
    inner = getattr(tokenizer, "tokenizer", None)  # of transformers; else open_clip's
    entries = tokenizer.vocab_size if inner is None else max(inner.get_vocab().values()) + 1
    if (inner is None and entries != rows) or entries > rows:
        raise ModelError(
            f"{source.name}: its tokenizer has {entries} entries, its token embeddings {rows} rows; they belong to "
            "different models: name the right one as 'hf_tokenizer_name' in open_clip_config.json"
        )
    if (length := tokenizer.context_length) > context:
        raise ModelError(
            f"{source.name}: its tokenizer makes {length} tokens, its text tower takes {context}; "
            "correct 'context_length' in open_clip_config.json"
        )
    if getattr(tokenizer, "reduction_fn", None) is not None:
        raise ModelError(
            f"{source.name}: its tokenizer leaves out words of long texts at random, as in training; remove "
            "'reduction_mask' from 'tokenizer_kwargs' in open_clip_config.json"
        )
    pool = getattr(text, "pool_type", getattr(text, "text_pool_type", None))
    end = tokenizer.eot_token_id if inner is None else inner.eos_token_id
    pooled = end
    if pool in {"eos", "argmax"}:
        pooled = entries - 1 if pool == "argmax" else getattr(text, "eos_id", getattr(text, "text_eos_id", None))
    if pooled != end:
        raise ModelError(
            f"{source.name}: its text tower pools at token {pooled}, its tokenizer ends texts with {end}; they belong "
            "to different models: correct 'eos_id' or 'hf_tokenizer_name' in open_clip_config.json"
        )


@contextmanager
def _explain_errors(source: Source, failure: str, fix: str = "") -> Iterator[None]:
    """Turn any error of the libraries into one line."""
    try:
        yield
    except (ModelError, MissingDependencyError):
        raise
    except Exception as error:
        raise ModelError(f"{source.name}: {failure}: {first_line(error).rstrip('.')}{fix}") from error
