"""Verify runs: the function of `tellapart verify`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.data.arguments import PathGiven, as_paths
from tellapart.data.scores import join_names
from tellapart.errors import RunError, plain
from tellapart.evaluation.verify import Verification, verify_run
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.store.location import default_store_path
from tellapart.records.run_folder import find_runs
from tellapart.records.zipped import run_folders
from tellapart.report.frame import Frame
from tellapart.report.show import check_report
from tellapart.report.terminal import print_lines

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Verified", "verify"]

_COLUMNS = ("benchmark", "fact", "state", "recorded", "measured", "why")

#: Facts that are equal, named if they are so few; and lines of a run.
_MOST_EQUAL, _MOST_LINES = 3, 40


def verify(*runs: PathGiven, scores: PathGiven | Sequence[PathGiven] = ()) -> Verified:
    """Measure every number of runs again from their samples, and check the samples.

    A number is *equal*, *different*, or *cannot be checked*. Samples are checked against their digest, the set's files,
    and the file of scores or predictions that they were read from; the set's title, fingerprint and counts against its
    files; the model's name against the store; the page against records and samples. Facts that nothing here can show
    are listed.

    Args:
        runs: runs, run folders, folders of them, or zip archives of either.
        scores: the files of scores or predictions that a single run was made of, to check it against: each is
            found by its hash, or else by its name; the file of a run's only set may have another name.

    Raises:
        RunError: a folder is not a run, a record does not follow the schema, a file of scores is not there or is none
            of the run's, or several runs are given with one.

    >>> import tellapart as ta
    >>> verified = ta.verify(ta.evaluate("oracle", "demo", limit=20))
    >>> verified.passed, verified["state"].count("different")
    (True, 0)
    """
    paths, files = as_paths(runs, "runs"), _score_files(scores)
    with run_folders(paths, "runs") as folders:
        listed = [
            (run, str(folder), str(path))
            for path, folder in zip(paths, folders, strict=True)
            for run in find_runs(folder)
        ]
        if files and len(listed) != 1:
            raise RunError(f"verify: scores={files[0]} is of one run; got {len(listed)} runs: verify each by itself")
        cache = default_store_path()
        with EmbeddingStore(cache if cache.is_file() else None) as store:
            verifications = [_verify_run(run, store, files, folder, path) for run, folder, path in listed]
    return Verified(verifications)


def _score_files(scores: PathGiven | Sequence[PathGiven]) -> list[Path]:
    files = as_paths(scores, "scores") if scores else []
    if gone := [path for path in files if not path.is_file()]:
        raise RunError(f"verify: scores={gone[0]} is no file; name the file of scores that the run was made of")
    return files


def _verify_run(run: Path, store: EmbeddingStore, scores: Sequence[Path], folder: str, path: str) -> Verification:
    """Verify a run and its report; an archive's is named by the archive."""
    verified, report = verify_run(run, store, scores), check_report(run)
    checks = (*verified.checks, *([report] if report else []))
    return verified.model_copy(update={"run": f"{path}{str(run).removeprefix(folder)}", "checks": checks})


class Verified(Frame):
    """Runs, verified: a row for each number and each file; printed as `tellapart verify` does.

    Attributes:
        runs: what was found, a run each.
    """

    def __init__(self, runs: Sequence[Verification]) -> None:
        self.runs = tuple(runs)
        rows = [(one.run, one.model, check) for one in self.runs for check in one.checks]
        columns: dict[str, list[Any]] = {"run": [run for run, *_ in rows], "model": [model for _, model, _ in rows]}
        super().__init__(columns | {name: [getattr(check, name) for *_, check in rows] for name in _COLUMNS})

    @property
    def passed(self) -> bool:
        """Whether nothing differs."""
        return "different" not in self["state"]

    @property
    def unchecked(self) -> int:
        """How many numbers and files cannot be checked."""
        return self["state"].count("cannot be checked")

    def tables(self) -> list[Table]:
        """Return a table of everything that is not equal, for a notebook."""
        rows = [row for row in self.rows() if row["state"] != "equal"]
        return Frame({name: [row[name] for row in rows] for name in self.columns}).tables() if rows else []

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `tellapart verify --json`."""
        return {"passed": self.passed, "runs": [run.model_dump(mode="json") for run in self.runs]}

    def show(self) -> None:
        """Print it as `tellapart verify` does."""
        for run in self.runs:
            print_lines(*map(plain, _describe_run(run)))

    def __repr__(self) -> str:
        return "\n".join(plain(line) for run in self.runs for line in _describe_run(run))


def _describe_run(run: Verification) -> list[str]:
    """Return a line of counts, and below it everything that is not equal: what one reason is of, in one line."""
    equal = [check.fact for check in run.checks if check.state == "equal"]
    names = f" ({', '.join(equal)})" if 0 < len(equal) <= _MOST_EQUAL else ""
    counts = f"{len(equal)} equal{names}, {run.count('different')} different"
    by_reason: dict[tuple[str, str], list[str]] = {}
    for check in run.checks:
        if check.state == "different":
            numbers = [f"{value:.12g}" if value is not None else "none" for value in (check.recorded, check.measured)]
            both = f"recorded {numbers[0]}, measured {numbers[1]} in " if numbers != ["none", "none"] else ""
            by_reason[check.benchmark, f"{check.fact}: different: {both}{check.why}"] = []
        elif check.state != "equal":
            by_reason.setdefault((check.benchmark, f"cannot be checked: {check.why}"), []).append(check.fact)
    lines = [
        ": ".join(filter(None, (benchmark, join_names(facts), reason)))
        for (benchmark, reason), facts in by_reason.items()
    ]
    more = [f"  ... {len(lines):,} lines in all"] if len(lines) > _MOST_LINES else []
    head = f"{run.run} ({run.model}): {counts}, {run.count('cannot be checked')} cannot be checked"
    unknown = f"  not known: {'; '.join(run.unknown)}"
    return [head, *(f"  {line}" for line in lines[:_MOST_LINES]), *more, unknown]
