"""Read what other tools log of each item: its id, its answer, and how that tool judged it.

Inspect writes a zip, `.eval`: `header.json`, and `samples/ID_epoch_N.json`; or all of it as one `.json`. lm-eval and
lmms-eval write `samples_TASK_DATE.jsonl`, an object an item, and `results_DATE.json` beside it. VLMEvalKit writes
`MODEL_SET_..._result.xlsx` (or .tsv) with the column `hit`. RewardBench writes an object of columns, `scores_chosen`
and `scores_rejected` among them.

Sources: inspect_ai 0.3 (`log/_recorders/eval.py`); lm_eval 0.4 (`loggers/evaluation_tracker.py`); VLMEvalKit
(`dataset/image_mcq.py`); rewardbench (`scripts/run_rm.py`).
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.data.rows import read_csv, read_jsonl
from tellapart.data.scores import join_names
from tellapart.data.strict_json import decode_text, parse_json, plain_suffix, read_json, read_whole
from tellapart.errors import RunError, quote, require
from tellapart.evaluation.evaluate import tabulate_units, yield_samples
from tellapart.metrics.per_item import PerItem
from tellapart.records.result import IMPORTED, BenchmarkResult
from tellapart.records.samples import write_samples
from tellapart.report.templates import write_lines
from tellapart.tasks.task import Unit, Units

#: Of a log: the most bytes of one sample, and of all of them together.
_MOST_SAMPLE, _MOST_BYTES = 1 << 26, 1 << 32

#: What a mean of shares may differ from the tool's by, in float32.
_ROUNDING = 1e-6

#: Inspect's values of an answer: correct, incorrect, partial, none.
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}

_SAMPLE_FILE = re.compile(r"samples/(?P<id>.+)_epoch_(?P<epoch>\d+)\.json")
_SAMPLES_NAME = re.compile(
    r"(?:(?P<before>\d{8}_\d{6})_)?samples_(?P<task>.+?)(?:_(?P<after>\d{4}-\d\d-\d\dT[\d.:-]+))?"
)

#: The fields of a row of lm-eval and lmms-eval that are no judgement.
_ROW_FIELDS = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
     "target_hash", "input", "token_counts"}
)  # fmt: skip


#: Metrics of lm-eval's registry and lmms-eval's that are best low; a results file names those of each task, too.
_LOWER = frozenset(
    {"perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "brier_score", "ter", "wer", "cer"}
)


@dataclass(frozen=True, slots=True)
class LoggedItem:
    """One item of a log: its content is the question and the right answer, for the fingerprint of the set.

    Names of outcomes begin with the tool's; scores are of a chosen and a rejected answer, if the tool has them.
    """

    id: str
    content: str
    outcomes: Mapping[str, float]
    output: Any = None
    gold: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Log:
    """A log of one model on one set, its items several times if answered often; `stated` are the tool's means."""

    tool: str
    version: str
    model: str
    benchmark: str
    items: tuple[LoggedItem, ...]
    stated: Mapping[str, float] = field(default_factory=dict)
    left: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """A digest of what was asked: equal for two logs of the same items, judged by the same metrics."""
        parts = sorted({(item.id, item.content, *sorted(item.outcomes)) for item in self.items})
        return hashlib.sha256(json.dumps([self.tool, parts]).encode()).hexdigest()

    def units(self) -> Units:
        """Return the items with their values, those of several answers averaged; the item is the unit of resampling."""
        groups = [[*group] for _, group in groupby(sorted(self.items, key=lambda item: item.id), lambda item: item.id)]
        names = sorted({name for item in self.items for name in item.outcomes})
        if not groups or not names:
            raise RunError(f"the log of {self.benchmark} holds no item that {self.tool} judged")
        if torn := next((item for item in self.items if item.outcomes.keys() != {*names}), None):
            raise RunError(f"item {quote(torn.id)} of {self.benchmark} lacks {', '.join({*names} - {*torn.outcomes})}")
        if mixed := next((group[0].id for group in groups if len({item.content for item in group}) > 1), None):
            why = "two questions have this id, and are no answers to average; repair the log"
            raise RunError(f"item {quote(mixed)} of {self.benchmark}: {why}")
        table = np.array([[np.mean([item.outcomes[name] for item in group]) for name in names] for group in groups])
        units = tuple(_make_unit(group) for group in groups)
        values = tuple(
            PerItem(name=name, strict=column, binary=bool(np.isin(column, (0, 1)).all()), bounds=bounds)
            for name, column in zip(names, table.T, strict=True)
            for bounds in [(0.0, 1.0) if column.min() >= 0 and column.max() <= 1 else None]
        )
        return Units("item", units, values)


def write_log(log: Log, path: Path, folder: Path) -> BenchmarkResult:
    """Write a log's samples into a run folder and return its record: numbers with intervals, marked as imported."""
    units = log.units()
    table = tabulate_units([units])
    often = max(Counter(item.id for item in log.items).values())
    differs = [name for name, value in log.stated.items()
               if name in table.metrics and abs(value - table.metrics[name].value) > _ROUNDING]  # fmt: skip
    facts = {"often": often, "left": join_names([*log.left], 8), "differs": differs}
    return BenchmarkResult(
        title=f"{log.benchmark.partition(':')[2] or log.benchmark}, judged by {log.tool}",
        fingerprint=f"{IMPORTED}{log.fingerprint}",
        task=log.tool,
        origin=path.name,
        samples=write_samples(folder, log.benchmark, yield_samples(units)),
        notes=write_lines("logged", log=log, **facts),
        **{name: getattr(table, name) for name in ("metrics", "by", "macro")},
    )


def _make_unit(group: Sequence[LoggedItem]) -> Unit:
    first, outputs = group[0], [item.output for item in group]
    output = outputs[0] if len(outputs) == 1 else outputs
    scores = (first.scores,) if first.scores and len(group) == 1 else ()
    return Unit(id=first.id, cluster=first.id, tags=first.tags, scores=scores, output=output, gold=first.gold)


def read_log(path: Path, model: str | None = None) -> Log | None:
    """Read a log of items; None if the file is none."""
    readers: Mapping[str, Callable[[], Log | None]] = {
        ".eval": lambda: _read_inspect(path, _unpack(path), model),
        ".jsonl": lambda: _read_harness(path, model),
        ".xlsx": lambda: _read_vlmevalkit(path, _sheet_rows(path), model),
        ".tsv": lambda: _read_vlmevalkit(path, read_csv(path), model),
    }
    if (suffix := plain_suffix(path)) != ".json":
        return readers[suffix]() if suffix in readers else None
    content = read_json(path, error=RunError, nan=True)
    if isinstance(content, dict) and {"eval", "samples"} <= content.keys():
        return _read_inspect(path, content, model)
    if isinstance(content, dict) and {"scores_chosen", "scores_rejected"} <= content.keys():
        return _read_rewardbench(path, content, model)
    return None


def _unpack(path: Path) -> dict[str, Any]:
    """Return the header of a zip of Inspect's, with its samples; nothing is written to the disk."""
    # Inspect compresses by zstd, which `zipfile` reads from Python 3.14 on.
    reader: Any = zipfile if sys.version_info >= (3, 14) else require("backports.zstd.zipfile", extra="logs")
    try:
        with reader.ZipFile(io.BytesIO(read_whole(path, error=RunError))) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            if sum(entry.file_size for entry in entries.values()) > _MOST_BYTES:
                raise RunError(f"{path}: its samples have more than {_MOST_BYTES >> 30} GiB", path=path)
            if "header.json" not in entries:
                raise RunError(f"{path} has no header.json: the evaluation has not ended; run it to its end", path=path)

            def load(name: str) -> Any:
                if entries[name].file_size > _MOST_SAMPLE:
                    raise RunError(f"{path}: {name} has more than {_MOST_SAMPLE >> 20} MiB", path=path)
                with archive.open(name) as file:
                    return parse_json(decode_text(file.read(_MOST_SAMPLE), name), f"{path}:{name}", nan=True)

            samples = [load(name) for name in sorted(entries) if _SAMPLE_FILE.fullmatch(name)]
            return {**load("header.json"), "samples": samples}
    except (reader.BadZipFile, NotImplementedError, OSError, EOFError) as error:
        raise RunError(f"{path} cannot be read as Inspect's .eval: {error}", path=path) from error


def _read_inspect(path: Path, content: Mapping[str, Any], model: str | None) -> Log:
    header = _object(content.get("eval"), path, "eval")
    if content.get("status") != "success":
        why = f"its status is {quote(content.get('status'))}; run it again, or `inspect eval-retry` it"
        raise RunError(f"{path}: the evaluation did not succeed: {why}", path=path, field="status")
    items = []
    for sample in content.get("samples") or ():
        place = f"{path}: sample {quote(sample.get('id'))}"
        outcomes = {
            f"inspect:{name}": number
            for scorer, score in (sample.get("scores") or {}).items()
            for name, number in _grade(scorer, _object(score, path, scorer).get("value"), place)
        }
        text, target = (json.dumps(sample.get(name), ensure_ascii=False) for name in ("input", "target"))
        gold = sample["target"] if isinstance(sample.get("target"), str) else target
        answer, metadata = (sample.get("output") or {}).get("completion"), sample.get("metadata") or {}
        tags = {name: str(value) for name, value in metadata.items()
                if isinstance(value, str | bool | int) and 0 < len(str(value)) <= 80}  # fmt: skip
        items.append(LoggedItem(str(sample.get("id")), text + target, outcomes, answer, gold, tags))
    stated: dict[str, Any] = {}
    for score in (content.get("results") or {}).get("scores") or ():
        # Of a scorer that gives several values, each has the scorer's name before it.
        names = (f"inspect:{score['name']}", f"inspect:{score.get('scorer')}/{score['name']}")
        for metric in (score.get("metrics") or {}).values():
            if metric.get("name") in ("accuracy", "mean"):
                stated |= dict.fromkeys(names, metric["value"])
    version = str((header.get("packages") or {}).get("inspect_ai", ""))
    name, benchmark = model or str(header.get("model")), f"inspect:{header.get('task')}"
    return Log("inspect", version, name, benchmark, tuple(items), stated)


def _grade(scorer: str, value: object, place: str) -> Iterator[tuple[str, float]]:
    """Yield the numbers of one score: of an object of values, one each."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _grade(f"{scorer}/{name}", inner, place)
        return
    if isinstance(value, str) and value in _GRADES:
        yield scorer, _GRADES[value]
    elif isinstance(value, bool | int | float) and math.isfinite(value):
        yield scorer, float(value)
    else:
        raise RunError(f"{place}: {scorer} judged it {quote(value)}: expected C, I, P, N or a number", field=scorer)


def _object(value: object, path: Path, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RunError(f"{path}: field {name!r}: expected an object, got {quote(value)}", path=path, field=name)
    return value


def _read_harness(path: Path, model: str | None) -> Log | None:
    """Read the samples of lm-eval, which name their metrics, or of lmms-eval, which do not."""
    rows = [*read_jsonl(path, nan=True)]
    if not rows or not {"doc_id", "target"} <= rows[0][1].keys():
        return None
    tool = "lm-eval" if "metrics" in rows[0][1] else "lmms-eval"
    filters = {row.get("filter") for _, row in rows}
    name = _SAMPLES_NAME.fullmatch(path.name.removesuffix(".gz").removesuffix(".jsonl"))
    task, date = (name["task"], name["before"] or name["after"] or "") if name else (path.stem, "")
    results = _results_beside(path, task, date)
    stated_directions = results.get("higher_is_better")
    directions = stated_directions.get(task) if isinstance(stated_directions, dict) else None
    directions = directions if isinstance(directions, dict) else {}
    lower = {metric for metric, higher in directions.items() if higher is False} | (_LOWER - directions.keys())
    items: list[LoggedItem] = []
    left: dict[str, None] = {}
    for line, row in rows:
        names = row["metrics"] if tool == "lm-eval" else [name for name in row if name not in _ROW_FIELDS]
        numbers = {name: row.get(name) for name in names}
        suffix = f",{row['filter']}" if len(filters) > 1 else ""
        finite = {name for name, value in numbers.items() if isinstance(value, int | float) and math.isfinite(value)}
        outcomes = {f"{tool}:{name}{suffix}": float(row[name]) for name in numbers if name in finite - lower}
        left |= dict.fromkeys(name for name in numbers if name not in finite)
        # Comparisons and gates take the higher value for the better one.
        left |= dict.fromkeys(f"{name} (lower is better)" for name in names if name in lower)
        if not outcomes:
            if low := [name for name in names if name in lower]:
                raise RunError(
                    f"{path}:{line}: the numbers of {tool} here are best low ({join_names(low)}), and comparisons take "
                    "metrics that are best high; log such a metric, too, for example its opposite",
                    path=path,
                    line=line,
                )
            why = f"none of {', '.join(numbers) or 'its fields'} is a number of this item, and better the higher it is"
            raise RunError(f"{path}:{line}: {tool} did not judge it: {why}", path=path, line=line)
        content = str(row.get("doc_hash") or json.dumps(row.get("doc"), sort_keys=True))
        answer = row.get("filtered_resps") or row.get("resps")
        items.append(LoggedItem(str(row["doc_id"]), content, outcomes, answer, str(row["target"])))
    merged = _merge_filters(items) if len(filters) > 1 else items
    stated = _read_aggregates(results, task, tool, several=len(filters) > 1)
    if not (model := model or _name_model(results)):
        raise RunError(f"{path} does not name its model, and no results file lies in its folder; give model=NAME")
    version = str(results.get("lm_eval_version") or "")
    return Log(tool, version, model, f"{tool}:{task}", tuple(merged), stated, tuple(left))


def _merge_filters(items: Iterable[LoggedItem]) -> list[LoggedItem]:
    """Return each answer of an item, filtered in several ways, as one item with all of its outcomes."""
    merged: dict[tuple[str, int], LoggedItem] = {}
    answers: Counter[tuple[str, ...]] = Counter()
    for item in items:
        answers[filtered := (item.id, *item.outcomes)] += 1
        other = merged.setdefault(key := (item.id, answers[filtered]), item)
        merged[key] = replace(item, outcomes={**other.outcomes, **item.outcomes}, output=other.output)
    return [*merged.values()]


def _results_beside(path: Path, task: str, date: str) -> Mapping[str, Any]:
    """Return the results file in the same folder that has the task, of the same date first; empty without one."""
    for file in sorted(path.parent.glob("*results*.json"), key=lambda file: (date not in file.name, file.name)):
        content = read_json(file, error=RunError, nan=True)
        if isinstance(content, dict) and task in (content.get("results") or {}):
            return content
    return {}


def _read_aggregates(results: Mapping[str, Any], task: str, tool: str, *, several: bool) -> dict[str, float]:
    """Return the tool's means of a task, by our names of its metrics."""
    stated = {}
    for key, value in (results.get("results") or {}).get(task, {}).items():
        metric, _, used = key.partition(",")
        if isinstance(value, int | float):
            stated[f"{tool}:{key if several else metric}"] = float(value)
        if used == "none" and several:
            stated[f"{tool}:{metric},none"] = float(value)
    return stated


def _name_model(results: Mapping[str, Any]) -> str:
    config = results.get("config") or {}
    arguments = config.get("model_args")
    pretrained = arguments.get("pretrained") if isinstance(arguments, dict) else None
    return str(results.get("model_name") or pretrained or config.get("model") or results.get("model_source") or "")


def _sheet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of the first sheet, with their numbers."""
    openpyxl = require("openpyxl", extra="logs")
    data = io.BytesIO(read_whole(path, error=RunError))
    try:
        rows = openpyxl.load_workbook(data, read_only=True, data_only=True).worksheets[0].iter_rows(values_only=True)
        names = [str(name) for name in next(rows, ())]
        for number, row in enumerate(rows, start=2):
            yield number, {name: "" if value is None else value for name, value in zip(names, row, strict=False)}
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise RunError(f"{path} cannot be read as a sheet: {error}", path=path) from error


def _read_vlmevalkit(path: Path, rows: Iterable[tuple[int, Mapping[str, Any]]], model: str | None) -> Log | None:
    table = [*rows]
    if not table or not {"index", "prediction"} <= table[0][1].keys():
        return None
    if "hit" not in table[0][1]:
        why = "it has no column `hit`: evaluate these predictions, and take the file that ends in _result"
        raise RunError(f"{path} holds predictions that VLMEvalKit has not judged: {why}", path=path, field="hit")
    items = []
    for line, row in table:
        hit = math.nan
        with suppress(ValueError, TypeError):
            hit = float(row["hit"])
        if not 0 <= hit <= 1:
            message = f"{path}:{line}: field 'hit': expected 0 or 1, got {quote(row['hit'])}"
            raise RunError(message, path=path, line=line, field="hit")
        tags = {name: str(row[name]) for name in ("category", "l2-category", "split") if row.get(name)}
        question, gold = (str(row.get(name, "")) for name in ("question", "answer"))
        content = json.dumps([question, gold], ensure_ascii=False)
        items.append(
            LoggedItem(str(row["index"]), content, {"vlmevalkit:hit": hit}, str(row["prediction"]), gold, tags)
        )
    stem = re.sub(r"(_result)?\.(xlsx|tsv)(\.gz)?$", "", path.name, flags=re.IGNORECASE)
    # Names of models have "_", too; VLMEvalKit writes into MODEL/DATE/.
    folders = [folder.name for folder in path.absolute().parents[:2]]
    names = [name for name in (model or "", *folders) if name and stem.startswith(f"{name}_")]
    model_name = max(names, key=len, default=stem.partition("_")[0])
    rest = stem[len(model_name) + 1 :]
    if not (model or names or rest[:1].isupper()):
        why = "and no folder of its name holds it; give model=NAME, as the file has it"
        raise RunError(f"{path} does not show where the name of its model ends, {why}", path=path)
    return Log("vlmevalkit", "", model or model_name, f"vlmevalkit:{rest or stem}", tuple(items))


def _read_rewardbench(path: Path, content: Mapping[str, Any], model: str | None) -> Log:
    names = ("id", "subset", "prompt", "text_chosen", "text_rejected", "results", "scores_chosen", "scores_rejected")
    columns = {name: content[name] for name in names if isinstance(content.get(name), list)}
    lengths = {name: len(column) for name, column in columns.items()}
    if not {"scores_chosen", "scores_rejected"} <= lengths.keys() or len({*lengths.values()}) != 1:
        raise RunError(f"{path}: expected columns of one length; got {lengths}", path=path)
    if not (name := model or content.get("model")):
        raise RunError(f"{path} does not name its model; give model=NAME", path=path, field="model")
    items = []
    for number in range(lengths["scores_chosen"]):
        row = {name: column[number] for name, column in columns.items()}
        pair = (_number(row["scores_chosen"]), _number(row["scores_rejected"]))
        if not all(map(math.isfinite, pair)):
            raise RunError(f"{path}: row {number}: expected two numbers, got {quote(list(pair))}", path=path)
        # Judged by the tool if its file has results; else the chosen answer needs the higher score.
        right = _number(row["results"]) if "results" in row else float(pair[0] > pair[1])
        if not 0 <= right <= 1:
            raise RunError(f"{path}: row {number}: results: expected 0 or 1, got {quote(row['results'])}", path=path)
        texts = [str(row.get(key, "")) for key in ("prompt", "text_chosen", "text_rejected")]
        id_, asked = f"{row.get('subset', '')}/{row.get('id', number)}", json.dumps(texts, ensure_ascii=False)
        tags = {"subset": str(row["subset"])} if "subset" in row else {}
        items.append(LoggedItem(id_, asked, {"rewardbench:results": right}, None, "chosen", tags, pair))
    return Log("rewardbench", "", str(name), "rewardbench", tuple(items))


def _number(value: object) -> float:
    """Return a score, of a list with one number that number (its models write either)."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return float(value) if isinstance(value, int | float) else math.nan
