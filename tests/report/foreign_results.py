"""Result files of other tools as they write them, and what an import makes of them."""

from pathlib import Path
from typing import Any

from sets import write_file
from tellapart.evaluation.verified import read_result
from tellapart.report.interchange.foreign import import_results


def clip_file(folder: Path, dataset: str, task: str, metrics: dict[str, float], **more) -> Path:
    """As CLIP_benchmark 1.6.2's `cli.py` dumps it."""
    model = {"model": "ViT-B-32", "pretrained": "laion2b_s34b_b79k", "language": "en"}
    held = {"dataset": dataset, "task": task, "metrics": metrics, **model, **more}
    return write_file(folder / f"clip-{dataset.replace('/', '_')}.json", held)


def mteb_file(folder: Path, task: str, metrics: dict[str, Any], **more) -> Path:
    """As mteb 2.26's cache keeps it."""
    entry = {**metrics, "hf_subset": "default", "languages": ["eng-Latn"], "mteb_version": "2.26.24"}
    held = {"dataset_revision": "main", "task_name": task, "mteb_version": "2.26.24", "scores": {"test": [entry]}}
    return write_file(folder / f"{task}.json", {**held, "evaluation_time": 37.5, "kg_co2_emissions": None, **more})


WINOGROUND = {"image_acc": 0.125, "text_acc": 0.0625, "acc": 0.03125}


def winoground_file(folder: Path, metrics: dict[str, Any] = WINOGROUND, **more) -> Path:
    return clip_file(folder, "winoground", "image_caption_selection", metrics, **more)


def crepe_file(folder: Path, part: str, **metrics: float) -> Path:
    return clip_file(folder, f"sugar_crepe/{part}", "image_caption_selection", metrics)


def imported(files: list[Path], out: Path, **more) -> dict[str, dict[str, float]]:
    result = import_results(files, out, command="tellapart import", **more)
    assert read_result(out) == result
    records = result.benchmarks.items()
    return {name: {metric: value.value for metric, value in record.metrics.items()} for name, record in records}
