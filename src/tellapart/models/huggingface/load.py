"""A model of transformers by its hub id or folder: `config.json` says which family it is, and so who reads it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from tellapart.errors import ModelError
from tellapart.models.huggingface.files import import_transformers, read_config

if TYPE_CHECKING:
    from tellapart.models.options import ModelOptions
    from tellapart.models.protocols import Model

__all__ = ["FAMILIES", "GENERATIVE", "load", "readings_of"]

_DUAL = {"itc": "tellapart.models.huggingface.dual_encoder:load_dual"}
_ITM = dict.fromkeys(("itm", "itm_logit"), "tellapart.models.fusion.load:load_itm")
_REGIONS = dict.fromkeys(("itm", "itm_logit"), "tellapart.models.fusion.regions:load_regions")
_GENERATIVE = {
    "vqa": "tellapart.models.generative.families:load_yes",
    "yes_no": "tellapart.models.generative.families:load_yes_over_no",
    "likelihood": "tellapart.models.generative.families:load_likelihood",
    "mean_likelihood": "tellapart.models.generative.families:load_mean_likelihood",
    "choice": "tellapart.models.generative.choice:load_choice",
}

#: Readings of every model that writes text about an image (LLaVA, Qwen2-VL, ...).
GENERATIVE: Mapping[str, str] = MappingProxyType(_GENERATIVE)

#: `model_type` -> reading -> where it is loaded. The first reading is the default where the architecture has no other.
FAMILIES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "clip": _DUAL,
        "metaclip_2": _DUAL,
        "siglip": _DUAL,
        "siglip2": _DUAL,
        "align": _DUAL,
        "altclip": _DUAL,
        "chinese_clip": _DUAL,
        "flava": _DUAL | _ITM,
        "bridgetower": _DUAL | _ITM,
        "blip": _DUAL | _ITM | _GENERATIVE,
        "blip-2": _DUAL | _ITM | _GENERATIVE,
        "vilt": _ITM,
        "lxmert": _REGIONS,
        "visual_bert": _REGIONS,
    }
)

#: What the end of an architecture's name says of its heads, and so of its default reading.
_HEADS = {
    "ForImageTextRetrieval": "itm",
    "ForImageAndTextRetrieval": "itm",
    "ForContrastiveLearning": "itc",
    "ForPreTraining": "itc",
    "ForQuestionAnswering": "vqa",
    "Model": "itc",
}


def load(name: str, options: ModelOptions) -> Model:
    """Load a model of transformers for one of its readings.

    Args:
        name: a folder with `config.json`, or a hub id (`openai/clip-vit-base-patch32`); `hf:` may stand before it.
        options: `reading` chooses among the family's; the architecture's own if not given.

    Raises:
        ModelError: no such model, its files cannot be had or are not what they must be, its family is unknown or
            has no such reading.
        MissingDependencyError: transformers is not installed.

    >>> from tellapart.models.options import ModelOptions
    >>> folder = getfixture("tmp_path")
    >>> _ = (folder / "config.json").write_text('{"model_type": "clip"}')
    >>> load(str(folder), ModelOptions(reading="vqa"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: ...: a model of type 'clip' has no reading 'vqa'; it has itc
    """
    source = name.removeprefix("hf:")
    config = read_config(source)
    readings = readings_of(config, source)
    reading = options.reading or _default(config, readings)
    if reading not in readings:
        raise ModelError(
            f"{source}: a model of type {config['model_type']!r} has no reading {reading!r}; it has {', '.join(readings)}"
        )
    module, _, function = readings[reading].partition(":")
    return cast("Model", getattr(importlib.import_module(module), function)(source, options))


def readings_of(config: Mapping[str, Any], source: str) -> Mapping[str, str]:
    """Return the readings of a model, by its configuration: reading -> `"module:function"`.

    Raises:
        ModelError: the family is unknown.

    >>> list(readings_of({"model_type": "flava"}, "facebook/flava-full"))
    ['itc', 'itm', 'itm_logit']
    """
    family = str(config.get("model_type"))
    if family in FAMILIES:
        return FAMILIES[family]
    if family in _writers():
        return GENERATIVE
    raise ModelError(
        f"{source}: config.json names the model type {family!r}, which is read by no family here ({', '.join(FAMILIES)}, "
        "and what transformers calls image-text-to-text); a model of another kind can be measured through tellapart.score"
    )


def _writers() -> Mapping[str, Any]:
    """Return the model types that write text about an image, as transformers lists them."""
    auto = import_transformers().models.auto.modeling_auto
    return cast("Mapping[str, Any]", auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)


def _default(config: Mapping[str, Any], readings: Mapping[str, str]) -> str:
    architecture = next(iter(config.get("architectures") or ()), "")
    if architecture == "BlipForConditionalGeneration":
        return "likelihood"  # it writes captions and was never taught to answer
    if architecture.endswith("ForConditionalGeneration"):
        return "vqa"
    head = next((reading for end, reading in _HEADS.items() if architecture.endswith(end)), "")
    return head if head in readings else next(iter(readings))
