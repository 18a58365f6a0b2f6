"""Image-text matching heads of ViLT, BLIP, BLIP-2, FLAVA and BridgeTower, as pair scorers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from tellapart.errors import ModelError
from tellapart.models.fusion_checkpoint import context, pixel_inputs
from tellapart.models.fusion_scoring import FusionScorer
from tellapart.models.fusion_torch import ImageInputs, TorchFusionEncoder
from tellapart.models.huggingface_files import config_facts, load_processor, processor_facts, read_config
from tellapart.models.huggingface_towers import check_images
from tellapart.models.torch_backend import runtime, weights_fingerprint

if TYPE_CHECKING:
    from tellapart.models.find import ModelOptions

__all__ = ["FAMILIES", "load_itm"]

#: The configuration's `model_type` -> the module whose `load(source, runtime)` returns the family's halves.
FAMILIES = {
    "vilt": "tellapart.models.fusion_vilt",
    "blip": "tellapart.models.fusion_blip",
    "blip-2": "tellapart.models.fusion_blip2",
    "flava": "tellapart.models.fusion_flava",
    "bridgetower": "tellapart.models.fusion_bridgetower",
}


def load_itm(source: str, options: ModelOptions) -> FusionScorer:
    """Load a fusion encoder to be read by its image-text matching head.

    The score of a pair is the probability of the head's class "match" (its softmax, in float32); of a ViLT for
    retrieval, whose head has a single output, it is that logit.

    Args:
        source: a folder, or a hub id, of the transformers library.
        options: device and dtype.

    Raises:
        ModelError: the source is not to be had, is of another family, has no matching head, or does not fit.
        MissingDependencyError: torch or transformers is not installed.

    >>> from tellapart.models.find import ModelOptions
    >>> load_itm("nowhere/at/all", ModelOptions())
    Traceback (most recent call last):
    tellapart.errors.ModelError: nowhere/at/all is no folder, and no id of the hub (owner/name)
    """
    where = runtime(options)
    family = read_config(source)["model_type"]
    if family not in FAMILIES:
        raise ModelError(
            f"{source} is of type {family!r}, which has no reading 'itm' here; {', '.join(FAMILIES)} have (lxmert and "
            "visual_bert too, with region features beside them)"
        )
    halves = importlib.import_module(FAMILIES[family]).load(source, where)
    processor = load_processor(source)
    halves.context = context(source, halves, processor.tokenizer)
    image_inputs = pixel_inputs(processor)
    if family != "vilt":  # which takes any shape
        _check_images(source, halves.module.config, image_inputs)
    identity = weights_fingerprint(
        halves.module,
        type(halves).__name__,
        where.dtype,
        f"{halves.context} tokens",
        config_facts(halves.module.config),
        processor_facts(processor),
    )
    encoder = TorchFusionEncoder(
        source,
        halves,
        image_inputs=image_inputs,
        tokenizer=processor.tokenizer,
        runtime=where,
        fingerprint=f"tellapart:huggingface:itm:1:{identity}",
    )
    return FusionScorer(encoder)


def _check_images(source: str, config: Any, image_inputs: ImageInputs) -> None:
    """Hold what becomes of a wide and of a high picture against what the image encoder takes."""
    blank = [image_inputs(np.zeros((*size, 3), np.uint8)) for size in ((48, 64), (64, 48))]
    try:
        check_images(config, blank)
    except ModelError as error:
        raise ModelError(f"{source}: {error}") from error
