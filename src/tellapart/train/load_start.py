"""The start of a run: the model that it names, as its loss wants it."""

from __future__ import annotations

from pathlib import Path

from tellapart.errors import DataError
from tellapart.train.config import TrainConfig
from tellapart.train.encoders import Trained
from tellapart.train.fresh import NEW, fresh_facts, write_fresh
from tellapart.train.fusion_encoder import open_fusion
from tellapart.train.lora import Adapted
from tellapart.train.matching import is_matching
from tellapart.train.open_dual import open_dual
from tellapart.train.ranks import Ranks

__all__ = ["adapted", "draw_start", "open_start", "relative"]


def open_start(name: str, config: TrainConfig) -> tuple[Trained | None, str]:
    """Open the start; return it with what its weights are: their fingerprint, or that of what they will be drawn for.

    A new model is not there yet: `draw_start` opens it, once the run has a folder.

    Raises:
        DataError: the configuration asks for what the family has not.
        ModelError: the model cannot be trained by that loss, or its files are not what they must be.
        MissingDependencyError: its library is not installed.

    >>> table = {"name": "a", "model": "m", "data": {"train": ["a"]}, "loss": {"name": "itc"}, "batch": {"size": 2}}
    >>> open_start("oracle", TrainConfig(**table, optimiser={"learning_rate": 1.0, "steps": 1}))
    Traceback (most recent call last):
    tellapart.errors.ModelError: oracle cannot be trained: name a model of open_clip or a CLIP-like one of transformers, by hub id or folder
    """
    if name.startswith(NEW):
        return None, fresh_facts(Path(name.removeprefix(NEW)))
    trained = _opened(name, config)
    return trained, trained.model().fingerprint


def draw_start(name: str, config: TrainConfig, folder: Path, ranks: Ranks) -> tuple[str, Trained]:
    """Draw a new model's weights on the first rank, and open it on all; return its name and itself.

    Args:
        name: `new:` and the folder that says what the model is.
        config: of the run.
        folder: where it is written; one that stands is left as it is.
        ranks: that train together.

    Raises:
        TellapartError: as `open_start` and `write_fresh`.

    >>> draw_start.__name__
    'draw_start'
    """
    new = Path(name.removeprefix(NEW))
    ranks.first(lambda: write_fresh(new, folder, config.seed))
    with ranks.together():
        drawn = write_fresh(new, folder, config.seed)  # drawn again where the first rank's disk is not seen
        trained = _opened(drawn, config)
    return drawn, trained


def _opened(name: str, config: TrainConfig) -> Trained:
    """With all of its weights: a fusion encoder or a dual one, as the loss is."""
    if is_matching(str(config.loss["name"])):
        contrast = config.matching is None or config.matching.contrast
        return open_fusion(name, config.device, config.reading, contrast=contrast)
    if config.matching is not None:
        raise DataError(
            f"[matching] is of fusion encoders' losses (itm, ranking, ...), and {config.loss['name']!r} is none"
        )
    return open_dual(name, config.device)


def adapted(trained: Trained, config: TrainConfig) -> Trained:
    """Put low-rank updates into an opened start, if those are what is trained.

    Raises:
        ModelError: it has none of the layers that are named.
        MissingDependencyError: peft is not installed.

    >>> adapted.__name__
    'adapted'
    """
    return trained if config.lora is None else Adapted(trained, config.lora, config.seed)


def relative(name: str, home: Path) -> str:
    """Return a model's or a set's name with its path relative to here, not to the configuration.

    >>> relative("demo", Path("sets")), relative("openai/clip-vit-base-patch32", Path("sets"))
    ('demo', 'openai/clip-vit-base-patch32')
    """
    prefix, colon, path = name.partition(":")
    if colon and prefix in {"folder", "local-dir", "hf", "new"} and (home / path).exists():
        return f"{prefix}:{home / path}"
    return str(home / name) if (home / name / "config.json").is_file() else name
