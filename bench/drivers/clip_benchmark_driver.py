"""CLIP_benchmark's own command line on the sets, from local files, in its own environment.

It lacks ARO: its dataset class is replaced by one of any number of captions, and the set is read as one of its
`sugar_crepe` sets, as VALSE is. Its defaults stay but for `--no_amp`, since bfloat16 is slower on a CPU and gives other
numbers, and, warm, `--skip_existing`.
"""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from job import Job, carry_out

DATASETS = {
    "winoground": "winoground",
    "sugarcrepe": "sugar_crepe/add_att",
    "aro": "sugar_crepe/swap_obj",
    "valse": "sugar_crepe/replace_att",
}


def prepare(job: Job) -> None:
    """Write Winoground's table and let `datasets` convert it: what a download would have left behind."""
    from datasets import load_dataset
    from tables import table

    home = Path("facebook/winoground/data")
    home.mkdir(parents=True, exist_ok=True)
    made = table(Path(job["sets"]), "winoground", ("image_0", "image_1"), ("caption_0", "caption_1"))
    made.to_parquet(home / "test-00000-of-00001.parquet")
    load_dataset("facebook/winoground", cache_dir=str(Path(job["sets"]) / "crepe"))


def run(job: Job, warm: bool = False) -> None:
    """Evaluate, as its command does."""
    import clip_benchmark.datasets.sugar_crepe as module
    from clip_benchmark.cli import main

    class Crepe(module.SugarCrepe):
        """Its dataset, with as many negative captions as the file has."""

        def __getitem__(self, index: int) -> Any:
            image, (caption, negative) = super().__getitem__(index)
            return image, [caption, *([negative] if isinstance(negative, str) else negative)]

    module.SugarCrepe = Crepe
    architecture = job["model"]["architecture"]
    sys.argv = [
        "clip_benchmark", "eval", "--no_amp",
        "--model", architecture, "--pretrained", job["model"]["file"],
        "--dataset", *(DATASETS[name] for name in job["names"]), "--dataset_root", str(Path(job["sets"]) / "crepe"),
        "--output", str(Path(job["state"]) / "{dataset}.json"),
        *(["--skip_existing"] if warm else []),
    ]  # fmt: skip
    main()
    for name in job["names"]:
        found = json.loads((Path(job["state"]) / f"{DATASETS[name].replace('/', '_')}.json").read_text())["metrics"]
        print("RESULT", name, found["acc" if name == "winoground" else "text_acc"])


if __name__ == "__main__":
    carry_out(prepare=prepare, cold=run, warm=partial(run, warm=True))
