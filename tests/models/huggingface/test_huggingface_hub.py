"""A model by its hub id: what the hub refuses, what a cache holds, and what is said where neither helps."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from facts import check_facts

pytest.importorskip("torch", reason="transformers' models need the extra 'models'")
pytest.importorskip("transformers", reason="transformers' models need the extra 'models'")

import tiny_models

from tellapart.models.huggingface.load import load
from tellapart.models.options import ModelOptions

SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.clip(tmp_path_factory.mktemp("clip"))


class _Hub(BaseHTTPRequestHandler):
    """Refuses as the hub refuses: by the name of what is asked for."""

    def do_HEAD(self) -> None:
        owner = self.path.split("/")[1]
        status, code = {"gated": (403, "GatedRepo"), "empty": (404, "EntryNotFound")}.get(owner, (404, "RepoNotFound"))
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def load_error(name: str, cache: Path, **environment: str) -> str:
    """Load a model in another process, whose environment decides how the hub is asked; return the error's lines."""
    code = (
        "import sys\n"
        "from tellapart.errors import ModelError\n"
        "from tellapart.models.find import ModelOptions\n"
        "from tellapart.models.huggingface.load import load\n"
        "try:\n    load(sys.argv[1], ModelOptions())\n"
        "except ModelError as error:\n    print(error)\n"
    )
    unset = {"HF_HUB_OFFLINE", "HF_ENDPOINT", "HF_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"}
    inherited = {key: value for key, value in os.environ.items() if key not in unset}
    done = subprocess.run(
        [sys.executable, "-c", code, name],
        capture_output=True,
        text=True,
        check=True,
        env=inherited | {"HF_HOME": str(cache), "PYTHONPATH": str(SOURCE)} | environment,
    )
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "gated/model",
            "gated/model (no such folder here) is gated: accept its conditions on https://huggingface.co/gated/model, "
            "then log in",
        ),
        ("nobody/model", "nobody/model (no such folder here) is not on the hub, or you may not read it; check the id"),
        ("empty/model", "empty/model (no such folder here) has no config.json on the hub"),
    ],
)
def test_what_the_hub_refuses_ends_in_one_line_that_says_what_to_do(
    name: str, message: str, hub: str, tmp_path: Path
) -> None:
    error = load_error(name, tmp_path, HF_ENDPOINT=hub)
    assert error.startswith(message)
    assert len(error.splitlines()) == 1


@pytest.mark.slow
def test_offline_a_model_that_is_not_in_the_cache_ends_in_one_line(tmp_path: Path) -> None:
    error = load_error("openai/clip-vit-base-patch32", tmp_path, HF_HUB_OFFLINE="1")
    assert error.startswith(
        "openai/clip-vit-base-patch32 (no such folder here): its config.json is not in the hub's cache, and "
        "HF_HUB_OFFLINE"
    )
    assert len(error.splitlines()) == 1


@pytest.mark.slow
def test_a_hub_that_cannot_be_reached_ends_in_one_line(tmp_path: Path) -> None:
    error = load_error("openai/clip-vit-base-patch32", tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
    check_facts(error, "http://127.0.0.1:9", "hub")
    check_facts(error, "openai/clip-vit-base-patch32", "HF_HOME")
    assert len(error.splitlines()) == 1


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
