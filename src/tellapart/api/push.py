"""Propose results to the hub: the function of `tellapart push`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.plugins import open_benchmark
from tellapart.data.idle_options import expect_used
from tellapart.evaluation.verified import read_result
from tellapart.records.zipped import run_folders
from tellapart.report.interchange.hub_files import HubFiles, files_of_benchmark, files_of_run
from tellapart.report.interchange.push import HubRepository

__all__ = ["Proposed", "push"]


@dataclass(frozen=True, slots=True)
class Proposed:
    """The proposal that was made, or would be.

    Attributes:
        page: the repository's address.
        files: their content, and which benchmarks are left out.
        request: the pull request's address; None if none was opened.
        unseen: whether the page was not read, because the hub is not to be used.
    """

    page: str
    files: HubFiles
    request: str | None
    unseen: bool = False


def push(
    source: Any,
    repo: str,
    *,
    benchmark: bool = False,
    config: str = "default",
    split: str = "test",
    dry_run: bool = False,
) -> Proposed:
    """Propose a run's results to its model's page, or a benchmark's `eval.yaml` to its dataset's, as a pull request.

    Args:
        source: a run folder; with `benchmark` a benchmark's name.
        repo: the page, OWNER/NAME.
        benchmark: propose the `eval.yaml` of a dataset.
        config, split: with it, the dataset's.
        dry_run: send nothing.

    Raises:
        TellapartError: the token is missing, or the hub refuses it or cannot be reached.

    >>> import tellapart as ta
    >>> proposed = ta.push("winoground", "me/winoground", benchmark=True, dry_run=True)
    >>> proposed.page, list(proposed.files.files), proposed.request
    ('https://huggingface.co/datasets/me/winoground', ['eval.yaml'], None)
    """
    if not benchmark:
        expect_used("push", "without benchmark=True", config=(config, "default"), split=(split, "test"))
    repository = HubRepository(repo, "dataset" if benchmark else "model")
    alone = dry_run and repository.offline and not benchmark
    if benchmark:
        files = files_of_benchmark(find_benchmark(open_benchmark(source)), config=config, split=split)
    else:
        with run_folders(source, "source") as (run,):
            files = files_of_run(read_result(run), (lambda _: None) if alone else repository.read)
    return Proposed(repository.page, files, None if dry_run else repository.propose(files), alone)
