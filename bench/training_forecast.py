"""How near a dry run's forecast comes to real training runs of three kinds.

Each is tried dry and then trained, twice: by the clock, and by the processor's seconds of this process. `off` is the
forecast over the real time, less 1; the goal is 0.25 either way.
"""

import json
import os
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image
from record import run_bench, time_call

from tellapart.models.huggingface.files import import_transformers, quiet
from tellapart.models.torch.backend import import_torch
from tellapart.training.config import read_config
from tellapart.training.dry_run import rehearse
from tellapart.training.training_run import run_training

SCENES = f"folder:{(Path(__file__).parents[1] / 'examples' / 'eqsim_ablation' / 'smoke_scenes').resolve()}"

#: Configurations, and sizes of a small dual encoder and of a small BLIP; SCENES is a pair set of 36 items.
FORECAST, RUNS = Path(__file__).parent / "forecast", ("contrast", "false-captions", "fusion")

WORDS = "red green blue grey round square big small cup bowl cat dog left right of on under two three a the".split()  # noqa: SIM905


def write_rows(folder: Path, count: int) -> None:
    """Write noise pictures with captions, a false caption and a counterpart each."""
    rng = np.random.default_rng(0)
    lines = []
    for k in range(count):
        Image.fromarray(rng.integers(0, 256, (128, 128, 3)).astype(np.uint8)).save(folder / f"{k}.png")
        caption, false = (" ".join(rng.choice(WORDS, 12)) for _ in range(2))
        further = {"negative_captions": [false], "negative_images": [(k + 1) % count]}
        lines.append(json.dumps({"image": f"{k}.png", "caption": caption} | further) + "\n")
    (folder / "rows.jsonl").write_text("".join(lines), encoding="utf-8")


def fusion_folder(folder: Path) -> Path:
    """Write a small BLIP with weights that nobody trained."""
    library = import_transformers()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokenizer = library.BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)}, model_max_length=32)
    config = library.BlipConfig.from_json_file(FORECAST / "blip.json")
    images = library.BlipImageProcessorPil(size={"height": 112, "width": 112})
    with quiet():
        library.BlipForImageTextRetrieval(config).save_pretrained(folder)
        library.BlipProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def compare_times(path: Path, folder: Path) -> dict[str, Any]:
    """Return the forecast and the time of a run, by the clock and by the processor."""
    plan = rehearse(path, folder / "dry")
    assert plan.forecast is not None, plan.problems
    with patch.object(time, "perf_counter", time.process_time):  # every clock that measures work
        again = rehearse(path, folder / "dry")
    assert again.forecast is not None, again.problems
    took = time_call(lambda: run_training(read_config(path), path.parent, folder / path.stem))[1:]
    used = sum(file.stat().st_size for file in (folder / path.stem).rglob("*") if file.is_file())
    return {
        name: {
            "forecast": [round(each, 1) for each in forecast["seconds"].values()],
            "real": round(real, 1),
            "off": round(forecast["seconds"]["value"] / real - 1, 3),
            "parts": {part.replace(SCENES, "SCENES"): round(seconds, 2) for part, seconds in forecast["parts"].items()},
        }
        for name, forecast, real in zip(("clock", "processor"), (plan.forecast, again.forecast), took, strict=True)
    } | {"disk": {"forecast": plan.forecast["disk_bytes"], "real": used}}


def measure() -> dict[str, Any]:
    """Try and train each run."""
    torch = import_torch()
    torch.set_num_threads(1)
    import open_clip  # noqa: F401  (both forecast and run would else pay for imports, the first of them alone)

    record: dict[str, Any] = {
        "threads": 1,
        "torch": torch.__version__,
        "load": round(os.getloadavg()[0], 1),
        "note": "with a load above the number of cores the clock counts other work: then `processor` is the comparison",
        "runs": {},
    }
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_rows(folder, 160)
        (folder / "arch").mkdir()
        shutil.copy(FORECAST / "open_clip_config.json", folder / "arch")
        torch.manual_seed(0)
        fusion_folder(folder / "blip")
        for name in RUNS:
            path = folder / f"{name}.toml"
            path.write_text((FORECAST / path.name).read_text().replace("SCENES", SCENES))
            record["runs"][path.stem] = compare_times(path, folder)
    return record


if __name__ == "__main__":
    run_bench(measure)
