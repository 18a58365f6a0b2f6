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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
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

_SAMPLES = (
    "of lmms-eval take the samples (--log_samples): python -m examples.elsewhere.lmms_eval makes a file of them for "
    "tellapart score"
)


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
    contents = [(path, content) for path in paths if path not in logs for content in read_foreign(path, model)]
    measured: list[ForeignResult | Log] = [*(content for _, content in contents), *logs.values()]
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
    by_benchmark: dict[str, list[tuple[Path, ForeignResult]]] = {}
    for path, content in contents:
        by_benchmark.setdefault(content.benchmark, []).append((path, content))
    result = Result(
        run=RunRecord(
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            seed=0,
            command=command,
            versions={content.tool: content.version or "not said" for content in measured},
        ),
        model=ModelRecord(name=models[0], fingerprint=f"{IMPORTED}{measured[0].tool}"),
        benchmarks={name: record for own in by_benchmark.values() for name, record in _make_records(own).items()}
        | {log.benchmark: write_log(log, path, out) for path, log in logs.items()},
    )
    write_result(out, result)
    return result


def _make_records(contents: Sequence[tuple[Path, ForeignResult]]) -> dict[str, BenchmarkResult]:
    """Return the record of a set; of parts that are not all of it, or of unknown sizes, a record each, named so."""
    first = contents[0][1]
    parts: dict[Part, tuple[Path, Mapping[str, float]]] = {}
    for path, content in contents:
        twice = parts.keys() & content.metrics.keys() or (parts and None in {*parts, *content.metrics})
        if content.tool != first.tool or twice:
            raise RunError(f"{path}: {content.benchmark} is in two of these files; name one of them")
        parts |= {part: (path, numbers) for part, numbers in content.metrics.items()}
    name, sizes = first.benchmark, _SIZES.get(first.benchmark, {})
    if None in parts:
        path, numbers = parts[None]
        return {name: _make_record(contents, [path], name, _make_values(numbers, first))}
    by = {part: _make_values(numbers, first) for part, (_, numbers) in parts.items() if part is not None}
    if by.keys() != sizes.keys():
        some = f"{len(by)} of {len(sizes)} parts were given"
        reason = some if by.keys() < sizes.keys() else "nothing shows how many items each part has"
        note = f"a part of {name}, without a number over all parts: {reason}"
        return {
            (alone := f"{name}/{part[1]}"): _make_record(contents, [parts[part][0]], alone, values, note)
            for part, values in by.items()
        }
    total = sum(sizes.values())
    means = {
        metric: sum(sizes[part] * metrics[metric].value for part, metrics in by.items()) / total
        for metric in next(iter(by.values()))
        if all(metric in metrics for metrics in by.values())
    }
    counts = ", ".join(f"{part[1]} {size:,}" for part, size in sizes.items() if part is not None)
    note = f"over all {total:,} items each of the {len(by)} parts counts by its published number of items: {counts}"
    files = [path for path, _ in parts.values()]
    record = _make_record(contents, files, name, _make_values(means, first, "micro: all items"), note)
    groups = {value: Metrics(metrics=metrics) for (_, value), metrics in by.items()}
    return {name: record.model_copy(update={"by": {next(iter(by))[0]: groups}})}


def _make_record(
    contents: Sequence[tuple[Path, ForeignResult]], files: Sequence[Path], name: str, metrics: dict[str, Value],
    note: str = "",
) -> BenchmarkResult:  # fmt: skip
    first, paths = contents[0][1], dict.fromkeys(files)
    names = {ours: theirs for _, content in contents for ours, theirs in content.names.items()}
    renamed = [ours if ours == original else f"{original} as {ours}" for ours, original in names.items()]
    # A value that is missing is more than a number that is not taken.
    others = dict.fromkeys(other for _, content in contents for other in content.left)
    left = sorted(others, key=lambda name: "(" not in name)
    digests = b"".join(hashlib.sha256(read_whole(path)).digest() for path in paths)
    return BenchmarkResult(
        title=f"{name}, measured by {first.tool}",
        fingerprint=f"{IMPORTED}{hashlib.sha256(digests).hexdigest()}",
        task=first.task,
        metrics=metrics,
        origin=", ".join(path.name for path in paths),
        notes=(
            f"imported from {first.tool} {first.version}".rstrip()
            + ": its files hold no outcome of an item, so numbers have no interval; it gives a tie to whichever comes "
            "first (argmax), here a tie is never right",
            f"taken of {name}: {join_names(renamed, _MOST_NAMES)}"
            + (f"; left out: {join_names([*left], _MOST_NAMES)}" if left else "")
            + (f"; {note}" if note else ""),
        ),
    )


def _make_values(numbers: Mapping[str, float], first: ForeignResult, average: str = "") -> dict[str, Value]:
    """Make numbers of metrics, with chance by one of ours on a catalogued set of one shape."""
    declared = declared_benchmark(first.benchmark)
    shape, true = (None, 1) if declared is None else (declared.shape, declared.true)
    average = average or f"as {first.tool} averages"
    values = {}
    for name, number in numbers.items():
        metric, chance = METRICS.get(name), None
        if shape is not None and metric is not None and metric.shapes and metric.defined_for(shape, true):
            chance = metric.chance(shape, true)
        values[name] = Value(value=number, chance=chance, method="imported", n=0, clusters=0, average=average)
    return values


#: A part of a set (tag, value); None for all of it.
Part = tuple[str, str] | None

#: Set -> its parts, as a file names them, and their published numbers of items.
_SIZES: dict[str, dict[Part, int]] = {"sugarcrepe": {("subset", name): counts[0] for name, counts in SUBSETS.items()}}

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
    """The content of one result file, by our names where they are ours: `metrics` by part, `names` in the file."""

    tool: str
    version: str
    model: str
    benchmark: str
    task: str
    metrics: Mapping[Part, Mapping[str, float]]
    names: Mapping[str, str]
    left: tuple[str, ...]


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
        return [_clip_benchmark(path, content, model)]
    if isinstance(content, dict) and {"task_name", "scores", "mteb_version"} <= content.keys():
        return [_read_mteb(path, content, model)]
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
    if model is not None and len(models) > 1:
        if model not in models:
            hint = nearest(model, models) or f"; it has {', '.join(sorted(models)[:10])}"
            raise RunError(f"{path} holds no result of {quote(model)}{hint}", path=path, field="model", got=model)
        rows = [(line, row) for line, row in rows if _clip_model(row) == model]
    results = []
    for line, row in rows:
        numbers = {name: number for name, cell in row.items() if (number := _read_cell(cell)) is not None}
        # pandas heads the column of its row numbers with nothing.
        metrics = {name: number for name, number in numbers.items() if name.strip() and name not in _CLIP["fields"]}
        results.append(_clip_benchmark(Path(f"{path}:{line}"), {**row, "metrics": metrics}, model))
    return results


def _read_cell(cell: str) -> float | None:
    with suppress(ValueError):
        return float(cell)
    return None


def _clip_benchmark(path: Path, content: Mapping[str, Any], model: str | None) -> ForeignResult:
    dataset = re.sub(r"^wds[/_]", "", str(content["dataset"]))
    numbers, left = _read_numbers(path, content["metrics"])
    task, language = str(content["task"]), str(content.get("language") or "en")
    # Captions or classes in another language are another set.
    theirs = f"CLIP_benchmark:{dataset}{'' if language == 'en' else f':{language}'}"
    benchmark = _CLIP["sets"].get(dataset, theirs) if language == "en" else theirs
    part, kind = None, _CLIP["tasks"].get(task, task)
    if dataset.startswith("sugar_crepe/"):
        part, benchmark, kind = ("subset", dataset.removeprefix("sugar_crepe/")), "sugarcrepe", "pairs"
        names = _choose_names(path, numbers, _NAMES["first_choice"])
    elif kind == "pairs":
        # Whether the items of an unknown set have two images is not known.
        names = _choose_names(path, numbers, _NAMES["pairs"] if benchmark == "winoground" else {})
    elif kind == "retrieval":
        names = _name_recalls(numbers)
    elif kind == "classification":
        names = {_NAMES["classes"].get(metric, metric): metric for metric in numbers}
    else:
        # A trained probe's accuracy is not a zero-shot model's on the same set.
        benchmark, names = f"{theirs}:{task}", {metric: metric for metric in numbers if metric not in _CLIP["settings"]}
    others = (*(name for name in numbers if name not in names.values()), *left)
    metrics = {part: _take_numbers(path, numbers, names)}
    return ForeignResult("CLIP_benchmark", "", model or _clip_model(content), benchmark, kind, metrics, names, others)


def _clip_model(content: Mapping[str, Any]) -> str:
    """Name model and weights as this package does; of a file of weights, only its name."""
    weights = str(content.get("pretrained") or "")
    if not weights:
        return str(content["model"])
    *folders, file = re.split(r"[/\\]", weights)
    return f"{content['model']}{'@' if folders else '/'}{file}"


def _name_recalls(numbers: Mapping[str, float]) -> dict[str, str]:
    """Return our names of recalls with theirs, which hold the target alone, ours source and target."""
    sides = {"image": "t2i", "text": "i2t"}
    recalls = {_RECALL.sub(lambda found: f"{sides[found[1]]}_recall@{found[2]}", name): name for name in numbers}
    return dict(sorted(recalls.items(), key=lambda item: (item[0].split("@")[0], len(item[0]), item[0])))


def _read_mteb(path: Path, content: Mapping[str, Any], model: str | None) -> ForeignResult:
    task = str(content["task_name"])
    benchmark, kind, named = _WORDS["mteb"].get(task, (f"mteb:{task}", task, ""))
    names = _NAMES.get(named, {})
    scores = content["scores"]
    parts: dict[Part, Mapping[str, float]] = {}
    chosen: dict[str, str] = {}
    others: dict[str, None] = {}
    for split, entries in scores.items() if isinstance(scores, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            numbers, left = _read_numbers(path, entry)
            ours = _choose_names(path, numbers, names)
            parts["hf_subset", f"{split} {entry.get('hf_subset', 'default')}"] = _take_numbers(path, numbers, ours)
            chosen |= ours
            others |= dict.fromkeys((*(name for name in numbers if name not in ours.values()), *left))
    if not parts:
        raise RunError(f"{path} holds no scores")
    # A subset that has a name is not all of the set.
    if len(parts) == 1 and all(part is not None and part[1].endswith(" default") for part in parts):
        parts = {None: next(iter(parts.values()))}
    version = str(content["mteb_version"] or "")
    return ForeignResult("mteb", version, model or _mteb_model(path), benchmark, kind, parts, chosen, tuple(others))


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


def _read_numbers(path: Path, entry: object) -> tuple[dict[str, float], list[str]]:
    """Return the numbers of an object of metrics, and the names left out.

    Left out are values that are no numbers, mteb's `main_score`, which repeats one, and areas under abstention curves.
    """
    if not isinstance(entry, dict):
        raise RunError(f"{path}: expected an object of metrics; got {type(entry).__name__}")
    found = {str(name): float(value) for name, value in entry.items() if type(value) in (int, float)}
    left = [*({_MAIN} & found.keys()), *(name for name in found if name.startswith(_ABSTENTION))]
    numbers = {name: number for name, number in found.items() if name not in left}
    if bad := [name for name, value in numbers.items() if not math.isfinite(value)]:
        raise RunError(f"{path}: {', '.join(bad)} is not finite")
    if not numbers:
        raise RunError(f"{path} holds no number")
    texts = [name for name, value in entry.items() if isinstance(value, str) and _read_cell(value) is not None]
    nulls = [f"{name} ({json.dumps(value)})" for name, value in entry.items() if isinstance(value, bool | None)]
    return numbers, [*nulls, *(f"{name} (a text)" for name in texts), *left]


def _take_numbers(path: Path, numbers: Mapping[str, float], names: Mapping[str, str]) -> dict[str, float]:
    """Return the numbers by our names; each is a share from 0 to 1, or a correlation."""
    metrics = {ours: numbers[theirs] for ours, theirs in names.items()}
    for name, number in metrics.items():
        if not (0 if _SHARE.search(name) else -1) <= number <= 1 + _ROUNDING:
            why = f"is {number:g}, and no share from 0 to 1; if the file holds percent, divide its numbers by 100"
            raise RunError(f"{path}: {names[name]} {why}", path=path, field=names[name], got=number)
    return metrics


def _choose_names(path: Path, numbers: Mapping[str, float], names: Mapping[str, str]) -> dict[str, str]:
    """Return our names of a file's numbers with theirs; a number under our name comes first. Without `names`, all."""
    if not names:
        return {name: name for name in numbers}
    pairs = {ours: theirs for theirs, ours in names.items() if theirs in numbers}
    pairs |= {ours: ours for ours in names.values() if ours in numbers}
    if not pairs:
        raise RunError(f"{path}: none of {', '.join(names)} is among its metrics {', '.join(numbers)}")
    return pairs
