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
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, compress, groupby
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.data.rows import read_csv, read_jsonl
from tellapart.data.scores import join_names
from tellapart.data.strict_json import decode_text, first_repeated, parse_json, plain_suffix, read_json, read_whole
from tellapart.errors import RunError, quote, require
from tellapart.evaluation.evaluate import tabulate_units, yield_samples
from tellapart.metrics.per_item import PerItem
from tellapart.records.result import IMPORTED, BenchmarkResult, Sample
from tellapart.records.samples import write_samples
from tellapart.report.templates import write_lines
from tellapart.tasks.task import Unit, Units

#: Of a log: the most bytes of one sample, and of all of them together.
_MOST_SAMPLE, _MOST_BYTES = 1 << 26, 1 << 32

#: Errors of reading a zip that is damaged, or encrypted.
_TORN = (zipfile.BadZipFile, OSError, EOFError, RuntimeError, ValueError, LookupError, zlib.error)

#: What a mean of shares may differ from the tool's by, in float32.
_ROUNDING = 1e-6

#: Inspect's values of an answer: correct, incorrect, partial, none; and words, in any case (its `value_to_float`).
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}

#: lmms-eval's hash of every document, which is no hash of one: that of JSON's null.
_NO_HASH = hashlib.sha256(b"null").hexdigest()
#: An object in memory, such as a picture, as lm-eval writes it into its rows: its address differs in every run.
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+(?=>)")

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

    Names of outcomes begin with the tool's; an answer that a metric did not judge has none of it. Scores are of a
    chosen and a rejected answer, if the tool has them.
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
    """A log of one model on one set, its items several times if answered often; `stated` are the tool's means.

    `unread` has a judgement that is no number, for each metric with such. `full` is the set's number of items; 0 if it
    is not stated.
    """

    tool: str
    version: str
    model: str
    benchmark: str
    items: tuple[LoggedItem, ...]
    stated: Mapping[str, float] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    full: int = 0

    @property
    def names(self) -> list[str]:
        """The metrics that judged an answer."""
        return sorted({name for item in self.items for name in item.outcomes})

    @property
    def unjudged(self) -> dict[str, int]:
        """The number of answers that a metric did not judge, if there are any, by metric."""
        counts = Counter(name for item in self.items for name in item.outcomes)
        return {name: len(self.items) - counts[name] for name in self.names if counts[name] < len(self.items)}

    @property
    def fingerprint(self) -> str:
        """A digest of what was asked: equal for two logs of the same items, judged by the same metrics."""
        parts = sorted({(item.id, item.content) for item in self.items})
        return hashlib.sha256(json.dumps([self.tool, self.names, parts]).encode()).hexdigest()

    def units(self) -> list[Units]:
        """Return the items with their values, those of several answers averaged; the item is the unit of resampling.

        Metrics that judged the same items are together, and have the values of these items alone.
        """
        groups = [[*group] for _, group in groupby(sorted(self.items, key=lambda item: item.id), lambda item: item.id)]
        names = self.names
        if not groups or not names:
            example = next((f"; {name} judged {judged}" for name, judged in self.unread.items()), "")
            raise RunError(f"the log of {self.benchmark} holds no item that {self.tool} judged{example}")
        if mixed := next((group[0].id for group in groups if len({item.content for item in group}) > 1), None):
            why = "two questions have this id, and are no answers to average; repair the log"
            raise RunError(f"item {quote(mixed)} of {self.benchmark}: {why}")
        units = tuple(_make_unit(group) for group in groups)
        values: dict[tuple[bool, ...], list[PerItem]] = {}
        for name in names:
            judged = [[item.outcomes[name] for item in group if name in item.outcomes] for group in groups]
            column = np.array([np.mean(numbers) for numbers in judged if numbers])
            bounds = (0.0, 1.0) if column.min() >= 0 and column.max() <= 1 else None
            binary = bool(np.isin(column, (0, 1)).all())
            of = values.setdefault(tuple(map(bool, judged)), [])
            of.append(PerItem(name=name, strict=column, binary=binary, bounds=bounds))
        return [Units("item", tuple(compress(units, has)), tuple(of), units) for has, of in values.items()]


def write_log(log: Log, path: Path, folder: Path) -> BenchmarkResult:
    """Write a log's samples into a run folder and return its record: numbers with intervals, marked as imported."""
    units = log.units()
    table = tabulate_units(units)
    items = len(units[0].asked)
    limited = log.full > items
    often = max(Counter(item.id for item in log.items).values())
    differs = [name for name, value in log.stated.items()
               if name in table.metrics and abs(value - table.metrics[name].value) > _ROUNDING]  # fmt: skip
    wide = {of.name: (of.strict.min(), of.strict.max()) for part in units for of in part.values if of.bounds is None}
    facts = {"often": often, "left": join_names([*log.left], 8), "differs": differs, "wide": wide}
    return BenchmarkResult(
        title=f"{log.benchmark.partition(':')[2] or log.benchmark}, judged by {log.tool}",
        fingerprint=f"{IMPORTED}{log.fingerprint}",
        task=log.tool,
        origin=path.name,
        samples=write_samples(folder, log.benchmark, _join_outcomes(units)),
        notes=write_lines("logged", log=log, **facts),
        metrics=dict(sorted(table.metrics.items())),
        by=table.by,
        macro=table.macro,
        limited_from=log.full if limited else None,
        limited_to=items if limited else None,
    )


def _join_outcomes(units: Iterable[Units]) -> Iterator[Sample]:
    """Yield the sample of each item, with the outcomes of all metrics that judged it."""
    for samples in zip(*map(yield_samples, units), strict=True):
        outcomes = sorted(chain.from_iterable(sample.outcomes.items() for sample in samples))
        yield replace(samples[0], outcomes=dict(outcomes))


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
            return {**_take({"header": load("header.json")}, "header", dict, path), "samples": samples}
    except (*_TORN, reader.BadZipFile, getattr(reader.zstd, "ZstdError", EOFError)) as error:
        raise RunError(f"{path} cannot be read as Inspect's .eval: {error}", path=path) from error


def _read_inspect(path: Path, content: Mapping[str, Any], model: str | None) -> Log:
    header = _take(content, "eval", dict, path)
    if content.get("status") != "success":
        why = f"its status is {quote(content.get('status'))}; run it again, or `inspect eval-retry` it"
        raise RunError(f"{path}: the evaluation did not succeed: {why}", path=path, field="status")
    if not (name := model or header.get("model")):
        raise RunError(f"{path} does not name its model; give model=NAME", path=path, field="model")
    items, unread, seen = dict[tuple[str, str], LoggedItem](), dict[str, str](), dict[str, None]()
    for number, sample in enumerate(_take(content, "samples", list, path)):
        if not isinstance(sample, dict) or type(sample.get("id")) not in (str, int):
            why = f"expected an object with an `id`, a text or a whole number; got {quote(sample)}"
            raise RunError(f"{path}: sample {number}: {why}", path=path, field="id")
        id_, place = str(sample["id"]), f"{path}: sample {quote(sample['id'])}"
        scores, output, metadata = (_take(sample, part, dict, path, place) for part in ("scores", "output", "metadata"))
        outcomes = {}
        for scorer in scores:
            for metric, value in _flatten(f"inspect:{scorer}", _take(scores, scorer, dict, path, place).get("value")):
                seen[metric] = None
                if math.isfinite(grade := _read_grade(value)):
                    outcomes[metric] = grade
                elif isinstance(value, str | list):  # null and NaN mark an answer as unscored
                    unread.setdefault(metric, f"sample {quote(sample['id'])} {quote(value)}")
        asked = [_drop_ids(sample.get("input")), *([sample["choices"]] if sample.get("choices") else [])]
        text, target = (json.dumps(part, ensure_ascii=False) for part in (asked, sample.get("target")))
        gold = sample["target"] if isinstance(sample.get("target"), str) else target
        tags = {name: str(value) for name, value in metadata.items()
                if isinstance(value, str | bool | int) and 0 < len(str(value)) <= 80}  # fmt: skip
        if (key := (id_, str(sample.get("epoch", number)))) in items:
            raise RunError(f"{place} is there twice in epoch {key[1]}; repair the log", path=path, field="epoch")
        items[key] = LoggedItem(id_, text + target, outcomes, output.get("completion"), gold, tags)
    version = str(_take(header, "packages", dict, path).get("inspect_ai", ""))
    stated = _read_stated(path, _take(content, "results", dict, path))
    judged = {metric for item in items.values() for metric in item.outcomes}
    # A scorer of several values may mark an answer as unscored by one NaN, under its name alone.
    left = [name for name in seen if not any(f"{metric}/".startswith(f"{name}/") for metric in judged)]
    full, benchmark = _find_count(header, "dataset", "samples"), f"inspect:{header.get('task')}"
    return Log("inspect", version, str(name), benchmark, (*items.values(),), stated, (*left,), unread, full)


def _read_stated(path: Path, results: Mapping[str, Any]) -> dict[str, float]:
    """Return Inspect's means by our names; of several ways to reduce an item's answers, the mean's."""
    stated: dict[str, float] = {}
    scores = [score for score in _take(results, "scores", list, path) if isinstance(score, dict)]
    for score in sorted(scores, key=lambda score: score.get("reducer") in (None, "mean")):
        # Of a scorer that gives several values, each has the scorer's name before it.
        names = (f"inspect:{score.get('name')}", f"inspect:{score.get('scorer')}/{score.get('name')}")
        for metric in _take(score, "metrics", dict, path).values():
            value = _find(metric, "value") if _find(metric, "name") in ("accuracy", "mean") else None
            if isinstance(value, int | float):
                stated |= dict.fromkeys(names, value)
    return stated


def _find(value: Any, *keys: str) -> Any:
    """Return what is under these keys of objects in objects; None if it is not there."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _find_count(value: Any, *keys: str) -> int:
    count = _find(value, *keys)
    return count if isinstance(count, int) else 0


def _drop_ids(asked: object) -> object:
    """Return a question without the ids of its messages, which differ in every run of Inspect."""
    messages = asked if isinstance(asked, list) else []
    return [{**message, "id": None} if isinstance(message, dict) else message for message in messages] or asked


def _flatten(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the judgement of a scorer with its name: of an object of values, each of them."""
    if not isinstance(value, dict):
        yield name, value
        return
    for part, inner in value.items():
        yield from _flatten(f"{name}/{part}", inner)


def _read_grade(value: Any) -> float:
    """Return a judgement of Inspect as a number; NaN if it is none."""
    if isinstance(value, str):
        value = _GRADES.get(value, _WORDS.get(value.lower(), value))
    with suppress(ValueError, TypeError, OverflowError):
        return float(value)
    return math.nan


def _take(of: Mapping[str, Any], name: str, kind: type, path: Path, place: str = "", line: int | None = None) -> Any:
    """Return a field of an object of a log; it is empty if it is missing or null."""
    if (value := of.get(name)) is None:
        return kind()
    if not isinstance(value, kind):
        what = "an object" if kind is dict else "a list"
        message = f"{place or path}: field {name!r}: expected {what}, got {quote(value)}"
        raise RunError(message, path=path, line=line, field=name)
    return value


def _read_harness(path: Path, model: str | None) -> Log | None:
    """Read the samples of lm-eval, which name their metrics or (before 0.4.7) hash the prompt, or of lmms-eval."""
    rows = [*read_jsonl(path, nan=True)]
    if not rows or not {"doc_id", "target"} <= rows[0][1].keys():
        return None
    named = "metrics" in rows[0][1]
    tool = "lm-eval" if named or "prompt_hash" in rows[0][1] else "lmms-eval"
    needed = ("doc_id", "target", *(["metrics"] if named else []))
    filters = {str(row.get("filter")) for _, row in rows}
    name = _SAMPLES_NAME.fullmatch(path.name.removesuffix(".gz").removesuffix(".jsonl"))
    task, date = (name["task"], name["before"] or name["after"] or "") if name else (path.stem, "")
    results = _results_beside(path, task, date)
    directions = _find(results, "higher_is_better", task)
    directions = directions if isinstance(directions, dict) else {}
    lower = {metric for metric, higher in directions.items() if higher is False} | (_LOWER - directions.keys())
    if tool == "lm-eval" and not named and (twice := first_repeated(str(row.get("doc_id")) for _, row in rows)):
        why = "of answers that were filtered in several ways, this version does not say which is which; log with 0.4.7"
        raise RunError(f"{path}: doc_id {twice} is in several rows: {why} or newer", path=path, field="doc_id")
    items: list[tuple[str, LoggedItem]] = []
    judged, left = set[str](), dict[str, None]()
    for line, row in rows:
        if lacking := [field for field in needed if field not in row]:
            message = f"{path}:{line}: field {lacking[0]!r} is missing, and other rows have it"
            raise RunError(message, path=path, line=line, field=lacking[0])
        listed = _take(row, "metrics", list, path, f"{path}:{line}", line)
        names = [*map(str, listed)] if named else [name for name in row if name not in _ROW_FIELDS]
        numbers = {name: row.get(name) for name in names}
        suffix = f",{row.get('filter')}" if len(filters) > 1 else ""
        finite = {name for name, value in numbers.items() if isinstance(value, int | float) and math.isfinite(value)}
        outcomes = {f"{tool}:{name}{suffix}": float(row[name]) for name in numbers if name in finite - lower}
        judged |= finite - lower
        left |= dict.fromkeys(name for name in numbers if name not in finite)
        # Comparisons and gates take the higher value for the better one.
        left |= dict.fromkeys(f"{name} (lower is better)" for name in names if name in lower)
        if not outcomes:
            of = ", ".join(numbers) or "its fields"
            why = f"{tool} did not judge it: none of {of} is a number of this item, and better the higher it is"
            if low := [name for name in names if name in lower]:
                why = f"the numbers of {tool} here are best low ({join_names(low)}), and comparisons take metrics that "
                why += "are best high; log such a metric, too, for example its opposite"
            raise RunError(f"{path}:{line}: {why}", path=path, line=line)
        answer = row.get("filtered_resps") or row.get("resps")
        item = LoggedItem(str(row["doc_id"]), _read_question(row), outcomes, answer, str(row["target"]))
        items.append((str(row.get("filter")), item))
    merged = _merge_filters(items) if len(filters) > 1 else [item for _, item in items]
    stated = _read_aggregates(results, task, tool, several=len(filters) > 1)
    if not (model := model or _name_model(results)):
        raise RunError(f"{path} does not name its model, and no results file lies in its folder; give model=NAME")
    version = str(results.get("lm_eval_version") or "")
    full = _find_count(results, "n-samples", task, "original")
    never = tuple(name for name in left if name not in judged)
    return Log(tool, version, model, f"{tool}:{task}", tuple(merged), stated, never, full=full)


def _read_question(row: Mapping[str, Any]) -> str:
    """Return what tells a row's question and right answer from others: its hash, or its content if that has none."""
    asked, document = str(row.get("doc_hash") or ""), json.dumps(row.get("doc"), sort_keys=True)
    if _ADDRESS.search(document):
        asked = _ADDRESS.sub("", document)
    elif asked in ("", _NO_HASH):
        asked = json.dumps([row.get("doc"), row.get("input")], sort_keys=True)
    return f"{asked} {row['target']}"


def _merge_filters(items: Iterable[tuple[str, LoggedItem]]) -> list[LoggedItem]:
    """Return each answer of an item, filtered in several ways, as one item with all of its outcomes."""
    merged: dict[tuple[str, int], LoggedItem] = {}
    answers: Counter[tuple[str, str]] = Counter()
    for name, item in items:
        answers[filtered := (item.id, name)] += 1
        other = merged.setdefault(key := (item.id, answers[filtered]), item)
        merged[key] = replace(item, outcomes={**other.outcomes, **item.outcomes}, output=other.output)
    return [*merged.values()]


def _results_beside(path: Path, task: str, date: str) -> Mapping[str, Any]:
    """Return the results file in the same folder that has the task, of the same date first; empty without one."""
    for file in sorted(path.parent.glob("*results*.json"), key=lambda file: (date not in file.name, file.name)):
        content = read_json(file, error=RunError, nan=True)
        if isinstance(content, dict) and isinstance(_find(content, "results", task), dict):
            return content
    return {}


def _read_aggregates(results: Mapping[str, Any], task: str, tool: str, *, several: bool) -> dict[str, float]:
    """Return the tool's means of a task, by our names of its metrics."""
    stated = {}
    for key, value in (_find(results, "results", task) or {}).items():
        if isinstance(value, int | float):
            stated[f"{tool}:{key if several else key.partition(',')[0]}"] = float(value)
    return stated


def _name_model(results: Mapping[str, Any]) -> str:
    places = [("model_name",), ("config", "model_args", "pretrained"), ("config", "model"), ("model_source",)]
    return str(next(filter(None, (_find(results, *keys) for keys in places)), ""))


def _sheet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of the first sheet, with their numbers."""
    openpyxl = require("openpyxl", extra="logs")
    data = io.BytesIO(read_whole(path, error=RunError))
    try:
        rows = openpyxl.load_workbook(data, read_only=True, data_only=True).worksheets[0].iter_rows(values_only=True)
        names = [str(name) for name in next(rows, ())]
        for number, row in enumerate(rows, start=2):
            yield number, {name: "" if value is None else value for name, value in zip(names, row, strict=False)}
    except _TORN as error:
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
        options = [str(option) for name, option in row.items() if re.fullmatch("[A-Z]", name) and option != ""]
        content = json.dumps([question, gold, *options], ensure_ascii=False)
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
