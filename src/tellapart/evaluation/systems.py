"""Systems: the runs of one model put together, whether its benchmarks are in one run folder or in several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tellapart.catalog import REFERENCES
from tellapart.errors import RunError
from tellapart.evaluation.verified import read_result
from tellapart.models.transductive import MARK
from tellapart.records.result import BenchmarkResult, Result
from tellapart.records.run_folder import find_runs


@dataclass(frozen=True, slots=True)
class System:
    """One model's record of one run, or of several on different benchmarks.

    Attributes:
        label: the model's name, or the user's label; numbered if two systems share it.
        folders: benchmark -> the run folder that measured it.
        result: the record, with the benchmarks of all these folders.
        titles: benchmark -> the user's label of it.
        runs: all of its run folders; those of a reference model may have measured the same.
    """

    label: str
    folders: Mapping[str, Path]
    result: Result
    titles: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[Path, ...] = ()

    @classmethod
    def of(cls, folder: Path) -> System:
        """Read the system of one run folder, without its further models.

        Raises:
            RunError: the folder is not a run.
        """
        result = read_result(folder)
        return cls(result.model.name, dict.fromkeys(result.benchmarks, folder), result, runs=(folder,))

    @property
    def place(self) -> str:
        """Its run folders, for a message."""
        return ", ".join(dict.fromkeys(map(str, self.folders.values()))) or self.label

    def record(self, benchmark: str) -> BenchmarkResult:
        """Return the system's record of a benchmark.

        Raises:
            RunError: the system did not measure it.
        """
        if benchmark not in self.result.benchmarks:
            known = ", ".join(self.result.benchmarks) or "nothing"
            raise RunError(f"{self.label} did not measure {benchmark!r}; its runs hold {known}")
        return self.result.benchmarks[benchmark]


def gather(folders: Sequence[Path], labels: Mapping[str, str] | None = None) -> list[System]:
    """Read runs, and the further models of each, in the order named; a system's runs on other benchmarks are one.

    Args:
        folders: run folders, or folders of them.
        labels: the name of a model or of a benchmark -> its label.

    Raises:
        RunError: none is named, a folder is not a run, neither a model nor a benchmark has the name of a label,
            or two models would have one label.
    """
    if not folders:
        raise RunError("no run was named; name one or more run folders")
    # A run named twice, or as part of one that is also named, is one run.
    paths = list({run.resolve(): run for folder in folders for run in find_runs(folder)}.values())
    systems: list[System] = []
    for path in paths:
        _join_run(systems, System.of(path))
    measured = {benchmark for system in systems for benchmark in system.folders}
    titles = {name: label for name, label in (labels or {}).items() if name in measured}
    of_models = {name: label for name, label in (labels or {}).items() if name not in titles}
    models = _system_names(systems)
    labelled = _apply_labels(models, of_models, sorted(measured))
    called: dict[str, str] = {}
    for model, label in zip(models, labelled, strict=True):
        if called.setdefault(label, model) != model:
            raise RunError(
                f"labels=: {called[label]} and {model} would be called {label!r}; give each model another label"
            )
    names = label_runs(labelled)
    return [replace(system, label=name, titles=titles) for name, system in zip(names, systems, strict=True)]


def leave_references(systems: Sequence[System]) -> list[System]:
    """Return systems without the reference models, which bound numbers and rank nothing; all if there are no others."""
    return [system for system in systems if system.result.model.name not in REFERENCES] or list(systems)


def _join_run(systems: list[System], new: System) -> None:
    """Add a run: to the system that it is of, unless that measured one of its benchmarks already.

    A reference model gets the same on the same items: another run's is no further system.
    """
    for number, known in enumerate(systems):
        if known.result.model.system != new.result.model.system:
            continue
        shared = known.folders.keys() & new.folders.keys()
        same = all(known.record(name).fingerprint == new.record(name).fingerprint for name in shared)
        if not shared or (same and new.result.model.name in REFERENCES):
            kept = known.result.benchmarks
            benchmarks = {**kept, **new.result.benchmarks, **kept}
            result = known.result.model_copy(update={"benchmarks": benchmarks})
            places = {**known.folders, **new.folders, **known.folders}
            systems[number] = replace(known, folders=places, result=result, runs=(*known.runs, *new.runs))
            return
    systems.append(new)


def _system_names(systems: Sequence[System]) -> list[str]:
    """Return the systems' names; score files that share theirs with a model computed here are marked."""
    computed = {system.label for system in systems if system.result.model.fingerprint}
    return [
        f"{system.label} (score files)"
        if system.label in computed and not system.result.model.fingerprint
        else system.label
        for system in systems
    ]


def _apply_labels(names: Sequence[str], labels: Mapping[str, str], benchmarks: Sequence[str]) -> list[str]:
    if unknown := [name for name in labels if name not in names]:
        raise RunError(
            f"labels={unknown[0]!r}: no model and no benchmark has that name; these runs hold {', '.join(names)} on "
            f"{', '.join(benchmarks)}"
        )
    return [labels.get(name, name).removesuffix(mark := MARK * name.endswith(MARK)) + mark for name in names]


def label_runs(names: Sequence[str]) -> list[str]:
    """Return models' names, numbered if one comes twice.

    >>> label_runs(["a", "b", "a"])
    ['a (run 1)', 'b', 'a (run 2)']
    """
    return [
        f"{name} (run {names[: number + 1].count(name)})" if names.count(name) > 1 else name
        for number, name in enumerate(names)
    ]
