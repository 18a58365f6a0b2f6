"""A hub that does not answer is asked once, and for seconds: the library's own way takes twelve tries and a minute."""

import json
import os
import socket
from pathlib import Path

import pytest

from facts import check_facts
from scripts import run_python

pytest.importorskip("huggingface_hub", reason="the hub's package comes with the extras 'hub' and 'models'")

from hub_server import COMMIT, TOKEN, Hub, client_of_hub

from facts import raises
from tellapart.benchmarks.benchmark import Hub as Dataset
from tellapart.errors import ModelError
from tellapart.models.hub import fetch_file

SOURCE = Path(__file__).parents[2] / "src"

#: Seconds that are too many, of a machine that does other work besides. The library alone takes 24 or more.
TOO_LONG = 12.0

MODEL = """
from tellapart.models.hub import fetch_file
fetch_file("org/model", "org/model", ["config.json", "other.json"], library="transformers", instead="a folder")
"""

DATASET = """
from tellapart.benchmarks.find import find_benchmark
find_benchmark("bivlc").records()
"""

TIMED = """
import json, sys, time
import huggingface_hub
from tellapart.errors import TellapartError
started = time.monotonic()
try:
    exec(sys.argv[1])
except TellapartError as error:
    offline = huggingface_hub.constants.HF_HUB_OFFLINE
    print(json.dumps([str(error), time.monotonic() - started, offline]))
"""


@pytest.fixture
def silent_server():
    """A server that takes connections and never says anything, as behind many a firewall."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def fail(code: str, endpoint: str, cache: Path, **environment: str) -> tuple[str, float, str]:
    """Run code in another process, whose environment names the hub; return its error, its seconds and its log."""
    unset = {"HF_HUB_OFFLINE", "HF_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"}
    inherited = {key: value for key, value in os.environ.items() if key not in unset}
    environment = {"HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "PYTHONPATH": str(SOURCE)} | environment
    ran = run_python("-c", TIMED, code, env=inherited | environment)
    error, seconds, offline = json.loads(ran.stdout)
    assert not offline  # what was asked of the library for this once is asked no longer
    return error, seconds, ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "said"),
    [(MODEL, ("org/model", "config.json", "HF_HOME")), (DATASET, ("imirandam/BiVLC", "6c99042f10a8", "data="))],
    ids=["model", "dataset"],
)
def test_a_closed_port_is_one_line_at_once(tmp_path, code, said):
    error, seconds, log = fail(code, "http://127.0.0.1:9", tmp_path)
    check_facts(error, "http://127.0.0.1:9", said)
    assert "refused" in error
    assert "\n" not in error
    assert log == ""
    assert seconds < TOO_LONG


def test_a_hub_that_never_answers_is_waited_for_in_seconds(tmp_path, silent_server):
    error, seconds, _ = fail(MODEL, silent_server, tmp_path, HF_HUB_ETAG_TIMEOUT="1")
    check_facts(error, silent_server, "reached")
    assert "timed out" in error
    assert 1 <= seconds < TOO_LONG


@pytest.fixture
def snapshot(tmp_path):
    """A cached snapshot that no `main` names."""
    folder = tmp_path / "hub" / "models--org--model" / "snapshots" / ("0" * 40)
    folder.mkdir(parents=True)
    (folder / "other.json").write_text("{}")
    return folder


def test_what_the_cache_has_is_read_while_the_hub_does_not_answer(tmp_path, snapshot, silent_server):
    refs = snapshot.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text(snapshot.name)
    importing, fetching = MODEL.strip().splitlines()
    code = f"{importing}\nfound = {fetching}\nraise TellapartError(found.name)"
    error, seconds, _ = fail(code, silent_server, tmp_path, HF_HUB_ETAG_TIMEOUT="1")
    assert error == "other.json"
    assert seconds < TOO_LONG


def test_a_cached_snapshot_without_its_main_is_named(tmp_path, snapshot):
    error, _, _ = fail(MODEL, "http://127.0.0.1:9", tmp_path)
    check_facts(error, "org/model", "other.json", "refs/main", f"local-dir:{snapshot}", "hf download org/model")
    assert "not in the hub's cache" not in error


WEIGHTS = bytes(range(256)) * 4096


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with client_of_hub(tmp_path / "hub-cache", monkeypatch) as server:
        server.repositories["models/me/clip"] = {"config.json": b"{}", "model.safetensors": WEIGHTS}
        server.repositories["datasets/me/pairs"] = {"data/test-0.parquet": b"rows", "README.md": b"card"}
        yield server


def fetch(name: str, *, repository: str = "me/clip") -> Path:
    return fetch_file(f"hf:{repository}", repository, [name], library="transformers", instead="a folder")


def downloads(hub: Hub, name: str) -> int:
    return sum(command == "GET" and path.endswith(name) for command, path in hub.requests)


def test_a_file_is_downloaded_once_and_read_without_the_hub_then(hub, monkeypatch):
    path = fetch("model.safetensors")
    assert path.read_bytes() == WEIGHTS
    assert COMMIT in path.parts
    assert fetch("model.safetensors") == path
    assert downloads(hub, "model.safetensors") == 1
    asked = len(hub.requests)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert fetch("model.safetensors") == path
    assert len(hub.requests) == asked
    with raises(ModelError, "hf:me/clip", "other.json", "HF_HUB_OFFLINE"):
        fetch("other.json")


def test_a_download_that_is_cut_goes_on_and_is_whole(hub):
    hub.cut["model.safetensors"] = 300_000
    assert fetch("model.safetensors").read_bytes() == WEIGHTS
    assert downloads(hub, "model.safetensors") == 2


def test_a_download_of_another_length_is_refused_and_nothing_is_kept(hub, tmp_path):
    hub.changed["model.safetensors"] = WEIGHTS[:1000]
    with raises(ModelError, "hf:me/clip", "1000", str(len(WEIGHTS))):
        fetch("model.safetensors")
    assert not list((tmp_path / "hub-cache").rglob("snapshots/*/model.safetensors"))
    assert fetch("model.safetensors").read_bytes() == WEIGHTS


@pytest.mark.parametrize("token", [None, "hf_of_another"])
def test_a_gated_model_names_its_page_and_how_to_log_in(hub, token, monkeypatch):
    hub.gated.add("models/me/clip")
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with raises(ModelError, "hf:me/clip", "gated", "https://huggingface.co/me/clip", "HF_TOKEN", "hf auth login"):
        fetch("config.json")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert fetch("config.json").read_bytes() == b"{}"


def test_a_repository_that_moved_is_followed_and_one_that_is_not_there_is_named(hub):
    hub.moved["models/me/old"] = "me/clip"
    assert fetch("config.json", repository="me/old").read_bytes() == b"{}"
    with raises(ModelError, "hf:me/clap", "https://huggingface.co/me/clap"):
        fetch("config.json", repository="me/clap")


def test_a_dataset_comes_at_its_revision_and_with_its_files_alone(hub):
    data = Dataset("me/pairs", COMMIT, ("test-*.parquet",))
    assert data.cached_folder() is None
    folder = data.fetch()
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["test-0.parquet"]
    assert all("main" not in path for _, path in hub.requests)
    assert data.cached_folder() == folder == data.fetch()
