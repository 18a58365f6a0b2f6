"""What a worker process does: make and filter one candidate, from the same recipe and inputs as the process that asks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tellapart.builders.builder import Builder, Candidate, Failed, Made, Outcome, Rejected
from tellapart.builders.item_filters import ItemFilter
from tellapart.builders.recipe_file import RecipeFile, open_builder, open_filters
from tellapart.errors import DataError, MissingDependencyError, RunError

__all__ = ["Plan", "attempt", "sources_of"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker process is told.

    Attributes:
        recipe: the recipe as JSON.
        home: the folder that its paths are relative to.
        fingerprint: of the recipe and all it reads; items name it.
        sources: what the builder is made of, as `sources_of` tells it where the build was started.

    >>> Plan('{"name": "few", "builder": "scenes"}', Path("."), "0123", ()).fingerprint
    '0123'
    """

    recipe: str
    home: Path
    fingerprint: str
    sources: tuple[tuple[str, str], ...]


def sources_of(builder: Builder) -> tuple[tuple[str, str], ...]:
    """Return the files that a builder reads with their SHA-256, and the revisions of its models and of tellapart.

    >>> class Nothing:
    ...     inputs, models = {"captions.csv": "9f86"}, {"mitsuba": "3.7"}
    >>> sources_of(Nothing())[:2]
    (('file captions.csv', '9f86'), ('model mitsuba', '3.7'))
    """
    told = {f"file {name}": digest for name, digest in builder.inputs.items()}
    told |= {f"model {name}": revision for name, revision in builder.models.items()}
    return (*sorted(told.items()), ("tellapart", metadata.version("tellapart")))


def attempt(candidate: Candidate, plan: Plan) -> Outcome:
    """Make and filter one candidate, in whatever process this is.

    An error is an outcome, too, and is tried again later; but what no other try can change is raised.

    Raises:
        DataError: an input cannot be read here, or the builder gave the item another id than the candidate's.
        MissingDependencyError: the builder needs a package that is not installed.
        RunError: an input, a model or tellapart itself is not what it is where the build was started.

    >>> import tempfile
    >>> recipe = '{"name": "few", "builder": "negatives", "options": {"captions": "captions.csv", "images": "."}}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "captions.csv").write_text("image,caption\\na.png,a dog\\n")
    ...     attempt(Candidate("1-swap_obj", None), Plan(recipe, Path(folder), "0123", (("file captions.csv", "9f86"),)))
    Traceback (most recent call last):
    tellapart.errors.RunError: file captions.csv is 173aa106f472... here and 9f86 where the build was started; it must be the same
    """
    read, builder, filters = _opened(plan)
    try:
        outcome = builder.make(candidate)
        if isinstance(outcome, Made):
            for name, item_filter in filters:
                if (reason := item_filter.fault(outcome)) is not None:
                    return Rejected(name, reason)
    except MissingDependencyError:
        raise
    except Exception as error:
        return Failed(f"{type(error).__name__}: {error}")
    if isinstance(outcome, Rejected):
        return outcome
    if outcome.item.id != candidate.id:
        raise DataError(f"builder {read.builder!r} made item {outcome.item.id!r} of candidate {candidate.id!r}")
    origin: dict[str, Any] = {"builder": read.builder, "recipe": plan.fingerprint, "seed": [read.seed, candidate.id]}
    origin |= {"inputs": dict(builder.inputs), "models": dict(builder.models)}
    return replace(outcome, item=outcome.item.model_copy(update={"provenance": origin | outcome.item.provenance}))


@lru_cache(maxsize=1)
def _opened(plan: Plan) -> tuple[RecipeFile, Builder, list[tuple[str, ItemFilter]]]:
    """Open a plan's builder and filters once a process: a builder may hold a model."""
    read = RecipeFile.model_validate_json(plan.recipe)
    builder = open_builder(read, plan.home)
    here, there = dict(sources_of(builder)), dict(plan.sources)
    for name in sorted({*here, *there}):
        if here.get(name) != there.get(name):
            raise RunError(
                f"{name} is {_short(here.get(name))} here and {_short(there.get(name))} where the build was started; "
                "it must be the same"
            )
    return read, builder, open_filters(read, read.name)


def _short(value: str | None) -> str:
    return "none" if value is None else value if len(value) <= 16 else f"{value[:12]}..."
