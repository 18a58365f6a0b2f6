"""Load a model from its authors' file, or from the folder that it was converted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tellapart.data.strict_json import load_json
from tellapart.errors import ModelError
from tellapart.models.fusion.region_file import LEFT_OUT, RegionFile, find_regions
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import Preparation, TorchFusionEncoder
from tellapart.models.huggingface.files import load_tokenizer, tokenizer_facts
from tellapart.models.huggingface.tokens import TokenReader, check_tokenizer
from tellapart.models.native.captioner import NativeCaptioner, check_ends
from tellapart.models.native.checkpoint import Checkpoint, read_checkpoint
from tellapart.models.native.cosine import CosineScorer
from tellapart.models.native.family import Layout, NativeFamily, Reading
from tellapart.models.native_prefixes import TOKENIZER_FILES, find_native
from tellapart.models.torch_backend import Runtime, import_torch, runtime

if TYPE_CHECKING:
    from tellapart.models.options import ModelOptions

__all__ = ["OpenedModel", "load_native", "open_model"]

#: Weights of a converted model, in its folder.
WEIGHTS = "model.safetensors"


class OpenedModel(SimpleNamespace):
    """A family, its module on the device, and the file it came from.

    Attributes:
        family: the `NativeFamily`.
        module: with its weights, in evaluation mode.
        path: the file.
    """

    family: NativeFamily
    module: Any
    path: Path


def load_native(model_type: str, name: str, options: ModelOptions) -> FusionScorer | CosineScorer | NativeCaptioner:
    """Load a family's model for one of its readings, by default the first that the file has.

    Args:
        model_type: the family.
        name: the authors' file, or a folder with `model.safetensors` and `config.json`.
        options: device, dtype, reading, texts, image size, tokenizer.

    Raises:
        ModelError: the file is missing, damaged or of another family, its tensors do not fit, it has no such reading,
            or there is no tokenizer.
        MissingDependencyError: torch, timm or transformers is not installed.
    """
    where = runtime(options)
    opened = open_model(model_type, name, where, image_size=options.image_size)
    reading = _choose(opened, options.reading)
    preparation = _prepare(opened, options)
    encoder = TorchFusionEncoder(name, reading.halves(opened.module), preparation, where, reading=reading.read)
    if reading.read == "cosine":
        return CosineScorer(encoder)
    if reading.read == "likelihood":
        check_ends(name, preparation.texts)
        return NativeCaptioner(encoder)
    return FusionScorer(encoder)


def open_model(model_type: str, name: str, where: Runtime, *, image_size: int | None = None) -> OpenedModel:
    """Build the module of a file and put its weights in, at its own image size or another.

    Raises:
        ModelError: as `load_native`.
    """
    family: NativeFamily = find_native(model_type)
    path = Path(name).expanduser()
    checkpoint = read_checkpoint(path / WEIGHTS if path.is_dir() else path)
    tensors = family.keep(checkpoint.tensors)
    if image_size is not None:
        if family.resize is None:
            raise ModelError(f"{name}: {family.title} reads images of one size; leave out --image-size {image_size}")
        tensors = family.resize(tensors, image_size)
    shapes = {key: tuple(tensor.shape) for key, tensor in tensors.items()}
    layout = Layout(name, shapes, _settings(checkpoint, model_type))
    with import_torch().device("meta"):
        module = family.build(layout).eval().requires_grad_(False)
    family.fit(name, module, tensors)
    return OpenedModel(family=family, module=module.to(where.device, where.torch_dtype), path=checkpoint.path)


def _settings(checkpoint: Checkpoint, model_type: str) -> Mapping[str, Any]:
    """Return the settings that `config.json` beside the file names, else those that the checkpoint holds itself."""
    beside = checkpoint.path.with_name("config.json")
    if beside.is_file():
        settings = load_json(beside)
        if isinstance(settings, Mapping) and settings.get("model_type") == model_type:
            return settings
    held = checkpoint.beside.get("hyper_parameters", checkpoint.beside)
    held = held.get("config", {}) if isinstance(held, Mapping) else {}
    plain = held if isinstance(held, Mapping) else {}
    return {key: value for key, value in plain.items() if isinstance(value, str | int | float | bool)}


def _choose(opened: OpenedModel, name: str | None) -> Reading:
    held = opened.module.state_dict()
    there = {key: reading for key, reading in opened.family.readings.items() if reading.needs in held}
    if name is None and there:
        return next(iter(there.values()))
    if name not in there:
        raise ModelError(
            f"{opened.path}: this file of {opened.family.title} has no reading {name!r}; it has "
            f"{', '.join(there) or 'none'}"
        )
    return there[name]


def _prepare(opened: OpenedModel, options: ModelOptions) -> Preparation:
    """Prepare images and texts as the authors did."""
    family, module = opened.family, opened.module
    if options.texts == "cleaned" and family.clean is None:
        raise ModelError(f"{opened.path}: no cleaner of {family.title}'s captions is known; leave out --texts cleaned")
    folder = options.tokenizer or opened.path.parent
    beside = options.tokenizer is not None or any((folder / name).is_file() for name in TOKENIZER_FILES)
    source = str(folder) if beside else family.vocabulary
    tokenizer = load_tokenizer(source, original=f"{family.vocabulary}, or name it with --tokenizer FOLDER")
    check_tokenizer(source, module.config, tokenizer)
    clean: Callable[[str], str] = family.clean if options.texts == "cleaned" and family.clean else str
    texts = TokenReader(tokenizer, module.config.context, clean=lambda text: family.prompt.format(clean(text)))
    facts = f"{tokenizer_facts(tokenizer)} texts {options.texts} in {family.prompt}"
    if family.images is not None:
        return Preparation(family.images(module), texts, facts)
    regions = RegionFile(find_regions(opened.path.parent, options.regions), module.config.region_width)
    return Preparation(regions.inputs, texts, f"{facts} regions {regions.to_dict()}", LEFT_OUT)
