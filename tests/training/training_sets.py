"""Small sets to train on, architectures without weights, and configurations."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import raises
from pictures import encoded
from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item
from tellapart.errors import RunError
from tellapart.evaluation.compare import MetricComparison
from tellapart.models.torch.checkpoint import read_state_dict
from tellapart.records.timing_record import Machine
from tellapart.training.config import TrainConfig
from tellapart.training.data.rows import read_rows
from tellapart.training.encoders import draw_start
from tellapart.training.loop import TrainingRanks
from tellapart.training.record import DataRecord, TrainRecord
from tellapart.training.steps import DualStep
from tellapart.training.training_run import run_training

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (30, 40, 200), "grey": (120, 120, 120)}
OPEN_CLIP = {
    "model_cfg": {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 16, "layers": 1, "width": 16, "patch_size": 8, "head_width": 8},
        "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    },
    "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
}
#: Changes of the architecture: a ResNet, which normalises by batches.
RESNET = {"vision_cfg": {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8, "head_width": 64}}


def squares(folder: Path, count: int = 12, *, seed: int = 0) -> Path:
    """A pair set: two pictures of two squares each, whose colours change places."""
    rng = np.random.default_rng(seed)
    items, images = [], {}
    for k in range(count):
        first, second = rng.choice(list(COLOURS), 2, replace=False)
        names = (f"images/{k}_0.png", f"images/{k}_1.png")
        for name, (left, right) in zip(names, ((first, second), (second, first)), strict=True):
            pixels = rng.integers(0, 40, (16, 16, 3)).astype(np.uint8)
            pixels[4:12, :8] += np.array(COLOURS[left], np.uint8)
            pixels[4:12, 8:] += np.array(COLOURS[right], np.uint8)
            images[name] = encoded(pixels)
        texts = (f"a {first} square left of a {second} one", f"a {second} square left of a {first} one")
        items.append(Item(id=f"item-{k}", images=names, texts=texts, tags={"aspect": "location"}))
    write_pair_set(folder, items, images, {"title": "squares"})
    return folder


def architecture(folder: Path, **changes) -> str:
    """The name of an open_clip model without weights."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = OPEN_CLIP | {"model_cfg": OPEN_CLIP["model_cfg"] | changes}
    (folder / "open_clip_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return f"new:{folder}"


def table(folder: Path, **changes) -> dict[str, Any]:
    """A configuration's values: ITC on squares, from weights that nobody trained."""
    values = {
        "name": "squares",
        "model": "new:arch",
        "data": {"train": ["folder:train"]},
        "loss": {"name": "itc"},
        # A large epsilon: AdamW then makes no whole steps of gradients that are nothing but rounding.
        "optimiser": {"learning_rate": 1e-3, "steps": 4, "warm_up": 1, "epsilon": 1e-2},
        "batch": {"size": 8},
        "validation": {"every": 2},
    }
    if not (folder / "train").exists():
        squares(folder / "train")
        architecture(folder / "arch")
    for key, value in changes.items():
        values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) and key != "loss" else value
    return values


def config(folder: Path, **changes) -> TrainConfig:
    """The same, checked."""
    return TrainConfig(**table(folder, **changes))


def made_steps(settings: TrainConfig, folder: Path, rows: str = "folder:train", kind: Any = DualStep) -> Any:
    """Steps of one rank, from weights that nobody trained."""
    ranks = TrainingRanks(settings.device)
    _, start = draw_start(f"new:{folder / settings.model.removeprefix('new:')}", settings, folder / "start", ranks)
    return kind(settings, start, read_rows([rows], folder), ranks.accelerator, start.module)


def toml(values: dict[str, Any]) -> str:
    """A configuration's values as a TOML file."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for key, inner in values.items():
        if isinstance(inner, dict):
            stated = {name: value for name, value in inner.items() if value is not None}
            lines += [f"[{key}]", *(f"{name} = {json.dumps(value)}" for name, value in stated.items())]
    return "\n".join(lines) + "\n"


class Stopped(Exception):  # noqa: N818
    """Ends a training in the middle."""


def stop_after(last: int) -> Callable[..., None]:
    """A progress that stops a training after a step."""

    def progress(stage: str, done: int, _total: int, _note: str = "") -> None:
        if (stage, done) == ("steps", last):
            raise Stopped

    return progress


def check_resumed(settings: TrainConfig, folder: Path, last: int = 2) -> None:
    """A run that stops after a step goes on to the bytes of one that does not: log, weights and moments."""
    run_training(settings, folder, folder / "whole")
    with pytest.raises(Stopped):
        run_training(settings, folder, folder / "stopped", progress=stop_after(last))
    with raises(RunError, "resume=True", "stopped"):
        run_training(settings, folder, folder / "stopped")
    assert run_training(settings, folder, folder / "stopped", resume=True).resumed
    whole = [file for file in (folder / "whole").rglob("*") if file.suffix in {".jsonl", ".safetensors"}]
    assert len(whole) >= 5
    for file in whole:
        assert file.read_bytes() == (folder / "stopped" / file.relative_to(folder / "whole")).read_bytes(), file


def weights(out: Path) -> dict[str, Any]:
    """The trained model's tensors by name."""
    (file,) = (out / "model").glob("*.safetensors")
    return read_state_dict(file)


def far(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The greatest difference between two models' weights."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def logged(out: Path) -> list[dict[str, float]]:
    """The lines of a run's log."""
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def near(one: Path, other: Path, relative: float = 1e-4, absolute: float = 2e-5, *, floor: float = 1e-6) -> None:
    """Two runs have the same log, up to a relative rounding, and the same weights, up to an absolute one."""
    for line, same in zip(logged(one), logged(other), strict=True):
        assert line == pytest.approx(same, rel=relative, abs=floor)
    assert far(weights(one), weights(other)) < absolute


def moved(out: Path, start: str = "start/open_clip_model.safetensors") -> set[str]:
    """The names of the tensors that a run has changed."""
    after = weights(out)
    return {name for name, value in read_state_dict(out / start).items() if not bool((after[name] == value).all())}


def compared(benchmark: str, a: float, b: float, metric: str = "group_score", **more) -> MetricComparison:
    """A metric of the start and of the trained model, with a test that finds them apart."""
    values = {"n": 100, "difference": b - a, "low": None, "high": None, "method": "bootstrap"}
    values |= {"only_a": 1, "only_b": 11, "p": 0.01, "p_holm": 0.02, "test": "exact McNemar", "detectable": None}
    return MetricComparison(benchmark=benchmark, metric=metric, a=a, b=b, **values | more)


def made_record(**changes) -> TrainRecord:
    """The record of a run of one step that measured nothing, but for its changes."""
    values = {"config": {"name": "made", "seed": 0}, "fingerprint": "0", "start": "1", "model": "x"}
    values |= {"started": "2026-01-01T00:00:00+00:00", "seconds": 1.0, "resumed": False, "ranks": 1, "versions": {}}
    values |= {"machine": Machine(processor="x", cores=1, system="x"), "steps": 1, "best_step": 1, "best": None}
    values |= {"data": DataRecord(rows=1, images=1, items=1, fingerprint="0"), "history": ()}
    return TrainRecord(**values | changes)
