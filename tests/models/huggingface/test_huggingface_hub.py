"""A model by its hub id, from the cache, says what its folder says."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="transformers' models need the extra 'models'")
pytest.importorskip("transformers", reason="transformers' models need the extra 'models'")

import tiny_models

from tellapart.models.huggingface.load import load
from tellapart.models.options import ModelOptions

SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.clip(tmp_path_factory.mktemp("clip"))


WITHOUT_TORCHVISION = """
import hashlib, importlib.util, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.split(".")[0] == "torchvision" else find_spec(name, *rest)
import numpy, torch
torch.set_num_threads(1)
sys.path.append(sys.argv[1])
from tiny_models import TEXTS, pictures
from tellapart.models.options import ModelOptions
from tellapart.models.huggingface.load import load
model = load("owner/tiny", ModelOptions())
assert "torchvision" not in sys.modules
vectors = [model.encode_images(pictures()), model.encode_texts(TEXTS)]
print(model.fingerprint, *[hashlib.sha256(side.tobytes()).hexdigest() for side in vectors])
"""


@pytest.mark.slow
def test_a_hub_id_from_the_cache_offline_and_without_torchvision_says_what_the_folder_says(
    clip: Path, tmp_path: Path
) -> None:
    import torch

    repository = tmp_path / "hub" / "models--owner--tiny"
    shutil.copytree(clip, repository / "snapshots" / ("a" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCHVISION, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(SOURCE)},
    )
    assert done.returncode == 0, done.stderr
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model: Any = load(str(clip), ModelOptions())
    vectors = [model.encode_images(tiny_models.pictures()), model.encode_texts(tiny_models.TEXTS)]
    torch.set_num_threads(threads)
    expected = [model.fingerprint, *(hashlib.sha256(side.tobytes()).hexdigest() for side in vectors)]
    assert done.stdout.split() == expected
