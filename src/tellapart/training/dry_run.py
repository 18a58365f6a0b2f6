"""The dry run of `tellapart train`: it tries every part of a run in a temporary folder, and forecasts time and disk."""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
import time
import warnings
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
from tellapart.errors import DataError, RunError, TellapartWarning, quote
from tellapart.evaluation.run import run
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.machine import device_peak, forget_device_peak, resident_memory
from tellapart.report.terminal import print_template
from tellapart.stats.paired import better_beyond_doubt
from tellapart.tasks.registry import find_task
from tellapart.training import loop, training_run
from tellapart.training.config import LogConfig, TrainConfig, find_faults, list_presets, read_config, read_values
from tellapart.training.data import duplicates
from tellapart.training.data.pictures import warn_of_flips
from tellapart.training.data.rows import BatchOrder, TrainingRows, read_image
from tellapart.training.encoders import Trainable, describe_updated, draw_start, open_start, prepare_start, resolve_name
from tellapart.training.loop import Training, TrainingRanks, metric_of
from tellapart.training.run_files import IDLE_STEPS, NOT_TERMS, RunFiles, describe_idle, open_trackers
from tellapart.training.steps import make_step

#: Missing pictures that are listed on the terminal; JSON has all.
_LISTED = 10

#: The signs for eight heights of the learning rate: of a terminal of UTF-8, and of any other.
_BLOCKS = {True: "▁▂▃▄▅▆▇█", False: "_.-=+*#@"}

#: Seconds that a dry run takes at most, if the start and two steps fit in. Of the time left, the share in which images
#: are opened, and later the share in which steps are taken.
_SECONDS = 30.0
_OPENING, _STEPPING = 0.3, 0.35

#: Rows whose bytes are hashed to time the hashing; images that are decoded and compared however long it takes.
_HASHED, _COMPARED = 200, 500

#: Rows whose duplicates are counted. A picture with this multiple of the median number of captions is a placeholder.
_COUNTED, _PLACEHOLDER = 100_000, 10

#: Columns of the schedule's picture; the share by which a forecast from a single measurement may be wrong.
_COLUMNS, _DOUBT = 60, 0.25

#: A table of the plan's JSON.
_Facts = dict[str, Any]


@dataclass(slots=True)
class DryRun:
    """The outcome of a dry run; a part that was not tried because of a problem is None.

    Attributes:
        data: counts of rows and images, of images decoded and compared with the reported sets, and unreadable files.
        weights: a row for each part of the model with one rate and decay; the rate is a factor, None if it is frozen.
        schedule: the steps, their pairs in equal parts, shares of the highest rate evenly spread, and measurements.
        trial: the number of tried steps, the seconds of the timed steps, and the last step's parts of the loss.
        forecast: wall time as if nothing else ran, with bounds and parts; disk at the end and at most.
    """

    name: str
    out: str
    problems: list[str]
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    seeds: int = 1
    data: _Facts | None = None
    weights: list[_Facts] = field(default_factory=list)
    schedule: _Facts | None = None
    trial: _Facts | None = None
    forecast: _Facts | None = None

    @property
    def passed(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `tellapart train --dry-run --json`."""
        return {"passed": self.passed, **asdict(self)}

    def show(self) -> None:
        """Print the plan, the forecast, and every problem."""
        data, picture = self.data or {"missing": (), "duplicates": None}, list[str]()
        if self.schedule is not None:
            steps, every, rates = (self.schedule[key] for key in ("steps", "every", "rates"))
            blocks, width = _BLOCKS["utf" in str(sys.stdout.encoding).lower()], len(rates)
            marked = {(step - 1) * width // steps for step in (*range(every, steps, every), steps)} | {width - 1}
            picture.append("".join(blocks[min(7, int(8 * rate))] for rate in rates))
            picture.append("".join("^" if column in marked else " " for column in range(width)))
        faults = join_faults(data["missing"])
        print_template(
            "dry_run",
            plan=self,
            counts=data["duplicates"] and duplicates.Duplicates(**data["duplicates"]).describe(),
            faults=faults if len(faults) > 1 else (),  # a single fault is listed among the problems already
            most=_LISTED,
            picture=picture,
            decimal=decimal,
            duration=lambda seconds: timedelta(seconds=round(seconds)),
        )


def rehearse(
    path: Path, out: Path | None, *,
    data: Path | None = None, limit: int | None = None, allow_leak: bool = False,
    seeds: int = 1, seconds: float = _SECONDS, progress: NotedProgress | None = None,
) -> DryRun:  # fmt: skip
    """Try everything of a training run but its full length, and list every problem; no file is left behind.

    All faults of the configuration, and a missing device, are found before anything else is tried.
    """
    began, problems, values = time.monotonic(), Problems(), dict[str, Any]()
    plan = DryRun(path.stem, str(out or Path("runs")), problems.found, seeds=seeds)
    with problems.collect():
        values = read_values(path)
        plan.name = str(values.get("name", path.stem))
        for fault in find_faults(values, path):
            problems.add(fault)
    faulty, device, ranks, begun = bool(problems.found), values.get("device", "cpu"), None, time.perf_counter()
    if not faulty or device in ("cuda", "mps"):  # a faulty file may name no device at all
        with problems.collect():
            group = TrainingRanks(device)
            if group.of > 1:
                raise RunError("dry_run=True tries one process; start it without torchrun")
            ranks = group
    joining = time.perf_counter() - begun
    if faulty:
        plan.notes.append("data, model and steps are not tried before the configuration is mended")
        plan.seconds = time.monotonic() - began
        return plan
    config = read_config(path)
    if config.test_time_matching is not None:
        raise DataError(f"{path}: dry_run=True tries rows that are there, test_time_matching makes them; take limit=1")
    plan.out = str(out or Path("runs") / f"train-{config.name}")
    if data is not None:
        config = config.changed(data={"folder": str(data.absolute())})
    with TemporaryDirectory(prefix="tellapart-dry-run-") as scratch, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", TellapartWarning)
        files, until = RunFiles(Path(scratch) / "run"), began + seconds + joining
        _Rehearsal(
            plan, problems, config, path.parent, files, ranks, limit, allow_leak, until, progress, joining
        ).try_all()
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
    files: RunFiles
    ranks: TrainingRanks | None
    limit: int | None
    allow_leak: bool
    until: float
    progress: NotedProgress | None
    joining: float  # seconds
    parts: dict[str, float] = field(default_factory=dict)
    report_bytes: float = 0.0
    place: Locations = field(init=False)  # of the validation and reported sets

    def try_all(self) -> None:
        """Try each part of the run, unless a problem of an earlier part makes that impossible."""
        plan, problems = self.plan, self.problems
        self._check_out()
        rows, validation = self._read_data()
        if rows is None or self.ranks is None:
            return
        begun, before = time.perf_counter(), len(problems.found)
        training, name = self._open_training(rows, validation, self.ranks)
        self.parts["load"] = self.joining + time.perf_counter() - begun
        if training is None:
            return
        with problems.collect():
            self._judge_duplicates(rows, training.trainable)
        with problems.collect():
            plan.weights = _group_weights(training.trainable, self.config)
        with problems.collect():
            plan.schedule = self._plan_schedule(rows)
        with problems.collect():  # refuses rows that lack what the loss reads
            make_step(self.config, training.trainable, rows, self.ranks.accelerator, None)
        if plan.schedule is None:
            return
        if len(problems.found) == before:
            with problems.collect("the tried steps: "):
                self._try_training(training, name, plan.schedule)
        self._judge_schedule(plan.schedule, validation)

    def _check_out(self) -> None:
        """Keep as problems a folder that is not empty, and a place that cannot be written."""
        out, problems = Path(self.plan.out), self.problems
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            problems.add(f"{out} holds something already; train to a new folder with out=")
        if not os.access(place := _present_part(out), os.W_OK):
            problems.add(f"{out}: {place} cannot be written; train to another folder with out=")
        for tracker, value in self.config.log:
            with problems.collect(), open_trackers(LogConfig(**{tracker: value}), self.files.folder, ""):
                pass

    def _read_data(self) -> tuple[TrainingRows | None, PairSet | None]:
        """Read and open rows and validation set, and compare their pictures with those of the reported sets."""
        config, problems, plan = self.config, self.problems, self.plan
        refused, begun = Problems(), time.perf_counter()
        rows, validation, metric = None, None, None
        for source in config.data.train:
            if source.startswith(training_run.RECIPE):
                with problems.collect():
                    recipe, built = training_run.find_recipe(source, self.home)
                    if not built.is_dir():
                        problems.add(f"data.train: {source} is not built yet; run `tellapart build {recipe}` first")
        with problems.collect():
            rows = training_run.read_sources(config.data, self.home, refused.collect)
        self.parts["reading"] = time.perf_counter() - begun
        begun, bad, hashes = time.perf_counter(), refused.found, duplicates.PictureHashes()
        if rows is not None:
            rows, hashes, unreadable = open_images(rows, _OPENING * (self.until - time.monotonic()))
            bad += unreadable
        if bad:
            problems.add(f"data.train: {len(bad):,} rows or images cannot be read: {join_faults(bad)[0]}")
        counts = dict.fromkeys(("rows", "images", "decoded", "compared"), 0)
        plan.data = {**counts, "missing": bad, "validation": None, "metric": None, "duplicates": None}
        if not rows:
            return None, None
        self.place = training_run.data_locations(config.data, self.home)
        self.parts["reading"] += (time.perf_counter() - begun) * len(rows.files) / max(1, len(hashes))
        with problems.collect():
            rows, validation = training_run.choose_validation(config, self.home, rows)
            metric = None if validation is None else metric_of(config.validation.metric, validation.shape)
        warn_of_flips(config.data.augment, rows)
        numbers, begun = range(min(len(rows), _HASHED)), time.perf_counter()
        _ = rows.select(numbers).fingerprint  # computed for its time: the run hashes all images
        self.parts["reading"] += (time.perf_counter() - begun) * len(rows) / len(numbers)
        decoded = rows.select([number for number, row in enumerate(rows.rows) if row.picture])
        plan.data |= {"rows": len(rows), "images": len(rows.files), "decoded": len(decoded.files)}
        plan.data |= {"validation": None if validation is None else len(validation), "metric": metric}
        plan.data["compared"] = self._compare_images(decoded, hashes)
        return rows, validation

    def _compare_images(self, rows: TrainingRows, hashes: duplicates.PictureHashes) -> int:
        """Look for leaks among the images that are decoded; return how many were compared."""
        config, begun, compared = self.config, time.perf_counter(), 0
        validation = config.data.validation and resolve_name(config.data.validation, self.home)
        for name in filter(None, dict.fromkeys([*config.report.benchmarks, validation])):
            with self.problems.collect():
                (leak,) = duplicates.find_leaks(rows, [name], self.progress, self.place, hashes)
                compared = len(rows.files)
                if name != validation and not self.allow_leak:
                    duplicates.refuse_leaks([leak])
                elif name == validation and (line := leak.describe_choice()):
                    self.problems.add(line)
        self.parts["leaks"] = time.perf_counter() - begun
        return compared

    def _open_training(
        self, rows: TrainingRows, validation: PairSet | None, ranks: TrainingRanks
    ) -> tuple[Training | None, str]:
        """Open the start and change it as the run would; return it with its name, or None if that fails."""
        config, notes, name = self.config, self.plan.notes, resolve_name(self.config.model, self.home)
        with self.problems.collect():
            trainable, _ = open_start(name, config)
            if trainable is None:
                name, trainable = draw_start(name, config, self.files.start, ranks)
            prepare_start(config, trainable, ranks.of, self.problems.collect)
            notes += [f"lora: {layers}"] if (layers := describe_updated(trainable.module)) else []
            name = training_run.name_start(trainable, name, self.files)
            training = Training(config, trainable, rows, self.files, validation, ranks)
            if config.optimiser.minutes is not None:
                steps = loop.fit_steps(training)
                self.config = config = config.changed(optimiser={"steps": steps, "epochs": None})
                notes.append(f"optimiser.minutes: about {steps:,} steps fit; the run measures it")
            return replace(training, config=config), name
        return None, name

    def _judge_duplicates(self, rows: TrainingRows, trainable: Trainable) -> None:
        """Add problems of a picture or a caption of too many rows, and of captions that are equal once they are cut."""
        counted_rows, plan = rows.select(range(min(len(rows), _COUNTED))), self.plan
        counts = duplicates.count_duplicates(counted_rows, trainable.reader)
        pictures = len(set(counted_rows.image_ids.tolist()))
        plan.data = {**(plan.data or {}), "duplicates": asdict(counts)}
        (caption, showing), (picture, captions) = counts.caption, counts.picture
        if captions > _PLACEHOLDER * max(counts.middle, 1):
            self.problems.add(
                f"data.train: {captions:,} different captions are of one picture ({picture}), and half of the pictures "
                f"have {counts.middle} at most: is it a placeholder of missing ones? Leave its rows out"
            )
        if showing > max(1, pictures / 2):
            self.problems.add(
                f"data.train: {quote(caption)}, as the model reads it, is the caption of {showing:,} of {pictures:,} "
                "pictures, and cannot tell them apart; name what differs, or leave these rows out"
            )
        if counts.merged:
            self.problems.add(
                f"data.train: {counts.merged:,} captions are those of others once they are cut; put what differs "
                "first, or take a longer context"
            )
        if self.config.data.duplicates == "negatives" and counts.captions + counts.pictures:
            same = "equal captions and copies of a picture count as each other's negatives"
            plan.notes.append(f'data.duplicates = "negatives": {same}')

    def _plan_schedule(self, rows: TrainingRows) -> _Facts:
        config, settings = self.config, self.config.optimiser
        order = BatchOrder(rows, config.batch.size, config.seed, config.data.together)
        interval = config.validation.interval(steps := settings.count_steps(order.steps_per_epoch, self.limit))
        drawn_steps = (k * (steps - 1) // (_COLUMNS - 1) for k in range(_COLUMNS))
        return {
            "steps": steps,
            "epochs": steps / order.steps_per_epoch,
            "pairs": config.batch.size,
            "parts": config.batch.accumulate,
            "learning_rate": settings.learning_rate,
            "warm_up": settings.warm_up,
            "decay": settings.decay,
            "rates": [loop.rate(step, steps, settings.warm_up, settings.decay) for step in drawn_steps],
            "every": interval,
            "measurements": math.ceil(steps / interval),
        }

    def _judge_schedule(self, schedule: _Facts, validation: PairSet | None) -> None:
        """Add problems of a schedule that is too long for the data, or too short to warm up or to choose weights."""
        config, problems, steps, interval = self.config, self.problems, schedule["steps"], schedule["every"]
        if config.optimiser.warm_up >= steps:
            warm_up = f"optimiser.warm_up: {config.optimiser.warm_up:,} of {steps:,} steps"
            problems.add(f"{warm_up}: the rate never falls; lower it")
        epochs = max(preset.values["optimiser"].get("epochs", 0) for preset in list_presets().values())
        text = f"optimiser.steps: {steps:,} steps pass {schedule['epochs']:,.1f} times over the rows"
        if config.optimiser.steps and schedule["epochs"] > epochs:
            problems.add(f"{text}, and the longest preset {epochs} times; lower it, or add data")
        elif config.optimiser.steps and schedule["epochs"] > 1:
            self.plan.notes.append(text)
        if validation is None:
            self.plan.notes.append("no validation set: the last weights are kept")
        elif interval >= steps:
            every = f"validation.every: {interval:,} of {steps:,} steps"
            problems.add(f"{every}: one measurement cannot choose weights; lower it")
        elif config.validation.patience is not None:
            looks, items = max(1, schedule["measurements"] - 1), len(validation)
            if not better_beyond_doubt([1.0] * items, [0.0] * items, validation.outline.clusters, looks):
                fault = f"validation.patience: {items} validation items never are beyond doubt"
                problems.add(f"{fault}; take more, or leave it out")

    def _try_training(self, training: Training, name: str, schedule: _Facts) -> None:
        """Take steps, measure a few items of each set, and forecast time, disk and memory."""
        config, problems, validation = self.config, self.problems, training.validation
        few = None if validation is None else validation.select(range(min(len(validation), TRIED_ITEMS[0])))
        trial = self._try_steps(replace(training, validation=few), schedule["steps"])
        steps, measurements = trial["steps"], schedule["measurements"]
        if not trial["same"]:
            problems.add("a run that is resumed from its checkpoint does not get the same weights; report this")
        if line := describe_idle(self.files.log_path, config.loss_terms(), steps):
            problems.add(line) if steps >= min(IDLE_STEPS, schedule["steps"]) else self.plan.notes.append(line)
        self.parts["steps"] = schedule["steps"] * fmean(trial["seconds"])
        self.parts["checkpoints"] = measurements * trial["checkpoint_seconds"]
        if validation is not None:
            pairs, metric, model = validation, metric_of(config.validation.metric, validation.shape), training.trainable

            def measure_some(count: int) -> None:
                loop.items_right(metric, loop.rescore(model.model(), pairs.select(range(count))))

            self.parts["validation"] = measurements * fit_seconds(measure_some, len(pairs))
        saved, reported = training_run.save_model(training.trainable, self.files.model), 0.0
        for benchmark in config.report.benchmarks:
            with problems.collect():
                self.parts[benchmark] = self._try_benchmark(benchmark, (saved, name))
                reported += self.parts[benchmark]
        # Of two models' time an alpha takes half; 0 and 1 are the start and the trained model, measured already.
        self.parts["sweep"] = len({*config.report.alphas} - {0, 1}) * reported / 2
        if config.data.keep_images and trial["peak_bytes"] is not None and hasattr(os, "sysconf"):
            prepared = training.trainable.image(training.rows.pixels(0)).values()
            images = len(training.rows) * sum(tensor.numel() * tensor.element_size() for tensor in prepared)
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            if images + trial["peak_bytes"] > memory:
                sizes = f"{len(training.rows):,} prepared images are {decimal(images)}, and memory is {decimal(memory)}"
                problems.add(f"data.keep_images: {sizes}; leave it out")
        self.plan.trial, self.plan.forecast = trial, self._forecast_costs(schedule, trial)

    def _try_steps(self, training: Training, steps: int) -> _Facts:
        """Take two steps, then the second one again from the checkpoint of the first, and go on as time allows."""
        files, budget = training.files, _STEPPING * max(0.0, self.until - time.monotonic())
        forget_device_peak()
        taken, writing = loop.time_steps(training, 2, every=1, progress=self.progress)
        checkpoint = files.checkpoints / "step-00000002"
        size, sums = _count_bytes(checkpoint), read_whole(checkpoint / "SHA256SUMS")
        shutil.rmtree(checkpoint)
        loop.time_steps(training, 2, every=1, progress=self.progress)
        same = sums == read_whole(checkpoint / "SHA256SUMS")
        more = min(steps, IDLE_STEPS, 2 + int(budget / taken[0]))
        if more > 2:
            taken += loop.time_steps(training, more, every=more, progress=self.progress)[0]
        memory = device_peak(training.config.device)
        last = [line for _, line in read_jsonl(files.log_path) if "total" in line][-1]
        return {
            "steps": more,
            "seconds": taken,
            "peak_bytes": resident_memory(peak=True) if memory is None else memory,
            "checkpoint_bytes": size,
            "checkpoint_seconds": writing,
            "same": same,
            "loss": {name: value for name, value in last.items() if name not in NOT_TERMS},
        }

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

    def _forecast_costs(self, schedule: _Facts, trial: _Facts) -> _Facts:
        config, files, seeds, steps = self.config, self.files, self.plan.seeds, self.parts["steps"]
        rest = sum(self.parts.values()) - steps
        fast, slow = np.quantile(trial["seconds"], (0.1, 0.9)) * schedule["steps"]
        if len(trial["seconds"]) == 1:
            fast, slow = steps * (1 - _DOUBT), steps * (1 + _DOUBT)
        bounds = {"low": fast + rest * (1 - _DOUBT), "value": steps + rest, "high": slow + rest * (1 + _DOUBT)}
        best, model, start = map(_count_bytes, (files.best.parent, files.model, files.start))
        alphas = len(set(config.report.alphas))
        log = files.log_path.stat().st_size * schedule["steps"] / trial["steps"]
        sweep = alphas * self.report_bytes / 2 + (model if alphas else 0)
        kept = trial["checkpoint_bytes"] * min(config.validation.keep, schedule["measurements"])
        disk = kept + best + model + start + log + self.report_bytes + sweep
        peak = seeds * disk + max(trial["checkpoint_bytes"] + best, alphas * model)
        place = _present_part(Path(self.plan.out))
        if peak > (free := shutil.disk_usage(place).free):
            sizes = f"{decimal(round(peak))} of disk, and {place} has {decimal(free)}"
            self.problems.add(f"{self.plan.out}: the run needs {sizes}; lower validation.keep, or name another out=")
        total, parts = ({name: seeds * float(long) for name, long in times.items()} for times in (bounds, self.parts))
        return {"seconds": total, "parts": parts, "disk_bytes": round(seeds * disk), "disk_peak_bytes": round(peak)}


def open_images(rows: TrainingRows, seconds: float) -> tuple[TrainingRows, duplicates.PictureHashes, list[str]]:
    """Open every image, hash as many as the time allows; return readable rows, the hashes, and a line on each fault."""
    until = time.monotonic() + seconds

    def open_image(number: int, name: str) -> list[duplicates.Hashes] | str:
        path = Path(name)
        try:
            if number < _COMPARED or time.monotonic() < until:
                return duplicates.hash_image(name, lambda _: read_image(path))
            with path.open("rb") if path.is_file() else io.BytesIO(read_image(path)) as file:
                return [] if file.read(16) else f"{name}: is empty"
        except DataError as error:
            return str(error)
        except OSError as error:
            return f"{name}: cannot be read ({error.strerror})"

    names = [name for name in rows.files if name != str(Path())]
    with ThreadPoolExecutor(4) as pool:
        opened = dict(zip(names, pool.map(open_image, range(len(names)), names), strict=True))
    errors = {name: error for name, error in opened.items() if isinstance(error, str)}
    readable = opened.keys() - errors.keys()
    numbers = [number for number, row in enumerate(rows.rows) if str(row.image) in readable]
    hashes: duplicates.PictureHashes = {
        name: hashed for name, hashed in opened.items() if hashed and not isinstance(hashed, str)
    }
    return rows.select(numbers).with_pictures(duplicates.pixels_by_file(hashes)), hashes, list(errors.values())


def _present_part(path: Path) -> Path:
    """Return the path, or its nearest folder that exists."""
    return next(parent for parent in (path, *path.absolute().parents) if parent.exists())


def _count_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _group_weights(trainable: Trainable, config: TrainConfig) -> list[_Facts]:
    """Count the weights of each part of the model by the optimiser's rate and decay, both None if they are frozen."""
    treated = {
        id(parameter): (float(group["factor"]), float(group["weight_decay"]))
        for group in loop.make_optimiser(trainable.module, config.optimiser).param_groups
        for parameter in group["params"]
    }
    counts: dict[tuple[str, float | None, float | None], int] = {}
    for name, parameter in trainable.module.named_parameters():
        part = name.removeprefix("model.").partition(".")[0]  # the module's child; of a single weight its own name
        key = part, *treated.get(id(parameter), (None, None))
        counts[key] = counts.get(key, 0) + parameter.numel()
    names = ("part", "parameters", "rate", "decay")
    return [dict(zip(names, (part, count, *rest), strict=True)) for (part, *rest), count in counts.items()]
