"""A dry run: every part of a training run is tried in a temporary folder, and all problems are kept."""

from __future__ import annotations

import io
import math
import os
import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.filesize import decimal

from tellapart.benchmarks.find import find_benchmark
from tellapart.data.images import decode, pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.data.progress import NotedProgress
from tellapart.data.rows import read_jsonl
from tellapart.data.strict_json import read_whole
from tellapart.data.validation import find_problems
from tellapart.errors import DataError, RunError, TellapartError, TellapartWarning, quote, require
from tellapart.evaluation.run import run
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.machine import device_peak, forget_device_peak, resident_memory
from tellapart.tasks.registry import find_task
from tellapart.training.config import TrainConfig, config_tables, list_presets, locate_reported, read_values
from tellapart.training.data.batch_order import BatchOrder
from tellapart.training.data.duplicates import Duplicates, count_duplicates
from tellapart.training.data.leaks import find_leaks, refuse_leaks
from tellapart.training.data.pictures import warn_of_flips
from tellapart.training.data.rows import TrainingRows
from tellapart.training.data.shards import read_image
from tellapart.training.data.sources import RECIPE, find_sources
from tellapart.training.data.validation import better_beyond_doubt, items_right, metric_of, rescore
from tellapart.training.dry_run.plan import (
    DataPlan,
    DryRun,
    Forecast,
    Problems,
    Schedule,
    Span,
    Trial,
    WeightGroup,
    join_faults,
)
from tellapart.training.encoders.load_start import draw_start, open_start, resolve_name
from tellapart.training.encoders.lora import describe_updated
from tellapart.training.encoders.trainable import Trainable
from tellapart.training.loop import Training, fit_steps, make_optimiser, rate, time_steps
from tellapart.training.losses.loss import read_terms
from tellapart.training.ranks import RankGroup, open_accelerator
from tellapart.training.run_files import IDLE_STEPS, NOT_TERMS, RunFiles, describe_idle, find_idle_terms
from tellapart.training.training_run import (
    choose_validation,
    data_locations,
    prepare_start,
    read_sources,
    report_settings,
    rows_of_step,
    save_model,
    step_of,
)

#: Items of each set on which the evaluation is tried, and then those by which its time is measured; seconds after which
#: no more are tried.
TRIED_ITEMS = (8, 32)
_PATIENCE = 5.0

#: Seconds that a dry run takes at most, if two steps and the start fit in; the shares of its parts in what is left.
_SECONDS = 30.0
_OPENING, _COMPARING, _STEPPING = 0.15, 0.2, 0.35

#: Rows whose images are hashed, to time it; images that are compared however long that takes.
_HASHED, _COMPARED = 200, 500

#: Rows whose duplicates are counted; captions of a picture, as a multiple of the median, that only a placeholder has.
_COUNTED, _PLACEHOLDER = 100_000, 10

#: Columns of the schedule's picture; share by which the forecast of a part that was measured once may be wrong.
_COLUMNS, _DOUBT = 60, 0.25

#: Values of needed tables that are wrong or missing, by which the rest of a configuration can still be checked.
_STAND_INS: Mapping[str, Any] = {
    "name": "unnamed",
    "model": "unnamed",
    "loss": {"name": "itc"},
    "optimiser": {"learning_rate": 1e-6, "steps": 2},
    "batch": {"size": 2},
}


def read_leniently(path: Path, problems: Problems) -> TrainConfig | None:
    """Read a configuration and keep all of its problems.

    Wrong keys are left out, and stand-ins take the place of needed ones, so that data and sets can be checked in the
    same call. None if the file cannot be read, or names no data.
    """

    def keep_right(table: Any, values: Mapping[str, Any], place: str, checked: frozenset[str]) -> dict[str, Any]:
        right = dict(values)
        for problem in find_problems(table, values, place):
            key = str(problem.field).partition(".")[0].partition("[")[0]
            if key not in checked:
                problems.add(problem)
            right.pop(key, None)
        return right

    values: dict[str, Any] = {}
    with problems.collect():
        values, checked = read_values(path), set[str]()
        for key, table in config_tables().items():
            if isinstance(values.get(key), Mapping):
                checked.add(key)
                values[key] = keep_right(table, values[key], f"{path}: [{key}]", frozenset())
                if find_problems(table, values[key], ""):
                    values[key] = _STAND_INS.get(key, {})
        values = keep_right(TrainConfig, values, str(path), frozenset(checked))
        if isinstance(values.get("loss"), Mapping):
            read_terms(values["loss"], f"{path}: [loss]")
    if problems.found:
        values = {**_STAND_INS, **values}
        try:
            read_terms(values["loss"])
        except TellapartError:
            values["loss"] = _STAND_INS["loss"]
    if find_problems(TrainConfig, values, ""):
        return None
    return locate_reported(TrainConfig.model_validate(values), path.parent)


def open_images(rows: TrainingRows, seconds: float) -> tuple[TrainingRows, int, list[str]]:
    """Open every image, and decode as many as the time allows.

    The rows come back whose images can be read, with the hashes of those that were decoded, how many these are, and a
    line for each that cannot be read.
    """
    until = time.monotonic() + seconds

    def open_image(path: Path) -> tuple[str, str]:
        try:
            if time.monotonic() < until:
                return pixel_hash(decode(read_image(path), str(path))), ""
            with path.open("rb") if path.is_file() else io.BytesIO(read_image(path)) as file:
                return "", "" if file.read(16) else f"{path}: is empty"
        except DataError as error:
            return "", str(error)
        except OSError as error:
            return "", f"{path}: cannot be read ({error.strerror})"

    paths = list(dict.fromkeys(row.image for row in rows.rows if row.image != Path()))
    with ThreadPoolExecutor(4) as pool:
        opened = dict(zip(paths, pool.map(open_image, paths), strict=True))
    numbers = [number for number, row in enumerate(rows.rows) if row.image in opened and not opened[row.image][1]]
    hashes = {path: value for path, (value, _) in opened.items() if value}
    return rows.select(numbers).with_pictures(hashes), len(hashes), [error for _, error in opened.values() if error]


def try_steps(training: Training, steps: int, seconds: float, progress: NotedProgress | None = None) -> Trial:
    """Take two steps, then the second one again from the checkpoint of the first, and go on as long as time allows."""
    files, device = training.files, training.config.device
    forget_device_peak()
    taken, writing = time_steps(training, 2, every=1, progress=progress)
    checkpoint = files.checkpoints / "step-00000002"
    size, sums = _count_bytes(checkpoint), read_whole(checkpoint / "SHA256SUMS")
    shutil.rmtree(checkpoint)
    time_steps(training, 2, every=1, progress=progress)
    same = sums == read_whole(checkpoint / "SHA256SUMS")
    more = min(steps, IDLE_STEPS, 2 + int(seconds / taken[0]))
    if more > 2:
        taken += time_steps(training, more, every=more, progress=progress)[0]
    memory = device_peak(device)
    last = [line for _, line in read_jsonl(files.log_path) if "total" in line][-1]
    return Trial(
        seconds=tuple(taken),
        steps=more,
        peak_bytes=resident_memory(peak=True) if memory is None else memory,
        checkpoint_bytes=size,
        checkpoint_seconds=writing,
        same=same,
        loss={name: value for name, value in last.items() if name not in NOT_TERMS},
    )


def fit_seconds(measure_some: Callable[[int], None], items: int) -> float:
    """Call with 8 items, then with 32, and return the seconds that all items would take, on a line through both.

    If 8 took long they are not followed by 32: the seconds are in proportion to theirs.
    """
    points = [(0, 0.0)]
    for count in sorted({min(items, item) for item in TRIED_ITEMS}):
        began = time.perf_counter()
        measure_some(count)
        points.append((count, time.perf_counter() - began))
        if points[-1][1] > _PATIENCE:
            break
    (few, short), (many, long) = points[-2:]
    return long + max(0.0, long - short) / (many - few) * (items - many)


def rehearse(
    path: Path,
    out: Path | None,
    *,
    data: Path | None = None,
    limit: int | None = None,
    allow_leak: bool = False,
    seeds: int = 1,
    seconds: float = _SECONDS,
    progress: NotedProgress | None = None,
) -> DryRun:
    """Try everything of a training run but its long part, and keep every problem; nothing is left behind."""
    began, problems = time.monotonic(), Problems()
    config = read_leniently(path, problems)
    if config is None:
        return DryRun(path.stem, str(out or Path("runs")), tuple(problems.found), (), time.monotonic() - began)
    if config.test_time_matching is not None:
        raise DataError(f"{path}: dry_run=True tries rows that are there, test_time_matching makes them; take limit=1")
    out = out or Path("runs") / f"train-{config.name}"
    if data is not None:
        config = config.model_copy(update={"data": config.data.model_copy(update={"folder": str(data.absolute())})})
    with TemporaryDirectory(prefix="tellapart-dry-run-") as scratch, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", TellapartWarning)
        files, until = RunFiles(Path(scratch) / "run"), began + seconds
        rehearsal = _Rehearsal(config, path.parent, out, files, problems, limit, allow_leak, seeds, until, progress)
        done = rehearsal.try_all(sound=not problems.found)
    notes = [str(warning.message) for warning in warned if issubclass(warning.category, TellapartWarning)]
    notes = [*done.notes, *dict.fromkeys(note for note in notes if note not in problems.found)]
    seconds = time.monotonic() - began
    return replace(done, problems=tuple(problems.found), notes=tuple(notes), seconds=seconds)


@dataclass
class _Rehearsal:
    config: TrainConfig
    home: Path
    out: Path
    files: RunFiles
    problems: Problems
    limit: int | None
    allow_leak: bool
    seeds: int
    until: float
    progress: NotedProgress | None
    notes: list[str] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    report_bytes: float = 0.0

    def try_all(self, *, sound: bool) -> DryRun:
        """Try each part whose needs are met; `sound` is whether the configuration can be trained by as it is."""
        config, problems = self.config, self.problems
        self._check_out()
        rows, validation, data = self._read_data()
        plan = DryRun(config.name, str(self.out), (), (), 0.0, self.seeds, data)
        if not sound:
            self.notes.append("model and steps are not tried before the configuration is mended")
        if not sound or rows is None:
            return replace(plan, notes=tuple(self.notes))
        begun, before = time.perf_counter(), len(problems.found)
        training, name = self._open_training(rows, validation)
        self.parts["load"] = time.perf_counter() - begun
        if training is not None:
            with problems.collect():
                plan = replace(plan, data=replace(data, duplicates=self._judge_duplicates(rows, training.trainable)))
            with problems.collect():
                plan = replace(plan, weights=_group_weights(training.trainable, config))
            with problems.collect():
                plan = replace(plan, schedule=self._plan_schedule(rows))
            with problems.collect():  # rows hold all that the loss reads
                training.step(config, training.trainable, rows, training.ranks.accelerator, None)
            if len(problems.found) == before:
                with problems.collect("the tried steps: "):
                    plan = self._try_training(training, name, plan)
        if plan.schedule is not None:
            self._judge_schedule(plan.schedule, validation)
        return replace(plan, notes=tuple(self.notes))

    def _check_out(self) -> None:
        """Keep as problems a folder that is not empty, and a place that cannot be written."""
        out, problems, report = self.out, self.problems, self.config.report
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            problems.add(f"{out} holds something already; train to a new folder with out=")
        if not os.access(place := _present_part(out), os.W_OK):
            problems.add(f"{out}: {place} cannot be written; train to another folder with out=")
        if report.alphas and not report.benchmarks:
            problems.add("report.alphas: no weights are interpolated without report.benchmarks; name some")
        with problems.collect():
            if self.config.log.wandb is not None:
                require("wandb", extra="wandb")
        with problems.collect():
            if self.config.log.tensorboard:
                require("torch.utils.tensorboard", extra="train")

    def _read_data(self) -> tuple[TrainingRows | None, PairSet | None, DataPlan]:
        """Read and open rows and validation set, and compare their pictures with those of the reported sets."""
        config, problems, refused = self.config, self.problems, list[DataError]()
        rows, validation, metric, compared = None, None, None, 0
        begun = time.perf_counter()
        with problems.collect():
            self._expect_recipes()
        with problems.collect():
            rows = read_sources(config.data, self.home, refused)
        self.parts["reading"] = time.perf_counter() - begun
        decoded, bad, begun = 0, [str(error) for error in refused], time.perf_counter()
        if rows is not None:
            rows, decoded, unreadable = open_images(rows, _OPENING * (self.until - time.monotonic()))
            bad += unreadable
        pace = (time.perf_counter() - begun) / max(1, decoded)
        if bad:
            problems.add(f"data.train: {len(bad):,} rows or images cannot be read: {join_faults(bad)[0]}")
        if not rows:
            return None, None, DataPlan(0, 0, 0, 0, tuple(bad))
        with problems.collect():
            rows, validation = choose_validation(config, self.home, rows)
            metric = None if validation is None else metric_of(config.validation.metric, validation.shape)
        warn_of_flips(config.data.augment, rows)
        numbers, begun = range(min(len(rows), _HASHED)), time.perf_counter()
        _ = rows.select(numbers).fingerprint  # the run hashes all images
        self.parts["reading"] += (time.perf_counter() - begun) * len(rows) / len(numbers)
        with problems.collect():
            compared = self._compare_images(rows, pace)
        images = {row.image: bool(row.picture) for row in rows.rows}
        self.parts["reading"] += 0 if compared else pace * len(images)  # a comparison's time has that of decoding
        items, decoded = None if validation is None else len(validation), sum(images.values())
        return rows, validation, DataPlan(len(rows), len(images), decoded, compared, tuple(bad), items, metric)

    def _expect_recipes(self) -> None:
        data = self.config.data
        for source, resolved in zip(data.train, find_sources(data, self.home), strict=True):
            if source.startswith(RECIPE) and not Path(resolved.removeprefix("folder:")).is_dir():
                raise DataError(
                    f"data.train: {source} is not built yet, and a dry run builds nothing; run `tellapart build "
                    f"{self.home / source.removeprefix(RECIPE)}` first"
                )

    def _compare_images(self, rows: TrainingRows, pace: float) -> int:
        """Look for leaks among as many training images as time allows; return how many were compared."""
        config, place, names = self.config, data_locations(self.config.data, self.home), []
        validation = config.data.validation and resolve_name(config.data.validation, self.home)
        for name in dict.fromkeys([*config.report.benchmarks, *([validation] if validation else [])]):
            with self.problems.collect():
                find_benchmark(name, place).records()
                names.append(name)
        if not names:
            return 0
        numbers = list({row.image: number for number, row in enumerate(rows.rows)}.values())
        # A comparison decodes each image again, and takes about as long again for its hashes.
        most = max(_COMPARED, int(_COMPARING * (self.until - time.monotonic()) / (2 * pace)))
        some, begun = rows.select(numbers[:: math.ceil(len(numbers) / most)]), time.perf_counter()
        leaks = find_leaks(some, names, self.progress, place)
        pictures = sum(leak.images for leak in leaks)
        share = (len(some) + pictures) / (len(numbers) + pictures)
        self.parts["leaks"] = (time.perf_counter() - begun) / share
        for leak in leaks:
            if leak.benchmark == validation and (line := leak.describe_choice()):
                self.problems.add(line)
            elif leak.benchmark != validation and not self.allow_leak:
                with self.problems.collect():
                    refuse_leaks([leak])
        return len(some)

    def _open_training(self, rows: TrainingRows, validation: PairSet | None) -> tuple[Training | None, str]:
        """Open the start and change it as the run would; return it with its name, or None if that fails."""
        config, problems = self.config, self.problems
        name, settings = resolve_name(config.model, self.home), config.start_settings()
        with problems.collect():
            ranks = RankGroup(open_accelerator(config.device))
            if ranks.of > 1:
                raise RunError("dry_run=True tries one process; start it without torchrun")
            trainable, _ = open_start(name, settings)
            if trainable is None:
                name, trainable = draw_start(name, settings, self.files.start, ranks)
            for change in prepare_start(config, trainable, ranks.of):
                with problems.collect():
                    change()
            self.notes += [f"lora: {layers}"] if (layers := describe_updated(trainable.module)) else []
            trained = rows_of_step(config, rows)
            training = Training(config, trainable, trained, step_of(config), self.files, validation, ranks)
            if config.optimiser.minutes is not None:
                self.config = config = config.with_steps(fit_steps(training))
                self.notes.append(f"optimiser.minutes: about {config.optimiser.steps:,} steps fit; the run measures it")
            return replace(training, config=config), name
        return None, name

    def _judge_duplicates(self, rows: TrainingRows, trainable: Trainable) -> Duplicates:
        """Keep as problems a picture or a caption of too many rows, and captions that the cut makes the same."""
        some = rows.select(range(min(len(rows), _COUNTED)))
        duplicates, pictures = count_duplicates(some, trainable.reader), len(set(some.image_ids.tolist()))
        (caption, showing), (picture, captions) = duplicates.caption, duplicates.picture
        if captions > _PLACEHOLDER * max(duplicates.middle, 1):
            self.problems.add(
                f"data.train: {captions:,} different captions are of one picture ({picture}), and half of the pictures "
                f"have {duplicates.middle} at most: is it a placeholder of missing ones? Leave its rows out"
            )
        if showing > max(1, pictures / 2):
            self.problems.add(
                f"data.train: {quote(caption)}, as the model reads it, is the caption of {showing:,} of {pictures:,} "
                "pictures, and cannot tell them apart; name what differs, or leave these rows out"
            )
        if duplicates.merged:
            self.problems.add(
                f"data.train: {duplicates.merged:,} captions lose their end, and are then the tokens of another one; "
                "put what differs first, or take a model with a longer context"
            )
        if self.config.data.duplicates == "negatives" and duplicates.captions + duplicates.pictures:
            self.notes.append(
                'data.duplicates = "negatives": equal captions and copies of a picture count as each other\'s negatives'
            )
        return duplicates

    def _plan_schedule(self, rows: TrainingRows) -> Schedule:
        config, settings = self.config, self.config.optimiser
        order = BatchOrder(rows, config.batch.size, config.seed, config.data.together)
        interval = config.validation.interval(steps := settings.count_steps(order.steps_per_epoch, self.limit))
        drawn_steps = (k * (steps - 1) // (_COLUMNS - 1) for k in range(_COLUMNS))
        return Schedule(
            steps=steps,
            epochs=steps / order.steps_per_epoch,
            pairs=config.batch.size,
            parts=config.batch.accumulate,
            learning_rate=settings.learning_rate,
            warm_up=settings.warm_up,
            decay=settings.decay,
            rates=tuple(rate(step, steps, settings.warm_up, settings.decay) for step in drawn_steps),
            every=interval,
            measurements=math.ceil(steps / interval),
        )

    def _judge_schedule(self, schedule: Schedule, validation: PairSet | None) -> None:
        """Keep as problems a schedule that its data or its length do not carry, and a choice that cannot be made."""
        config, problems, steps, interval = self.config, self.problems, schedule.steps, schedule.every
        if config.optimiser.warm_up >= steps:
            problems.add(
                f"optimiser.warm_up: {config.optimiser.warm_up:,} of {steps:,} steps: the rate never falls, or never "
                "reaches optimiser.learning_rate; lower it"
            )
        epochs = max(preset.values["optimiser"].get("epochs", 0) for preset in list_presets().values())
        if config.optimiser.steps and schedule.epochs > 1:
            text = f"optimiser.steps: {steps:,} steps pass {schedule.epochs:,.1f} times over the rows"
            if schedule.epochs > epochs:
                problems.add(f"{text}, and the longest preset {epochs} times; lower it, or add data")
            else:
                self.notes.append(text)
        if validation is None:
            self.notes.append("no validation set: the last weights are kept")
        elif interval >= steps:
            problems.add(
                f"validation.every: {interval:,} of {steps:,} steps: the validation set is measured once, after the "
                "last step, and cannot choose weights; lower it"
            )
        elif config.validation.patience is not None:
            looks, items = max(1, schedule.measurements - 1), len(validation)
            if not better_beyond_doubt([1.0] * items, [0.0] * items, validation, looks):
                problems.add(
                    f"validation.patience: {items} validation items are so few that even from all wrong to all right "
                    "is not beyond doubt, and training stops early; take more items, or leave patience out"
                )

    def _try_training(self, training: Training, name: str, plan: DryRun) -> DryRun:
        """Take steps, measure a few items of each set, and forecast time, disk and memory."""
        config, problems, schedule, validation = self.config, self.problems, plan.schedule, training.validation
        assert schedule is not None  # noqa: S101  (for the type checker)
        few = replace(training, validation=validation and validation.select(range(len(validation))[: TRIED_ITEMS[0]]))
        trial = try_steps(few, schedule.steps, _STEPPING * max(0.0, self.until - time.monotonic()), self.progress)
        if not trial.same:
            problems.add("a run that is resumed from its checkpoint does not get the same weights; report this")
        if idle := find_idle_terms(self.files.log_path, trial.steps):
            line = describe_idle(idle, config.loss_terms(), trial.steps)
            problems.add(line) if trial.steps >= min(IDLE_STEPS, schedule.steps) else self.notes.append(line)
        self.parts["steps"] = schedule.steps * fmean(trial.seconds)
        self.parts["checkpoints"] = schedule.measurements * trial.checkpoint_seconds
        if validation is not None:
            pairs, metric, model = validation, metric_of(config.validation.metric, validation.shape), training.trainable

            def measure_some(count: int) -> None:
                items_right(metric, rescore(model.model(), pairs.select(range(count))))

            self.parts["validation"] = schedule.measurements * fit_seconds(measure_some, len(pairs))
        saved, reported = save_model(training.trainable, self.files), 0.0
        for benchmark in config.report.benchmarks:
            with problems.collect():
                self.parts[benchmark] = self._try_benchmark(benchmark, (saved, name))
                reported += self.parts[benchmark]
        self.parts["sweep"] = len({*config.report.alphas} - {0, 1}) * reported / 2  # the ends are measured already
        self._expect_memory(training, trial)
        return replace(plan, trial=trial, forecast=self._forecast_costs(schedule, trial))

    def _try_benchmark(self, name: str, models: tuple[str, str]) -> float:
        """Measure a few items with both models, and return the seconds that all items would take."""
        place, folder = data_locations(self.config.data, self.home), self.files.folder.parent / "tried"
        settings = replace(report_settings(self.config, models, place), benchmarks=(name,))
        benchmark = find_benchmark(name, place)
        items, size = find_task(benchmark.task, name).size(benchmark.records()), 0.0

        def measure_some(count: int) -> None:
            nonlocal size
            run(replace(settings, limit=str(count)), folder, store=EmbeddingStore(None), command="tellapart train")
            size = _count_bytes(folder) * items / count
            shutil.rmtree(folder)

        seconds = fit_seconds(measure_some, items)
        self.report_bytes += size
        return seconds

    def _expect_memory(self, training: Training, trial: Trial) -> None:
        """Keep as a problem images that are to be kept in memory and do not fit into it."""
        if not self.config.data.keep_images or trial.peak_bytes is None or not hasattr(os, "sysconf"):
            return
        prepared = training.trainable.image(training.rows.pixels(0)).values()
        images = len(training.rows) * sum(tensor.numel() * tensor.element_size() for tensor in prepared)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if images + trial.peak_bytes > memory:
            self.problems.add(
                f"data.keep_images: {len(training.rows):,} prepared images are {decimal(images)}, and the machine "
                f"has {decimal(memory)} of memory; leave it out"
            )

    def _forecast_costs(self, schedule: Schedule, trial: Trial) -> Forecast:
        config, files, seeds = self.config, self.files, self.seeds
        rest = sum(self.parts.values()) - self.parts["steps"]
        fast, slow = np.quantile(trial.seconds, (0.1, 0.9)) * schedule.steps
        if len(trial.seconds) == 1:
            fast, slow = (self.parts["steps"] * factor for factor in (1 - _DOUBT, 1 + _DOUBT))
        bounds = fast + rest * (1 - _DOUBT), self.parts["steps"] + rest, slow + rest * (1 + _DOUBT)
        best, model = _count_bytes(files.best.parent), _count_bytes(files.model)
        alphas = len(set(config.report.alphas))
        log = files.log_path.stat().st_size * schedule.steps / trial.steps
        sweep = alphas * self.report_bytes / 2 + (model if alphas else 0)
        kept = trial.checkpoint_bytes * min(config.validation.keep, schedule.measurements)
        disk = kept + best + model + _count_bytes(files.start) + log + self.report_bytes + sweep
        peak = seeds * disk + max(trial.checkpoint_bytes + best, alphas * model)
        place = _present_part(self.out)
        if peak > (free := shutil.disk_usage(place).free):
            self.problems.add(
                f"{self.out}: the run needs {decimal(round(peak))} of disk, and {place} has {decimal(free)} left; "
                "lower validation.keep, or train to another folder with out="
            )
        parts = {name: seeds * seconds for name, seconds in self.parts.items()}
        return Forecast(Span(*(seeds * float(end) for end in bounds)), parts, round(seeds * disk), round(peak))


def _present_part(path: Path) -> Path:
    return next(parent for parent in (path, *path.absolute().parents) if parent.exists())


def _count_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _group_weights(trainable: Trainable, config: TrainConfig) -> tuple[WeightGroup, ...]:
    """Add up the weights of each part of the model that the optimiser treats alike."""
    treated = {
        id(parameter): (float(group["factor"]), float(group["weight_decay"]))
        for group in make_optimiser(trainable.module, config.optimiser).param_groups
        for parameter in group["params"]
    }
    counts: dict[tuple[str, float | None, float | None], int] = {}
    for name, parameter in trainable.module.named_parameters():
        part = ".".join(name.removeprefix("model.").split(".")[:-1][:1]) or name.rpartition(".")[2]
        key = part, *treated.get(id(parameter), (None, None))
        counts[key] = counts.get(key, 0) + parameter.numel()
    return tuple(WeightGroup(part, count, rate, decay) for (part, rate, decay), count in counts.items())
