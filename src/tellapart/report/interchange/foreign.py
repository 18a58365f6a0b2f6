"""Import result files of CLIP_benchmark and mteb, which have no interval, no items and another tie rule.

CLIP_benchmark writes one object a file (its `cli.py`), and its `build` many as the rows of a CSV file. mteb writes one
file a task, with an object for each split and subset; the model's name is in `model_meta.json` beside it, and in the
folders `ORG__MODEL/REVISION`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tellapart.benchmarks.find import declared_benchmark
from tellapart.benchmarks.minimal_pairs import SUBSETS
from tellapart.data.arguments import PathGiven, as_path, as_paths
from tellapart.data.rows import read_csv, read_object, read_toml
from tellapart.data.scores import join_names
from tellapart.data.strict_json import first_repeated, plain_suffix, read_json, read_whole
from tellapart.errors import DataError, RunError, nearest, quote
from tellapart.metrics.registry import METRICS
from tellapart.records.result import IMPORTED, BenchmarkResult, Metrics, ModelRecord, Result, RunRecord, Value
from tellapart.records.run_folder import RESULTS, write_result
from tellapart.report.interchange.logs import Log, read_log, write_log
from tellapart.report.templates import write_lines

_SAMPLES = (
    "of lmms-eval take the samples (--log_samples): python -m examples.elsewhere.lmms_eval makes a file of them for "
    "tellapart score"
)

#: A part of a set (tag, value); None for all of it.
Part = tuple[str, str] | None

#: Set -> its parts, as a file names them, and their published numbers of items.
_SIZES = {"sugarcrepe": {("subset", name): counts[0] for name, counts in SUBSETS.items()}}

#: Other tools' words, and ours.
_WORDS = read_toml(Path(__file__).with_name("foreign.toml"))
_NAMES, _CLIP = _WORDS["names"], _WORDS["clip"]

#: Names of a file's numbers that a note lists; what the mean of shares that are all 1 exceeds 1 by, in float32.
_MOST_NAMES, _ROUNDING = 8, 1e-6

#: Words in the names of numbers that are shares, and so never negative, as a correlation may be.
_SHARE = re.compile(r"acc|score|recall|precision", re.IGNORECASE)

#: mteb's second name of a number; and of areas under abstention curves, how well a model's doubt predicts its errors.
_MAIN, _ABSTENTION = "main_score", "nauc_"

_RECALL = re.compile(r"^(image|text)_retrieval_recall@(\d+)$")


@dataclass(frozen=True, slots=True)
class ForeignResult:
    """The numbers of a set, or of one part of it, in a result file; `names` has the file's names by ours."""

    path: Path
    tool: str
    version: str
    model: str
    benchmark: str
    task: str
    part: Part
    metrics: Mapping[str, float]
    names: Mapping[str, str]
    left: tuple[str, ...]


def import_results(
    files: PathGiven | Sequence[PathGiven], out: PathGiven, *, model: str | None = None, command: str = ""
) -> Result:
    """Take results of another tool, of one model, as a run folder: aggregates, or logs of items with their outcomes.

    Raises:
        TellapartError: a file is none of theirs.

    >>> import json
    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path")
    >>> theirs = {"dataset": "winoground", "task": "image_caption_selection", "metrics": {"text_acc": 0.3}}
    >>> theirs |= {"model": "ViT-B-32", "pretrained": "openai"}
    >>> _ = (folder / "clip_benchmark.json").write_text(json.dumps(theirs))
    >>> result = ta.import_results(folder / "clip_benchmark.json", folder / "imported")
    >>> result.model.name, result.benchmarks["winoground"].metrics["text_score"].value
    ('ViT-B-32/openai', 0.3)
    """
    paths, out = as_paths(files, "files"), as_path(out, "out")
    if (out / RESULTS).exists():
        raise RunError(f"{out} holds a run already; name a new folder")
    logs = {path: log for path in paths if (log := read_log(path, model)) is not None}
    results = [result for path in paths if path not in logs for result in read_foreign(path, model)]
    measured: list[ForeignResult | Log] = [*results, *logs.values()]
    if not measured:
        raise RunError("no file was named; name result files, or logs of items, of another tool")
    models = list(dict.fromkeys(content.model for content in measured))
    if len(models) > 1:
        names = f"{', '.join(models[:10])}{' and others' if len(models) > 10 else ''}"
        raise RunError(
            f"these files are of {len(models)} models ({names}); import each into a separate run: of a CSV file, "
            "model=NAME takes one"
        )
    if twice := first_repeated(log.benchmark for log in logs.values()):
        raise RunError(f"{twice} is in two of these files; name one of them")
    sets = dict.fromkeys(result.benchmark for result in results)
    records = [_make_records([result for result in results if result.benchmark == name]) for name in sets]
    result = Result(
        run=RunRecord(
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            seed=0,
            command=command,
            versions={content.tool: content.version or "not said" for content in measured},
        ),
        model=ModelRecord(name=models[0], fingerprint=f"{IMPORTED}{measured[0].tool}"),
        benchmarks={name: record for of in records for name, record in of.items()}
        | {log.benchmark: write_log(log, path, out) for path, log in logs.items()},
    )
    write_result(out, result)
    return result


def _make_records(results: Sequence[ForeignResult]) -> dict[str, BenchmarkResult]:
    """Return the record of a set; of parts that are not all of it, or of unknown sizes, a record each, named so."""
    first, by = results[0], dict[Part, ForeignResult]()
    for result in results:
        if result.tool != first.tool or result.part in by or (by and None in (result.part, *by)):
            raise RunError(f"{result.path}: {result.benchmark} is in two of these files; name one of them")
        by[result.part] = result
    name, sizes = first.benchmark, _SIZES.get(first.benchmark, {})
    if None in by:
        return {name: _make_record(results, results, name, _make_values(first))}
    parts = {part: (result, _make_values(result)) for part, result in by.items() if part is not None}
    if parts.keys() != sizes.keys():
        some = f"{len(parts)} of {len(sizes)} parts were given"
        reason = some if parts.keys() < sizes.keys() else "nothing shows how many items each part has"
        note = f"a part of {name}, without a number over all parts: {reason}"
        return {
            (alone := f"{name}/{part}"): _make_record(results, [result], alone, values, note)
            for (_, part), (result, values) in parts.items()
        }
    total = sum(sizes.values())
    means = {
        metric: sum(sizes[part] * values[metric].value for part, (_, values) in parts.items()) / total
        for metric in first.metrics
        if all(metric in values for _, values in parts.values())
    }
    counts = ", ".join(f"{part} {size:,}" for (_, part), size in sizes.items())
    note = f"over all {total:,} items each of the {len(parts)} parts counts by its published number of items: {counts}"
    values = _make_values(replace(first, metrics=means), "micro: all items")
    groups = {value: Metrics(metrics=metrics) for (_, value), (_, metrics) in parts.items()}
    record = _make_record(results, results, name, values, note)
    return {name: record.model_copy(update={"by": {"subset": groups}})}


def _make_record(
    results: Sequence[ForeignResult], of: Sequence[ForeignResult], name: str, metrics: dict[str, Value], note: str = ""
) -> BenchmarkResult:
    """Return a record `of` some results, among all of its set's."""
    first, paths = results[0], dict.fromkeys(result.path for result in of)
    names = {ours: theirs for result in results for ours, theirs in result.names.items()}
    taken = [ours if ours == original else f"{original} as {ours}" for ours, original in names.items()]
    # A value that is missing is more than a number that is not taken.
    left = sorted(dict.fromkeys(other for result in results for other in result.left), key=lambda name: "(" not in name)
    listed = [join_names(names, _MOST_NAMES) for names in (taken, left)]
    digests = b"".join(hashlib.sha256(read_whole(path)).digest() for path in paths)
    return BenchmarkResult(
        title=f"{name}, measured by {first.tool}",
        fingerprint=f"{IMPORTED}{hashlib.sha256(digests).hexdigest()}",
        task=first.task,
        metrics=metrics,
        origin=", ".join(path.name for path in paths),
        notes=write_lines("imported", result=first, name=name, listed=listed, note=note),
    )


def _make_values(result: ForeignResult, average: str = "") -> dict[str, Value]:
    """Make numbers of metrics, with chance by one of ours on a catalogued set of one shape."""
    declared, average = declared_benchmark(result.benchmark), average or f"as {result.tool} averages"
    chances = dict.fromkeys(result.metrics, None)
    if declared is not None and (shape := declared.shape) is not None:
        metrics = (METRICS[name] for name in result.metrics if name in METRICS)
        defined = (metric for metric in metrics if metric.shapes and metric.defined_for(shape, declared.true))
        chances |= {metric.name: metric.chance(shape, declared.true) for metric in defined}
    return {
        name: Value(value=number, chance=chances[name], method="imported", n=0, clusters=0, average=average)
        for name, number in result.metrics.items()
    }


def read_foreign(path: Path, model: str | None = None) -> list[ForeignResult]:
    """Read a result file; its fields show which tool wrote it."""
    if path.is_dir():
        raise RunError(f"{path} is a folder; name the result files of one model (of mteb: MODEL/REVISION/*.json)")
    if plain_suffix(path) == ".csv":
        return _read_table(path, model)
    if plain_suffix(path) == ".jsonl":
        raise RunError(f"{path}: results are read from .json and .csv files; {_SAMPLES}")
    content = read_json(path, error=RunError, nan=True)
    if isinstance(content, dict) and {"dataset", "model", "task", "metrics"} <= content.keys():
        return [_read_clip(path, str(path), content, model)]
    if isinstance(content, dict) and {"task_name", "scores", "mteb_version"} <= content.keys():
        return _read_mteb(path, content, model)
    raise RunError(
        f"{path} is neither a result of CLIP_benchmark (fields dataset, model, task, metrics) nor of mteb 1.11 or "
        f"newer (task_name, scores, mteb_version); {_SAMPLES}"
    )


def _read_table(path: Path, model: str | None) -> list[ForeignResult]:
    """Read the rows of CLIP_benchmark's CSV: a cell that is empty or no number is not a metric of that row."""
    try:
        rows = list(read_csv(path))
    except DataError as error:
        raise RunError(str(error), path=path) from error
    if missing := {"dataset", "model", "task"} - (rows[0][1].keys() if rows else set()):
        raise RunError(
            f"{path} is not CLIP_benchmark's CSV: it has no column {', '.join(sorted(missing))}; write it with "
            "`clip_benchmark build FILE.json... --output FILE.csv`",
            path=path,
        )
    models = {_clip_model(row) for _, row in rows}
    if model is not None and len(models) > 1 and model not in models:
        hint = nearest(model, models) or f"; it has {', '.join(sorted(models)[:10])}"
        raise RunError(f"{path} holds no result of {quote(model)}{hint}", path=path, field="model", got=model)
    results = []
    for line, row in rows:
        if model is None or len(models) == 1 or _clip_model(row) == model:
            # pandas heads the column of its row numbers with nothing.
            names = (name for name in row if _is_number(row[name]) and name.strip() and name not in _CLIP["fields"])
            metrics = {name: float(row[name]) for name in names}
            results.append(_read_clip(path, f"{path}:{line}", {**row, "metrics": metrics}, model))
    return results


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_clip(path: Path, place: str, content: Mapping[str, Any], model: str | None) -> ForeignResult:
    dataset = re.sub(r"^wds[/_]", "", str(content["dataset"]))
    task, language, part = str(content["task"]), str(content.get("language") or "en"), None
    # Captions or classes in another language are another set.
    theirs = f"CLIP_benchmark:{dataset}{'' if language == 'en' else f':{language}'}"
    benchmark = _CLIP["sets"].get(dataset, theirs) if language == "en" else theirs
    # Whether the items of an unknown set of pairs have two images is not known.
    kind, table = _CLIP["tasks"].get(task, task), _NAMES["pairs"] if benchmark == "winoground" else {}
    if dataset.startswith("sugar_crepe/"):
        part, benchmark, kind = ("subset", dataset.removeprefix("sugar_crepe/")), "sugarcrepe", "pairs"
        table = _NAMES["first_choice"]
    rules: dict[str, Callable[[Collection[str]], dict[str, str]]] = {
        "pairs": partial(_choose_names, place, table),
        "retrieval": _name_recalls,
        "classification": lambda names: {_NAMES["classes"].get(name, name): name for name in names},
    }
    if kind not in rules:  # a trained probe's accuracy is not a zero-shot model's on the same set
        benchmark = f"{theirs}:{task}"
    rename = rules.get(kind, lambda names: {name: name for name in names if name not in _CLIP["settings"]})
    facts = {"benchmark": benchmark, "task": kind, "part": part, "model": model or _clip_model(content)}
    return _make_result(path, place, content["metrics"], rename, tool="CLIP_benchmark", version="", **facts)


def _clip_model(content: Mapping[str, Any]) -> str:
    """Name model and weights as this package does; of a file of weights, only its name."""
    weights = str(content.get("pretrained") or "")
    if not weights:
        return str(content["model"])
    *folders, file = re.split(r"[/\\]", weights)
    return f"{content['model']}{'@' if folders else '/'}{file}"


def _name_recalls(names: Collection[str]) -> dict[str, str]:
    """Return our names of recalls with theirs, which hold the target alone, ours source and target."""
    sides = {"image": "t2i", "text": "i2t"}
    recalls = {_RECALL.sub(lambda found: f"{sides[found[1]]}_recall@{found[2]}", name): name for name in names}
    return dict(sorted(recalls.items(), key=lambda item: (item[0].split("@")[0], len(item[0]), item[0])))


def _choose_names(place: object, table: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Return our names with theirs by a table; a number under our name comes first. Without a table, all."""
    if not table:
        return {name: name for name in names}
    pairs = {ours: theirs for theirs, ours in table.items() if theirs in names}
    pairs |= {ours: ours for ours in table.values() if ours in names}
    if not pairs:
        raise RunError(f"{place}: none of {', '.join(table)} is among its metrics {', '.join(names)}")
    return pairs


def _read_mteb(path: Path, content: Mapping[str, Any], model: str | None) -> list[ForeignResult]:
    task = str(content["task_name"])
    benchmark, kind, named = _WORDS["mteb"].get(task, (f"mteb:{task}", task, ""))
    scores = content["scores"]
    facts = {"tool": "mteb", "version": str(content["mteb_version"] or ""), "benchmark": benchmark, "task": kind}
    parts = [
        (f"{split} {entry.get('hf_subset', 'default') if isinstance(entry, dict) else ''}", entry)
        for split, entries in (scores.items() if isinstance(scores, dict) else ())
        for entry in (entries if isinstance(entries, list) else ())
    ]
    if twice := first_repeated(part for part, _ in parts):
        why = f"its scores have {quote(twice)} twice (split and hf_subset); leave the right entry"
        raise RunError(f"{path}: {why}", path=path, field="scores")
    # A subset that has a name is not all of the set.
    whole = len(parts) == 1 and all(part.endswith(" default") for part, _ in parts)
    rename = partial(_choose_names, path, _NAMES.get(named, {}))
    results = [
        _make_result(path, path, entry, rename, part=None if whole else ("hf_subset", part), model=model or "", **facts)
        for part, entry in parts
    ]
    if not results:
        raise RunError(f"{path} holds no scores")
    return results if model else [replace(result, model=_mteb_model(path)) for result in results]


def _mteb_model(path: Path) -> str:
    meta = path.parent / "model_meta.json"
    if meta.is_file():
        try:
            name = read_object(meta).get("name")
        except DataError as error:
            raise RunError(f"{error}; give model=NAME") from error
        if name:
            return str(name)
    folder = path.absolute().parent.parent.name
    if "__" not in folder:
        raise RunError(f"{path} does not name its model, and no model_meta.json lies in its folder; give model=NAME")
    return folder.replace("__", "/", 1)


def _make_result(
    path: Path, place: object, entry: object, rename: Callable[[Collection[str]], dict[str, str]], **facts: Any
) -> ForeignResult:
    """Take the numbers of an object of metrics by our names; each is a share from 0 to 1, or a correlation.

    Left out are values that are no numbers, mteb's `main_score`, which repeats one, and areas under abstention curves.
    """
    if not isinstance(entry, dict):
        raise RunError(f"{place}: expected an object of metrics; got {type(entry).__name__}")
    found = {str(name): float(value) for name, value in entry.items() if type(value) in (int, float)}
    left = [*({_MAIN} & found.keys()), *(name for name in found if name.startswith(_ABSTENTION))]
    numbers = {name: number for name, number in found.items() if name not in left}
    if bad := [name for name, value in numbers.items() if not math.isfinite(value)]:
        raise RunError(f"{place}: {', '.join(bad)} is not finite")
    if not numbers:
        raise RunError(f"{place} holds no number")
    names = rename(numbers)
    for ours, theirs in names.items():
        if not (0 if _SHARE.search(ours) else -1) <= numbers[theirs] <= 1 + _ROUNDING:
            why = "and no share from 0 to 1; if the file holds percent, divide its numbers by 100"
            is_not = f"{place}: {theirs} is {(got := numbers[theirs]):g}, {why}"
            raise RunError(is_not, path=place, field=theirs, got=got)
    nulls = [f"{name} ({json.dumps(value)})" for name, value in entry.items() if isinstance(value, bool | None)]
    texts = [f"{name} (a text)" for name, value in entry.items() if isinstance(value, str) and _is_number(value)]
    others = (*(name for name in numbers if name not in names.values()), *nulls, *texts, *left)
    metrics = {ours: numbers[theirs] for ours, theirs in names.items()}
    return ForeignResult(path=path, metrics=metrics, names=names, left=others, **facts)
