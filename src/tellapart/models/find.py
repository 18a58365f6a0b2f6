"""A model by its name: from the catalogue, a folder or a file on disk, open_clip's table, or the hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tellapart.catalog import load as load_from_catalog
from tellapart.catalog import names
from tellapart.errors import ModelError
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model

__all__ = ["NAME_FORMS", "find_model"]


#: How a model that is in no catalogue is named, and what that name stands for.
NAME_FORMS: Mapping[str, str] = MappingProxyType(
    {
        "onnx:PATH": "a folder with config.json, image.onnx, text.onnx and tokenizer.json",
        "open_clip:ARCH/TAG": "weights that open_clip lists, for example open_clip:ViT-B-32/laion2b_s34b_b79k",
        "open_clip:ARCH@FILE": "a checkpoint of an open_clip architecture; ViT-B-32-quickgelu@FILE if fine-tuned from OpenAI's",
        "open_clip:ARCH/TAG@FILE": "a checkpoint fine-tuned from the weights of that tag",
        "hf-hub:ORG/REPO": "a model of open_clip on the hub",
        "local-dir:PATH": "a folder with open_clip_config.json and open_clip_model.safetensors",
        "hf:PATH or ORG/REPO": "a model of transformers, for example openai/clip-vit-base-patch32; hf: may be left out",
    }
)


def find_model(name: str, options: ModelOptions | None = None) -> Model:
    """Make the model of that name.

    Args:
        name: as `tellapart ls models` lists it, or of one of the forms in `NAME_FORMS`.
        options: device, dtype, reading and seed.

    Raises:
        UnknownNameError: no such name.
        ModelError: the device is not to be had, the model's files are not what they must be, or what another package
            installed under that name is no model.
        MissingDependencyError: the family's library is not installed.

    >>> find_model("constant").kind
    'probability'
    """
    options = options or ModelOptions()
    for prefix, load in _LOADERS.items():
        if name.startswith(prefix):
            if not name.removeprefix(prefix).strip():
                form = next(form for form in NAME_FORMS if form.startswith(prefix))
                raise ModelError(f"{name} names no model; write {form}: {NAME_FORMS[form]}")
            return load(name, options)
    if _is_transformers(name):
        return _transformers(name, options)
    model = load_from_catalog("model", name)(options)
    if not isinstance(model, Model):
        raise ModelError(f"model {name!r} is a {type(model).__name__} without a name, a fingerprint or a kind of score")
    return model


def _is_transformers(name: str) -> bool:
    """Return whether a name without a prefix is a folder of transformers or a hub id, and no name of the catalogue."""
    if name in names("model"):
        return False
    folder = Path(name).expanduser()
    return (folder / "config.json").is_file() or "/" in name


def _onnx(name: str, options: ModelOptions) -> Model:
    from tellapart.models.onnx.dual_encoder import OnnxDualEncoder

    if options.dtype != "float32" or options.reading not in {None, "itc"}:
        raise ModelError(
            f"{name}: an ONNX model computes in the types of its graphs and has one reading, 'itc'; leave out --dtype and "
            "--reading"
        )
    return OnnxDualEncoder.load(Path(name.removeprefix("onnx:")).expanduser(), device=options.device)


def _open_clip(name: str, options: ModelOptions) -> Model:
    from tellapart.models.openclip.dual_encoder import load

    return load(name, options)


def _transformers(name: str, options: ModelOptions) -> Model:
    from tellapart.models.huggingface.load import load

    return load(name, options)


_LOADERS: Mapping[str, Callable[[str, ModelOptions], Model]] = MappingProxyType(
    {"onnx:": _onnx, "open_clip:": _open_clip, "hf-hub:": _open_clip, "local-dir:": _open_clip, "hf:": _transformers}
)
