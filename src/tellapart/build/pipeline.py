"""Build a pair set from a recipe: candidates, made and filtered one by one, journalled, and written as one folder.

Every candidate's outcome depends on the recipe and on the candidate alone. So the set is the same, byte for byte, for any
number of workers and however often the build was stopped and begun again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

from tellapart.build.builder import Builder, Candidate, Failed, Made, Outcome, Rejected
from tellapart.build.crew import Lost, perform
from tellapart.build.funnel import Funnel
from tellapart.build.item_filters import ItemFilter
from tellapart.build.journal import Journal
from tellapart.build.recipe_file import RecipeFile, open_builder, open_filters, read_recipe_file
from tellapart.data.folder import write_pair_set
from tellapart.data.rows import read_object
from tellapart.errors import DataError, MissingDependencyError, RunError

__all__ = ["Built", "Plan", "attempt", "build", "journal_of"]

Progress = Callable[[str, int, int], None]
"""Called with the stage, what is done of it, and the total."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker process is told: the recipe as JSON, the folder its paths are relative to, its fingerprint.

    >>> Plan('{"name": "few", "builder": "scenes"}', Path("."), "0123").fingerprint
    '0123'
    """

    recipe: str
    home: Path
    fingerprint: str


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
    recipe: Path, out: Path, *, workers: int = 1, limit: int | None = None, progress: Progress | None = None
) -> Built:
    """Build the pair set of a recipe; what an earlier build of it did is not done again.

    Args:
        recipe: a TOML file.
        out: the set's folder: new, empty, or this very set, which is then left as it is.
        workers: processes; the set does not depend on it.
        limit: try only the first so many candidates.
        progress: told how far the build is.

    Raises:
        DataError: the recipe is not valid, an input cannot be read, every candidate was rejected, or the folder holds
            something else.
        UnknownNameError: no such builder or filter.
        RunError: the journal is of another recipe or in use; more candidates failed than the recipe allows.
        MissingDependencyError: the builder needs a package that is not installed.

    >>> build(Path("missing.toml"), Path("set"))
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.toml: cannot be read (No such file or directory)
    """
    read, home = read_recipe_file(recipe), recipe.parent
    builder = open_builder(read, home)
    plan = Plan(read.model_dump_json(), home, read.fingerprint(builder, metadata.version("tellapart")))
    candidates = _candidates(builder, read.builder)[:limit]
    if (out / "card.json").is_file():
        return _standing(out, plan, len(candidates))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} holds something already; build a pair set in a new folder")
    with Journal(journal_of(out), plan.fingerprint) as journal:
        resumed = _work(plan, journal, candidates, read.retries, workers, progress or _silent)
        funnel = Funnel()
        outcomes = [journal.outcome(candidate.id) for candidate in candidates]
        for outcome in outcomes:
            funnel.count(outcome)
        _check(candidates, outcomes, funnel, read.max_failed, journal_of(out))
        items = [outcome.item for outcome in outcomes if isinstance(outcome, Made)]
        images = journal.images({reference for item in items for reference in item.images})
        write_pair_set(out, items, images, _card(read, builder, plan, funnel))
        journal.remove()
    return Built(out, funnel, resumed)


def attempt(candidate: Candidate, plan: Plan) -> Outcome:
    """Make and filter one candidate, in whatever process this is.

    An error is an outcome, too, and is tried again later; but what no other try can change is raised.

    Raises:
        DataError: the builder gave the item another id than the candidate's.
        MissingDependencyError: the builder needs a package that is not installed.

    >>> import tempfile
    >>> recipe = '{"name": "few", "builder": "negatives", "options": {"captions": "captions.csv", "images": "."}}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "captions.csv").write_text("image,caption\\na.png,a dog\\n")
    ...     attempt(Candidate("1-swap_obj", {"kind": "swap_obj", "caption": "a dog"}), Plan(recipe, Path(folder), "0123"))
    Rejected(step='swap_obj', reason='no rule applies to the caption')
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
    named = zip(read.filters, open_filters(read, read.name), strict=True)
    return read, open_builder(read, plan.home), [(str(table["name"]), made) for table, made in named]


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


def _work(
    plan: Plan, journal: Journal, candidates: Sequence[Candidate], retries: int, workers: int, progress: Progress
) -> int:
    """Decide all candidates that are not decided yet, the failed ones again; return how many were."""
    decided = journal.decided()
    left = [candidate for candidate in candidates if candidate.id not in decided]
    resumed = done = len(candidates) - len(left)
    task = partial(attempt, plan=plan)
    for _ in range(retries + 1):
        failed: list[Candidate] = []
        for candidate, answer in perform(task, left, workers):
            outcome = Failed(f"Lost: {answer}") if isinstance(answer, Lost) else answer
            journal.record(candidate.id, outcome)
            if isinstance(outcome, Failed):
                failed.append(candidate)
            else:
                done += 1
            progress("candidates", done, len(candidates))
        left = failed
    journal.commit()
    return resumed


def _check(
    candidates: Sequence[Candidate], outcomes: Sequence[Outcome], funnel: Funnel, max_failed: int, journal: Path
) -> None:
    failed = [(c.id, o.error) for c, o in zip(candidates, outcomes, strict=True) if isinstance(o, Failed)]
    if len(failed) > max_failed:
        shown = "; ".join(f"{name}: {error:.200}" for name, error in failed[:3])
        raise RunError(
            f"{len(failed)} of {len(candidates)} candidates failed ({shown}); the others are kept in {journal}: run the "
            "same command again to retry the failed ones alone, or allow them with the recipe's max_failed"
        )
    if not funnel.items:
        why = ", ".join(f"{step} {reason} {n}".replace("  ", " ") for step, reason, n in funnel.rows()[1:-1])
        raise DataError(f"none of {len(candidates)} candidates became an item ({why}); nothing is written")


def _card(read: RecipeFile, builder: Builder, plan: Plan, funnel: Funnel) -> dict[str, Any]:
    """Return what the set says of itself: nothing of when, where or by how many processes it was built."""
    return {
        "name": read.name,
        **builder.about,
        "builder": read.builder,
        "recipe": read.model_dump(mode="json"),
        "recipe_fingerprint": plan.fingerprint,
        "inputs": dict(builder.inputs),
        "models": dict(builder.models),
        "funnel": funnel.to_record(),
        "versions": {"tellapart": metadata.version("tellapart")},
    }


def _standing(out: Path, plan: Plan, candidates: int) -> Built:
    """Return the set that stands already, if it is this recipe's; a journal that a killed build left behind goes."""
    card = read_object(out / "card.json")
    told = card.get("funnel")
    if card.get("recipe_fingerprint") != plan.fingerprint or not isinstance(told, dict):
        raise DataError(f"{out} is another pair set already; build this one in a new folder")
    funnel = Funnel.from_record(told)
    if funnel.candidates != candidates:
        raise DataError(
            f"{out} was built from {funnel.candidates} candidates of this recipe, not {candidates}; "
            "build this one in a new folder"
        )
    if journal_of(out).exists():
        Journal(journal_of(out), plan.fingerprint).remove()
    return Built(out, funnel, candidates)


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Tell nobody."""
