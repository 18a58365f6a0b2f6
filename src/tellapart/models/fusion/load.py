"""Load the image-text matching head of a fusion encoder, as a pair scorer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tellapart.catalog import import_target
from tellapart.errors import ModelError
from tellapart.models.fusion.family import FromTransformers, FusionFamily, Halves, Preparation
from tellapart.models.fusion.region_file import LEFT_OUT, RegionFile, find_regions
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import READINGS, TorchFusionEncoder
from tellapart.models.huggingface.files import load_processor, load_tokenizer, processor_facts, read_config
from tellapart.models.huggingface.inputs import TokenReader, check_images, check_tokenizer, image_inputs
from tellapart.models.huggingface.load import FUSION
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import Runtime, runtime
from tellapart.models.torch.network import Network, PreTrainedTokenizerBase, ProcessorMixin


def load_itm(source: str, options: ModelOptions) -> FusionScorer:
    """Load a fusion encoder of transformers with its matching head, from a folder or the hub.

    LXMERT and VisualBERT read a detector's regions in place of pixels (`RegionFile`).
    """
    place = runtime(options)
    model_type = read_config(source)["model_type"]
    family = find_family(model_type)
    if family is None:
        raise ModelError(
            f"{source} is of type {model_type!r}, which has no reading 'itm' here; {', '.join(FUSION)} have"
        )
    regions = find_regions(Path(source).expanduser(), options.regions) if family.reads_regions else None
    halves: Any = family.load(source, place)
    if regions is None:
        preparation = prepare_pixels(source, family, halves, load_processor(source))
    else:
        # LXMERT was trained on BERT's vocabulary, too, and VisualBERT's checkpoints on the hub come without one.
        tokenizer = load_tokenizer(source, original="bert-base-uncased")
        file = RegionFile(regions, halves.dimensions)
        facts = processor_facts(SimpleNamespace(image_processor=file, tokenizer=tokenizer))
        preparation = Preparation(file.inputs, _read_tokens(source, halves, tokenizer), facts, LEFT_OUT)
    return FusionScorer(TorchFusionEncoder(source, halves, preparation, place, reading=options.reading or "itm"))


def hold_itm(name: str, model: Network, processor: ProcessorMixin, place: Runtime, reading: str) -> FusionScorer | None:
    """Return a caller's model with its matching head as a pair scorer, without moving it; None if it cannot be held."""
    family = find_family(model.config.model_type)
    loader = None if family is None else family.load
    if family is None or not isinstance(loader, FromTransformers) or reading not in READINGS:
        return None
    halves = loader.halves(model)
    preparation = prepare_pixels(name, family, halves, processor)
    return FusionScorer(TorchFusionEncoder(name, halves, preparation, place, reading=reading, fingerprint="held"))


def find_family(model_type: str) -> FusionFamily | None:
    """Return the declaration of the family that `config.json` names; None if it has no matching head."""
    return cast("FusionFamily", import_target(FUSION[model_type])) if model_type in FUSION else None


def prepare_pixels(source: str, family: FusionFamily, halves: Halves, processor: ProcessorMixin) -> Preparation:
    """Prepare images and texts by the model's processor."""
    images = image_inputs(source, processor.image_processor)
    if not family.takes_any_shape:
        check_images(source, halves.module.config, images)
    return Preparation(images, _read_tokens(source, halves, processor.tokenizer), processor_facts(processor))


def _read_tokens(source: str, halves: Halves, tokenizer: PreTrainedTokenizerBase) -> TokenReader:
    check_tokenizer(source, halves.module.config, tokenizer)
    return TokenReader(tokenizer, min(halves.context, int(tokenizer.model_max_length)))
