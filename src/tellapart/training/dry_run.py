"""A dry run: every part of a training run is tried in a temporary folder; its problems, plan and forecast are shown."""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.filesize import decimal

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.data.pairset import PairSet
from tellapart.data.progress import NotedProgress
from tellapart.data.rows import read_jsonl
from tellapart.data.strict_json import read_whole
from tellapart.dry_run.run import TRIED_ITEMS, Problems, fit_seconds, join_faults
from tellapart.errors import DataError, RunError, TellapartWarning, plain, quote
from tellapart.evaluation.run import run
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.machine import device_peak, forget_device_peak, resident_memory
from tellapart.report.numbers import thousands
from tellapart.report.tables import text_table
from tellapart.report.terminal import console, print_lines
from tellapart.tasks.registry import find_task
from tellapart.training import loop, training_run
from tellapart.training.config import LogConfig, TrainConfig, find_faults, list_presets, read_config, read_values
from tellapart.training.data.duplicates import (
    Duplicates,
    Hashed,
    PictureHashes,
    count_duplicates,
    find_leaks,
    hash_image,
    refuse_leaks,
)
from tellapart.training.data.pictures import warn_of_flips
from tellapart.training.data.rows import BatchOrder, TrainingRows, read_image
from tellapart.training.encoders import Trainable, describe_updated, draw_start, open_start, prepare_start, resolve_name
from tellapart.training.loop import Training, metric_of
from tellapart.training.ranks import RankGroup, open_accelerator
from tellapart.training.run_files import IDLE_STEPS, NOT_TERMS, RunFiles, describe_idle, find_idle_terms, open_trackers
from tellapart.training.steps import make_step

#: Missing pictures that are listed on the terminal; JSON has all.
_LISTED = 10

_BLOCKS = {True: "▁▂▃▄▅▆▇█", False: "_.-=+*#@"}

#: Seconds that a dry run takes at most, if two steps and the start fit in; the shares of its parts in what is left.
_SECONDS = 30.0
_OPENING, _STEPPING = 0.3, 0.35

#: Rows whose bytes are hashed, to time it; images that are decoded and compared however long that takes.
_HASHED, _COMPARED = 200, 500

#: Rows whose duplicates are counted; captions of a picture, as a multiple of the median, that only a placeholder has.
_COUNTED, _PLACEHOLDER = 100_000, 10

#: Columns of the schedule's picture; share by which the forecast of a part that was measured once may be wrong.
_COLUMNS, _DOUBT = 60, 0.25


@dataclass(frozen=True, slots=True)
class DataPlan:
    """The training data, how many images were decoded and compared with the reported sets, and what cannot be read."""

    rows: int
    images: int
    decoded: int
    compared: int
    missing: tuple[str, ...]
    validation: int | None = None
    metric: str | None = None
    duplicates: Duplicates | None = None


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """Weights of one part of the model that are treated alike: a factor on the learning rate, None if frozen."""

    part: str
    parameters: int
    rate: float | None
    decay: float | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps in all, their pairs in equal parts, shares of the highest rate evenly spread, and measurements."""

    steps: int
    epochs: float
    pairs: int
    parts: int
    learning_rate: float
    warm_up: int
    decay: str
    rates: tuple[float, ...]
    every: int
    measurements: int


@dataclass(frozen=True, slots=True)
class Trial:
    """The steps that were tried, the seconds of those that were timed, and the last one's parts of the loss."""

    steps: int
    seconds: tuple[float, ...]
    peak_bytes: int | None
    checkpoint_bytes: int
    checkpoint_seconds: float
    same: bool
    loss: dict[str, float]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The cost of the run: wall time as if nothing else ran, its bounds and parts; disk at the end and at most."""

    seconds: dict[str, float]
    parts: dict[str, float]
    disk_bytes: int
    disk_peak_bytes: int


@dataclass(slots=True)
class DryRun:
    """The outcome of a dry run; parts that a problem kept from being tried are None."""

    name: str
    out: str
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    seeds: int = 1
    data: DataPlan | None = None
    weights: tuple[WeightGroup, ...] = ()
    schedule: Schedule | None = None
    trial: Trial | None = None
    forecast: Forecast | None = None

    @property
    def passed(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `tellapart train --dry-run --json`."""
        return {"passed": self.passed, **asdict(self)}

    def show(self) -> None:
        """Print the plan, the forecast, and every problem."""
        print_lines(*map(plain, self._plan_lines()))
        if self.weights:
            rows = (
                (group.part, thousands(group.parameters), "frozen" if group.rate is None else f"x {group.rate:g}",
                 "" if group.decay is None else f"{group.decay:g}")
                for group in self.weights
            )  # fmt: skip
            print_lines("")
            console().print(text_table("weights", "parameters", "rate", "decay", numbers_from=1, rows=rows))
        print_lines("", *map(plain, self._result_lines()))

    def _plan_lines(self) -> Iterator[str]:
        yield f"{self.name}: a dry run, in {self.seconds:.0f} s; nothing is written, and the run would go to {self.out}"
        data, schedule = self.data, self.schedule
        if data is not None:
            decoded = f"{data.decoded:,} of them decoded; {data.compared:,} compared with the reported sets"
            yield f"data: {data.rows:,} rows, {data.images:,} images, {decoded}"
            if data.duplicates is not None and (counts := data.duplicates.describe()):
                yield f"  {counts}"
            faults = join_faults(data.missing)
            yield from (f"  {fault}" for fault in faults[:_LISTED] if len(faults) > 1)  # else it is among the problems
            if len(faults) > _LISTED:
                yield f"  and {len(faults) - _LISTED:,} more (--json lists all)"
        if schedule is None:
            return
        steps, every, width = schedule.steps, schedule.every, len(schedule.rates)
        parts = "" if schedule.parts == 1 else f" in {schedule.parts} parts of {schedule.pairs // schedule.parts}"
        yield (
            f"schedule: {steps:,} steps of {schedule.pairs:,} pairs{parts}, {schedule.epochs:.2f} epochs; "
            f"rate {schedule.learning_rate:g} after {schedule.warm_up:,} steps, then {schedule.decay}"
        )
        blocks = _BLOCKS[(sys.stdout.encoding or "ascii").lower().startswith("utf")]
        yield "  " + "".join(blocks[min(7, int(8 * rate))] for rate in schedule.rates)
        marked = {(step - 1) * width // steps for step in (*range(every, steps, every), steps)} | {width - 1}
        yield "  " + "".join("^" if column in marked else " " for column in range(width))
        many = schedule.measurements > 1
        times = f"every {every:,} steps, {schedule.measurements:,} times (^)" if many else "at the end (^)"
        if data is not None and data.validation is not None:
            yield f"measured {times}; weights are chosen by {data.metric} of {data.validation:,} items"
        else:
            yield f"a checkpoint {times}; nothing is measured on the way, and the last weights are kept"

    def _result_lines(self) -> Iterator[str]:
        trial, forecast = self.trial, self.forecast
        if trial is not None:
            middle = sorted(trial.seconds)[len(trial.seconds) // 2]
            memory = "" if trial.peak_bytes is None else f", {decimal(trial.peak_bytes)} of memory at the peak"
            yield f"tried: {trial.steps} steps of {middle:.3g} s{memory}"
            yield (
                f"checkpoint: {decimal(trial.checkpoint_bytes)} in {trial.checkpoint_seconds:.2g} s; read again "
                f"and resumed: {'the same weights' if trial.same else 'other weights'}"
            )
        if forecast is not None:
            seeds = "" if self.seeds == 1 else f" for {self.seeds} seeds"
            low, value, high = (str(timedelta(seconds=round(bound))) for bound in forecast.seconds.values())
            parts = (f"{name} {timedelta(seconds=round(long))}" for name, long in forecast.parts.items() if long >= 0.5)
            yield f"time{seeds}: {value} ({low} to {high}), of it {', '.join(parts)}"
            yield (
                f"disk{seeds}: {decimal(forecast.disk_bytes)} in the end, {decimal(forecast.disk_peak_bytes)} at most"
            )
        yield from (f"note: {note}" for note in self.notes)
        yield from (f"problem: {problem}" for problem in self.problems)
        yield "no problem found" if self.passed else f"{len(self.problems)} to mend before this run"


def open_images(rows: TrainingRows, seconds: float) -> tuple[TrainingRows, PictureHashes, list[str]]:
    """Open every image, decode and hash as many as the time allows; return the rows that have theirs, and errors."""
    until = time.monotonic() + seconds

    def open_image(number: int, name: str) -> list[Hashed] | str:
        path = Path(name)
        try:
            if number < _COMPARED or time.monotonic() < until:
                return hash_image(name, lambda _: read_image(path))
            with path.open("rb") if path.is_file() else io.BytesIO(read_image(path)) as file:
                return [] if file.read(16) else f"{name}: is empty"
        except DataError as error:
            return str(error)
        except OSError as error:
            return f"{name}: cannot be read ({error.strerror})"

    names = [name for name in rows.files if name != str(Path())]
    with ThreadPoolExecutor(4) as pool:
        opened = dict(zip(names, pool.map(open_image, range(len(names)), names), strict=True))
    numbers = [number for number, row in enumerate(rows.rows) if not isinstance(opened.get(str(row.image), ""), str)]
    hashes = PictureHashes.gather([frame for found in opened.values() if not isinstance(found, str) for frame in found])
    errors = [found for found in opened.values() if isinstance(found, str)]
    return rows.select(numbers).with_pictures(hashes.by_file()), hashes, errors


def try_steps(training: Training, steps: int, seconds: float, progress: NotedProgress | None = None) -> Trial:
    """Take two steps, then the second one again from the checkpoint of the first, and go on as long as time allows."""
    files = training.files
    forget_device_peak()
    taken, writing = loop.time_steps(training, 2, every=1, progress=progress)
    checkpoint = files.checkpoints / "step-00000002"
    size, sums = _count_bytes(checkpoint), read_whole(checkpoint / "SHA256SUMS")
    shutil.rmtree(checkpoint)
    loop.time_steps(training, 2, every=1, progress=progress)
    same = sums == read_whole(checkpoint / "SHA256SUMS")
    more = min(steps, IDLE_STEPS, 2 + int(seconds / taken[0]))
    if more > 2:
        taken += loop.time_steps(training, more, every=more, progress=progress)[0]
    memory = device_peak(training.config.device)
    last = [line for _, line in read_jsonl(files.log_path) if "total" in line][-1]
    memory = resident_memory(peak=True) if memory is None else memory
    loss = {name: value for name, value in last.items() if name not in NOT_TERMS}
    return Trial(more, tuple(taken), memory, size, writing, same, loss)


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
    """Try everything of a training run but its long part, and keep every problem; nothing is left behind.

    All faults of the configuration are found before anything else is tried.
    """
    began, problems = time.monotonic(), Problems()
    plan = DryRun(path.stem, str(out or Path("runs")), problems.found, seeds=seeds)
    with problems.collect():
        values = read_values(path)
        plan.name = str(values.get("name", path.stem))
        for fault in find_faults(values, path):
            problems.add(fault)
    if problems.found:
        plan.notes.append("data, model and steps are not tried before the configuration is mended")
        plan.seconds = time.monotonic() - began
        return plan
    config = read_config(path)
    if config.test_time_matching is not None:
        raise DataError(f"{path}: dry_run=True tries rows that are there, test_time_matching makes them; take limit=1")
    plan.out = str(out := out or Path("runs") / f"train-{config.name}")
    if data is not None:
        config = config.with_folder(data)
    with TemporaryDirectory(prefix="tellapart-dry-run-") as scratch, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", TellapartWarning)
        files, until = RunFiles(Path(scratch) / "run"), began + seconds
        _Rehearsal(plan, problems, config, path.parent, out, files, limit, allow_leak, until, progress).try_all()
    notes = (str(warning.message) for warning in warned if issubclass(warning.category, TellapartWarning))
    plan.notes += dict.fromkeys(note for note in notes if note not in problems.found)
    plan.seconds = time.monotonic() - began
    return plan


@dataclass
class _Rehearsal:
    plan: DryRun
    problems: Problems
    config: TrainConfig
    home: Path
    out: Path
    files: RunFiles
    limit: int | None
    allow_leak: bool
    until: float
    progress: NotedProgress | None
    parts: dict[str, float] = field(default_factory=dict)
    report_bytes: float = 0.0

    @property
    def place(self) -> Locations:
        """The folder of the validation and reported sets."""
        return training_run.data_locations(self.config.data, self.home)

    def try_all(self) -> None:
        """Try each part whose needs are met."""
        config, plan, problems = self.config, self.plan, self.problems
        self._check_out()
        rows, validation = self._read_data()
        if rows is None:
            return
        begun, before = time.perf_counter(), len(problems.found)
        training, name = self._open_training(rows, validation)
        self.parts["load"] = time.perf_counter() - begun
        if training is None:
            return
        with problems.collect():
            duplicates = self._judge_duplicates(rows, training.trainable)
            plan.data = plan.data and replace(plan.data, duplicates=duplicates)
        with problems.collect():
            plan.weights = _group_weights(training.trainable, config)
        with problems.collect():
            plan.schedule = self._plan_schedule(rows)
        with problems.collect():  # rows hold all that the loss reads
            make_step(config, training.trainable, rows, training.ranks.accelerator, None)
        if plan.schedule is None:
            return
        if len(problems.found) == before:
            with problems.collect("the tried steps: "):
                self._try_training(training, name, plan.schedule)
        self._judge_schedule(plan.schedule, validation)

    def _check_out(self) -> None:
        """Keep as problems a folder that is not empty, and a place that cannot be written."""
        out, problems, report = self.out, self.problems, self.config.report
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            problems.add(f"{out} holds something already; train to a new folder with out=")
        if not os.access(place := _present_part(out), os.W_OK):
            problems.add(f"{out}: {place} cannot be written; train to another folder with out=")
        if report.alphas and not report.benchmarks:
            problems.add("report.alphas: no weights are interpolated without report.benchmarks; name some")
        for tracker, value in self.config.log:
            with problems.collect(), open_trackers(LogConfig(**{tracker: value}), self.files.folder, ""):
                pass

    def _read_data(self) -> tuple[TrainingRows | None, PairSet | None]:
        """Read and open rows and validation set, and compare their pictures with those of the reported sets."""
        config, problems, refused, begun = self.config, self.problems, list[DataError](), time.perf_counter()
        rows, validation, metric = None, None, None
        recipes = [source for source in config.data.train if source.startswith(training_run.RECIPE)]
        for source in recipes:
            with problems.collect():
                if not training_run.set_of(recipe := training_run.recipe_path(source, self.home)).is_dir():
                    problems.add(f"data.train: {source} is not built yet; run `tellapart build {recipe}` first")
        with problems.collect():
            rows = training_run.read_sources(config.data, self.home, refused)
        self.parts["reading"] = time.perf_counter() - begun
        begun, bad, hashes = time.perf_counter(), [str(error) for error in refused], None
        if rows is not None:
            rows, hashes, unreadable = open_images(rows, _OPENING * (self.until - time.monotonic()))
            bad += unreadable
        if bad:
            problems.add(f"data.train: {len(bad):,} rows or images cannot be read: {join_faults(bad)[0]}")
        if not rows or hashes is None:
            self.plan.data = DataPlan(0, 0, 0, 0, tuple(bad))
            return None, None
        self.parts["reading"] += (time.perf_counter() - begun) * len(rows.files) / max(1, len(hashes.names))
        with problems.collect():
            rows, validation = training_run.choose_validation(config, self.home, rows)
            metric = None if validation is None else metric_of(config.validation.metric, validation.shape)
        warn_of_flips(config.data.augment, rows)
        numbers, begun = range(min(len(rows), _HASHED)), time.perf_counter()
        _ = rows.select(numbers).fingerprint  # the run hashes all images
        self.parts["reading"] += (time.perf_counter() - begun) * len(rows) / len(numbers)
        decoded = rows.select([number for number, row in enumerate(rows.rows) if row.picture])
        compared, items = self._compare_images(decoded, hashes), None if validation is None else len(validation)
        counts = len(rows), len(rows.files), len(decoded.files), compared
        self.plan.data = DataPlan(*counts, tuple(bad), items, metric)
        return rows, validation

    def _compare_images(self, rows: TrainingRows, hashes: PictureHashes) -> int:
        """Look for leaks among the images that are decoded; return how many were compared."""
        config, place, begun, compared = self.config, self.place, time.perf_counter(), 0
        validation = config.data.validation and resolve_name(config.data.validation, self.home)
        for name in filter(None, dict.fromkeys([*config.report.benchmarks, validation])):
            with self.problems.collect():
                (leak,), compared = find_leaks(rows, [name], self.progress, place, hashes), len(rows.files)
                if name != validation and not self.allow_leak:
                    refuse_leaks([leak])
                elif name == validation and (line := leak.describe_choice()):
                    self.problems.add(line)
        self.parts["leaks"] = time.perf_counter() - begun
        return compared

    def _open_training(self, rows: TrainingRows, validation: PairSet | None) -> tuple[Training | None, str]:
        """Open the start and change it as the run would; return it with its name, or None if that fails."""
        config, problems = self.config, self.problems
        name = resolve_name(config.model, self.home)
        with problems.collect():
            ranks = RankGroup(open_accelerator(config.device))
            if ranks.of > 1:
                raise RunError("dry_run=True tries one process; start it without torchrun")
            trainable, _ = open_start(name, config)
            if trainable is None:
                name, trainable = draw_start(name, config, self.files.start, ranks)
            prepare_start(config, trainable, ranks.of, problems.collect)
            self.plan.notes += [f"lora: {layers}"] if (layers := describe_updated(trainable.module)) else []
            training = Training(config, trainable, rows, self.files, validation, ranks)
            if config.optimiser.minutes is not None:
                self.config = config = config.with_steps(steps := loop.fit_steps(training))
                self.plan.notes.append(f"optimiser.minutes: about {steps:,} steps fit; the run measures it")
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
                f"data.train: {duplicates.merged:,} captions are those of others once they are cut; put what differs "
                "first, or take a longer context"
            )
        if self.config.data.duplicates == "negatives" and duplicates.captions + duplicates.pictures:
            self.plan.notes.append(
                'data.duplicates = "negatives": equal captions and copies of a picture count as each other\'s negatives'
            )
        return duplicates

    def _plan_schedule(self, rows: TrainingRows) -> Schedule:
        config, settings = self.config, self.config.optimiser
        order = BatchOrder(rows, config.batch.size, config.seed, config.data.together)
        interval = config.validation.interval(steps := settings.count_steps(order.steps_per_epoch, self.limit))
        drawn_steps = (k * (steps - 1) // (_COLUMNS - 1) for k in range(_COLUMNS))
        rise = settings.warm_up, settings.decay
        rates = tuple(loop.rate(step, steps, *rise) for step in drawn_steps)
        pairs = config.batch.size, config.batch.accumulate, settings.learning_rate
        return Schedule(
            steps, steps / order.steps_per_epoch, *pairs, *rise, rates, interval, math.ceil(steps / interval)
        )

    def _judge_schedule(self, schedule: Schedule, validation: PairSet | None) -> None:
        """Keep as problems a schedule that its data or its length do not carry, and a choice that cannot be made."""
        config, problems, steps, interval = self.config, self.problems, schedule.steps, schedule.every
        if config.optimiser.warm_up >= steps:
            problems.add(
                f"optimiser.warm_up: {config.optimiser.warm_up:,} of {steps:,} steps: the rate never falls; lower it"
            )
        epochs = max(preset.values["optimiser"].get("epochs", 0) for preset in list_presets().values())
        text = f"optimiser.steps: {steps:,} steps pass {schedule.epochs:,.1f} times over the rows"
        if config.optimiser.steps and schedule.epochs > epochs:
            problems.add(f"{text}, and the longest preset {epochs} times; lower it, or add data")
        elif config.optimiser.steps and schedule.epochs > 1:
            self.plan.notes.append(text)
        if validation is None:
            self.plan.notes.append("no validation set: the last weights are kept")
        elif interval >= steps:
            problems.add(
                f"validation.every: {interval:,} of {steps:,} steps: one measurement cannot choose weights; lower it"
            )
        elif config.validation.patience is not None:
            looks, items = max(1, schedule.measurements - 1), len(validation)
            if not loop.better_beyond_doubt([1.0] * items, [0.0] * items, validation, looks):
                problems.add(
                    f"validation.patience: {items} validation items never are beyond doubt; take more, or leave it out"
                )

    def _try_training(self, training: Training, name: str, schedule: Schedule) -> None:
        """Take steps, measure a few items of each set, and forecast time, disk and memory."""
        config, problems, validation = self.config, self.problems, training.validation
        few = replace(training, validation=validation and validation.select(range(len(validation))[: TRIED_ITEMS[0]]))
        trial = try_steps(few, schedule.steps, _STEPPING * max(0.0, self.until - time.monotonic()), self.progress)
        if not trial.same:
            problems.add("a run that is resumed from its checkpoint does not get the same weights; report this")
        if idle := find_idle_terms(self.files.log_path, trial.steps):
            line = describe_idle(idle, config.loss_terms(), trial.steps)
            problems.add(line) if trial.steps >= min(IDLE_STEPS, schedule.steps) else self.plan.notes.append(line)
        self.parts["steps"] = schedule.steps * fmean(trial.seconds)
        self.parts["checkpoints"] = schedule.measurements * trial.checkpoint_seconds
        if validation is not None:
            pairs, metric, model = validation, metric_of(config.validation.metric, validation.shape), training.trainable

            def measure_some(count: int) -> None:
                loop.items_right(metric, loop.rescore(model.model(), pairs.select(range(count))))

            self.parts["validation"] = schedule.measurements * fit_seconds(measure_some, len(pairs))
        saved, reported = training_run.save_model(training.trainable, self.files), 0.0
        for benchmark in config.report.benchmarks:
            with problems.collect():
                self.parts[benchmark] = self._try_benchmark(benchmark, (saved, name))
                reported += self.parts[benchmark]
        self.parts["sweep"] = len({*config.report.alphas} - {0, 1}) * reported / 2  # the ends are measured already
        if config.data.keep_images and trial.peak_bytes is not None and hasattr(os, "sysconf"):
            prepared = training.trainable.image(training.rows.pixels(0)).values()
            images = len(training.rows) * sum(tensor.numel() * tensor.element_size() for tensor in prepared)
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            if images + trial.peak_bytes > memory:
                sizes = f"{len(training.rows):,} prepared images are {decimal(images)}, and memory is {decimal(memory)}"
                problems.add(f"data.keep_images: {sizes}; leave it out")
        self.plan.trial, self.plan.forecast = trial, self._forecast_costs(schedule, trial)

    def _try_benchmark(self, name: str, models: tuple[str, str]) -> float:
        """Measure a few items with both models, and return the seconds that all items would take."""
        settings = training_run.report_settings(self.config, models, self.place)
        benchmark, sizes = find_benchmark(name, self.place), [0.0]
        items = find_task(benchmark.task, name).size(benchmark.records())

        def measure_some(count: int) -> None:
            few, folder = replace(settings, benchmarks=(name,), limit=str(count)), self.files.folder.parent / "tried"
            run(few, folder, store=EmbeddingStore(None), command="tellapart train")
            sizes.append(_count_bytes(folder) * items / count)
            shutil.rmtree(folder)

        seconds = fit_seconds(measure_some, items)
        self.report_bytes += sizes[-1]
        return seconds

    def _forecast_costs(self, schedule: Schedule, trial: Trial) -> Forecast:
        config, files, seeds, steps = self.config, self.files, self.plan.seeds, self.parts["steps"]
        rest = sum(self.parts.values()) - steps
        fast, slow = np.quantile(trial.seconds, (0.1, 0.9)) * schedule.steps
        if len(trial.seconds) == 1:
            fast, slow = steps * (1 - _DOUBT), steps * (1 + _DOUBT)
        bounds = {"low": fast + rest * (1 - _DOUBT), "value": steps + rest, "high": slow + rest * (1 + _DOUBT)}
        best, model, start = map(_count_bytes, (files.best.parent, files.model, files.start))
        alphas = len(set(config.report.alphas))
        log = files.log_path.stat().st_size * schedule.steps / trial.steps
        sweep = alphas * self.report_bytes / 2 + (model if alphas else 0)
        kept = trial.checkpoint_bytes * min(config.validation.keep, schedule.measurements)
        disk = kept + best + model + start + log + self.report_bytes + sweep
        peak = seeds * disk + max(trial.checkpoint_bytes + best, alphas * model)
        place = _present_part(self.out)
        if peak > (free := shutil.disk_usage(place).free):
            sizes = f"{decimal(round(peak))} of disk, and {place} has {decimal(free)}"
            self.problems.add(f"{self.out}: the run needs {sizes}; lower validation.keep, or name another out=")
        total, parts = ({name: seeds * float(long) for name, long in times.items()} for times in (bounds, self.parts))
        return Forecast(total, parts, round(seeds * disk), round(peak))


def _present_part(path: Path) -> Path:
    return next(parent for parent in (path, *path.absolute().parents) if parent.exists())


def _count_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _group_weights(trainable: Trainable, config: TrainConfig) -> tuple[WeightGroup, ...]:
    """Add up the weights of each part of the model that the optimiser treats alike."""
    treated = {
        id(parameter): (float(group["factor"]), float(group["weight_decay"]))
        for group in loop.make_optimiser(trainable.module, config.optimiser).param_groups
        for parameter in group["params"]
    }
    counts: dict[tuple[str, float | None, float | None], int] = {}
    for name, parameter in trainable.module.named_parameters():
        part = ".".join(name.removeprefix("model.").split(".")[:-1][:1]) or name.rpartition(".")[2]
        key = part, *treated.get(id(parameter), (None, None))
        counts[key] = counts.get(key, 0) + parameter.numel()
    return tuple(WeightGroup(part, count, rate, decay) for (part, rate, decay), count in counts.items())
