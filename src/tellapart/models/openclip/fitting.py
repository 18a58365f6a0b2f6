"""Which of open_clip's architectures a checkpoint belongs to, by the names and shapes of its tensors."""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.data.scores import join_names
from tellapart.errors import ModelError, TellapartWarning
from tellapart.models.openclip.library import (
    import_open_clip,
    import_towers,
    quiet_open_clip,
    without_initialisation,
)
from tellapart.models.openclip.source import NEW_ARCHITECTURE, TAG, name_forms
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.checkpoint import read_state_dict

if TYPE_CHECKING:
    from torch import Tensor

#: Tensor -> shape.
Shapes = Mapping[str, tuple[int, ...]]

#: The share of tensors that may be missing, unexpected or of another shape in a suggestion.
_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Fit:
    """An architecture, and how many of a checkpoint's tensors are odd in it."""

    architecture: str
    odd: int


def odd(expected: Shapes, actual: Shapes) -> int:
    """Count the tensors that only one of two state dicts has, or that differ in shape.

    >>> odd({"a": (2, 3), "text.b": (4,), "scale": ()}, {"a": (2, 4), "b": (4,), "scale": (1,)})
    1
    """
    first, other = _plain_names(expected), _plain_names(actual)
    return sum(first.get(name) != other.get(name) for name in first.keys() | other.keys())


def _plain_names(shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """Name tensors as a model without a separate text tower does; tensors of one number get the shape `()`."""
    return {
        name.removeprefix("text."): () if math.prod(shape) == 1 else shape
        for name, shape in shapes.items()
        if not name.endswith("position_ids")
    }


def fitting_architectures(shapes: Shapes, like: str = "") -> list[Fit]:
    """Return the architectures that these tensors fit, the best first; of equals first those with a similar name.

    Those whose text tower is another library's are left out: it would have to be looked for on the hub.
    """
    open_clip = import_open_clip()
    likely = [name for name in open_clip.list_models() if _may_fit(open_clip.get_model_config(name), shapes)]
    fits = [Fit(name, odd(expected, shapes)) for name in likely if (expected := _expected_shapes(name))]
    fits = [fit for fit in fits if fit.odd <= _TOLERANCE * len(shapes)]
    return sorted(fits, key=lambda fit: (fit.odd, -_name_similarity(fit.architecture, like), fit.architecture))


def _name_similarity(name: str, like: str) -> float:
    return difflib.SequenceMatcher(None, name.lower(), like.lower()).ratio()


def _may_fit(config: Mapping[str, Any], shapes: Shapes) -> bool:
    """Look at a few tensors: it costs nothing, and few architectures need to be built."""
    vision, text = config["vision_cfg"], config["text_cfg"]
    words = shapes.get("token_embedding.weight", shapes.get("text.token_embedding.weight"))
    if "hf_model_name" in text or words != (text.get("vocab_size", 49408), text.get("width", 512)):
        return False
    if "timm_model_name" in vision:
        return any(name.startswith("visual.trunk.") for name in shapes)
    if isinstance(vision.get("layers"), list):
        return "visual.layer1.0.conv1.weight" in shapes
    patch = vision.get("patch_size", 16)
    return shapes.get("visual.conv1.weight") == (vision.get("width", 768), 3, patch, patch)


def _expected_shapes(architecture: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of an architecture's tensors; none if a library is not installed."""
    torch, open_clip = import_torch(), import_open_clip()
    try:
        import_towers(open_clip.get_model_config(architecture))
        with quiet_open_clip(), without_initialisation(), torch.device("meta"):  # no numbers at all
            model = open_clip.create_model(
                architecture, device="meta", load_weights=False, pretrained_image=False, pretrained_text=False
            )
    except Exception:  # for example a version of timm without that tower: no suggestion is worth another error
        return {}
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def complete_name(name: str) -> str:
    """Return an open_clip model's name: of a bare file that fits one architecture, with that before it, and a
    warning.
    """
    file = name.removeprefix(TAG)
    if not Path(file).expanduser().is_file():
        return name
    if (form := find_form(file)) is None:
        raise ModelError(f"{name} names no architecture: {explain_weights(file)}")
    warnings.warn(f"{file} fits one architecture of open_clip; read as {form}", TellapartWarning, stacklevel=2)
    return form


def find_form(file: str) -> str | None:
    """Return the name of a file of weights, if it fits one architecture to the last tensor and has one reading."""
    path = Path(file).expanduser()
    shapes = {key: tuple(tensor.shape) for key, tensor in _read_shapes(path).items()}
    forms = [
        form for fit in fitting_architectures(shapes) if not fit.odd for form in name_forms(fit.architecture, file)
    ]
    return forms[0] if len(forms) == 1 else None


def _read_shapes(path: Path) -> dict[str, Tensor]:
    try:
        return read_state_dict(path, shapes_only=True)
    except ModelError as error:
        raise ModelError(f"{error}; a file of open_clip's weights is named {TAG}ARCH@FILE") from error


def explain_weights(name: str) -> str:
    """Name the architectures that a file of weights fits, each in the form that names such a model."""
    path = Path(name).expanduser()
    tensors = _read_shapes(path)
    if any(key.startswith(("text_model.", "vision_model.")) for key in tensors):
        return f"{name} is a checkpoint of transformers; write hf:FOLDER, its folder with config.json in it"
    fits = fitting_architectures({key: tuple(tensor.shape) for key, tensor in tensors.items()}, like=path.stem)
    if not fits:
        return f"{name} is a file of weights that fit no architecture of open_clip; {NEW_ARCHITECTURE}"
    best = [fit.architecture for fit in fits if fit.odd == fits[0].odd]
    how = "fit" if fits[0].odd == 0 else f"come, but for {fits[0].odd} of {len(tensors)} tensors, nearest to"
    forms = dict.fromkeys(form for architecture in best[:4] for form in name_forms(architecture, name))
    return f"{name} is a file of weights that {how} {join_names(best, 4)}; write {' or '.join(forms)}"
