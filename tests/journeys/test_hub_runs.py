"""A run takes its model and its pairs from a hub, and is repeated without it: the same numbers, and no request."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

for _library in ("torch", "transformers", "huggingface_hub", "pyarrow"):
    pytest.importorskip(_library)

import pyarrow as arrow  # noqa: E402
from hub_server import COMMIT, Hub, running_hub  # noqa: E402
from PIL import Image  # noqa: E402
from pyarrow import parquet  # noqa: E402
from tiny_openclip import CLIP, saved_folder, torch  # noqa: E402

from scripts import run_python  # noqa: E402

SOURCE = Path(__file__).parents[2] / "src"
SET = """
name = "hub-pairs"
title = "Pairs of a hub"
source = "https://huggingface.co/datasets/me/pairs"
shape = [2, 2]
files = ["test-*.parquet"]

[hub]
repo = "me/pairs"
revision = "COMMIT"
files = ["test-*.parquet"]

[[item]]
id = "{id}"
images = ["@image_0", "@image_1"]
texts = ["{caption_0}", "{caption_1}"]
"""


@pytest.fixture(scope="module")
def tiny_hub(tmp_path_factory) -> Iterator[Hub]:
    """A CLIP of open_clip, and eight pairs in a parquet file with the pictures' bytes."""
    open_clip, scratch = pytest.importorskip("open_clip"), tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    weights = open_clip.CLIP(**CLIP).state_dict()
    torch.save({key: value * 4 if value.ndim > 1 else value for key, value in weights.items()}, scratch / "tiny.pt")
    rows = []
    for k in range(8):
        row: dict[str, Any] = {"id": str(k), "caption_0": f"a dog {k}", "caption_1": f"a cat {k}"}
        for i in range(2):
            path = scratch / f"{k}-{i}.png"
            Image.new("RGB", (16, 16), (30 * k, 120 * i, 90)).save(path)
            row[f"image_{i}"] = {"bytes": path.read_bytes(), "path": None}
        rows.append(row)
    parquet.write_table(arrow.Table.from_pylist(rows), scratch / "test-0.parquet")
    folder = saved_folder(scratch / "oc", scratch / "tiny.pt")
    with running_hub() as server:
        server.repositories["models/me/open-clip"] = {path.name: path.read_bytes() for path in folder.iterdir()}
        server.repositories["datasets/me/pairs"] = {"data/test-0.parquet": (scratch / "test-0.parquet").read_bytes()}
        yield server


@pytest.mark.slow
def test_a_run_takes_model_and_pairs_from_the_hub_and_repeats_without_it(tiny_hub, tmp_path):
    """The hub of `hf:` models is tested with their family."""
    (tmp_path / "set.toml").write_text(SET.replace("COMMIT", COMMIT), encoding="utf-8")
    unset = {"HF_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"HF_ENDPOINT": tiny_hub.address, "HF_HOME": str(tmp_path / "home")}
    environment |= {"HF_HUB_DISABLE_XET": "1", "PYTHONPATH": str(SOURCE)}

    def run(out: str, **changes: str) -> dict[str, Any]:
        line = ["-m", "tellapart", "run", "-m", "hf-hub:me/open-clip", "-b", "set.toml", "--json", "--out"]
        variables = environment | {"TELLAPART_CACHE": str(tmp_path / out / "cache")} | changes
        done = run_python(*line, out, cwd=tmp_path, env=variables)
        (result,) = json.loads(done.stdout)["runs"][0]["benchmarks"].values()
        return dict(result["metrics"])

    first, asked = run("first", HF_HUB_OFFLINE="0"), len(tiny_hub.requests)
    assert (run("second", HF_HUB_OFFLINE="1"), len(tiny_hub.requests)) == (first, asked)
