"""Train models to tell pairs apart; a training run that is done shows itself."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tellapart.benchmarks.plugins import exit_is_error
from tellapart.data.arguments import PathGiven, as_path
from tellapart.errors import DataError, RunError, plain
from tellapart.report.diagnoses import print_why
from tellapart.report.frame import Shown
from tellapart.report.numbers import percent, points
from tellapart.report.printing import print_comparison
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.report.terminal import console, print_lines, table
from tellapart.training.config import TrainConfig, read_config
from tellapart.training.dry_run import DryRun, rehearse
from tellapart.training.record import RECORD, TrainRecord, read_record
from tellapart.training.report.page import PAGE, write_progress, write_training_report
from tellapart.training.run_files import OWNER, RunFiles
from tellapart.training.seeds import SeedRow, between, over_seeds, read_seeds, train_seeds
from tellapart.training.training_run import FinishedRun, run_training, train_matched


def print_trained(record: TrainRecord, page: Path) -> None:
    """Print which weights were kept, how to measure them, their gains and losses, and the page's path."""
    value = record.describe_validation() or "no validation set, so the last ones"
    print_lines(
        plain(f"kept the weights after step {record.best_step} of {record.steps}{_name_limit(record)}: {value}"),
        f"measure with: tellapart run -m {shlex.quote(record.model)}",
        *map(plain, record.describe_transductive()),
    )
    if record.updated:
        print_lines(f"lora: {plain(record.updated)}")
    if record.data.duplicates is not None and (counts := record.data.duplicates.describe()):
        print_lines(f"training data: {counts}")
    if record.comparison is not None:
        print_lines("")
        print_comparison(record.comparison)
        print_lines("")
        for side, rows in (("better", record.gained), ("worse", record.lost)):
            metrics = ", ".join(f"{row.benchmark} {row.metric}" for row in rows) or "nothing"
            print_lines(plain(f"{side}, p after Holm below .05: {metrics}"))
    if record.why is not None:
        print_lines("")
        print_why(record.why)
    if (sweep := record.sweep) is not None:
        curve = table("alpha", *sweep.benchmarks, numbers_from=0)
        for alpha, values in sweep.curve.items():
            curve.add_row(f"{alpha:.2f}{' *' if alpha == sweep.best else ''}", *map(percent, values))
        print_lines("")
        console().print(curve)
        print_lines(
            "weights between the start (0) and the trained model (1): means of headline metrics, percent; "
            f"* Pareto-best, chosen on these very numbers: {sweep.model}"
        )
    print_lines("", f"report: {page}")


def _name_limit(record: TrainRecord) -> str:
    return f" (a smoke run of {record.limit} steps, by --limit)" if record.limit else ""


def print_seeds(records: Sequence[TrainRecord], others: Sequence[TrainRecord] | None = None) -> None:
    """Print each metric's mean and spread over seeds, next to the start and, if there is one, another configuration."""
    rows = over_seeds(records)
    versus = None if others is None else between(records, others)
    if not rows:
        print_lines("nothing was measured before and after: name benchmarks in report.benchmarks")
        return
    _print_over_seeds("the start", rows, _name_limit(records[0]))
    print_lines(*map(plain, records[0].describe_transductive()[:1]))
    if versus is not None and others is not None:
        limits = dict.fromkeys((_name_limit(records[0]), _name_limit(others[0])))
        _print_over_seeds(str(others[0].config["name"]), versus, "; ".join(filter(None, limits)))


def _print_over_seeds(other: str, rows: Sequence[SeedRow], limit: str) -> None:
    tests = ("p", "p (Holm)", "p (ranks)")
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        lines = table(plain(benchmark), "mean", "sd", plain(other), "difference", *tests, numbers_from=1)
        for row in (row for row in rows if row.benchmark == benchmark):
            change = points(row.difference, row.low, row.high, row.reason)
            p_values = ("-" if p is None else f"{p:.3g}" for p in (row.p, row.p_holm, row.p_ranks))
            sd = "-" if row.sd is None else percent(row.sd)
            lines.add_row(row.metric, percent(row.mean), sd, percent(row.other), change, *p_values)
        console().print(lines)
        print_lines("")
    print_lines(
        f"{rows[0].seeds} seeds{limit}, percent: their mean and standard deviation; differences from {plain(other)} "
        "paired by seed, 95% intervals by Student's t; p: paired t-test, Holm over these rows, Wilcoxon's signed ranks"
    )


@dataclass(repr=False, eq=False)
class Trained(Shown):
    """A training run, or several that differ in their seed alone.

    Attributes:
        folder: of the run.
        records: of the run, one a seed; none in other ranks than the first.
        seeds: whether several seeds were asked for.
        against: the records of another configuration's seeds, if it was compared with them.
        plan: of a dry run, which leaves no record.
    """

    folder: Path
    records: Sequence[TrainRecord]
    seeds: bool = False
    against: Sequence[TrainRecord] | None = None
    plan: DryRun | None = None

    @property
    def record(self) -> TrainRecord:
        """The first seed's record."""
        return self.records[0]

    @property
    def passed(self) -> bool:
        """Whether a dry run found no problem; a run that is done has none."""
        return self.plan is None or self.plan.passed

    def to_json(self) -> Any:
        """Return the JSON of `tellapart train --json`."""
        if self.plan is not None:
            return self.plan.to_json()
        records, against = self.records, self.against
        if self.seeds:  # each metric next to the start and another configuration
            return {
                "models": [record.model for record in records],
                "seeds": [record.config["seed"] for record in records],
                "limit": records[0].limit if records else None,
                "validation": [record.best for record in records],
                "start": [asdict(row) for row in over_seeds(records)],
                "against": None if against is None else [asdict(row) for row in between(records, against)],
            }
        record, values = self.record, self.record.model_dump(mode="json")
        same = ("history", "resumed", "transductive", "comparison", "why")
        return {
            **{key: values[key] for key in ("model", "steps", "limit", "best_step")},
            "validation": record.best,
            "validation_metric": record.data.validation_metric,
            **{key: values[key] for key in same},
            "better": [{"benchmark": row.benchmark, "metric": row.metric} for row in record.gained],
            "worse": [{"benchmark": row.benchmark, "metric": row.metric} for row in record.lost],
            "sweep": None if record.sweep is None else asdict(record.sweep),
            "report": str(self.folder / PAGE),
        }

    def show(self) -> None:
        """Print it as `tellapart train` does."""
        if self.plan is not None:
            self.plan.show()
        elif self.seeds:
            print_seeds(self.records, self.against)
        else:
            print_trained(self.record, self.folder / PAGE)


def open_training(folder: PathGiven, *, outside_images: bool = False) -> Trained | None:
    """Open a folder that `train` wrote, and write its page again; None if it is not one."""
    path = as_path(folder, "folder")
    if (path / RECORD).is_file():
        record = read_record(path)
        write_training_report(path, record, outside=outside_images)
        return Trained(path, (record,))
    if any(path.glob(f"seed-*/{RECORD}")):
        return Trained(path, tuple(read_seeds(path)), seeds=True)
    if (path / OWNER).is_file():
        raise RunError(f"training in {path} has not ended: {PAGE} there has its curves; go on with --resume")
    return None


@exit_is_error
def train(
    config: PathGiven,
    out: PathGiven | None = None,
    *,
    resume: bool = False,
    limit: int | None = None,
    allow_leak: bool = False,
    seeds: int | None = None,
    against: PathGiven | None = None,
    dry_run: bool = False,
    data: PathGiven | None = None,
    progress: ProgressGiven = None,
) -> Trained:
    """Train a model to tell pairs apart; after an interruption, `resume` continues with the same numbers.

    Args:
        config: a TOML file: start, data, loss, optimiser (docs/training.md).
        out: the run's folder; runs/train-NAME if not given.
        resume: go on with the run that the folder holds.
        limit: stop after so many steps.
        allow_leak: train even on pictures of a benchmark that is reported.
        seeds: train under so many seeds, for means and tests over them.
        against: another configuration's folder of seeds, compared seed by seed.
        dry_run: try everything but the long part, in about half a minute: list every problem, forecast time and disk,
            and write nothing. See `plan`.
        data: the folder of training files and benchmarks that are not in the configuration's folder.
        progress: as of `evaluate`.

    Raises:
        TellapartError: the configuration is not valid, the data cannot be read, or the folder holds another run.

    >>> import tellapart as ta
    >>> folder, example = getfixture("tmp_path"), Path("examples/eqsim_ablation").absolute()
    >>> _ = (folder / "tiny.toml").write_text(f'''
    ... name = "tiny"
    ... model = "new:{example}/arch"
    ... loss.name = "itc"
    ... data.train = ["folder:{example}/smoke_scenes"]
    ... optimiser = {{learning_rate = 1e-3, steps = 2}}
    ... batch.size = 4
    ... ''')
    >>> ta.train(folder / "tiny.toml", folder / "run").record.steps
    2
    >>> tried = ta.train(folder / "tiny.toml", folder / "run", dry_run=True)
    >>> tried.passed, tried.plan.schedule.steps, tried.plan.problems[0].startswith(str(folder / "run"))
    (False, 2, True)
    """
    path = as_path(config, "config")
    if dry_run:
        if resume or against is not None:
            raise DataError("dry_run=True tries a run from its start; leave resume= and against= out")
        to, place = (None if value is None else as_path(value, name) for value, name in ((out, "out"), (data, "data")))
        with reporting(progress) as report:
            update = None if report is None else report("dry run")
            seeded, leaks = seeds or 1, allow_leak
            plan = rehearse(path, to, data=place, limit=limit, allow_leak=leaks, seeds=seeded, progress=update)
        return Trained(Path(plan.out), (), plan=plan)
    chosen = read_config(path)
    if data is not None:
        chosen = chosen.with_folder(as_path(data, "data"))
    if against is not None and seeds is None:
        raise DataError("against= compares seeds; give seeds=N too")
    others = None if against is None else read_seeds(as_path(against, "against"))
    folder = default_folder(path, out)
    with reporting(progress) as report:

        def train_once(settings: TrainConfig, to: Path) -> FinishedRun:
            update = None if report is None else report(f"{settings.name}, seed {settings.seed}")
            trained = run_training if settings.test_time_matching is None else train_matched
            finished = trained(
                settings, path.parent, to,
                resume=resume, limit=limit, allow_leak=allow_leak, progress=update, show=write_progress,
            )  # fmt: skip
            if finished.record is not None:
                write_training_report(to, finished.record, outside=settings.data.outside_images)
            return finished

        if seeds is not None:
            records = train_seeds(chosen, folder, seeds, train_once, resume=resume, limit=limit)
            return Trained(folder, tuple(records), seeds=True, against=others)
        finished = train_once(chosen, folder)
        return Trained(folder, () if finished.record is None else (finished.record,))


def default_folder(config: Path, out: PathGiven | None = None) -> Path:
    """Return the folder of a training run: the one that is named, else runs/train-NAME of the configuration."""
    return as_path(out, "out") if out is not None else Path("runs") / f"train-{read_config(config).name}"


def describe_kept(folder: Path) -> str | None:
    """Describe the result of an interrupted training run; of several seeds, of those that were begun."""
    parts = [RunFiles(seed).describe_kept() for seed in sorted(folder.glob("seed-*"))]
    parts.append(RunFiles(folder).describe_kept())
    return "; ".join(part for part in parts if part) or None
