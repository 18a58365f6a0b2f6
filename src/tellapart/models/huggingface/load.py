"""Load a model of transformers by its hub id or folder: `config.json` names its family, and so its loader."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from tellapart.catalog import import_target
from tellapart.errors import ModelError, TellapartWarning
from tellapart.models.find import prefix_of_type
from tellapart.models.huggingface.dual_encoder import TOWERS, find_towers, is_siglip
from tellapart.models.huggingface.files import base_of, import_transformers, is_clip_flan_t5, read_config
from tellapart.models.options import ModelOptions, ModelPrefix, files_below
from tellapart.models.protocols import Model
from tellapart.models.purpose import MODULES, expect_chat, find_library_file

#: `model_type` -> declaration of a fusion encoder, in capitals in the file of those on pixels, or on regions.
FUSION: Mapping[str, str] = MappingProxyType(
    {
        kind: f"{module}:{kind.upper().replace('-', '_')}"
        for module, kinds in {
            "tellapart.models.fusion.families": ("vilt", "blip", "blip-2", "flava", "bridgetower"),
            "tellapart_native.library_regions": ("lxmert", "visual_bert"),
        }.items()
        for kind in kinds
    }
)

#: The reading of every model with features of images and of texts, and its loader.
DUAL: Mapping[str, str] = {"itc": "tellapart.models.huggingface.dual_encoder:load_dual"}
_ITM = dict.fromkeys(("itm", "itm_logit"), "tellapart.models.fusion.families:load_itm")

#: Readings of every model that writes text about an image (LLaVA, Qwen2-VL, ...), and their loader.
GENERATIVE: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        ("vqa", "vqa_end", "yes_no", "likelihood", "mean_likelihood", "choice"),
        "tellapart.models.generative.readings:load_generative",
    )
)

#: Readings of models with a vector for each token, and their loader.
_LATE = dict.fromkeys(("retrieval", "filip"), "tellapart.models.fusion.state_towers:load_late")

#: The reading of models with a video tower, and its loader.
_VIDEO = {"itc": "tellapart.models.fusion.state_towers:load_video"}

#: Readings of CLIP-FlanT5; the first is VQAScore's number, as its authors' code computes it.
_ANSWERS = ("vqa_end", "vqa", "yes_no", "likelihood", "mean_likelihood")

#: Types of models whose captions their authors read in another way than the library's tokenizer.
_SIGLIP = frozenset(towers.model_type for towers in TOWERS.values() if is_siglip(towers))

_DUAL_TYPES = dict.fromkeys(towers.model_type for towers in TOWERS.values())

#: `model_type` -> reading -> its loader. The first reading is the default unless the architecture names another.
FAMILIES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        model_type: (dict(DUAL) if model_type in _DUAL_TYPES else {})
        | (_ITM if model_type in FUSION else {})
        | (dict(GENERATIVE) if model_type in {"blip", "blip-2"} else {})
        for model_type in _DUAL_TYPES | dict.fromkeys(FUSION)
    }
    | {"clip_t5": {reading: GENERATIVE[reading] for reading in _ANSWERS}}
    | dict.fromkeys(("colpali", "colqwen2", "colmodernvbert"), _LATE)
    | dict.fromkeys(("xclip", "videoprism", "pe_video"), _VIDEO)
)

#: End of an architecture's name -> its default reading.
_HEADS = {
    "ForImageTextRetrieval": "itm",
    "ForImageAndTextRetrieval": "itm",
    "ForContrastiveLearning": "itc",
    "ForPreTraining": "itc",
    "ForQuestionAnswering": "vqa",
    "ForConditionalGeneration": "vqa",
    "Model": "itc",
}


def load(name: str, options: ModelOptions) -> Model:
    """Load a model of transformers for one of its readings, by default its architecture's."""
    source = name.removeprefix("hf:")
    config, other = _find_other(source, options.reading)
    if other is not None:
        prefix, declaration = other
        if base_of(source) != source:
            form = f"a model in a file of another form ({prefix})"
            raise ModelError(f"{source}: an adapter of {base_of(source)}, {form}; merge it there")
        if declaration.takes is not None:
            options.expect_effect(name, declaration.takes)
        return declaration.load(f"{prefix}{source}", options)
    readings = readings_of(config, source)
    if readings is GENERATIVE:
        expect_chat(base_of(source), config, options.reading)
    reading = options.reading or default_reading(config, readings)
    if reading not in readings:
        raise ModelError(
            f"{source}: a model of type {config['model_type']!r} has no reading {reading!r}; it has "
            f"{', '.join(readings)}"
        )
    if options.list_given():
        taken = {"device", "dtype", "reading"}
        if reading in _ITM and import_target(FUSION[config["model_type"]]).regions:
            taken |= {"regions"}
        elif reading in DUAL and config["model_type"] in _SIGLIP:
            taken |= {"texts"}
        options.expect_effect(name, taken)
    return cast("Model", import_target(readings[reading])(source, replace(options, reading=reading)))


def _model_files(name: str) -> list[Path] | None:
    """Return the files of a folder and, of an adapter, of its base; None if some may lie elsewhere."""
    folder = name.removeprefix("hf:")
    base = base_of(folder)
    parts = [files_below(part) for part in dict.fromkeys((folder, base))]
    if None in parts:
        return None
    config, other = _find_other(folder)
    if other is not None:
        prefix, declaration = other
        return declaration.files(f"{prefix}{folder}")
    if is_clip_flan_t5(config):  # whose vision tower's settings are another model's
        return None
    files = [file for part in parts for file in part or ()]
    if FUSION.get(str(config["model_type"]), "").startswith("tellapart_native."):  # whose code no key counts by itself
        files += sorted(Path(str(import_module("tellapart_native").__file__)).parent.rglob("*.py"))
    return files


def _find_other(source: str, reading: str | None = None) -> tuple[dict[str, Any], tuple[str, ModelPrefix] | None]:
    """Return `config.json` of a source, and the other prefix that opens it: that of its authors' files, if any.

    What sentence-transformers saved has that library's prefix, with a warning, and its configuration is not read. But
    features and a matching head of its network are read without it, if they are asked for.
    """
    if reading not in {*DUAL, *_ITM} and find_library_file(base_of(source), (MODULES,)):
        message = f"{source} has a {MODULES}: it is measured as a model of sentence-transformers, as st:{source}"
        warnings.warn(message, TellapartWarning, stacklevel=1)
        return {}, ("st:", import_target("tellapart.models.sentence_transformers.load:ST"))
    model_type = str((config := read_config(source))["model_type"])
    return config, None if model_type in FAMILIES else prefix_of_type(model_type)


HF = ModelPrefix(
    {"hf:PATH or ORG/REPO": "a model of transformers, for example openai/clip-vit-base-patch32; hf: may be left out"},
    load,
    files=_model_files,
    # A folder may hold a model that was converted from its authors' file.
    takes=frozenset({"device", "dtype", "reading", "regions", "texts", "image_size", "tokenizer"}),
)


def readings_of(config: Mapping[str, Any], source: str) -> Mapping[str, str]:
    """Return the readings of a model, by its configuration: reading -> `"module:function"`."""
    model_type = "clip_t5" if is_clip_flan_t5(config) else str(config.get("model_type"))
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    auto = import_transformers().models.auto.modeling_auto
    writers = auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES | getattr(
        auto, "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES", {}
    )
    if model_type in writers:
        return GENERATIVE
    class_names = [*(config.get("architectures") or ()), auto.MODEL_MAPPING_NAMES.get(model_type)]
    if any(isinstance(architecture, str) and find_towers(architecture) for architecture in class_names):
        return DUAL
    raise ModelError(
        f"{source}: config.json names the model type {model_type!r}, which is read by no family here "
        f"({', '.join(FAMILIES)}, whatever has get_image_features and get_text_features, and what transformers calls "
        "image-text-to-text); a model of another kind can be "
        "measured in memory: tellapart.evaluate(tellapart.model(images=f, texts=g), ...), of two functions from lists "
        "to vectors, or model(score=f); or by its scores: tellapart.score"
    )


def default_reading(config: Mapping[str, Any], readings: Mapping[str, str]) -> str:
    """Return the reading of a model's architecture among its readings."""
    architecture = next(iter(config.get("architectures") or ()), "")
    if architecture in {"BlipForConditionalGeneration", "Florence2ForConditionalGeneration"}:
        return "likelihood"  # they write captions and were never taught to answer
    if is_clip_flan_t5(config):
        return _ANSWERS[0]
    reading = next((reading for end, reading in _HEADS.items() if architecture.endswith(end)), "")
    return reading if reading in readings else next(iter(readings))
