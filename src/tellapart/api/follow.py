"""Follow the checkpoints of a training: what `evaluate(follow=...)` and `tellapart run --follow` take and do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tellapart.data.arguments import PathGiven, as_path, as_tuple
from tellapart.data.progress import Progress
from tellapart.errors import RunError, quote
from tellapart.evaluation.distributed import Rank
from tellapart.evaluation.follow import Follower, follow_checkpoints, parse_seconds
from tellapart.evaluation.run import Settings
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.report.show import write_run_report

__all__ = ["EVERY", "as_follower", "follow_training"]

#: The fewest seconds after which the page of a growing curve loads itself again.
_RELOAD = 5.0

#: The time between two looks for checkpoints.
EVERY = "10m"


def as_follower(
    follow: PathGiven | None, every: str | float, until: int | None, models: object, names: Sequence[str]
) -> Follower | None:
    """Return the checkpoints to follow; None if none are.

    >>> as_follower("runs/clip", "30s", None, "open_clip:ViT-B-32-gelu@{}", ()).every
    30.0
    """
    if follow is None:
        for parameter, given in (("every", every != EVERY), ("until", until is not None)):
            if given:
                raise RunError(f"{parameter}= is of follow=, which was not given")
        return None
    if Rank.here().of > 1:
        raise RunError(f"follow={quote(follow)}: one process follows checkpoints; start it without torchrun")
    forms = () if models is None else as_tuple(models, "models")
    if len(forms) > 1 or not all(isinstance(form, str) for form in forms):
        raise RunError(f"models={quote(models)} with follow={quote(follow)}: give one name, with {{}} for a checkpoint")
    if len(names) > 1:
        raise RunError(f"names={quote(names)} with follow={quote(follow)}: give one, before the checkpoints' names")
    return Follower(
        place=str(as_path(follow, "follow")),
        form=forms[0] if forms else None,
        every=parse_seconds(every),
        until=until,
        prefix=f"{names[0]}/" if names else "",
    )


def follow_training(
    follower: Follower,
    settings: Settings,
    folder: Path,
    *,
    store: EmbeddingStore,
    command: str,
    progress: Callable[[str], Progress] | None,
    ready: Callable[[str], None] | None,
    left_out: Callable[[str], None],
) -> None:
    """Measure checkpoints as they land, and write the report with their curve after each; it loads itself again."""

    told: list[str] = []

    def tell(name: str) -> None:
        write_run_report(folder, outside=settings.place.outside, reload=min(max(follower.every, _RELOAD), 60))
        told.append(name)
        if ready is not None:
            ready(name)

    try:
        follow_checkpoints(
            follower, settings, folder, store=store, command=command, progress=progress, measured=tell,
            left_out=left_out,
        )  # fmt: skip
    finally:
        if told:  # nothing more is awaited
            write_run_report(folder, outside=settings.place.outside)
