"""Make the bundled encoder again: scenes, rows, training, ONNX files, its scores, its record and its card.

Every stage that is done is passed over, so a run that was stopped goes on where it was.
"""

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import typer

from examples.findings.frame import render_page, write_pages_text
from tellapart.data.rows import read_object
from tellapart.evaluation.verified import read_result
from tellapart.models.onnx.dual_encoder import CONFIG, FILES, OnnxDualEncoder
from tellapart.records.result import Value
from tellapart.records.run_folder import write_text_file
from tellapart.training.record import TrainRecord, read_record
from tellapart_render.training_rows import write_training_rows

HERE = Path(__file__).parent

#: Sets that are trained on; the others choose the weights, and show how learning carries over.
_TRAINED = ("scenes_1", "scenes_2", "scenes_3", "order_scenes", "number_scenes")
_SETS = (*_TRAINED, "validation_scenes", "final_scenes", "held_out_scenes")

#: The folders of the training runs, in order, and their configurations.
_RUNS = {"training": "encoder.toml", "captions": "captions.toml", "order": "order.toml", "numbers": "numbers.toml"}

_HEADLINE = ("text_score", "image_score", "group_score")


def write_card(record: Mapping[str, Any]) -> str:
    """Return the card's Markdown, from a record as `training_record.json` holds it."""
    seconds = sum(record["stages"][name]["seconds"] for name in record["runs"])
    values = {"record": record, "runs": list(record["runs"].values()), "seconds": seconds}
    return write_pages_text([render_page(HERE, "card", values)])


def _run_stage(done: dict[str, Any], work: Path, name: str, *words: str | Path) -> None:
    """Run `tellapart WORDS` unless it was done; seconds of calls that were stopped are not in `stages.json`."""
    if name in done:
        return
    sys.stderr.write(f"{name}: tellapart {' '.join(map(str, words))}\n")
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tellapart", *map(str, words)], check=True)  # noqa: S603
    command = " ".join(Path(word).name if "/" in str(word) else str(word) for word in words)
    done[name] = {"command": f"tellapart {command}", "seconds": round(time.perf_counter() - start, 1)}
    write_text_file(work / "stages.json", json.dumps(done, indent=1) + "\n")


def remake(recipes: Path = HERE, work: Path = HERE.parents[1] / "runs" / "encoder", workers: int = 2) -> Path:
    """Run all stages, with so many processes that render; return the folder of the ONNX model.

    `recipes` holds recipes and configurations, which read `work`.
    """
    work.mkdir(parents=True, exist_ok=True)
    stages = read_object(work / "stages.json") if (work / "stages.json").exists() else {}
    run = partial(_run_stage, stages, work)
    for name in _SETS:
        run(name, "build", recipes / f"{name}.toml", "--out", work / name, "--workers", str(workers), "--quiet")
    for name in _TRAINED:
        if not (work / name / "rows.jsonl").exists():
            write_training_rows(work / name)
    for name, config in _RUNS.items():
        resume = ["--resume"] if (work / name / "run.json").exists() else []
        run(name, "train", recipes / config, "--out", work / name, *resume)
    model = work / "demo-encoder"
    run("conversion", "convert", f"compact:{work / [*_RUNS][-1] / 'model'}", model)
    reported = ("demo", *(f"folder:{work / name}" for name in _SETS[len(_TRAINED) :]))
    wanted = [word for name in reported for word in ("-b", name)]
    run("measurement", "run", "-m", f"onnx:{model}", *wanted, "--out", work / "scores")
    _write_record(work, model, stages)
    sys.stdout.write(f"{model}\n")
    return model


def _write_record(work: Path, model: Path, stages: dict[str, dict[str, Any]]) -> None:
    """Write `training_record.json` and the card beside the model's files, from what the stages left."""
    trained = read_record(work / "training")
    record = {
        "stages": stages,
        "versions": trained.versions,
        "runs": {name: _describe_run(read_record(work / name)) for name in _RUNS},
        "parameters": OnnxDualEncoder(model).parameters,
        "scores": _scores(work / "scores"),
        "files": {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            for name in (CONFIG, *FILES)
            for data in [(model / name).read_bytes()]
        },
    }
    write_text_file(model / "training_record.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    write_text_file(model / "MODEL_CARD.md", write_card(record))


def _describe_run(trained: TrainRecord) -> dict[str, Any]:
    """Return the configuration of a training run, what it read and what it measured."""
    return {
        "machine": trained.machine.model_dump(mode="json"),
        "config": trained.config,
        "data": trained.data.model_dump(mode="json"),
        "steps": trained.steps,
        "best_step": trained.best_step,
        "validation": [{"step": step, "group_score": round(value, 6)} for step, value in trained.history],
    }


def _scores(run: Path) -> dict[str, Any]:
    """Return the headline scores of each set, over all items and by aspect and held-out combinations."""

    def headline(metrics: Mapping[str, Value]) -> dict[str, dict[str, float | int | None]]:
        return {name: metrics[name].model_dump(include={"value", "low", "high", "n"}) for name in _HEADLINE}

    return {
        name.removeprefix("folder:"): {
            "fingerprint": result.fingerprint,
            "metrics": headline(result.metrics),
            "by": {
                tag: {value: headline(part.metrics) for value, part in result.by[tag].items()}
                for tag in ("aspect", "held_out")
                if tag in result.by
            },
        }
        for name, result in read_result(run).benchmarks.items()
    }


if __name__ == "__main__":
    typer.run(remake)
