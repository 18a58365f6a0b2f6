"""The work of one worker process: make and filter one candidate.

A worker gets a `WorkerPlan` and opens the recipe's builder and filters itself. It refuses to work if it reads other
inputs, models or another tellapart than the process that started the build.
"""

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

__all__ = ["WorkerPlan", "attempt", "sources_of"]


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The recipe of a build, as workers get it.

    Attributes:
        recipe: the recipe as JSON.
        home: the folder that its paths are relative to.
        fingerprint: of the recipe and all it reads; items name it.
        sources: `sources_of` the builder in the process that started the build.
        insecure: whether a server of another machine may be asked over plain http.
    """

    recipe: str
    home: Path
    fingerprint: str
    sources: tuple[tuple[str, str], ...]
    insecure: bool = False


def sources_of(builder: Builder) -> tuple[tuple[str, str], ...]:
    """Return the files that a builder reads with their SHA-256, and the revisions of its models and of tellapart."""
    sources = {f"file {name}": digest for name, digest in builder.inputs.items()}
    sources |= {f"model {name}": revision for name, revision in builder.models.items()}
    return (*sorted(sources.items()), ("tellapart", metadata.version("tellapart")))


def attempt(candidate: Candidate, plan: WorkerPlan) -> Outcome:
    """Make and filter one candidate, in whichever process this is.

    An error becomes a `Failed`, which is tried again later; an error that no other try can change is raised.

    Raises:
        DataError: an input cannot be read here, or the builder gave the item another id than the candidate's.
        MissingDependencyError: the builder needs a package that is not installed.
        RunError: an input, a model or tellapart itself is another one than at the build's start.
    """
    recipe, builder, filters = _open_plan(plan)
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
        raise DataError(f"builder {recipe.builder!r} made item {outcome.item.id!r} of candidate {candidate.id!r}")
    origin: dict[str, Any] = {
        "builder": recipe.builder,
        "recipe": plan.fingerprint,
        "seed": [recipe.seed, candidate.id],
    }
    origin |= {"inputs": dict(builder.inputs), "models": dict(builder.models)}
    return replace(outcome, item=outcome.item.model_copy(update={"provenance": origin | outcome.item.provenance}))


@lru_cache(maxsize=1)
def _open_plan(plan: WorkerPlan) -> tuple[RecipeFile, Builder, list[tuple[str, ItemFilter]]]:
    """Open a plan's builder and filters once a process: a builder may hold a model."""
    recipe = RecipeFile.model_validate_json(plan.recipe)
    builder = open_builder(recipe, plan.home, insecure=plan.insecure)
    here, there = dict(sources_of(builder)), dict(plan.sources)
    for name in sorted({*here, *there}):
        if here.get(name) != there.get(name):
            raise RunError(
                f"{name} is {_shorten_value(here.get(name))} here and {_shorten_value(there.get(name))} at the build's "
                "start; it must be the same"
            )
    return recipe, builder, open_filters(recipe, recipe.name)


def _shorten_value(value: str | None) -> str:
    return "none" if value is None else value if len(value) <= 16 else f"{value[:12]}..."
