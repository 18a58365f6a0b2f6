"""Results to the hub, as a pull request: the only part of the reports that uses the network, when it is asked to."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.plugins import open_benchmark
from tellapart.data.arguments import expect_used
from tellapart.errors import RunError, first_line, first_sentence, require
from tellapart.evaluation.verified import read_result
from tellapart.metrics.registry import METRICS
from tellapart.models.hub import reach_hub
from tellapart.records.result import Result
from tellapart.records.zipped import run_folders
from tellapart.report.interchange.cards import eval_result_entries, model_index_yaml, put_results
from tellapart.tasks.registry import find_task

CARD, RESULTS, EVAL = "README.md", ".eval_results/tellapart.yaml", "eval.yaml"

#: Takes a file's path in a repository to its text; None if there is none.
ReadFile = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class HubFiles:
    """Files for one repository on the hub.

    Attributes:
        message, description: of the commit, which are the pull request's title and text.
        left_out: benchmarks that one of the files has no place for.
    """

    files: Mapping[str, str]
    kind: str
    message: str
    description: str
    left_out: tuple[str, ...] = field(default=())


def files_of_run(result: Result, read: ReadFile) -> HubFiles:
    """Return a run's results as files for its model's page, with the results already there."""
    card = read(CARD)
    files = {CARD: model_index_yaml(result) if card is None else put_results(card, result, CARD)}
    entries, left_out = eval_result_entries(result)
    if entries:
        files[RESULTS] = _entries_text(entries, read(RESULTS))
    names = ", ".join(result.benchmarks)
    return HubFiles(
        files,
        "model",
        f"Results on {names}, measured with tellapart",
        f"Measured by `tellapart` on {result.run.started[:10]}: {names}. Every number has its items, interval, ties "
        "and chance; a tie is never right.",
        left_out,
    )


def files_of_benchmark(benchmark: Benchmark, *, config: str = "default", split: str = "test") -> HubFiles:
    """Return the `eval.yaml` that registers a benchmark's dataset on the hub: a task for each metric of a first look.

    Source: huggingface.co/docs/hub/eval-results.
    """
    yaml = require("yaml", extra="hub")
    sizes, of = benchmark.shape, ""
    if sizes is not None:
        of = f", {sizes[0]} images by {sizes[1]} texts each"
    # The metrics of every first look that a model of some kind can have here.
    metrics = dict.fromkeys(
        name
        for row in find_task(benchmark.task, benchmark.name).headlines
        if sizes is None or all(name not in METRICS or "{}x{}".format(*sizes) in METRICS[name].shapes for name in row)
        for name in row
    )
    content = {
        "name": benchmark.title,
        "description": f"{benchmark.items:,} records{of}. Measured with tellapart: a tie is never right. From "
        f"{benchmark.source}. Licence: {benchmark.licence}. Citation: {benchmark.citation}.",
        "evaluation_framework": "tellapart",
        "tasks": [{"id": metric, "config": config, "split": split} for metric in metrics],
    }
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    description = "Registers this dataset as a benchmark: a task for each metric of tellapart's first look."
    return HubFiles({EVAL: text}, "dataset", f"{benchmark.title} as a benchmark", description)


def _entries_text(entries: list[Any], there: str | None) -> str:
    """Write entries after those of a file that is there already and are of other sets or metrics."""
    hub, yaml = require("huggingface_hub", extra="hub"), require("yaml", extra="hub")
    new = {(entry.dataset_id, entry.task_id) for entry in entries}
    try:
        earlier = [] if there is None else hub.parse_eval_result_entries(yaml.safe_load(there) or [])
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise RunError(f"{RESULTS} in the repository is not a list of results: {first_line(error)}") from error
    remaining = [entry for entry in earlier if (entry.dataset_id, entry.task_id) not in new]
    text: str = yaml.safe_dump(
        hub.eval_result_entries_to_yaml([*remaining, *entries]), sort_keys=False, allow_unicode=True
    )
    return text


#: The variable that holds the token; no file and no option does.
TOKEN = "HF_TOKEN"  # noqa: S105


class HubRepository:
    """A repository on the hub, whose files are read, and to which files are proposed."""

    def __init__(self, repo: str, kind: str) -> None:
        self._hub = require("huggingface_hub", extra="hub")
        self._constants = require("huggingface_hub.constants", extra="hub")
        self._errors = require("huggingface_hub.errors", extra="hub")
        self.repo, self.kind = repo, kind
        self._known: dict[str, str | None] = {}
        self.offline = bool(self._constants.HF_HUB_OFFLINE)
        # Without a token in the environment nobody is logged in, even if one of the hub's files has one.
        self._api = self._hub.HfApi(token=os.environ.get(TOKEN) or False)

    @property
    def page(self) -> str:
        """Its address."""
        return f"{self._constants.ENDPOINT}/{'datasets/' if self.kind == 'dataset' else ''}{self.repo}"

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None if there is none."""

        def fetch() -> str | None:
            try:
                local = self._api.hf_hub_download(self.repo, path, repo_type=self.kind)
            except self._errors.EntryNotFoundError as error:
                if isinstance(error, self._errors.LocalEntryNotFoundError):
                    raise
                return None
            try:
                return Path(local).read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise RunError(f"{path} of {self.page} is not a text in UTF-8") from error

        if path not in self._known:
            self._known[path] = self._ask_hub(fetch)
        return self._known[path]

    def propose(self, proposed: HubFiles) -> str | None:
        """Open a pull request with files; return its address, or None if the repository has them as they are."""
        if not os.environ.get(TOKEN):
            raise RunError(
                f"{TOKEN} is not set, and a pull request to {self.page} needs a token that may write discussions: make "
                f"one on {self._constants.ENDPOINT}/settings/tokens and set {TOKEN}, or see the files: dry_run=True"
            )
        operations = [
            self._hub.CommitOperationAdd(path_in_repo=path, path_or_fileobj=text.encode())
            for path, text in proposed.files.items()
            if text != self.read(path)
        ]
        if not operations:
            return None

        words = {"commit_message": proposed.message, "commit_description": proposed.description}
        made = self._ask_hub(
            lambda: self._api.create_commit(self.repo, operations, repo_type=self.kind, create_pr=True, **words)
        )
        address: str | None = made.pr_url
        return address

    def _ask_hub(self, call: Callable[[], Any]) -> Any:
        """Ask the hub; its errors become one line with advice."""
        errors = self._errors
        with reach_hub(self._hub) as why:
            if why:
                raise RunError(f"{self.page}: {why.removesuffix(', or').rstrip(';')}")
        try:
            with warnings.catch_warnings():
                # The hub's advice on a card (no licence) is its owner's.
                warnings.simplefilter("ignore", UserWarning)
                return call()
        except errors.GatedRepoError as error:
            raise RunError(f"{self.page} is gated: accept its conditions there, and set {TOKEN}") from error
        except errors.RepositoryNotFoundError as error:
            raise RunError(
                f"{self.page} is not there, or this token may not see it; check the name (OWNER/NAME), and {TOKEN}"
            ) from error
        except errors.HFValidationError as error:
            raise RunError(f"{self.repo} is not an id of the hub; expected OWNER/NAME") from error
        except ValueError as error:  # the hub's check of a card's front matter
            raise RunError(f"the hub refuses {self.page}: {' '.join(str(error).split())}") from error
        except errors.HfHubHTTPError as error:
            if error.response.status_code in {401, 403}:
                raise RunError(
                    f"{self.page}: the hub refuses this {TOKEN} ({first_sentence(error)}); it needs the right to write "
                    "there, or to open discussions and pull requests"
                ) from error
            raise RunError(f"{self.page}: {first_sentence(error)}") from error
        except OSError as error:
            raise RunError(f"{self.page}: {first_sentence(error)}") from error
        except Exception as error:
            # Of the library that carries the calls, which is another one in each of the hub's versions.
            if type(error).__module__.partition(".")[0] not in {"httpx", "requests"}:
                raise
            raise RunError(f"{self.page} cannot be reached: {first_sentence(error)}") from error


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
