"""Result files of other tools as they write them, and what an import makes of them."""

import json
from pathlib import Path
from typing import Any

from tellapart.evaluation.verified import read_result
from tellapart.report.interchange.foreign import import_results


def clip_file(folder: Path, dataset: str, task: str, metrics: dict[str, float], **more) -> Path:
    """As CLIP_benchmark 1.6.2's `cli.py` dumps it."""
    path = folder / f"clip-{dataset.replace('/', '_')}.json"
    held = {
        "dataset": dataset,
        "model": "ViT-B-32",
        "pretrained": "laion2b_s34b_b79k",
        "task": task,
        "metrics": metrics,
    }
    path.write_text(json.dumps({**held, "language": "en", **more}))
    return path


def mteb_file(folder: Path, task: str, metrics: dict[str, Any], **more) -> Path:
    """As mteb 2.26's cache keeps it."""
    path = folder / f"{task}.json"
    entry = {**metrics, "hf_subset": "default", "languages": ["eng-Latn"], "mteb_version": "2.26.24"}
    held = {"dataset_revision": "main", "task_name": task, "mteb_version": "2.26.24", "scores": {"test": [entry]}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**held, "evaluation_time": 37.5, "kg_co2_emissions": None, **more}))
    return path


WINOGROUND = {"image_acc": 0.125, "text_acc": 0.0625, "acc": 0.03125}


def winoground_file(folder: Path, **more) -> Path:
    return clip_file(folder, "winoground", "image_caption_selection", WINOGROUND, **more)


def crepe_file(folder: Path, part: str, **metrics: float) -> Path:
    return clip_file(folder, f"sugar_crepe/{part}", "image_caption_selection", metrics)


def imported(files: list[Path], out: Path, **more) -> dict[str, dict[str, float]]:
    result = import_results(files, out, command="tellapart import", **more)
    assert read_result(out) == result
    return {
        name: {metric: value.value for metric, value in record.metrics.items()}
        for name, record in result.benchmarks.items()
    }
