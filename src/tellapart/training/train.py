"""The function of `tellapart train`, its printed outcome, and a configuration's runs under several seeds."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellapart.benchmarks.plugins import exit_is_error
from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.scores import join_names
from tellapart.errors import DataError, RunError, plain
from tellapart.report.diagnoses import print_why
from tellapart.report.frame import Shown
from tellapart.report.printing import print_comparison
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.report.terminal import print_lines, print_template
from tellapart.stats.multiple import holm
from tellapart.stats.paired import paired_by_seed
from tellapart.training.config import TrainConfig, read_config
from tellapart.training.record import PAGE, RECORD, TrainRecord, read_record, write_progress, write_training_report
from tellapart.training.run_files import OWNER, RunFiles

if TYPE_CHECKING:
    from tellapart.training.dry_run import DryRun
    from tellapart.training.training_run import FinishedRun


def _name_limit(record: TrainRecord) -> str:
    return f" (a smoke run of {record.limit} steps, by --limit)" if record.limit else ""


@dataclass(repr=False, eq=False)
class Trained(Shown):
    """A training run, or several that differ in their seed alone.

    Attributes:
        folder: of the run.
        records: of the run, one for each seed; empty in ranks other than the first.
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
        if self.seeds:  # `start` and `against` have a row for each metric
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
        """Print it as `tellapart train` does: weights, gains and losses; of several seeds means and spread."""
        if self.plan is not None:
            self.plan.show()
        elif self.seeds:
            self._show_seeds()
        else:
            record = self.record
            counts = record.data.duplicates and record.data.duplicates.describe()
            model, limit = shlex.quote(record.model), _name_limit(record)
            print_template("trained", record=record, model=model, limit=limit, counts=counts)
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
            if record.sweep is not None:
                print_template("sweep", sweep=record.sweep)
            print_lines("", f"report: {self.folder / PAGE}")

    def _show_seeds(self) -> None:
        records, others = self.records, self.against
        rows, limit = over_seeds(records), _name_limit(records[0]) if records else ""
        tables = [("the start", rows, limit)]
        if others is not None:
            limits = dict.fromkeys((limit, _name_limit(others[0])))
            tables.append((str(others[0].config["name"]), between(records, others), "; ".join(filter(None, limits))))
        if rows:
            print_template("seeds", tables=tables, mark="".join(records[0].describe_transductive()[:1]))
        else:
            print_lines("nothing was measured before and after: name benchmarks in report.benchmarks")


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
    >>> tried.passed, tried.plan.schedule["steps"], tried.plan.problems[0].startswith(str(folder / "run"))
    (False, 2, True)
    """
    path = as_path(config, "config")
    for name, count in (("limit", limit), ("seeds", seeds)):
        if count is not None and count < 1:
            raise DataError(f"{name}={count}: give a number from 1 on")
    if dry_run:
        if resume or against is not None:
            raise DataError("dry_run=True tries a run from its start; leave resume= and against= out")
        from tellapart.training.dry_run import rehearse

        to = None if out is None else as_path(out, "out")
        place = None if data is None else as_path(data, "data")
        with reporting(progress) as report:
            update = None if report is None else report("dry run")
            options: dict[str, Any] = {"limit": limit, "allow_leak": allow_leak, "seeds": seeds or 1}
            plan = rehearse(path, to, data=place, progress=update, **options)
        return Trained(Path(plan.out), (), plan=plan)
    chosen = read_config(path)
    if data is not None:
        chosen = chosen.changed(data={"folder": str(as_path(data, "data").absolute())})
    if against is not None and seeds is None:
        raise DataError("against= compares seeds; give seeds=N too")
    others = None if against is None else read_seeds(as_path(against, "against"))
    folder = default_folder(path, out)
    from tellapart.training.training_run import refuse_other_data, run_training, train_matched

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
            check = partial(refuse_other_data, home=path.parent)
            records = train_seeds(chosen, folder, seeds, train_once, resume=resume, limit=limit, check=check)
            return Trained(folder, tuple(records), seeds=True, against=others)
        finished = train_once(chosen, folder)
        return Trained(folder, () if finished.record is None else (finished.record,))


def default_folder(config: Path, out: PathGiven | None = None) -> Path:
    """Return the folder of a training run: `out` if it is given, else runs/train-NAME of the configuration."""
    return as_path(out, "out") if out is not None else Path("runs") / f"train-{read_config(config).name}"


def describe_kept(folder: Path) -> str | None:
    """Describe the result of an interrupted training run; of several seeds, of those that were begun."""
    sentences = (RunFiles(run).describe_kept() for run in (*sorted(folder.glob("seed-*")), folder))
    return "; ".join(filter(None, sentences)) or None


# One configuration under several seeds: mean and spread over them, and tests paired by seed. An interval over items
# covers one run's number; it does not cover the change by another seed.

#: A record's value of each metric of each benchmark.
_Values = dict[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class SeedRow:
    """One metric of one benchmark over seeds, paired with the start or another configuration, whose mean is `other`.

    `sd` is the standard deviation of a sample of seeds. `low` and `high` are Student's 95 % interval of the difference
    over seeds, None for one seed, or if all differences are equal. `p` is of the two-sided paired t-test, and `p_holm`
    is that p corrected for all rows that have one. `p_ranks` is of Wilcoxon's signed ranks, which assume no normal
    distribution.
    """

    benchmark: str
    metric: str
    seeds: int
    mean: float
    sd: float | None
    other: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    p_ranks: float | None

    @property
    def reason(self) -> str:
        """The reason why there is no interval; empty if there is one."""
        if self.low is not None:
            return ""
        return "too few for an interval: 1 seed" if self.seeds == 1 else "no interval: all seeds alike"


def train_seeds(
    config: TrainConfig, out: Path, count: int, once: Callable[[TrainConfig, Path], FinishedRun], *,
    resume: bool = False, limit: int | None = None,
    check: Callable[[TrainConfig, Path, TrainRecord], None] | None = None,
) -> list[TrainRecord]:  # fmt: skip
    """Train `count` seeds from the configuration's on, each by `once` to `out/seed-N`; return the records, to rank 0.

    `check` refuses a finished seed if its data are others now. One finished seed is checked: all must have the same.

    Source: COCO-Counterfactuals (Le et al. 2023), appendix B.4.2: 25 seeds, 107 to 131.
    """
    from tellapart.training.loop import TrainingRanks

    ranks, records = TrainingRanks(config.device), list[TrainRecord]()
    for seed in range(config.seed, config.seed + count):
        seeded, folder = config.model_copy(update={"seed": seed}), out / f"seed-{seed:03d}"
        done = ranks.first(lambda: read_record(folder) if resume and (folder / RECORD).is_file() else None)  # noqa: B023
        if done is None or (done.config, done.limit) != (seeded.model_dump(mode="json"), limit):
            done = once(seeded, folder).record
        elif check is not None:
            ranks.first(partial(check, seeded, folder, done))
            check = None
        records += [done] if ranks.leads and done is not None else []
    runs = [(record.start, record.data) for record in records]
    odd = [f"seed-{_seed_of(record):03d}" for record, run in zip(records, runs, strict=True) if run != runs[0]]
    with ranks.together():
        if odd:
            other = "trained from another start or on other data than the rest, or measured other items"
            raise RunError(f"{out}: {join_names(odd)} {other}; delete them, and resume")
    ranks.leave()
    return records


def read_seeds(out: Path) -> list[TrainRecord]:
    """Read the records of all seeds of a folder, in the order of the seeds."""
    records = [read_record(path.parent) for path in sorted(out.glob(f"seed-*/{RECORD}"))]
    if not records:
        raise RunError(f"{out} has no finished seeds; name a folder that `tellapart train --seeds N --out` wrote")
    return sorted(records, key=_seed_of)


def over_seeds(records: Sequence[TrainRecord]) -> tuple[SeedRow, ...]:
    """Compare the trained models with their starts, seed by seed, on every metric that all seeds measured."""
    return _compare_values([_values_of(record) for record in records], [_values_of(r, start=True) for r in records])


def between(first: Sequence[TrainRecord], second: Sequence[TrainRecord]) -> tuple[SeedRow, ...]:
    """Compare two configurations on the seeds and metrics that both have; differences are the first's."""
    ours, theirs = ({_seed_of(record): record for record in records} for records in (first, second))
    if not (seeds := sorted(ours.keys() & theirs.keys())):
        listed = " and ".join(", ".join(map(str, sorted(records))) or "none" for records in (ours, theirs))
        raise RunError(f"the two share no seed: {listed}; train both with the same seeds")
    rows = _compare_values([_values_of(ours[seed]) for seed in seeds], [_values_of(theirs[seed]) for seed in seeds])
    changed = set[str]()
    for sets, other_sets in ((ours[seed].data.reported, theirs[seed].data.reported) for seed in seeds):
        changed |= {name for name in sets.keys() & other_sets.keys() if sets[name] != other_sets[name]}
    if changed:
        raise RunError(f"the two measured other items of {join_names(sorted(changed))}; report the same benchmarks")
    if not rows:
        raise RunError("the two report no benchmark in common; give both the same report.benchmarks")
    return rows


def _seed_of(record: TrainRecord) -> int:
    return int(str(record.config["seed"]))


def _values_of(record: TrainRecord, *, start: bool = False) -> _Values:
    rows = record.comparison.rows if record.comparison else ()
    return {(row.benchmark, row.metric): row.a if start else row.b for row in rows}


def _compare_values(a: Sequence[_Values], b: Sequence[_Values]) -> tuple[SeedRow, ...]:
    """Compare two lists of values, both in the order of the seeds, on every metric that all of them have."""
    rows = []
    for key in a[0] if a else ():
        if all(key in values for values in (*a, *b)):
            first, second = [values[key] for values in a], [values[key] for values in b]
            low, high, p, ranks = paired_by_seed(first, second)
            mean, other = float(np.mean(first)), float(np.mean(second))
            sd = float(np.std(first, ddof=1)) if len(first) > 1 else None
            rows.append(SeedRow(*key, len(first), mean, sd, other, mean - other, low, high, p, None, ranks))
    tested = [row.p for row in rows if row.p is not None]
    adjusted = iter(holm(tested) if tested else ())
    return tuple(row if row.p is None else replace(row, p_holm=float(next(adjusted))) for row in rows)
