"""Files come from a hub as its own client fetches them: pinned, cached, resumed; what is refused names the way on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("huggingface_hub", reason="the hub's package comes with the extras 'hub' and 'models'")

from hub_server import COMMIT, TOKEN, Hub, client_of_hub

from facts import raises
from tellapart.benchmarks.hub import Hub as Dataset
from tellapart.errors import DataError, ModelError
from tellapart.models.hub import fetch_file

WEIGHTS = bytes(range(256)) * 4096


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with client_of_hub(tmp_path / "hub-cache", monkeypatch) as server:
        server.repositories["models/me/clip"] = {"config.json": b"{}", "model.safetensors": WEIGHTS}
        server.repositories["datasets/me/pairs"] = {"data/test-0.parquet": b"rows", "README.md": b"card"}
        yield server


def fetch(name: str, *, repository: str = "me/clip") -> Path:
    return fetch_file(f"hf:{repository}", repository, [name], library="transformers", instead="a folder")


def downloads(hub: Hub, name: str) -> int:
    return sum(command == "GET" and path.endswith(name) for command, path in hub.requests)


def test_a_file_is_downloaded_once_and_read_without_the_hub_then(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_download_that_is_cut_goes_on_and_is_whole(hub: Hub) -> None:
    hub.cut["model.safetensors"] = 300_000
    assert fetch("model.safetensors").read_bytes() == WEIGHTS
    assert downloads(hub, "model.safetensors") == 2


def test_a_download_of_another_length_is_refused_and_nothing_is_kept(hub: Hub, tmp_path: Path) -> None:
    hub.changed["model.safetensors"] = WEIGHTS[:1000]
    with raises(ModelError, "hf:me/clip", "1000", str(len(WEIGHTS))):
        fetch("model.safetensors")
    assert not list((tmp_path / "hub-cache").rglob("snapshots/*/model.safetensors"))
    assert fetch("model.safetensors").read_bytes() == WEIGHTS


def test_a_repository_that_moved_is_followed(hub: Hub) -> None:
    hub.moved["models/me/old"] = "me/clip"
    assert fetch("config.json", repository="me/old").read_bytes() == b"{}"


@pytest.mark.parametrize("token", [None, "hf_of_another"])
def test_a_gated_model_names_its_page_and_how_to_log_in(
    hub: Hub, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.gated.add("models/me/clip")
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with raises(ModelError, "hf:me/clip", "gated", "https://huggingface.co/me/clip", "HF_TOKEN", "hf auth login"):
        fetch("config.json")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert fetch("config.json").read_bytes() == b"{}"


def test_a_repository_that_is_not_there_is_named(hub: Hub) -> None:
    with raises(ModelError, "hf:me/clap", "https://huggingface.co/me/clap"):
        fetch("config.json", repository="me/clap")


def test_a_dataset_comes_at_its_revision_and_with_its_files_alone(hub: Hub) -> None:
    data = Dataset("me/pairs", COMMIT, ("test-*.parquet",))
    assert data.cached_folder() is None
    folder = data.fetch()
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["test-0.parquet"]
    assert all("main" not in path for _, path in hub.requests)
    assert data.cached_folder() == folder == data.fetch()


def test_a_gated_dataset_needs_a_token_with_access(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.gated.add("datasets/me/pairs")
    data = Dataset("me/pairs", COMMIT, ("test-*.parquet",), gated=True)
    with raises(DataError, "me/pairs", "token", "HF_TOKEN"):
        data.fetch()
    monkeypatch.setenv("HF_TOKEN", "hf_of_another")
    with raises(DataError, "me/pairs", "access", "HF_TOKEN"):
        data.fetch()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert (data.fetch() / "data" / "test-0.parquet").read_bytes() == b"rows"
