"""Load a model from its authors' file, or from the folder that it was converted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tellapart.data.strict_json import read_json
from tellapart.errors import ModelError
from tellapart.models.fusion.family import Preparation
from tellapart.models.fusion.scoring import FusionScorer, TorchFusionEncoder
from tellapart.models.huggingface.files import load_tokenizer, tokenizer_facts
from tellapart.models.huggingface.inputs import TokenReader, check_tokenizer, leave_out_end
from tellapart.models.torch.backend import Runtime, runtime
from tellapart.models.torch.checkpoint import Checkpoint, read_checkpoint, split_part
from tellapart.models.torch.dual_encoder import TorchDual
from tellapart_native.family import Layout, NativeFamily, Reading
from tellapart_native.heads.decoding import Writer
from tellapart_native.heads.other_tasks import (
    FusionAnswers,
    FusionBoxes,
    FusionHeat,
    FusionTwoImages,
    NativeCaptioner,
    NativeWriter,
)
from tellapart_native.prefix import TOKENIZER_FILES
from tellapart_native.region_file import LEFT_OUT, RegionFile, find_regions

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from tellapart.models.options import ModelOptions
    from tellapart.models.torch.network import Network


NativeModel = FusionScorer | TorchDual | NativeCaptioner | FusionAnswers | FusionTwoImages | FusionHeat | FusionBoxes


def _open_captioner(encoder: TorchFusionEncoder) -> NativeCaptioner:
    return (NativeWriter if isinstance(encoder.halves, Writer) else NativeCaptioner)(encoder)


#: `Reading.read` -> the function that makes the model from the encoder; all others make a scorer of pairs.
_MODELS: dict[str, Callable[[TorchFusionEncoder], NativeModel]] = {
    "cosine": TorchFusionEncoder.cosine,
    "likelihood": _open_captioner,
    "answers": FusionAnswers,
    "two_images": FusionTwoImages,
    "heat": FusionHeat,
    "box": FusionBoxes,
}


#: Weights of a converted model, in its folder.
WEIGHTS = "model.safetensors"


class OpenedModel(NamedTuple):
    """A family, its module with weights and in evaluation mode, and the checkpoint at a path, without its tensors."""

    family: NativeFamily
    module: Network
    path: Path
    checkpoint: Checkpoint


def load_native(family: NativeFamily, name: str, options: ModelOptions) -> NativeModel:
    """Load a family's model for one of its readings, by default the first that the file has."""
    _expect_options(family, name, options)
    place = runtime(options)
    opened = open_model(family, name, place, image_size=options.image_size)
    reading = choose_reading(opened, options.reading)
    preparation, tokenizer = prepare_inputs(opened, options, reading)
    halves = reading.halves(opened.module)
    halves.take_words(tokenizer, opened.path.parent)
    encoder = TorchFusionEncoder(name, halves, preparation, place, reading=reading.read)
    model = _MODELS.get(reading.read, FusionScorer)(encoder)
    model.provenance = opened.checkpoint.weights
    return model


def _expect_options(family: NativeFamily, name: str, options: ModelOptions) -> None:
    """Refuse a reading that no file of the family has, and options without effect, before the file is read."""
    if options.reading not in {None, *family.readings}:
        raise ModelError(
            f"{name}: {family.title} has no reading {options.reading!r}; it has {', '.join(family.readings)}"
        )
    taken = {"device", "dtype", "reading", "texts", "tokenizer", "image_size"}  # some files refuse some of these later
    options.expect_effect(name, taken | {"regions"} if family.images is None else taken)


def open_model(family: NativeFamily, name: str, place: Runtime, *, image_size: int | None = None) -> OpenedModel:
    """Build the module of a file and put its weights in, at its image size or another."""
    file, part = split_part(name)
    path = Path(file).expanduser()
    checkpoint = read_checkpoint(path / WEIGHTS if path.is_dir() else path, part=part)
    tensors, settings = family.keep_tensors(checkpoint.tensors), _read_settings(checkpoint, family.name)
    if family.holds_settings and not settings:
        raise ModelError(
            f"{name} holds none of its arguments (args or cfg), and its numbers depend on them; put a config.json with "
            f'"model_type": "{family.name}" and the arguments beside it'
        )
    if image_size is not None:
        if family.resize is None:
            raise ModelError(f"{name}: {family.title} reads images of one size; leave out image_size={image_size}")
        tensors, settings = family.resize(tensors, image_size), {**settings, "image_size": image_size}
    module = family.build_module(Layout(name, {key: tuple(tensor.shape) for key, tensor in tensors.items()}, settings))
    if image_size not in (None, module.config.image_size):
        raise ModelError(
            f"{name}: {family.title} cannot read images of {image_size} pixels; the nearest size is "
            f"{module.config.image_size}: image_size={module.config.image_size}"
        )
    family.fit_module(name, module, tensors)
    module, checkpoint = module.to(place.device, place.torch_dtype), replace(checkpoint, tensors={}, beside={})
    return OpenedModel(family=family, module=module, path=checkpoint.path, checkpoint=checkpoint)


def _read_settings(checkpoint: Checkpoint, model_type: str) -> Mapping[str, Any]:
    """Return the settings that `config.json` beside the file names, else those in the checkpoint."""
    config_file = checkpoint.path.with_name("config.json")
    if config_file.is_file():
        settings = read_json(config_file)
        if isinstance(settings, Mapping) and settings.get("model_type") == model_type:
            return settings
    entries = checkpoint.beside
    # Lightning keeps `config` in `hyper_parameters`; fairseq `args`, and later versions `model` and `task` in `cfg`.
    lightning, cfg = entries.get("hyper_parameters", entries), entries.get("cfg")
    config = lightning.get("config") if isinstance(lightning, Mapping) else None
    tables = [config]
    if not isinstance(config, Mapping):
        later = cfg if isinstance(cfg, Mapping) else {}
        tables = [entries.get("args"), later.get("model"), later.get("task")]
    stated: dict[str, Any] = {}
    for table in tables:
        if isinstance(table, Mapping):
            stated |= {name: value for name, value in table.items() if isinstance(value, str | int | float | bool)}
    return stated


def choose_reading(opened: OpenedModel, name: str | None) -> Reading:
    """Return a reading that the file has the head of, by default the first."""
    tensors = opened.module.state_dict()
    readings = opened.family.readings.items()
    available = {key: reading for key, reading in readings if reading.needs in tensors and reading.lacks not in tensors}
    if name is None and available:
        return next(iter(available.values()))
    if name not in available:
        raise ModelError(
            f"{opened.path}: this file of {opened.family.title} has no reading {name!r}; it has "
            f"{', '.join(available) or 'none'}"
        )
    return available[name]


def load_vocabulary(opened: OpenedModel, folder: Path | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer of that folder, else of the file's folder, else the family's on the hub."""
    vocabulary, beside = opened.family.vocabulary, opened.path.parent
    if folder is None and any((beside / name).is_file() for name in TOKENIZER_FILES):
        folder = beside
    source = str(folder or vocabulary)
    tokenizer = load_tokenizer(source, original=f"{vocabulary}, or name it with tokenizer=FOLDER")
    check_tokenizer(source, opened.module.config, tokenizer)
    return tokenizer


def prepare_inputs(
    opened: OpenedModel, options: ModelOptions, reading: Reading | None = None
) -> tuple[Preparation, PreTrainedTokenizerBase]:
    """Return the authors' preparation of images and texts, and the tokenizer, of transformers."""
    family, module = opened.family, opened.module
    if options.texts == "cleaned" and family.clean is None:
        raise ModelError(f"{opened.path}: no cleaner of {family.title}'s captions is known; leave out texts=cleaned")
    if options.texts == "library":
        raise ModelError(f"{opened.path}: no library reads it otherwise than its authors do; leave out texts=library")
    tokenizer = load_vocabulary(opened, options.tokenizer)
    ends, prompt, cleaner = family.ends, family.prompt, family.clean
    if reading is not None:
        ends, cleaner = ends or reading.read == "likelihood", reading.clean or cleaner
        prompt = prompt if reading.prompt is None else reading.prompt
    if not ends:
        leave_out_end(tokenizer)
    clean: Callable[[str], str] = cleaner if options.texts == "cleaned" and cleaner else str
    texts = TokenReader(tokenizer, module.config.context, clean=lambda text: prompt.format(clean(text)))
    facts = f"{tokenizer_facts(tokenizer)} texts {options.texts} in {prompt}{'' if ends else ' no end'}"
    if family.images is not None:
        return Preparation(family.images(module), texts, facts), tokenizer
    regions = RegionFile(find_regions(opened.path.parent, options.regions), module.config.region_width)
    return Preparation(regions.inputs, texts, f"{facts} regions {regions.to_dict()}", LEFT_OUT), tokenizer
