"""Build a pair set from a recipe: candidates, made and filtered one by one, journalled, selected, and written as one folder.

Every candidate's outcome depends on the recipe and on the candidate alone, and what is selected on the outcomes alone. So
the set is the same, byte for byte, for any number of workers and however often the build was stopped and begun again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from tellapart.builders.attempt import Plan, attempt, sources_of
from tellapart.builders.builder import Builder, Candidate, Failed, Made, Outcome, Rejected
from tellapart.builders.executor import Crew, Lost, Processes
from tellapart.builders.funnel import Funnel
from tellapart.builders.journal import Journal
from tellapart.builders.recipe_file import RecipeFile, open_builder, open_selections, read_recipe_file
from tellapart.builders.selections import Selection
from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item
from tellapart.data.progress import Progress
from tellapart.data.rows import read_object
from tellapart.errors import DataError, RunError

__all__ = ["Built", "build", "journal_of"]

"""Called with the stage, what is done of it, and the total."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a build left: the set's folder, its funnel, and how many outcomes an earlier, stopped build had found.

    >>> Built(Path("set"), Funnel(), 3).resumed
    3
    """

    folder: Path
    funnel: Funnel
    resumed: int


def journal_of(out: Path) -> Path:
    """Return where a build keeps its journal until the set stands: beside the set's folder.

    >>> journal_of(Path("sets/kitchen")).name
    '.kitchen.journal'
    """
    whole = out.resolve()  # "." has no name of its own
    return whole.with_name(f".{whole.name}.journal")


def build(
    recipe: Path,
    out: Path,
    *,
    workers: int = 1,
    crew: Crew | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Built:
    """Build the pair set of a recipe; what an earlier build of it did is not done again.

    Args:
        recipe: a TOML file.
        out: the set's folder: new, empty, or this very set, which is then left as it is.
        workers: processes; the set does not depend on it.
        crew: who does the work in their stead, such as a `RayCluster`.
        limit: try only the first so many candidates.
        progress: told how far the build is.

    Raises:
        DataError: the recipe is not valid, an input cannot be read, every candidate was rejected, or the folder holds
            something else.
        UnknownNameError: no such builder, filter or selection.
        RunError: the journal is of another recipe or in use; more candidates failed than the recipe allows; the crew
            cannot be reached, or has other inputs.
        MissingDependencyError: the builder needs a package that is not installed.

    >>> build(Path("missing.toml"), Path("set"))
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.toml: cannot be read (No such file or directory)
    """
    opened, told = _open(recipe), progress or _silent
    candidates = _candidates(opened.builder, opened.recipe.builder)[:limit]
    if (out / "card.json").is_file():
        return _standing(out, opened.fingerprint, len(candidates))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} holds something already; build a pair set in a new folder")
    with Journal(journal_of(out), opened.fingerprint) as journal:
        resumed = _work(opened, journal, candidates, crew or Processes(workers), told)
        outcomes = {candidate.id: journal.outcome(candidate.id) for candidate in candidates}
        _refuse_failures(outcomes, opened.recipe.max_failed, journal_of(out))
        items = _select(opened, outcomes, told)
        funnel = Funnel()
        for outcome in outcomes.values():
            funnel.count(outcome)
        if not items:
            why = ", ".join(f"{step} {reason} {n}".replace("  ", " ") for step, reason, n in funnel.rows()[1:-1])
            raise DataError(f"none of {len(candidates)} candidates became an item ({why}); nothing is written")
        images = journal.images({reference for item in items for reference in item.images})
        write_pair_set(out, items, images, _card(opened, funnel), progress=partial(told, "writing"))
        journal.remove()
    return Built(out, funnel, resumed)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A recipe with all that it names, opened in this process; `inputs` and `models` are the selections', too."""

    recipe: RecipeFile
    home: Path
    builder: Builder
    selections: Sequence[tuple[str, Selection]]
    inputs: Mapping[str, str]
    models: Mapping[str, str]
    fingerprint: str


def _open(path: Path) -> _Opened:
    recipe, home = read_recipe_file(path), path.parent
    builder, selections = open_builder(recipe, home), open_selections(recipe, str(path))
    inputs, models = dict(builder.inputs), dict(builder.models)
    for place, (_, selection) in enumerate(selections):
        inputs |= {f"selections[{place}]: {name}": value for name, value in selection.inputs(home).items()}
        models |= {f"selections[{place}]: {name}": value for name, value in selection.models(home).items()}
    fingerprint = recipe.fingerprint(inputs, models, metadata.version("tellapart"))
    return _Opened(recipe, home, builder, selections, inputs, models, fingerprint)


def _candidates(builder: Builder, name: str) -> list[Candidate]:
    found = list(builder.candidates())
    seen: set[str] = set()
    for candidate in found:
        if candidate.id in seen:
            raise DataError(f"builder {name!r} gives two candidates the id {candidate.id!r}; ids must be distinct")
        seen.add(candidate.id)
    if not found:
        raise DataError(f"builder {name!r} found no candidates in its inputs; look at the recipe's [options]")
    return found


def _work(opened: _Opened, journal: Journal, candidates: Sequence[Candidate], crew: Crew, told: Progress) -> int:
    """Decide all candidates that are not decided yet, the failed ones again; return how many were."""
    decided = journal.decided()
    left = [candidate for candidate in candidates if candidate.id not in decided]
    resumed = done = len(candidates) - len(left)
    # Absolute: another machine's processes have a working folder of their own.
    home, recipe = opened.home.absolute(), opened.recipe.model_dump_json()
    task = partial(attempt, plan=Plan(recipe, home, opened.fingerprint, sources_of(opened.builder)))
    told("candidates", done, len(candidates))
    for _ in range(opened.recipe.retries + 1):
        failed: list[Candidate] = []
        with closing(crew.perform(task, left)) as answers:
            for candidate, answer in answers:
                outcome = Failed(f"Lost: {answer}") if isinstance(answer, Lost) else answer
                journal.record(candidate.id, outcome)
                if isinstance(outcome, Failed):
                    failed.append(candidate)
                else:
                    done += 1
                told("candidates", done, len(candidates))
        left = failed
    journal.commit()
    return resumed


def _refuse_failures(outcomes: Mapping[str, Outcome], allowed: int, journal: Path) -> None:
    failed = [(name, outcome.error) for name, outcome in outcomes.items() if isinstance(outcome, Failed)]
    if len(failed) > allowed:
        shown = "; ".join(f"{name}: {error:.200}" for name, error in failed[:3])
        raise RunError(
            f"{len(failed)} of {len(outcomes)} candidates failed ({shown}); the others are kept in {journal}: run the "
            "same command again to retry the failed ones alone, or allow them with the recipe's max_failed"
        )


def _select(opened: _Opened, outcomes: dict[str, Outcome], told: Progress) -> list[Item]:
    """Return the items that every selection lets stay; the outcome of one that does not becomes a rejection."""
    items = [outcome.item for outcome in outcomes.values() if isinstance(outcome, Made)]
    for done, (name, selection) in enumerate(opened.selections):
        told("selections", done, len(opened.selections))
        left_out = dict(selection.left_out(items, seed=opened.recipe.seed, home=opened.home))
        if unknown := sorted(left_out.keys() - {item.id for item in items}):
            raise DataError(f"selection {name!r} leaves out {unknown[0]!r}, which is none of the items it was given")
        outcomes |= {key: Rejected(name, reason) for key, reason in left_out.items()}
        items = [item for item in items if item.id not in left_out]
    told("selections", len(opened.selections), len(opened.selections))
    return items


def _card(opened: _Opened, funnel: Funnel) -> dict[str, Any]:
    """Return what the set says of itself: nothing of when, where or by how many processes it was built."""
    return {
        "name": opened.recipe.name,
        **opened.builder.about,
        "builder": opened.recipe.builder,
        "recipe": opened.recipe.model_dump(mode="json"),
        "recipe_fingerprint": opened.fingerprint,
        "inputs": dict(opened.inputs),
        "models": dict(opened.models),
        "funnel": funnel.to_record(),
        "versions": {"tellapart": metadata.version("tellapart")},
    }


def _standing(out: Path, fingerprint: str, candidates: int) -> Built:
    """Return the set that stands already, if it is this recipe's; a journal that a killed build left behind goes."""
    card = read_object(out / "card.json")
    told = card.get("funnel")
    if card.get("recipe_fingerprint") != fingerprint or not isinstance(told, dict):
        raise DataError(f"{out} is another pair set already; build this one in a new folder")
    funnel = Funnel.from_record(told)
    if funnel.candidates != candidates:
        raise DataError(
            f"{out} was built from {funnel.candidates} candidates of this recipe, not {candidates}; "
            "build this one in a new folder"
        )
    if journal_of(out).exists():
        Journal(journal_of(out), fingerprint).remove()
    return Built(out, funnel, candidates)


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Tell nobody."""
