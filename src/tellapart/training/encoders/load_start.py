"""The start of a run: open the model that the configuration names, with gradients."""

from __future__ import annotations

from pathlib import Path

from tellapart.errors import DataError, ModelError
from tellapart.models.find import declared_prefix
from tellapart.models.fusion.prefix import FusionPrefix
from tellapart.models.torch.checkpoint import split_part
from tellapart.training.config import StartSettings
from tellapart.training.encoders.fusion_encoder import open_fusion
from tellapart.training.encoders.new_model import NEW, new_model_facts, write_new_model
from tellapart.training.encoders.trainable import Trainable, TrainableDual
from tellapart.training.losses.loss import DualLoss, FusionLoss
from tellapart.training.ranks import RankGroup


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
        also = [head for head in dict.fromkeys(heads) if head not in {None, settings.reading or "itm"}]
        return open_fusion(
            name, settings.device, settings.reading, contrast=contrast, image_size=settings.image_size, also=also
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


def open_dual(name: str, device: str) -> Trainable:
    """Open a dual encoder to train it."""
    from tellapart.models.compact.dual_encoder import PREFIX as COMPACT
    from tellapart.models.openclip.source import FOLDER, HUB, TAG

    if isinstance(declared_prefix(name), FusionPrefix):
        raise ModelError(
            f"{name} cannot be trained by a contrastive loss alone: take a loss of matching heads (itm, ranking, "
            "eqsim-itm, ...), which adds the contrastive one if the model has towers"
        )

    if name.startswith(COMPACT):
        from tellapart.training.encoders.compact_encoder import open_compact

        return open_compact(name, device)
    if name.startswith((TAG, HUB, FOLDER)):
        from tellapart.training.encoders.openclip_encoder import open_openclip

        return open_openclip(name, device)
    if name.startswith("hf:") or "/" in name or (Path(name).expanduser() / "config.json").is_file():
        from tellapart.training.encoders.huggingface_encoder import open_huggingface

        return open_huggingface(name.removeprefix("hf:"), device)
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
    known = prefix in {"folder", "local-dir", "hf", "new", "compact"}
    if colon and (known or isinstance(declared_prefix(name), FusionPrefix)) and (home / split_part(path)[0]).exists():
        return f"{prefix}:{home / path}"
    return str(home / name) if (home / name / "config.json").is_file() else name
