"""Image-text matching heads of ViLT, BLIP, BLIP-2, FLAVA and BridgeTower, as pair scorers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import Preparation, TorchFusionEncoder
from tellapart.models.huggingface.files import load_processor, processor_facts, read_config
from tellapart.models.huggingface.images import check_images, image_inputs
from tellapart.models.torch_backend import runtime

if TYPE_CHECKING:
    from tellapart.models.options import ModelOptions

__all__ = ["FAMILIES", "load_itm"]

#: The configuration's `model_type` -> the module whose `load(source, runtime)` returns the family's halves.
FAMILIES = {
    "vilt": "tellapart.models.fusion.vilt",
    "blip": "tellapart.models.fusion.blip",
    "blip-2": "tellapart.models.fusion.blip2",
    "flava": "tellapart.models.fusion.flava",
    "bridgetower": "tellapart.models.fusion.bridgetower",
}


def load_itm(source: str, options: ModelOptions) -> FusionScorer:
    """Load a fusion encoder to be read by its image-text matching head.

    The score of a pair is the probability of the head's class "match" (its softmax, in float32), or with the reading
    `itm_logit` the logit of that probability; of a ViLT for retrieval, whose head has a single output, it is that logit.

    Args:
        source: a folder, or a hub id, of the transformers library.
        options: device, dtype, and the reading, `itm` if none is given.

    Raises:
        ModelError: the source is not to be had, is of another family, has no matching head, or does not fit.
        MissingDependencyError: torch or transformers is not installed.

    >>> from tellapart.models.options import ModelOptions
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
    images = image_inputs(source, processor.image_processor)
    if family != "vilt":  # which takes any shape
        check_images(source, halves.module.config, images)
    preparation = Preparation(images, processor.tokenizer, processor_facts(processor))
    return FusionScorer(TorchFusionEncoder(source, halves, preparation, where, reading=options.reading or "itm"))
