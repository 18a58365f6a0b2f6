"""`tellapart cache`: what runs keep, and its deletion."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from facts import raises
from tellapart.cli.commands import storage
from tellapart.data.atomic import take_lock
from tellapart.errors import StoreError
from tellapart.models.store.embedding_store import EmbeddingStore, PreparedPictures

A, B = "aa" * 32, "bb" * 32


@pytest.fixture
def folder(tmp_path) -> Path:
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        for model in ("one-fingerprint", "two-fingerprint"):
            store.put_numbers(model, {A: np.ones(2000, np.float32)})
            store.put_numbers(model, {A + B: np.float32(1)})
        store.put_model("files", {"name": "hf:one", "fingerprint": "one-fingerprint", "kind": "similarity"})
        store.put_pixel_hash(A, B)
    PreparedPictures(tmp_path / "prepared.sqlite", "crop").put(A, np.ones((200, 200, 3), np.uint8))
    (tmp_path / "answers.sqlite").write_text("paid for")
    return tmp_path


def call(*arguments: object):
    done = CliRunner().invoke(storage, [*map(str, arguments), "--json"], catch_exceptions=False)
    return json.loads(done.stdout)


def models(folder: Path) -> list[tuple[str, int, int]]:
    kept = call("ls", "--cache", folder)["models"]
    return [(model["name"] or model["fingerprint"], model["vectors"], model["scores"]) for model in kept]


def test_ls_lists_models_and_prepared_pictures(folder):
    kept = call("ls", "--cache", folder)
    assert models(folder) == [("hf:one", 1, 1), ("two-fingerprint", 1, 1)]
    assert [(each["name"], each["pictures"], each["bytes"]) for each in kept["prepared"]] == [("crop", 1, 120_000)]
    assert kept["bytes"]["prepared.sqlite"] >= 120_000
    shown = CliRunner().invoke(storage, ["ls", "--cache", str(folder)], catch_exceptions=False).stdout
    assert "hf:one (one-fingerprint): 1 vectors, 1 scores" in shown
    assert "1 prepared pictures, 120,000 bytes, used on 2" in shown


def test_an_empty_folder_is_left_empty_and_prune_says_what_it_cannot_do(folder):
    (empty := folder / "empty").mkdir()
    assert (call("ls", "--cache", empty)["models"], list(empty.iterdir())) == ([], [])
    with raises(StoreError, "model", "'three'"):
        call("prune", "--cache", folder, "-m", "three")
    with raises(StoreError, "embedding"):
        call("prune", "--cache", folder / "elsewhere", "-m", "three")


@pytest.mark.parametrize("name", ["hf:one", "one-fingerprint", "one-fing"])
def test_prune_of_a_model_leaves_the_others(folder, name):
    assert call("prune", "--cache", folder, "-m", name)["freed"] > 8000
    assert models(folder) == [("two-fingerprint", 1, 1)]
    with EmbeddingStore(folder / "store.sqlite") as store:
        assert store.pixel_hash(A) == B and store.model_of("files") is None
    assert call("ls", "--cache", folder)["prepared"]


def test_prune_of_prepared_pictures_leaves_the_store_and_of_all_the_answers_of_servers(folder):
    assert call("prune", "--cache", folder, "--prepared")["freed"] >= 120_000
    assert len(models(folder)) == 2
    assert not call("ls", "--cache", folder)["prepared"]
    call("prune", "--cache", folder, "--all")
    assert not models(folder)
    with EmbeddingStore(folder / "store.sqlite") as store:
        assert store.pixel_hash(A) == ""
    assert (folder / "answers.sqlite").read_text() == "paid for"


def leave(folder: Path) -> dict[str, int]:
    """What damaged files, earlier versions and interrupted ranks leave in a cache, by its size."""
    sizes = {"store.sqlite.damaged-1": 100, "prepared.sqlite.damaged-2-wal": 200, "store-shards/prepared.sqlite": 300}
    sizes |= {"store-shards/from-1-rank-1-of-2.part": 400, "store-shards/rank-0-of-2.sqlite.damaged-1": 500}
    (folder / "store-shards").mkdir()
    for name, size in sizes.items():
        (folder / name).write_bytes(b"x" * size)
    with EmbeddingStore(folder / "store-shards" / "rank-1-of-2.sqlite") as shard:
        shard.put_numbers("one-fingerprint", {A: np.ones(2000, np.float32)})
    return sizes


def test_prune_clears_leftovers_and_keeps_what_a_run_takes_up_or_ranks_work_at(folder):
    sizes = leave(folder)
    shards = folder / "store-shards"
    with take_lock(shards / "lock") as lock:
        assert lock is not None
        for arguments in ([], ["--all"]):
            with raises(StoreError, str(shards), "ranks"):
                call("prune", "--cache", folder, *arguments)
    assert sizes.items() <= call("ls", "--cache", folder)["bytes"].items()
    assert call("prune", "--cache", folder)["freed"] == sum(sizes.values())
    assert not any((folder / name).exists() for name in sizes)
    assert (shards / "rank-1-of-2.sqlite").exists()
    assert len(models(folder)) == 2 and call("ls", "--cache", folder)["prepared"]
    with take_lock(shards / "lock"):
        call("prune", "--cache", folder, "--prepared")
    call("prune", "--cache", folder, "--all")
    assert [file.name for file in shards.iterdir()] == ["lock"]


def test_prune_of_all_clears_files_that_cannot_be_used(tmp_path, caplog):
    sizes = leave(tmp_path)
    for name in ("store.sqlite", "prepared.sqlite", "store-shards/rank-0-of-2.sqlite"):
        (tmp_path / name).write_bytes(b"x" * 1_000_000)
    assert call("prune", "--cache", tmp_path, "--all")["freed"] > 2_900_000 + sum(sizes.values())
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert left == {"store.sqlite", "store-shards/lock"}
    assert len(caplog.messages) == 1  # of the store, which is opened


def test_kept_audits_are_listed_and_pruned_with_all(folder):
    (folder / "audits").mkdir()
    (folder / "audits" / "key.json").write_text("{}" * 50)
    assert call("ls", "--cache", folder)["bytes"]["audits/key.json"] == 100
    call("prune", "--cache", folder)
    assert (folder / "audits" / "key.json").exists()
    assert call("prune", "--cache", folder, "--all")["freed"] >= 100
    assert list((folder / "audits").iterdir()) == []
