"""LXMERT and VisualBERT: matching heads over region features that a detector computed before, supplied as a file."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.models.fusion.region_file import RegionFile
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import Preparation, TorchFusionEncoder
from tellapart.models.huggingface.files import load_tokenizer, processor_facts, read_config
from tellapart.models.torch_backend import runtime

if TYPE_CHECKING:
    from tellapart.models.options import ModelOptions

__all__ = ["FAMILIES", "load_regions"]

#: The configuration's `model_type` -> the module whose `load(source, runtime)` returns the family's halves.
FAMILIES = {
    "lxmert": "tellapart.models.fusion.lxmert",
    "visual_bert": "tellapart.models.fusion.visualbert",
}

#: Looked for in the model's folder if no file is named.
_NAMES = ("regions.safetensors", "regions.npz")

_LEFT_OUT = (
    "region features are read from a file: the time and the weights of the detector that made them are not included"
)


def load_regions(source: str, options: ModelOptions, *, regions: Path | str | None = None) -> FusionScorer:
    """Load a model that reads a detector's regions in place of pixels, by its matching head.

    The score of a pair is the probability of the head's class "match" (its softmax, in float32), or with the reading
    `itm_logit` the logit of that probability.

    Args:
        source: a folder, or a hub id, of the transformers library.
        options: device and dtype; `regions` in them names the file.
        regions: the file of region features (see `RegionFile`); `regions.safetensors` or `regions.npz` in the model's
            folder if neither names one.

    Raises:
        ModelError: there are no region features, the source is not to be had, or the two do not fit.
        MissingDependencyError: torch or transformers is not installed.

    >>> from tellapart.models.options import ModelOptions
    >>> load_regions("nowhere/at/all", ModelOptions())
    Traceback (most recent call last):
    tellapart.errors.ModelError: nowhere/at/all is no folder, and no id of the hub (owner/name)
    """
    where = runtime(options)
    family = read_config(source)["model_type"]
    if family not in FAMILIES:
        raise ModelError(f"{source} is of type {family!r}, which reads no region features; {' and '.join(FAMILIES)} do")
    path = _region_file(source, regions or options.regions)
    halves = importlib.import_module(FAMILIES[family]).load(source, where)
    # LXMERT was trained on BERT's vocabulary, too, and VisualBERT's checkpoints on the hub come without one.
    file, tokenizer = RegionFile(path, halves.dimensions), load_tokenizer(source, original="bert-base-uncased")
    facts = processor_facts(SimpleNamespace(image_processor=file, tokenizer=tokenizer))
    preparation = Preparation(file.inputs, tokenizer, facts, _LEFT_OUT)
    return FusionScorer(TorchFusionEncoder(source, halves, preparation, where, reading=options.reading or "itm"))


def _region_file(source: str, given: Path | str | None) -> Path:
    if given is not None:
        return Path(given).expanduser()
    folder = Path(source).expanduser()
    for name in _NAMES:
        if (folder / name).is_file():
            return folder / name
    raise ModelError(
        f"{source} reads region features of a detector, and none are given: name their file with --regions, or put "
        f"{' or '.join(_NAMES)} into the model's folder, with KEY/features (regions, dimensions) and KEY/boxes (regions, 4) of every image"
    )
