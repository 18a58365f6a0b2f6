"""A training run: open and check everything, train, measure the start and the trained model, and write the record.

A rank is one of the run's processes. All ranks train; the first one also checks, measures and writes.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tellapart.benchmarks.find import find_benchmark, load_pairs
from tellapart.benchmarks.locations import Locations
from tellapart.builders.pipeline import build
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.folder import LISTINGS, read_pair_set, write_pair_set
from tellapart.data.pairset import PairSet, describe
from tellapart.data.progress import NotedProgress, Progress
from tellapart.data.rows import read_object
from tellapart.data.validation import describe_changes
from tellapart.diagnosis.why import explain
from tellapart.errors import DataError, RunError, TellapartWarning
from tellapart.evaluation.compare import compare
from tellapart.evaluation.evaluate import prepare
from tellapart.evaluation.run import Settings, run
from tellapart.evaluation.systems import System
from tellapart.metrics.matching import best_assignments
from tellapart.metrics.registry import METRICS
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.transductive import read_mark, write_mark
from tellapart.records.machine import this_machine, versions
from tellapart.records.run_folder import write_text_file
from tellapart.stats.pareto import pareto_best
from tellapart.tasks.registry import headline
from tellapart.training import encoders, run_files
from tellapart.training.config import DataConfig, ReportConfig, TrainConfig
from tellapart.training.data import duplicates
from tellapart.training.data.pictures import warn_of_flips
from tellapart.training.data.rows import Attempt, TrainingRows, read_rows
from tellapart.training.encoders import Trainable, resolve_name, save_merged
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.loop import Training, TrainingRanks, fit_steps, left_over, metric_of, rescore
from tellapart.training.record import DataRecord, MatchedRound, Sweep, TrainRecord, model_card, write_record
from tellapart.training.run_files import RunFiles, TrainingState, Weights

#: The prefix of a recipe in `data.train`. The recipe's set is built first, into `sets/NAME` of the working folder, and
#: stays there for the next run.
RECIPE = "recipe:"
_HUB = "hf:"
#: A command for users: it saves a data set of the hub, with `image` and `caption` columns, as rows.jsonl.
_SAVE = (
    "python -c \"import datasets, json; [(row['image'].save(f'{{n}}.png'), print(json.dumps({{'image': f'{{n}}.png', "
    "'caption': row['caption']}}))) for n, row in enumerate(datasets.load_dataset('{}', split='train'))]\" > rows.jsonl"
)


def data_locations(data: DataConfig, home: Path) -> Locations:
    """Return the folder that `data.folder` or `--data` names, and whether images outside of it are allowed."""
    folder = None if data.folder is None else home / Path(data.folder).expanduser()
    if folder is not None and not folder.is_dir():
        raise DataError(f"data=, or data.folder: missing folder {folder}")
    return Locations(data=folder, outside=data.outside_images)


def find_recipe(source: str, home: Path) -> tuple[Path, Path]:
    """Return the file of a recipe that a source names, and the folder that it is built into."""
    recipe = home / Path(source.removeprefix(RECIPE)).expanduser()
    return recipe, Path("sets") / read_recipe_file(recipe).name


def build_recipes(config: DataConfig, home: Path, progress: Progress | None = None) -> None:
    """Build the set of every recipe among the sources; a set that is built already is left as it is."""
    for source in config.train:
        if source.startswith(RECIPE):
            (recipe, to), place = find_recipe(source, home), data_locations(config, home)
            build(recipe, to, workers=os.cpu_count() or 1, progress=progress, paths=place.data)


def find_sources(config: DataConfig, home: Path) -> list[str]:
    """Return the sources as `read_rows` takes them: a recipe as the folder of its set, and any other path.

    A path is relative to the configuration's folder, or to the data's folder if the configuration's has no such file.
    """
    data, sources = data_locations(config, home).data, list[str]()
    for source in config.train:
        path = source.removeprefix("folder:")
        if source.startswith(RECIPE):
            sources.append(f"folder:{find_recipe(source, home)[1].absolute()}")
        elif source.startswith(_HUB):
            raise DataError(
                f"data.train: {source} is a data set of the hub, and training reads files; save its pictures and write "
                f"the file's name in their place: {_SAVE.format(source.removeprefix(_HUB))}"
            )
        elif data is not None and not (home / Path(path).expanduser()).exists():
            sources.append(f"{source.removesuffix(path)}{(data / path).absolute()}")
        else:
            sources.append(source)
    return sources


def read_sources(data: DataConfig, home: Path, attempt: Attempt = nullcontext) -> TrainingRows:
    """Read the rows of all sources, as `read_rows`."""
    options: dict[str, Any] = {"columns": data.columns, "outside": data.outside_images, "attempt": attempt}
    return read_rows(find_sources(data, home), home, data.images, take=data.take, **options)


def choose_validation(config: TrainConfig, home: Path, rows: TrainingRows) -> tuple[TrainingRows, PairSet | None]:
    """Return the rows to train on, `share` of all, and the validation set: `data.validation`, or the other rows."""
    data, pairs = config.data, None
    if data.validation is not None:
        name = resolve_name(data.validation, home)

        def same_for_one_set(source: str) -> object:
            # Two relative paths may be of one folder: `resolve_name` and `read_config` write them in different forms.
            folder = source.removeprefix("folder:")
            return source if folder == source else Path(folder).expanduser().resolve()

        if same_for_one_set(name) in map(same_for_one_set, config.report.benchmarks):
            raise DataError(
                f"data.validation: {name!r} is among report.benchmarks: weights that are chosen on a test set say "
                "nothing about it; name another set"
            )
        pairs = load_pairs(name, data_locations(data, home)).one_truth()
        metric_of(config.validation.metric, pairs.shape)
    if data.share == 1:
        if pairs is None and (config.validation.metric or config.validation.patience):
            raise DataError(
                "validation.metric, validation.patience: there is no validation set for them; name a set in "
                "data.validation, leave rows for it with data.share, or leave them out"
            )
        return rows, pairs
    trained, rest = rows.split(data.share)
    if not trained.rows:
        raise DataError(
            f"data.share = {data.share:g}: all {len(rows):,} rows are on the side of validation, since a cluster, or "
            "clusters that share a picture, stay together; raise it, or leave it out and name a set in data.validation"
        )
    return trained, left_over(rest, trained) if pairs is None else pairs


def refuse_other_data(config: TrainConfig, folder: Path, record: TrainRecord, *, home: Path) -> None:
    """Refuse a finished run whose rows, validation items, start or reported sets are others now."""
    data, name = record.data, resolve_name(config.model, home)
    then, now = dict[str, Any](), dict[str, Any]()
    if config.test_time_matching is not None:  # its rows are those of the last round
        if (items := RunFiles(folder).rounds / "items").exists():
            _write_items(config, home, items)
        then["start"], now["start"] = record.start, _find_matcher(config, name).fingerprint
    else:
        build_recipes(config.data, home)
        rows = read_sources(config.data, home)
        hashes = {} if config.data.share == 1 else duplicates.pixels_by_file(duplicates.hash_images(rows.files))
        rows, validation = choose_validation(config, home, rows.with_pictures(hashes))
        prints = None if validation is None else _hash_items(validation)
        then = {"rows": data.fingerprint, "validation": data.validation_fingerprint, "start": record.start}
        now = {"rows": rows.fingerprint, "validation": prints, "start": encoders.open_start(name, config)[1]}
    place = data_locations(config.data, home)
    for benchmark in (find_benchmark(name, place) for name in config.report.benchmarks):
        if benchmark.name in data.reported:  # two sets of one name are recorded under longer names
            then[benchmark.name] = data.reported[benchmark.name]
            now[benchmark.name] = prepare(benchmark, store=EmbeddingStore(None)).fingerprint
    if changed := describe_changes(then, now):
        raise RunError(f"{folder} is of other data or of another start: {changed}; name a new out=")


def _hash_items(validation: PairSet) -> str:
    """Return the SHA-256 of a validation set's items and of their images' files."""
    return validation.fingerprint(lambda image: validation.content_key(image, validation.read_bytes(image)))


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """The outcome of a training run: the model's name as `tellapart run -m` takes it, and, on rank 0, the record."""

    name: str
    state: TrainingState
    resumed: bool
    record: TrainRecord | None = None


class Rounds(NamedTuple):
    """A run's configuration; of test-time matching also the start's name, the items' set, and the rounds so far."""

    config: TrainConfig
    start: str = ""
    items: str = ""
    done: tuple[MatchedRound, ...] = ()


def run_training(
    config: TrainConfig, home: Path, out: Path, *,
    resume: bool = False, limit: int | None = None, allow_leak: bool = False,
    progress: NotedProgress | None = None, rounds: Rounds | None = None,
    show: Callable[[RunFiles, str, int, int], None] | None = None,
) -> FinishedRun:  # fmt: skip
    """Train as a configuration asks, or continue a run that was stopped."""
    rounds = rounds or Rounds(config)
    started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    ranks, files, name = TrainingRanks(config.device), RunFiles(out), resolve_name(config.model, home)
    ranks.first(lambda: build_recipes(config.data, home, progress))
    silence: dict[str, Any] = {} if ranks.leads else {"action": "ignore", "category": TellapartWarning}
    with ranks.together(), warnings.catch_warnings(**silence):  # a warning is printed once, by the first rank
        rows = read_sources(config.data, home)
    with ranks.together():  # the first rank looks for leaks by these hashes
        pictures = duplicates.hash_images(rows.files, progress=progress) if ranks.leads else {}
    hashes = ranks.first(lambda: duplicates.pixels_by_file(pictures))
    with ranks.together(), warnings.catch_warnings(**silence):
        rows, validation = choose_validation(config, home, rows.with_pictures(hashes))
        trainable, start_print = encoders.open_start(name, config)
        if trainable is not None:  # now, so that a configuration that it refuses leaves no folder
            encoders.prepare_start(config, trainable, ranks.of)

    def begin() -> dict[str, Any]:
        """Check for leaks and claim the run's folder before any rank trains; return the record's first entries."""
        data = _check_data(config, home, rows, validation, pictures, progress, allowed=allow_leak)
        warn_of_flips(config.data.augment, rows)
        decisive = {"rows": rows.fingerprint, "start": start_print}
        decisive |= {"tellapart": version("tellapart"), "limit": str(limit)}
        decisive |= {} if validation is None else {"validation_items": data["data"].validation_fingerprint}
        fingerprint = config.fingerprint(*decisive.values())
        return data | {
            "config": rounds.config.model_dump(mode="json"),
            "fingerprint": fingerprint,
            "start": rounds.done[0].start if rounds.done else start_print,
            "limit": limit,
            "started": started,
            "resumed": files.claim(fingerprint, config.decisive_values() | decisive, resume=resume),
            "ranks": ranks.of,
            "rounds": rounds.done,
        }

    entries = ranks.first(begin)
    pictures.clear()  # to free their memory
    if trainable is None:
        name, trainable = encoders.draw_start(name, config, files.start, ranks)
        with ranks.together():
            encoders.prepare_start(config, trainable, ranks.of)
    with ranks.together():
        before = run_files.weights_of(trainable.module) if ranks.leads and config.report.alphas else {}
        start = name_start(trainable, rounds.start or name, files) if ranks.leads else name
    with run_files.open_trackers(config.log, files.folder, config.name) as trackers:
        files.trackers += trackers
        training = Training(
            config, trainable, rows, files, validation, ranks,
            ranks.first(lambda: duplicates.count_duplicates(rows, trainable.reader)),
            None if show is None else partial(show, files, config.name),
        )  # fmt: skip
        if config.optimiser.minutes is not None:
            length = {"steps": files.fix_steps(partial(fit_steps, training)), "epochs": None}
            training = replace(training, config=config.changed(optimiser=length))
        torch.manual_seed(config.seed)
        # A copy trains: the optimiser is its attribute, and is freed with it before models are measured.
        state = replace(training).train(limit=limit, progress=progress)
    finished, place = FinishedRun("", state, entries["resumed"]), data_locations(config.data, home)
    with ranks.together():
        if ranks.leads:
            model = save_model(trainable, files.model, rounds.items or read_mark(name))
            entries |= _measure_both(training, (model, start), place, before, progress)
            record = _write_record(entries, training, state, model, time.perf_counter() - clock, name)
            finished = replace(finished, name=record.model, record=record)
    ranks.leave()
    return finished


def _check_data(
    config: TrainConfig, home: Path, rows: TrainingRows, validation: PairSet | None,
    pictures: duplicates.PictureHashes, progress: Progress | None, *, allowed: bool,
) -> dict[str, Any]:  # fmt: skip
    """Refuse pictures of reported sets, warn of those that choose weights; return the record's entries of the data."""
    place = data_locations(config.data, home)
    leaks = tuple(duplicates.find_leaks(rows, config.report.benchmarks, progress, place, pictures))
    if not allowed:
        duplicates.refuse_leaks(leaks)
    shared = None
    if config.data.validation is not None:
        name = resolve_name(config.data.validation, home)
        (shared,) = duplicates.find_leaks(rows, [name], progress, place, pictures)
        if shared.same:  # pictures that are merely alike may be of other scenes: the record has them
            warnings.warn(shared.describe_choice(), TellapartWarning, stacklevel=2)
    chosen: dict[str, Any] = {}
    if validation is not None:
        metric, prints = metric_of(config.validation.metric, validation.shape), _hash_items(validation)
        chosen = {"validation": len(validation), "validation_metric": metric, "validation_fingerprint": prints}
    counts: dict[str, Any] = {"rows": len(rows), "images": len(rows.files), "items": len(rows.items)}
    record = DataRecord(**counts, **chosen, fingerprint=rows.fingerprint, validation_leak=shared)
    return {"data": record, "leaks": leaks}


def _measure_both(
    training: Training, names: tuple[str, str], place: Locations, before: Weights, progress: Progress | None
) -> dict[str, Any]:
    """Measure the trained model and its start, and weights between both, on the reported benchmarks, for the record."""
    config, trainable, files = training.config, training.trainable, training.files
    if not config.report.benchmarks:
        return {}

    def stages(title: str) -> Progress:
        return lambda stage, done, total: progress(f"{title}: {stage}", done, total) if progress else None

    # Does training make the model forget? The start comes first: positive differences are gains.
    settings, store = report_settings(config, names, place), EmbeddingStore(None)
    trained, start = _measure(settings, files.report, store=store, progress=stages)
    measured: dict[str, Any] = {"comparison": compare(start, trained)}
    measured["reported"] = {name: one.fingerprint for name, one in trained.result.benchmarks.items()}
    with suppress(RunError):  # no item has as many images as texts; nothing else can fail on folders written above
        why = explain([replace(start, label="before"), replace(trained, label="after")])
        rows = tuple(row.model_copy(update={"by": {}, "items": ()}) for row in why.rows)
        measured["why"] = why.model_copy(update={"rows": rows})
    if not config.report.alphas:
        return measured
    after = run_files.weights_of(trainable.module)

    def save(weights: Weights, folder: Path) -> str:
        run_files.copy_weights(weights, trainable.module)
        return save_merged(trainable, folder)

    # LoRA's A is the trained one at either end: B A is then linear in alpha, and so are the merged weights.
    ends = {name: after[name] if ".lora_A." in name else value for name, value in before.items()}, after
    sweep = run_sweep(ends, config.report.alphas, save, settings, files.sweep, store, progress=stages)
    run_files.copy_weights(after, trainable.module)
    return measured | {"sweep": sweep}


def _measure(settings: Settings, folder: Path, **options: Any) -> list[System]:
    """Measure as `run`; return the systems with the sets measured now: a folder may have results of others, too."""
    asked = list[str]()
    options |= {"command": "tellapart train", "expect": lambda ready: asked.append(ready.benchmark.name)}
    systems = []
    for place, result in run(settings, folder, **options).items():
        reported = {name: result.benchmarks[name] for name in asked}
        systems.append(System.of(place, result.model_copy(update={"benchmarks": reported})))
    return systems


def run_sweep(
    ends: tuple[Weights, Weights], alphas: Sequence[float], save: Callable[[Weights, Path], str],
    settings: Settings, out: Path, store: EmbeddingStore, *, progress: Callable[[str], Progress] | None = None,
) -> Sweep:  # fmt: skip
    """Measure the weights at each alpha between the start and the trained ones; keep the model of the best one.

    Source: WiSE-FT (Wortsman et al. 2022), equation 1: such weights often lose little elsewhere.
    """
    curve: dict[float, tuple[float, ...]] = {}
    names: dict[float, str] = {}
    for alpha in (alphas := sorted({*alphas})):
        folder = out / f"alpha-{Sweep.label(alpha)}"
        shutil.rmtree(folder / "model", ignore_errors=True)  # of a sweep that was killed
        names[alpha] = save(interpolate(*ends, alpha), folder / "model")
        settings = replace(settings, models=(names[alpha],))
        memory = store if alpha in (0, 1) else EmbeddingStore(None)  # the ends were measured already
        results = _measure(settings, folder / "report", store=memory, progress=progress)[0].result.benchmarks
        headlines = [[result.metrics[name].value for name in headline(result.metrics)] for result in results.values()]
        curve[alpha] = tuple(sum(values) / len(values) for values in headlines)
    best = alphas[pareto_best([curve[alpha] for alpha in alphas])]  # of equally good alphas the nearest to the start
    for alpha in {*alphas} - {best}:  # folders of other alphas, from a sweep before, stay
        shutil.rmtree(out / f"alpha-{Sweep.label(alpha)}" / "model")
    sweep = Sweep(tuple(results), curve, best, names[best])
    write_text_file(out / "curve.json", json.dumps(asdict(sweep), indent=1, allow_nan=False) + "\n")
    return sweep


def interpolate(before: Mapping[str, Tensor], after: Mapping[str, Tensor], alpha: float) -> dict[str, Tensor]:
    """Return `(1 - alpha) * before + alpha * after`, tensor by tensor, in new memory.

    Computed in float64 and rounded once to the tensors' type, on the device of `before`; 0 and 1 give the ends to
    the bit. Tensors of integers or truth values (counters, positions) are not points on a line: they are copied
    from the nearer end, at 1/2 from `after`.
    """

    def mix(start: Tensor, end: Tensor) -> Tensor:
        # At an end no arithmetic: zero times infinity is not a number.
        if alpha in (0, 1) or not start.is_floating_point():
            return (start if alpha < 0.5 else end.to(start.device)).detach().clone()
        start64, end64 = start.detach().to(torch.float64), end.detach().to(start.device, torch.float64)
        return ((1 - alpha) * start64 + alpha * end64).to(start.dtype)

    return {name: mix(start, after[name]) for name, start in before.items()}


def report_settings(config: TrainConfig, models: tuple[str, ...], place: Locations) -> Settings:
    """Return the settings by which models are measured on the reported benchmarks."""
    device: dict[str, Any] = {"device": config.device, "reading": config.reading, "image_size": config.image_size}
    return Settings(models=models, benchmarks=tuple(config.report.benchmarks), place=place, **device)


def save_model(trainable: Trainable, folder: Path, transductive: str = "") -> str:
    """Write a model atomically, with the mark of the items that it was fitted to; return its name."""
    with run_files.replace_folder(folder) as draft:
        name = save_merged(trainable, draft)
        if transductive:
            write_mark(draft, transductive)
    return name.replace(str(draft), str(folder))


def name_start(trainable: Trainable, name: str, files: RunFiles) -> str:
    """Return the name by which the start is measured; a start whose file lacks the trained head is written anew."""
    return save_model(trainable, files.start) if trainable.begun else name


def _write_record(
    entries: dict[str, Any], training: Training, state: TrainingState, model: str, seconds: float, start: str
) -> TrainRecord:
    """Write the model card, then the record. The record comes last: a folder that has one is complete."""
    config, files = training.config, training.files
    measured = {"duplicates": training.duplicates, "reported": entries.pop("reported", {})}
    record = TrainRecord(
        **entries | {"data": entries["data"].model_copy(update=measured)},
        model=model,
        seconds=round(seconds, 1),
        versions=versions(),
        machine=this_machine(config.device),
        steps=state.step,
        best_step=state.best_step,
        best=state.best,
        history=tuple(state.history),
        updated=encoders.describe_updated(training.trainable.module),
        idle=run_files.describe_idle(files.log_path, config.loss_terms()),
        transductive=read_mark(str(files.model)),
    )
    write_text_file(files.model / "README.md", model_card(record, start))
    write_record(files.folder, record)
    return record


def train_matched(config: TrainConfig, home: Path, out: Path, *, resume: bool = False, **settings: Any) -> FinishedRun:
    """Train in rounds, each from the weights and on the matches of the round before; the last is the run of `out`.

    No label is trained on; the outcome is transductive, and marked as such. The match of an item is the assignment of
    texts to images with the largest sum of scores. A round takes the matches that lead the second best assignment by a
    threshold, which falls from round to round. Weights go on, and the optimiser begins anew. Unlike in the paper, a tie
    is no match.

    Source: Zhu, Zhang and Tang, "Test-Time Matching" (arXiv 2510.07632).
    """
    assert config.test_time_matching is not None  # noqa: S101  (for the type checker)
    files, ranks, done = RunFiles(out), TrainingRanks(config.device), list[MatchedRound]()
    if not resume and ranks.first(lambda: out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise RunError(f"{out} holds something already; add resume=True to go on with it, or name a new out=")
    items, start = files.rounds.absolute() / "items", resolve_name(config.model, home)
    ranks.first(lambda: _write_items(config, home, items))
    name, settings = start, settings | {"resume": resume, "allow_leak": True}
    for number, threshold in enumerate(thresholds := config.test_time_matching.thresholds(), 1):
        folder, last = items.with_name(str(number)), number == len(thresholds)
        done.append(ranks.first(partial(_match_items, config, name, items, folder, threshold)))
        matched = config.changed(data={"train": [f"folder:{folder / 'pairs'}"], "images": str(items)})
        values = {"model": name} | ({} if last else {"report": ReportConfig()})
        rounds, to = Rounds(config, start, config.data.train[0], tuple(done)), out if last else folder / "run"
        finished = run_training(matched.model_copy(update=values), home, to, rounds=rounds, **settings)
        name = ranks.first(partial(str, finished.name))
    ranks.leave()
    return finished


def _write_items(config: TrainConfig, home: Path, folder: Path) -> None:
    """Copy the items' pictures and captions, as every round reads them; a copy of other items is refused."""
    pairs = load_pairs(resolve_name(config.data.train[0], home), data_locations(config.data, home))
    if folder.exists():
        if changed := describe_changes({"items": _hash_items(read_pair_set(folder))}, {"items": _hash_items(pairs)}):
            raise RunError(f"{folder} holds other items than {pairs.name} has now: {changed}; name a new out=")
        return
    if not METRICS["match_score"].defined_for(pairs.shape):
        raise DataError(
            f"test_time_matching: {pairs.name} has items of {describe(pairs.shape)}, and a match is of as many images "
            "as texts, two to six; name such a set in data.train"
        )
    images = dict.fromkeys(image for item in pairs.items for image in item.images)
    copies = {image: f"images/{number}{Path(image).suffix}" for number, image in enumerate(images)}
    named = [{"images": tuple(map(copies.get, item.images)), "provenance": {}} for item in pairs.items]
    card = {"frames": pairs.frames}  # of videos
    items = [item.model_copy(update=names) for item, names in zip(pairs.items, named, strict=True)]
    write_pair_set(folder, items, {copy: pairs.read_bytes(image) for image, copy in copies.items()}, card)


def _find_matcher(config: TrainConfig, name: str) -> Model:
    """Return the model whose scores match the items."""
    return find_model(name, ModelOptions(device=config.device, reading=config.reading, image_size=config.image_size))


def _match_items(config: TrainConfig, name: str, items: Path, folder: Path, threshold: float) -> MatchedRound:
    """Write the matches that lead by a threshold as a pair set, if they are not there."""
    if (record := folder / "matched.json").is_file():
        return MatchedRound.model_validate(read_object(record))
    model, pairs = _find_matcher(config, name), read_pair_set(items)
    scores = rescore(model, pairs)
    matches, leads = best_assignments(METRICS["match_score"].scaled(scores.values, scores.kind))
    sure = np.flatnonzero((leads >= threshold) & (leads > 0))
    if not len(sure):
        raise DataError(
            f"test_time_matching.threshold: no match of round {folder.name} leads by {threshold:g}, and the largest "
            f"lead of {len(pairs)} items is {leads.max():g}; lower it"
        )
    matched_items = ((pairs.items[k], [pairs.items[k].texts[text] for text in matches[k]]) for k in sure)
    rows = (json.dumps(item.model_dump(exclude={"true"}) | {"texts": texts}) + "\n" for item, texts in matched_items)
    write_text_file(folder / "pairs" / LISTINGS[0], "".join(rows))
    right = int((matches[sure] == np.arange(matches.shape[1])).all(axis=1).sum())
    counts = {"items": len(pairs), "matched": len(sure), "right": right}
    round_record = MatchedRound(start=model.fingerprint, threshold=threshold, **counts)
    write_text_file(record, round_record.model_dump_json() + "\n")
    return round_record
