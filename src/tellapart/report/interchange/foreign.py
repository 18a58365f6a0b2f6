"""Result files of CLIP_benchmark and mteb, read as what they say: no interval, no items, their own tie rule.

CLIP_benchmark writes one object: `dataset`, `model`, `pretrained`, `task`, `metrics`, `language` (its `cli.py`). mteb writes one
file a task: `task_name`, `mteb_version`, and `scores`, from a split to a list with an object a subset; the model's name stands
in `model_meta.json` beside it, and in the folders `ORG__MODEL/REVISION`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.errors import RunError

__all__ = ["Foreign", "read_foreign"]

_PAIRS = {"text_acc": "text_score", "image_acc": "image_score", "acc": "group_score", "accuracy": "group_score"}

#: Sets with one image: the tools' own image accuracy compares nothing there (CLIP_benchmark always has 1, mteb 0).
_CHOICE = {"text_acc": "choice_score"}

_CLASSES = {"acc1": "top1_accuracy", "acc5": "top5_accuracy"}

#: Numbers among CLIP_benchmark's metrics of a trained probe that say how it was trained.
_SETTINGS = frozenset({"lr", "wd", "epochs", "seed", "fewshot_k"})

#: CLIP_benchmark's name -> ours, where it is the same set.
_CLIP_SETS = {
    "winoground": "winoground",
    "mscoco_captions": "coco-retrieval",
    "flickr30k": "flickr30k-retrieval",
    "imagenet1k": "imagenet",
    "cifar10": "cifar10",
    "cifar100": "cifar100",
}

#: mteb's task -> our name of the set, our word for the task, and our names of its metrics.
_MTEB_TASKS = {
    "Winoground": ("winoground", "pairs", _PAIRS),
    "SugarCrepe": ("sugarcrepe", "pairs", _CHOICE),
    "AROCocoOrder": ("aro-coco-order", "pairs", _CHOICE),
    "AROFlickrOrder": ("aro-flickr-order", "pairs", _CHOICE),
    "AROVisualRelation": ("aro-relation", "pairs", _CHOICE),
    "AROVisualAttribution": ("aro-attribution", "pairs", _CHOICE),
    **{
        f"{theirs}ZeroShot": (ours, "classification", {"accuracy": "top1_accuracy"})
        for theirs, ours in (("CIFAR10", "cifar10"), ("CIFAR100", "cifar100"), ("Imagenet1k", "imagenet"))
    },
}

#: mteb's areas under abstention curves: how well a model's doubt tells its errors; NaN where there are none.
_ABSTENTION = "nauc_"

_RECALL = re.compile(r"(image|text)_retrieval_recall@(\d+)")


@dataclass(frozen=True, slots=True)
class Foreign:
    """What one file says.

    Attributes:
        tool: `CLIP_benchmark` or `mteb`.
        version: of the tool; empty where the file does not say.
        model: its name.
        benchmark: our name of the set, or the tool's own after `TOOL:`.
        task: `pairs`, `retrieval`, `classification`, or the tool's own word.
        metrics: part of the set (tag, value), or None for all of it -> metric -> number; our names where the metric is ours.

    >>> Foreign("mteb", "2.1", "m", "winoground", "pairs", {None: {"text_score": 0.5}}).version
    '2.1'
    """

    tool: str
    version: str
    model: str
    benchmark: str
    task: str
    metrics: Mapping[tuple[str, str] | None, Mapping[str, float]]


def read_foreign(path: Path, model: str | None = None) -> Foreign:
    """Read a result file; which tool wrote it is told by its fields.

    Args:
        path: the file.
        model: the model's name; what the file, or the folder it lies in, says if not given.

    Raises:
        RunError: it cannot be read, is of neither tool, holds no number, or its model is not known.

    >>> read_foreign(Path("gone.json"))
    Traceback (most recent call last):
    tellapart.errors.RunError: gone.json cannot be read: No such file or directory
    """
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise RunError(f"{path} is no JSON file: {error}") from error
    if isinstance(held, dict) and {"dataset", "model", "task", "metrics"} <= held.keys():
        return _clip_benchmark(path, held, model)
    if isinstance(held, dict) and {"task_name", "scores", "mteb_version"} <= held.keys():
        return _mteb(path, held, model)
    raise RunError(
        f"{path} is neither a result of CLIP_benchmark (fields dataset, model, task, metrics) nor of mteb 1.11 or newer "
        "(task_name, scores, mteb_version)"
    )


def _clip_benchmark(path: Path, held: Mapping[str, Any], model: str | None) -> Foreign:
    dataset = re.sub(r"^wds[/_]", "", str(held["dataset"]))
    numbers = _numbers(path, held["metrics"])
    name = model or _clip_model(held)
    if dataset.startswith("sugar_crepe/"):
        part = ("subset", dataset.removeprefix("sugar_crepe/"))
        return Foreign("CLIP_benchmark", "", name, "sugarcrepe", "pairs", {part: _renamed(path, numbers, _CHOICE)})
    task, language = str(held["task"]), str(held.get("language") or "en")
    # Captions or classes in another language are another set.
    theirs = f"CLIP_benchmark:{dataset}{'' if language == 'en' else f':{language}'}"
    benchmark = _CLIP_SETS.get(dataset, theirs) if language == "en" else theirs
    if task == "image_caption_selection":
        # Of a set that is not known here nobody can tell whether its items have two images.
        metrics = _renamed(path, numbers, _PAIRS) if benchmark == "winoground" else numbers
        return Foreign("CLIP_benchmark", "", name, benchmark, "pairs", {None: metrics})
    if task == "zeroshot_retrieval":
        return Foreign("CLIP_benchmark", "", name, benchmark, "retrieval", {None: _recalls(numbers)})
    if task == "zeroshot_classification":
        metrics = {_CLASSES.get(metric, metric): number for metric, number in numbers.items()}
        return Foreign("CLIP_benchmark", "", name, benchmark, "classification", {None: metrics})
    # A trained probe's accuracy is no zero-shot model's on the same set.
    metrics = {metric: number for metric, number in numbers.items() if metric not in _SETTINGS}
    return Foreign("CLIP_benchmark", "", name, f"{theirs}:{task}", task, {None: metrics})


def _clip_model(held: Mapping[str, Any]) -> str:
    """Name model and weights as this package does; of a file of weights, only its name."""
    weights = str(held.get("pretrained") or "")
    if not weights:
        return str(held["model"])
    *folders, file = re.split(r"[/\\]", weights)
    return f"{held['model']}{'@' if folders else '/'}{file}"


def _recalls(numbers: Mapping[str, float]) -> dict[str, float]:
    """Rename recalls: theirs say what is retrieved, ours from what to what."""
    named = {}
    for metric, number in numbers.items():
        found = _RECALL.fullmatch(metric)
        sides = {"image": "t2i", "text": "i2t"}
        named[f"{sides[found[1]]}_recall@{found[2]}" if found else metric] = number
    return dict(sorted(named.items(), key=lambda item: (item[0].split("@")[0], len(item[0]), item[0])))


def _mteb(path: Path, held: Mapping[str, Any], model: str | None) -> Foreign:
    task = str(held["task_name"])
    benchmark, kind, names = _MTEB_TASKS.get(task, (f"mteb:{task}", task, {}))
    scores = held["scores"]
    parts: dict[tuple[str, str] | None, Mapping[str, float]] = {}
    for split, entries in scores.items() if isinstance(scores, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            numbers = _numbers(path, entry)
            metrics = _renamed(path, numbers, names) if names else numbers
            parts["hf_subset", f"{split} {entry.get('hf_subset', 'default')}"] = metrics
    if not parts:
        raise RunError(f"{path} holds no scores")
    if len(parts) == 1:
        parts = {None: next(iter(parts.values()))}
    return Foreign("mteb", str(held["mteb_version"] or ""), model or _mteb_model(path), benchmark, kind, parts)


def _mteb_model(path: Path) -> str:
    meta = path.parent / "model_meta.json"
    if meta.is_file():
        try:
            named = json.loads(meta.read_text(encoding="utf-8")).get("name")
        except (OSError, ValueError, AttributeError) as error:
            raise RunError(f"{meta} cannot be read: {error}; say --model NAME") from error
        if named:
            return str(named)
    folder = path.absolute().parent.parent.name
    if "__" not in folder:
        raise RunError(
            f"{path} does not say of which model it is, and no model_meta.json lies beside it; say --model NAME"
        )
    return folder.replace("__", "/", 1)


def _numbers(path: Path, held: Any) -> dict[str, float]:
    """Return the metrics of an object: its numbers; names of subsets and languages are none, `main_score` is one of the others.

    Areas under abstention curves are left out: they are no scores, and NaN in most files of retrieval.
    """
    if not isinstance(held, dict):
        raise RunError(f"{path}: expected an object of metrics; got {type(held).__name__}")
    found = {
        str(name): float(value)
        for name, value in held.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and name != "main_score"
        and not str(name).startswith(_ABSTENTION)
    }
    if bad := [name for name, value in found.items() if not math.isfinite(value)]:
        raise RunError(f"{path}: {', '.join(bad)} is not finite")
    if not found:
        raise RunError(f"{path} holds no number")
    return found


def _renamed(path: Path, numbers: Mapping[str, float], names: Mapping[str, str]) -> dict[str, float]:
    found = {ours: numbers[theirs] for theirs, ours in names.items() if theirs in numbers}
    if not found:
        raise RunError(f"{path}: none of {', '.join(names)} is among its metrics {', '.join(numbers)}")
    return found
