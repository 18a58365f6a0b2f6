"""The start of a run: open the model that the configuration names, with gradients."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from tellapart.data.arguments import suggest_beside
from tellapart.errors import DataError, ModelError, require
from tellapart.models.compact.config import is_compact, read_compact_config, read_tokenizer
from tellapart.models.compact.dual_encoder import PREFIX as COMPACT
from tellapart.models.compact.dual_encoder import CompactParts
from tellapart.models.compact.towers import build_encoder
from tellapart.models.find import declared_prefix, find_model
from tellapart.models.fusion.prefix import FusionPrefix
from tellapart.models.huggingface.dual_encoder import SCALED
from tellapart.models.huggingface.files import import_transformers, load_processor, quiet, read_config
from tellapart.models.openclip.library import import_open_clip, quiet_open_clip
from tellapart.models.openclip.source import FOLDER, HUB, TAG
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.checkpoint import split_part
from tellapart.models.torch.dual_encoder import TorchDual
from tellapart.training.checkpoint import replace_folder
from tellapart.training.config import StartSettings
from tellapart.training.encoders.fusion_encoder import open_fusion
from tellapart.training.encoders.trainable import Trainable, TrainableDual
from tellapart.training.losses.loss import DualLoss, FusionLoss
from tellapart.training.ranks import RankGroup

#: Prefixes of models that a contrastive loss trains, beside those of transformers.
_TRAINED = (COMPACT, TAG, HUB, FOLDER)

#: The prefix of such a model's name.
NEW = "new:"

_OPEN_CLIP = "open_clip_config.json"
_SUFFIXES = {".json", ".txt", ".model"}


def new_model_facts(folder: Path) -> str:
    """Return the SHA-256 of the files that describe the model."""
    if not any((folder / name).is_file() for name in (_OPEN_CLIP, "config.json")):
        if not folder.is_dir():
            raise ModelError(f"{NEW}{folder} is not there{suggest_beside(folder)}")
        raise ModelError(
            f"{NEW}{folder}: expected a folder with {_OPEN_CLIP}, or with config.json and a processor's files"
        )
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in _SUFFIXES)
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def write_new_model(folder: Path, target: Path, seed: int) -> str:
    """Draw weights for a folder's configuration, write the model to `target` unless that exists, and return its
    name.
    """
    new_model_facts(folder)
    if not target.exists():
        import_torch().manual_seed(seed)
        with replace_folder(target) as draft:
            _find_drawer(folder)(folder, draft)
    if is_compact(target):
        return f"{COMPACT}{target}"
    return f"local-dir:{target}" if (target / _OPEN_CLIP).is_file() else f"hf:{target}"


def _find_drawer(folder: Path) -> Callable[[Path, Path], None]:
    if is_compact(folder):
        return _draw_compact
    return _draw_open_clip if (folder / _OPEN_CLIP).is_file() else _draw_transformers


def _draw_compact(folder: Path, draft: Path) -> None:
    config = read_compact_config(folder)
    tokenizer = read_tokenizer(folder, config)
    CompactParts(config, build_encoder(config, tokenizer.get_vocab_size()), tokenizer).save(draft)


def _draw_open_clip(folder: Path, draft: Path) -> None:
    open_clip = import_open_clip()
    try:
        with quiet_open_clip():
            model = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    except (RuntimeError, ValueError, TypeError, KeyError, OSError, AssertionError) as error:
        raise ModelError(f"{NEW}{folder}: open_clip cannot build it: {error}") from error
    draft.mkdir(parents=True)
    for path in folder.iterdir():
        if path.suffix in _SUFFIXES:
            shutil.copy(path, draft)
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    require("safetensors.torch", extra="train").save_file(tensors, draft / "open_clip_model.safetensors")


def _draw_transformers(folder: Path, draft: Path) -> None:
    library = import_transformers()
    architecture = next(iter(read_config(str(folder)).get("architectures") or ()), "")
    model_class = getattr(library, architecture, None)
    if model_class is None:
        raise ModelError(
            f"{NEW}{folder}: config.json names the architecture {architecture!r}, which transformers has not"
        )
    with quiet():
        model = model_class(model_class.config_class.from_pretrained(folder))
        draft.mkdir(parents=True)
        model.save_pretrained(draft)
        load_processor(str(folder)).save_pretrained(draft)


def open_start(name: str, settings: StartSettings) -> tuple[Trainable | None, str]:
    """Open the start; return it with the fingerprint of its weights.

    A `new:` model has no weights yet: it comes back as None, with the fingerprint of its architecture; `draw_start`
    opens it, once the run has a folder.
    """
    if name.startswith(NEW):
        return None, new_model_facts(Path(name.removeprefix(NEW)))
    trainable = _open_trainable(name, settings)
    return trainable, trainable.model().fingerprint


def draw_start(name: str, settings: StartSettings, folder: Path, ranks: RankGroup) -> tuple[str, Trainable]:
    """Draw a `new:` model's weights on rank 0, unless the folder exists, and open it on all ranks.

    Returns:
        Its name, and itself.
    """
    new = Path(name.removeprefix(NEW))
    ranks.first(lambda: write_new_model(new, folder, settings.seed))
    with ranks.together():
        drawn = write_new_model(new, folder, settings.seed)  # again by ranks that do not see the first's disk
        trainable = _open_trainable(drawn, settings)
    return drawn, trainable


def _open_trainable(name: str, settings: StartSettings) -> Trainable:
    """Open a fusion encoder or a dual one, as the loss needs it."""
    if isinstance(settings.terms[0].loss, FusionLoss):
        if settings.compiled is not None:
            raise DataError(
                f"compile: {settings.compiled!r} is for dual encoders; a step of a fusion encoder draws its pairs "
                "inside the pass, which leaves nothing to compile; leave it out"
            )
        contrast = settings.matching is None or settings.matching.contrast
        heads = (term.reading for term in settings.terms)
        other_heads = [head for head in dict.fromkeys(heads) if head not in {None, settings.reading or "itm"}]
        return open_fusion(
            name, settings.device, settings.reading, contrast=contrast, image_size=settings.image_size, also=other_heads
        )
    if settings.image_size is not None:
        raise DataError(
            f"image_size: {settings.image_size} pixels are for a fusion encoder in its authors' file; leave it out"
        )
    if settings.matching is not None:
        raise DataError(f"[matching] is of fusion encoders' losses (itm, ranking, ...), and {settings.loss!r} is none")
    trainable = open_dual(name, settings.device)
    losses = [term.loss for term in settings.terms if isinstance(term.loss, DualLoss)]
    if any(loss.bias for loss in losses) and isinstance(trainable, TrainableDual):
        trainable.add_bias()
    if any(loss.local for loss in losses) and isinstance(trainable, TrainableDual):
        trainable.add_local()
    return trainable


def open_dual(name: str, device: str) -> TrainableDual:
    """Open a dual encoder to train it."""
    if isinstance(declared_prefix(name), FusionPrefix):
        raise ModelError(
            f"{name} cannot be trained by a contrastive loss alone: take a loss of matching heads (itm, ranking, "
            "eqsim-itm, ...), which adds the contrastive one if the model has towers"
        )
    library = name.startswith("hf:") or "/" in name or (Path(name).expanduser() / "config.json").is_file()
    if library and not name.startswith(_TRAINED):
        architecture = next(iter(read_config(name.removeprefix("hf:")).get("architectures") or ()), "")
        if architecture not in SCALED:
            raise ModelError(
                f"{name}: {architecture or 'a model without an architecture'} cannot be trained by a contrastive loss "
                f"here; take one of {', '.join(SCALED)}"
            )
    if library or name.startswith(_TRAINED):
        model = find_model(name, ModelOptions(device=device, reading="itc"))
        if isinstance(model, TorchDual) and model.towers.save is not None:
            if model.towers.checkpoint is not None:
                model.towers.checkpoint.expect_one(model.name)
            return TrainableDual(model)
    raise ModelError(
        f"{name} cannot be trained: name a model of open_clip or a CLIP-like one of transformers, by hub id or folder, "
        "or compact:FOLDER"
    )


def resolve_name(name: str, home: Path) -> str:
    """Return a model's or a set's name with its path relative to the working folder, not to the configuration's.

    >>> resolve_name("demo", Path("sets")), resolve_name("openai/clip-vit-base-patch32", Path("sets"))
    ('demo', 'openai/clip-vit-base-patch32')
    """
    prefix, colon, path = name.partition(":")
    prefixed = prefix in {"folder", "local-dir", "hf", "new", "compact"}
    if (
        colon
        and (prefixed or isinstance(declared_prefix(name), FusionPrefix))
        and (home / split_part(path)[0]).exists()
    ):
        return f"{prefix}:{home / path}"
    return str(home / name) if (home / name / "config.json").is_file() else name
