"""Build a pair set from a recipe: make and filter each candidate, record its outcome, select items, write the folder.

Every candidate's outcome depends on the recipe and on the candidate alone, and the selections on the outcomes alone. So
the set is the same, byte for byte, for any number of workers, and however often the build was stopped and run again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from pydantic import JsonValue

from tellapart.builders.builder import Builder, Candidate, Failed, Made, Outcome, Rejected
from tellapart.builders.executor import Executor, Lost, ProcessExecutor
from tellapart.builders.journal import Journal, count_decided, journal_of
from tellapart.builders.recipe_file import RecipeFile, fingerprint_facts, open_builder, open_tables, read_recipe_file
from tellapart.builders.selections import ItemFilter, Selection
from tellapart.builders.video.footage import file_sha256
from tellapart.data.folder import read_pair_set, write_pair_set
from tellapart.data.item import Item
from tellapart.data.progress import Progress
from tellapart.data.rows import read_object
from tellapart.data.strict_json import first_repeated
from tellapart.data.validation import describe_changes
from tellapart.errors import DataError, MissingDependencyError, RunError, plain, quote

# The work of one worker process: make and filter candidates.
#
# A worker gets a `WorkerPlan` and opens the recipe's builder and filters itself. It refuses to work if its inputs,
# models or version of tellapart differ from those of the process that started the build.


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """What a worker process needs: the recipe as JSON, and the folder that its paths are relative to.

    `fingerprint` is that of the recipe and of all files that it reads; the items' provenance has it. `sources` is what
    `sources_of` returned in the process that started the build.
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


def attempt(candidates: Sequence[Candidate], plan: WorkerPlan) -> list[Outcome]:
    """Make and filter candidates, in a worker or in the build's process.

    An error becomes a `Failed`, which is tried again later; an error that would come again each time is raised.
    """
    return [_attempt_one(candidate, plan) for candidate in candidates]


def _attempt_one(candidate: Candidate, plan: WorkerPlan) -> Outcome:
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
    origin: dict[str, JsonValue] = {"builder": recipe.builder, "recipe": plan.fingerprint}
    origin |= {"seed": [recipe.seed, candidate.id], "inputs": {**builder.inputs}, "models": {**builder.models}}
    return replace(outcome, item=outcome.item.model_copy(update={"provenance": origin | outcome.item.provenance}))


@lru_cache(maxsize=1)
def _open_plan(plan: WorkerPlan) -> tuple[RecipeFile, Builder, list[tuple[str, ItemFilter]]]:
    """Open a plan's builder and filters, once a process: a builder may have loaded a large model."""
    recipe = RecipeFile.model_validate_json(plan.recipe)
    builder = open_builder(recipe, plan.home, insecure=plan.insecure)
    present, planned = dict(sources_of(builder)), dict(plan.sources)
    for name in sorted({*present, *planned}):
        if present.get(name) != planned.get(name):
            here, at_start = present.get(name) or "none", planned.get(name) or "none"
            raise RunError(f"{name} is {here} here and {at_start} at the build's start; it must be the same")
    return recipe, builder, open_tables("filter", recipe.filters, recipe.name)


@dataclass
class Funnel:
    """The counts of a build's outcomes: items, failures, and rejections by step and reason.

    `samples` has the first refused text of each step and reason.
    """

    candidates: int = 0
    items: int = 0
    failed: int = 0
    redrawn: Counter[str] = field(default_factory=Counter)
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)
    samples: dict[tuple[str, str], str] = field(default_factory=dict, compare=False)

    def count(self, outcome: Outcome) -> None:
        """Count one candidate's outcome."""
        self.candidates += 1
        if isinstance(outcome, Made):
            self.items += 1
            self.redrawn.update(outcome.redrawn)
        elif isinstance(outcome, Rejected):
            self.rejected[outcome.step, outcome.reason] += 1
            if outcome.text:
                self.samples.setdefault((outcome.step, outcome.reason), f", such as {quote(outcome.text, 200)}")
        else:
            self.failed += 1

    def rows(self) -> list[tuple[str, str, int]]:
        """Return the funnel as a table: step, reason, number; the most frequent reasons of a step first."""
        redrawn = sorted((-number, reason) for reason, number in self.redrawn.items())
        rejected = sorted((step, -number, reason) for (step, reason), number in self.rejected.items())
        rows = [("candidates", "", self.candidates)]
        rows += [("drawn again", reason, -negative) for negative, reason in redrawn]
        for step, negative, reason in rejected:
            rows.append((f"rejected by {step}", reason + self.samples.get((step, reason), ""), -negative))
        if self.failed:
            rows.append(("failed", "", self.failed))
        return [*rows, ("items", "", self.items)]

    def to_record(self) -> dict[str, JsonValue]:
        """Return the funnel as JSON types, for the set's card."""
        return {
            "candidates": self.candidates,
            "redrawn": dict(sorted(self.redrawn.items())),
            "rejected": {f"{step}: {reason}": n for (step, reason), n in sorted(self.rejected.items())},
            "failed": self.failed,
            "items": self.items,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the funnel of a card, as `to_record` wrote it."""
        keys = [(key.partition(": "), number) for key, number in record["rejected"].items()]
        rejected = Counter({(step, reason): number for (step, _, reason), number in keys})
        return cls(record["candidates"], record["items"], record["failed"], Counter(record["redrawn"]), rejected)


_log = logging.getLogger(__name__)

#: A tag with more values than this names single items, as an id does; a selection need not keep each of its values.
_MOST_TAG_VALUES = 64


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A built set's folder, its funnel, and the number of outcomes that an earlier, stopped build had decided."""

    folder: Path
    funnel: Funnel
    resumed: int


def build(
    recipe: Path, out: Path, *,
    workers: int = 1, executor: Executor | None = None, limit: int | None = None, progress: Progress | None = None,
    insecure: bool = False, paths: Path | None = None,
) -> BuildResult:  # fmt: skip
    """Build the pair set of a recipe; outcomes that an earlier build of it journalled are reused."""
    _open_plan.cache_clear()  # the builder of an earlier build has listed folders that may have changed since
    report = progress or (lambda *_: None)
    opened = _open_recipe(recipe, paths or recipe.parent, insecure)
    candidates, name = list(opened.builder.candidates()), opened.recipe.builder
    if (twice := first_repeated(candidate.id for candidate in candidates)) is not None:
        raise DataError(f"builder {name!r} gives two candidates the id {twice!r}; ids must be distinct")
    if not candidates:
        raise DataError(f"builder {name!r} found no candidates in its inputs; look at the recipe's [options]")
    candidates = take_first(candidates, limit)
    if (out / "card.json").is_file():
        return _existing_set(out, opened, len(candidates))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} holds something already; build a pair set in a new folder")
    with Journal(journal_of(out), opened.fingerprint, opened.facts) as journal:
        journal.drop_damaged()
        decided = journal.decided_ids()
        earlier = (journal.outcome(candidate.id) for candidate in candidates if candidate.id in decided)
        made_items = (outcome.item for outcome in earlier if isinstance(outcome, Made))
        _refuse_changed_sources(opened.builder, made_items, journal.begun, f"{journal.path}; delete it to begin again")
        home = opened.home.absolute()  # processes on another machine have another working folder
        sources = sources_of(opened.builder)
        plan = WorkerPlan(opened.recipe.model_dump_json(), home, opened.fingerprint, sources, insecure)
        task, executor = partial(attempt, plan=plan), executor or ProcessExecutor(workers)
        retries, allowed = opened.recipe.retries, opened.recipe.max_failed
        outcomes, resumed = decide(journal, candidates, executor, task, report, retries=retries, allowed=allowed)
        items = _select_items(opened, outcomes, report)
        funnel = Funnel()
        for outcome in outcomes.values():
            funnel.count(outcome)
        if not items:
            _candidates, *lost, _items = funnel.rows()
            lost.sort(key=lambda row: -row[-1])
            why = ", ".join(f"{n} {step}" + (f" ({reason})" if reason else "") for step, reason, n in lost)
            raise DataError(f"none of {len(candidates)} candidates became an item: {why}; nothing is written")
        images = journal.images({reference for item in items for reference in (*item.images, *item.masks)})
        write_pair_set(out, items, images, _make_card(opened, funnel), progress=partial(report, "writing"))
        journal.remove()
    return BuildResult(out, funnel, resumed)


def take_first(sources: Sequence[Any], limit: int | None) -> list[Any]:
    """Return the first `limit` sources, all of them if it is None."""
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise RunError(f"limit={limit!r}: give a whole number of candidates, at least 1")
    return list(sources[:limit])


def describe_kept(out: Path) -> str | None:
    """Describe what an interrupted build leaves: the complete set, a journal with decided candidates, or None."""
    if (out / "card.json").is_file():
        return f"the set in {out} is complete"
    decided = count_decided(journal_of(out))
    return f"{decided:,} decided candidates are kept in {journal_of(out)}" if decided else None


@dataclass(frozen=True, slots=True)
class _OpenedRecipe:
    """A recipe with its builder and selections; `facts` are `RecipeFile.facts`."""

    recipe: RecipeFile
    home: Path
    builder: Builder
    selections: Sequence[tuple[str, Selection]]
    fingerprint: str
    facts: Mapping[str, Any]


def _open_recipe(path: Path, home: Path, insecure: bool) -> _OpenedRecipe:
    recipe = read_recipe_file(path)
    builder = open_builder(recipe, home, insecure=insecure)
    selections = open_tables("selection", recipe.selections, str(path))
    inputs, models = dict(builder.inputs), dict(builder.models)
    for index, (_, selection) in enumerate(selections):
        inputs |= {f"selections[{index}]: {name}": value for name, value in selection.inputs(home).items()}
        models |= {f"selections[{index}]: {name}": value for name, value in selection.models(home).items()}
    facts = recipe.facts(inputs, models, metadata.version("tellapart"))
    return _OpenedRecipe(recipe, home, builder, selections, fingerprint_facts(facts)[:16], facts)


def decide(
    journal: Journal, sources: Sequence[Any], executor: Executor, task: Callable[[list[Any]], list[Any]],
    report: Progress, *, noun: str = "candidates", block: int = 1, retries: int = 0, allowed: int = 0,
) -> tuple[dict[str, Any], int]:  # fmt: skip
    """Decide the sources that a journal has no outcome of; return all outcomes by id, and how many the journal had.

    `task` gets a block of sources and returns an outcome for each. A source that fails, or whose worker dies, is tried
    again up to `retries` times. More than `allowed` failures that remain are an error.
    """
    decided = journal.decided_ids()
    waiting = [source for source in sources if source.id not in decided]
    resumed = done = len(sources) - len(waiting)
    report(noun, done, len(sources))
    for _ in range(retries + 1):
        failed: list[Any] = []
        blocks = [waiting[start : start + block] for start in range(0, len(waiting), block)]
        with closing(executor.perform(task, blocks)) as results:
            for group, result in results:
                outcomes = [Failed(f"Lost: {result}")] * len(group) if isinstance(result, Lost) else result
                for source, outcome in zip(group, outcomes, strict=True):
                    journal.record(source.id, outcome)
                    if isinstance(outcome, Failed):
                        failed.append(source)
                    else:
                        done += 1
                if block > 1:
                    journal.commit()
                report(noun, done, len(sources))
        waiting = failed
    journal.commit()
    by_id = {source.id: journal.outcome(source.id) for source in sources}
    errors = [f"{name}: {outcome.error:.200}" for name, outcome in by_id.items() if isinstance(outcome, Failed)]
    if len(errors) > allowed:
        first = "; ".join(errors[:3])
        fix = "run the same command again to retry the failed ones alone, or allow them with the recipe's max_failed"
        kept = f"the others are kept in {journal.path}"
        raise RunError(f"{len(errors)} of {len(by_id)} candidates failed ({first}); {kept}: {fix}")
    return by_id, resumed


def _select_items(opened: _OpenedRecipe, outcomes: dict[str, Outcome], report: Progress) -> list[Item]:
    """Return the items that pass every selection; in `outcomes`, a rejection replaces each of the others."""
    items = [outcome.item for outcome in outcomes.values() if isinstance(outcome, Made)]
    for done, (name, selection) in enumerate(opened.selections):
        report("selections", done, len(opened.selections))
        left_out = dict(selection.left_out(items, seed=opened.recipe.seed, home=opened.home))
        if unknown := sorted(left_out.keys() - {item.id for item in items}):
            raise DataError(f"selection {name!r} leaves out {unknown[0]!r}, which is none of the items it was given")
        outcomes |= {key: Rejected(name, reason) for key, reason in left_out.items()}
        before, items = items, [item for item in items if item.id not in left_out]
        _warn_of_lost_values(f"selections[{done}] ({name})", before, items)
    report("selections", len(opened.selections), len(opened.selections))
    return items


def _warn_of_lost_values(selection: str, before: Sequence[Item], after: Sequence[Item]) -> None:
    """Warn of each value of a tag that no item has after a selection, except for tags that name single items."""
    remaining = {pair for item in after for pair in item.tags.items()}
    values: dict[str, list[str]] = {}
    for tag, value in dict.fromkeys(pair for item in before for pair in item.tags.items()):
        values.setdefault(tag, []).append(value)
    for tag, tag_values in values.items():
        lost = [value for value in tag_values if (tag, value) not in remaining]
        if after and lost and len(tag_values) <= min(_MOST_TAG_VALUES, len(before) - 1):
            counted = f"{len(lost)} of the {len(tag_values)} values of {tag}: {', '.join(lost)}"
            _log.warning("%s leaves no item of %s", plain(selection), plain(counted))


def _make_card(opened: _OpenedRecipe, funnel: Funnel) -> dict[str, Any]:
    """Return the set's card; it depends on no time, machine or number of processes."""
    return {
        "name": opened.recipe.name,
        **opened.builder.about,
        "builder": opened.recipe.builder,
        "recipe": opened.recipe.model_dump(mode="json"),
        "recipe_fingerprint": opened.fingerprint,
        "inputs": opened.facts["inputs"],
        "models": opened.facts["models"],
        "funnel": funnel.to_record(),
        "versions": {"tellapart": metadata.version("tellapart")},
    }


def _refuse_changed_sources(builder: Builder, items: Iterable[Item], since: int, owner: str) -> None:
    """Refuse items whose picture or video changed after `since`, in nanoseconds; `owner` is the file with the items."""
    source_of = getattr(builder, "source_of", None)
    if source_of is None:
        return
    sources = {source: item.id for item in items if (source := source_of(item))}
    for (path, digest), name in sources.items():
        # A file that was replaced by an older one has a new ctime all the same.
        if digest and path.is_file() and path.stat().st_ctime_ns > since and file_sha256(path) != digest:
            raise DataError(f"{path} is another file than the one of item {name!r} in {owner}")


def _existing_set(out: Path, opened: _OpenedRecipe, candidates: int) -> BuildResult:
    """Return the set that is in the folder already, if it is this recipe's; a journal beside it is removed."""
    card = read_object(out / "card.json")
    record = card.get("funnel")
    if card.get("recipe_fingerprint") != opened.fingerprint or not isinstance(record, dict):
        recipe, versions = card.get("recipe"), card.get("versions")
        facts = {**recipe, **card} if isinstance(recipe, dict) else {**card}
        facts["version"] = versions.get("tellapart") if isinstance(versions, dict) else None
        differing = describe_changes({key: facts.get(key) for key in opened.facts}, opened.facts)
        raise DataError(f"{out} is another pair set already ({differing}); build this one in a new folder")
    funnel = Funnel.from_record(record)
    if funnel.candidates != candidates:
        fault = f"{funnel.candidates} candidates of this recipe, not {candidates}; build this one in a new folder"
        raise DataError(f"{out} was built from {fault}")
    since = (out / "card.json").stat().st_mtime_ns
    items = read_pair_set(out).items if hasattr(opened.builder, "source_of") else ()
    _refuse_changed_sources(opened.builder, items, since, f"{out}; build this one in a new folder")
    if journal_of(out).exists():
        Journal(journal_of(out), opened.fingerprint).remove()
    return BuildResult(out, funnel, candidates)
