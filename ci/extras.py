"""Install each extra alone, in a fresh environment, and run the command that it is named for.

    python ci/extras.py [EXTRA...]    all of them if none is named; about 15 minutes, most of it installs

What a command needs and no registry has (a video, a diffusion model) is made on the spot, small and real. It needs the
network for the installs, and is no part of `.ci/run`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUN = "tellapart run -m constant --limit 4 --out run"

PARQUET = """
import pyarrow as pa, pyarrow.parquet as pq
cell = {"bytes": open("ROOT/docs/board.png", "rb").read(), "path": None}
rows = [{"id": k, "image_0": cell, "image_1": cell, "caption_0": "a b", "caption_1": "b a"} for k in range(400)]
pq.write_table(pa.Table.from_pylist(rows), "test-00000-of-00001.parquet")
"""

VIDEO = """
import av, json, numpy as np
with av.open("walk.mp4", "w") as container:
    stream = container.add_stream("libx264", rate=10)
    stream.width = stream.height = 64
    stream.pix_fmt = "yuv420p"
    for k in range(60):
        picture = np.full((64, 64, 3), 4 * k, np.uint8)
        container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
    container.mux(stream.encode())
with open("captions.jsonl", "w") as file:
    for time, text in ((1.0, "a man sits at a dark table"), (5.0, "a man stands beside a bright door")):
        file.write(json.dumps({"video": "walk", "caption": text, "time": time}) + "\\n")
"""

VIDEO_RECIPE = """
name = "moments"
builder = "timestamped-captions"
[options]
captions = "captions.jsonl"
videos = "."
"""

DIFFUSION = """
import json, sys
from pathlib import Path
sys.path.insert(0, "ROOT/tests/render/diffusion")
from tiny_pipelines import stable_diffusion
stable_diffusion(Path("model"))
with open("pairs.jsonl", "w") as file:
    file.write(json.dumps({"id": "0", "caption_0": "a cat", "caption_1": "a dog"}) + "\\n")
"""

DIFFUSION_RECIPE = """
name = "drawn"
builder = "generated-images"
[options]
captions = "pairs.jsonl"
count = 2
steps = 1
side = 16
suffix = ""
[options.model]
name = "model"
device = "cpu"
[options.picture]
side = 16
"""

NEGATIVES = """
import json, os, shutil
os.makedirs("images")
shutil.copy("ROOT/docs/board.png", "images/a.png")
with open("captions.jsonl", "w") as file:
    file.write(json.dumps({"caption": "a black cat on a white table", "image": "a.png"}) + "\\n")
"""

NEGATIVES_RECIPE = """
name = "false"
builder = "negatives"
[options]
captions = "captions.jsonl"
images = "images"
"""

CLIP = """
import sys
from pathlib import Path
sys.path.insert(0, "ROOT/tests/models/huggingface")
import tiny_models
tiny_models.clip(Path("clip"))
"""

#: Extra -> what is made first (file name -> content; `.py` files are run), then the commands.
EXTRAS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "": ({}, (RUN, "tellapart show run", "tellapart check")),
    "hub": ({"make.py": PARQUET}, ("tellapart run -m constant -b winoground --data . --limit 4 --out run",)),
    "models": ({"make.py": CLIP}, ("tellapart run -m clip --limit 4 --out run",)),
    "render": ({}, ("tellapart build ROOT/docs/recipes/scenes.toml --limit 1 --out set",)),
    "video": ({"make.py": VIDEO, "recipe.toml": VIDEO_RECIPE}, ("tellapart build recipe.toml --out set",)),
    "diffusion": ({"make.py": DIFFUSION, "recipe.toml": DIFFUSION_RECIPE}, ("tellapart build recipe.toml --out set",)),
    "captions": (
        {},
        (
            "pip install --quiet pytest hypothesis",
            "python -m pytest -q -p no:cacheprovider ROOT/tests/builders/captions/test_counterfactual_captions.py",
        ),
    ),
    "build": ({}, ("tellapart build ROOT/docs/recipes/scenes.toml --limit 1 --out set",)),
    "ray": (
        {"make.py": NEGATIVES, "recipe.toml": NEGATIVES_RECIPE},
        ("tellapart build recipe.toml --ray local --out set",),
    ),
    "plot": ({}, (RUN, "tellapart plot bars run --out bars.svg")),
    "train": ({}, ("tellapart train ROOT/examples/eqsim_ablation/smoke.toml --out trained",)),
    "wandb": ({}, ("python -c 'import wandb'",)),
    "docs": ({}, ("python -m mkdocs build --strict -f ROOT/mkdocs.yml -d $PWD/site",)),
    "board": ({}, (RUN, "tellapart board export --runs . --out site")),
}


def check(extra: str) -> float:
    """Install one extra in an environment of its own and run its commands; return the seconds it took."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"extra-{extra or 'core'}-") as scratch:
        home = Path(scratch)
        venv.create(home / "venv", with_pip=True)
        environment = {
            **os.environ,
            "PATH": f"{home / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "TELLAPART_CACHE": str(home / "cache"),
            "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "offline",
            "NO_COLOR": "1",
        }
        environment.pop("PYTHONPATH", None)
        name = f"{ROOT}[{extra}]" if extra else str(ROOT)
        made, commands = EXTRAS[extra]
        install = f"pip install --quiet --disable-pip-version-check -c ROOT/ci/lock.txt '{name}'"
        for file, content in made.items():
            (home / file).write_text(content.replace("ROOT", str(ROOT)))
        makers = [f"python {file}" for file in made if file.endswith(".py")]
        for line in (install, *makers, *commands):
            done = subprocess.run(  # noqa: S602  (the lines are those above)
                line.replace("ROOT", str(ROOT)),
                shell=True,
                cwd=home,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                shutil.rmtree(home / "venv", ignore_errors=True)
                raise SystemExit(f"extra {extra or 'core'!r}: {line}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return time.monotonic() - started


def main() -> None:
    """Check the extras that the command line names."""
    wanted = sys.argv[1:] or list(EXTRAS)
    if unknown := [name for name in wanted if name not in EXTRAS]:
        raise SystemExit(f"no extra {unknown[0]!r}; there are {', '.join(filter(None, EXTRAS))}")
    for extra in wanted:
        sys.stdout.write(f"{extra or 'core'}: works alone, {check(extra):.0f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
