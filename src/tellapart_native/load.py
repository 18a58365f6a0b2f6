"""Load a model from its authors' file, or from the folder that it was converted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tellapart.data.strict_json import load_json
from tellapart.errors import ModelError
from tellapart.models.fusion.region_file import LEFT_OUT, RegionFile, find_regions
from tellapart.models.fusion.torch_encoder import Preparation, TorchFusionEncoder
from tellapart.models.huggingface.files import load_tokenizer, tokenizer_facts
from tellapart.models.huggingface.tokens import TokenReader, check_tokenizer, leave_out_end
from tellapart.models.torch.backend import Runtime, runtime
from tellapart.models.torch.checkpoint import Checkpoint, read_checkpoint, split_part
from tellapart_native.family import Layout, NativeFamily, Reading
from tellapart_native.heads.captioner import check_ends
from tellapart_native.prefix import TOKENIZER_FILES
from tellapart_native.readings import NativeModel, make_model, take_words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from tellapart.models.options import ModelOptions
    from tellapart.models.torch.network import Network

__all__ = ["WEIGHTS", "OpenedModel", "choose_reading", "load_native", "load_vocabulary", "open_model", "prepare_inputs"]

#: Weights of a converted model, in its folder.
WEIGHTS = "model.safetensors"


class OpenedModel(SimpleNamespace):
    """A family, its module on the device, and the file it came from.

    Attributes:
        family: the `NativeFamily`.
        module: with its weights, in evaluation mode.
        path: the file.
        checkpoint: read from it, without its tensors.
    """

    family: NativeFamily
    module: Network
    path: Path
    checkpoint: Checkpoint


def load_native(family: NativeFamily, name: str, options: ModelOptions) -> NativeModel:
    """Load a family's model for one of its readings, by default the first that the file has.

    Args:
        family: that the file is of.
        name: the authors' file, or a folder with `model.safetensors` and `config.json`; `FILE#PART` takes an entry of
            a file that holds several, `FILE#ema` the averaged weights.
        options: device, dtype, reading, texts, image size, tokenizer.

    Raises:
        ModelError: the file is missing, damaged or of another family, its tensors do not fit, it has no such reading,
            or the tokenizer or the list of answers that its head needs is missing.
        MissingDependencyError: torch, timm or transformers is not installed.
    """
    _expect_options(family, name, options)
    where = runtime(options)
    opened = open_model(family, name, where, image_size=options.image_size)
    reading = choose_reading(opened, options.reading)
    preparation, tokenizer = prepare_inputs(opened, options, reading)
    halves = reading.halves(opened.module)
    take_words(halves, opened.path.parent, tokenizer)
    if reading.read == "likelihood":
        check_ends(name, preparation.texts)
    model = make_model(TorchFusionEncoder(name, halves, preparation, where, reading=reading.read), halves)
    model.provenance = opened.checkpoint.weights
    return model


def _expect_options(family: NativeFamily, name: str, options: ModelOptions) -> None:
    """Refuse, before the file is read, a reading that no file of the family has, and options that it does not take."""
    if options.reading not in {None, *family.readings}:
        raise ModelError(
            f"{name}: {family.title} has no reading {options.reading!r}; it has {', '.join(family.readings)}"
        )
    taken = {"device", "dtype", "reading", "texts", "tokenizer", "image_size"}  # each file says what it takes of these
    options.expect_effect(name, taken | {"regions"} if family.images is None else taken)


def open_model(family: NativeFamily, name: str, where: Runtime, *, image_size: int | None = None) -> OpenedModel:
    """Build the module of a file and put its weights in, at its image size or another.

    Raises:
        ModelError: as `load_native`.
    """
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
    module, checkpoint = module.to(where.device, where.torch_dtype), replace(checkpoint, tensors={}, beside={})
    return OpenedModel(family=family, module=module, path=checkpoint.path, checkpoint=checkpoint)


def _read_settings(checkpoint: Checkpoint, model_type: str) -> Mapping[str, Any]:
    """Return the settings that `config.json` beside the file names, else those in the checkpoint."""
    beside = checkpoint.path.with_name("config.json")
    if beside.is_file():
        settings = load_json(beside)
        if isinstance(settings, Mapping) and settings.get("model_type") == model_type:
            return settings
    held = checkpoint.beside.get("hyper_parameters", checkpoint.beside)
    held = held.get("config") if isinstance(held, Mapping) else None
    parts = [held] if isinstance(held, Mapping) else _fairseq_parts(checkpoint.beside)
    return {key: value for part in parts for key, value in part.items() if isinstance(value, str | int | float | bool)}


def _fairseq_parts(beside: Mapping[Any, Any]) -> list[Mapping[Any, Any]]:
    """Return the arguments that fairseq keeps: `args`, or `model` and `task` in `cfg` of later versions."""
    later = beside.get("cfg")
    parts = [beside.get("args"), *((later.get("model"), later.get("task")) if isinstance(later, Mapping) else ())]
    return [part for part in parts if isinstance(part, Mapping)]


def choose_reading(opened: OpenedModel, name: str | None) -> Reading:
    """Return a reading that the file has the head of, by default the first.

    Raises:
        ModelError: it has no such reading, or none.
    """
    held = opened.module.state_dict()
    readings = opened.family.readings.items()
    there = {key: reading for key, reading in readings if reading.needs in held and reading.lacks not in held}
    if name is None and there:
        return next(iter(there.values()))
    if name not in there:
        raise ModelError(
            f"{opened.path}: this file of {opened.family.title} has no reading {name!r}; it has "
            f"{', '.join(there) or 'none'}"
        )
    return there[name]


def load_vocabulary(opened: OpenedModel, folder: Path | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer of that folder, else of the file's folder, else the family's on the hub.

    Raises:
        ModelError: there is none, or it is not the model's.
    """
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
    """Return the authors' preparation of images and texts, and the tokenizer, of transformers.

    Args:
        opened: the model.
        options: texts, tokenizer, regions.
        reading: if it has a prompt, or predicts the end of texts.

    Raises:
        ModelError: the tokenizer is missing, it is another model's, or the authors clean no captions.
    """
    family, module = opened.family, opened.module
    if options.texts == "cleaned" and family.clean is None:
        raise ModelError(f"{opened.path}: no cleaner of {family.title}'s captions is known; leave out texts=cleaned")
    if options.texts == "library":
        raise ModelError(
            f"{opened.path}: it is read as its authors do, and no library does it otherwise; leave out texts=library"
        )
    tokenizer = load_vocabulary(opened, options.tokenizer)
    ends, prompt = family.ends, family.prompt
    if reading is not None:
        ends, prompt = ends or reading.read == "likelihood", prompt if reading.prompt is None else reading.prompt
    if not ends:
        leave_out_end(tokenizer)
    cleaner = (reading.clean if reading is not None else None) or family.clean
    clean: Callable[[str], str] = cleaner if options.texts == "cleaned" and cleaner else str
    texts = TokenReader(tokenizer, module.config.context, clean=lambda text: prompt.format(clean(text)))
    facts = f"{tokenizer_facts(tokenizer)} texts {options.texts} in {prompt}{'' if ends else ' no end'}"
    if family.images is not None:
        return Preparation(family.images(module), texts, facts), tokenizer
    regions = RegionFile(find_regions(opened.path.parent, options.regions), module.config.region_width)
    return Preparation(regions.inputs, texts, f"{facts} regions {regions.to_dict()}", LEFT_OUT), tokenizer
