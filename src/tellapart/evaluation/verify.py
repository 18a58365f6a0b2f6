"""Verify a run: every number against its samples, the samples against their digest and against the file of scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from tellapart.benchmarks.find import find_again
from tellapart.benchmarks.locations import Locations
from tellapart.data.pairset import Outline
from tellapart.errors import RunError, TellapartError
from tellapart.evaluation.evaluate import prepare_listed, yield_samples
from tellapart.evaluation.measure import Remeasured, remeasure_samples
from tellapart.evaluation.shared_benchmarks import name_source
from tellapart.evaluation.verified import count_moved, differing_fields, list_numbers
from tellapart.records.result import BenchmarkResult, Located, Result, Sample, is_imported
from tellapart.records.run_folder import RESULTS, find_located, locate, read_stored
from tellapart.records.samples import read_samples, samples_path
from tellapart.tasks.pairs import ListedPairs
from tellapart.tasks.registry import TASKS, find_task

__all__ = ["Check", "Verification", "verify_run"]

State = Literal["equal", "different", "cannot be checked"]


class Check(BaseModel, frozen=True):
    """One fact of a record, checked.

    Attributes:
        benchmark: empty of the record itself.
        fact: a metric, with the tag's value in front if it is of a part; or a file.
        state: `equal`, `different` or `cannot be checked`.
        recorded, measured: the number in the record, and measured again: of the first field that differs.
        why: the field that differs, or the reason for which nothing can be checked.
    """

    benchmark: str = ""
    fact: str
    state: State = "equal"
    recorded: float | None = None
    measured: float | None = None
    why: str = ""


class Verification(BaseModel, frozen=True):
    """A run folder, verified.

    Attributes:
        run: the folder.
        model: the model's name.
    """

    run: str
    model: str
    checks: tuple[Check, ...]

    def count(self, state: State) -> int:
        """Count the checks that ended so."""
        return Counter(check.state for check in self.checks)[state]


def verify_run(folder: Path) -> Verification:
    """Measure every number of a run folder again from its samples, and check the samples.

    Raises:
        RunError: the folder is not a run, or the record does not follow the schema.

    >>> from tellapart.evaluation.run import EmbeddingStore, Settings, run
    >>> folder = getfixture("tmp_path") / "oracle"
    >>> _ = run(Settings(models=("oracle",), limit="3"), folder, store=EmbeddingStore(None))
    >>> verified = verify_run(folder)
    >>> verified.count("equal") == len(verified.checks)
    True
    """
    stored = read_stored(folder, checked=False)
    checks = [_check_record(stored.checksum)]
    for name in stored.result.benchmarks:
        checks += _check_benchmark(folder, stored.result, name)
    return Verification(run=str(folder), model=stored.result.model.name, checks=tuple(checks))


def _check_record(checksum: str) -> Check:
    states: dict[str, tuple[State, str]] = {
        "right": ("equal", ""),
        "wrong": ("different", "its checksum is not its content's"),
        "missing": ("cannot be checked", "it has no checksum"),
    }
    state, why = states[checksum]
    return Check(fact=RESULTS, state=state, why=why)


def _check_benchmark(folder: Path, result: Result, name: str) -> Iterator[Check]:
    record = result.benchmarks[name]
    stated = list_numbers(record)
    try:
        if is_imported(record):
            raise RunError(f"another tool measured it ({name_source(record)}), and no item is known")
        samples = read_samples(folder, name, record.model_copy(update={"samples": None}))
        measured = remeasure_samples(name, record, samples, seed=result.run.seed)
    except TellapartError as error:
        yield from (
            Check(benchmark=name, fact=_name_fact(key), state="cannot be checked", recorded=value.value, why=str(error))
            for key, value in stated.items()
        )
        return
    yield _check_digest(folder, name, record)
    yield from _check_numbers(name, record, measured)
    if measured.outcomes:
        yield _check_outcomes(name, samples, measured)
    if record.file is not None:
        yield _check_file(folder, result, name, record.file, samples)


def _name_fact(key: tuple[str, str, str]) -> str:
    tag, value, metric = key
    return metric if not tag else f"{tag} = {value}: {metric}" if value else f"macro of {tag}: {metric}"


def _check_digest(folder: Path, name: str, record: BenchmarkResult) -> Check:
    fact = samples_path(folder, name).relative_to(folder).as_posix()
    if record.samples is None:
        return Check(benchmark=name, fact=fact, state="cannot be checked", why="the record has no digest of it")
    try:
        read_samples(folder, name, record)
    except RunError as error:
        return Check(benchmark=name, fact=fact, state="different", why=str(error))
    return Check(benchmark=name, fact=fact)


def _check_numbers(name: str, record: BenchmarkResult, measured: Remeasured) -> Iterator[Check]:
    stated, given = list_numbers(record), list_numbers(measured.table)
    for key in dict.fromkeys((*stated, *given)):
        fact, old, new = _name_fact(key), stated.get(key), given.get(key)
        if old is None or new is None:
            why = "the record lacks it" if old is None else "the samples hold no value of an item by it"
            value, again = (None if each is None else each.value for each in (old, new))
            yield Check(benchmark=name, fact=fact, state="cannot be checked", recorded=value, measured=again, why=why)
            continue
        fields = differing_fields(old, new, partly=record.shape is None)
        field = fields[0] if fields else "value"
        yield Check(
            benchmark=name,
            fact=fact,
            state="different" if fields else "equal",
            recorded=getattr(old, field),
            measured=getattr(new, field),
            why=", ".join(fields),
        )


def _check_outcomes(name: str, samples: Sequence[Sample], measured: Remeasured) -> Check:
    moved = count_moved(samples, measured.outcomes)
    why = f"of {moved} of {len(samples)} items they do not follow from the scores" if moved else ""
    return Check(benchmark=name, fact="outcomes of items", state="different" if moved else "equal", why=why)


def _check_file(folder: Path, result: Result, name: str, file: Located, samples: Sequence[Sample]) -> Check:
    """Check samples against the file of scores or predictions that they were read from."""
    fact, path = f"samples against {Path(file.path).name}", find_located(file, folder)

    def conclude(state: State, why: str = "") -> Check:
        return Check(benchmark=name, fact=fact, state=state, why=why)

    if path is None or not path.is_file():
        return conclude("cannot be checked", f"{file.path} is not here")
    if locate(path, folder, hashed=True).sha256 != file.sha256:
        return conclude("different", f"{path} is another file now: its SHA-256 is not the record's")
    try:
        rows = _read_file(folder, result, name, path, samples)
    except TellapartError as error:
        return conclude("cannot be checked", str(error))
    given = {(one.unit, one.id): (one.scores, one.outcomes) for one in rows}
    moved = sum(given.get((one.unit, one.id)) != (one.scores, one.outcomes) for one in samples)
    if moved or len(given) != len(samples):
        return conclude("different", f"{moved} of {len(samples)} items are not as {path} has them")
    return conclude("equal")


def _read_file(folder: Path, result: Result, name: str, path: Path, samples: Sequence[Sample]) -> list[Sample]:
    """Read a file of scores or predictions as its run did, with the benchmark's files, or for pairs without them."""
    record = result.benchmarks[name]
    task = find_task(record.task, name)
    try:
        found = {
            part: None if located is None else find_located(located, folder)
            for part, located in (("own", record.own), ("data", result.run.data), ("images", result.run.images))
        }
        benchmark = find_again(name, found["own"], Locations(found["data"], found["images"]))
        records = prepare_listed(benchmark).records
    except TellapartError:
        if record.shape is None:
            raise
        truths = tuple(one.true for one in samples) if any(one.true for one in samples) else ()
        ids, clusters, tags = zip(*((one.id, one.cluster, one.tags) for one in samples), strict=True)
        records = ListedPairs(Outline(ids, record.shape, clusters, tags, truths))
    predictions = task.read(path, records, kind=record.kind) if task.kinds else task.read(path, records)
    return [sample for units in TASKS[record.task].measure(records, predictions) for sample in yield_samples(units)]
