"""A hub that does not answer is asked once, and for seconds: the library's own way takes twelve tries and a minute."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from facts import check_facts

pytest.importorskip("huggingface_hub", reason="the hub's package comes with the extras 'hub' and 'models'")

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
def silent_server() -> Iterator[str]:
    """A server that takes connections and never says anything, as behind many a firewall."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def fail(code: str, endpoint: str, cache: Path, **environment: str) -> tuple[str, float, str]:
    """Run code in another process, whose environment names the hub; return its error, its seconds and its log."""
    unset = {"HF_HUB_OFFLINE", "HF_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"}
    inherited = {key: value for key, value in os.environ.items() if key not in unset}
    ran = subprocess.run(
        [sys.executable, "-c", TIMED, code],
        capture_output=True,
        text=True,
        check=True,
        env=inherited | {"HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "PYTHONPATH": str(SOURCE)} | environment,
    )
    error, seconds, offline = json.loads(ran.stdout)
    assert not offline  # what was asked of the library for this once is asked no longer
    return error, seconds, ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            MODEL,
            ("org/model", "config.json", "HF_HOME"),
        ),
        (DATASET, ("imirandam/BiVLC", "6c99042f10a8", "data=")),
    ],
    ids=["model", "dataset"],
)
def test_a_closed_port_is_one_line_at_once(tmp_path: Path, code: str, said: Any) -> None:
    error, seconds, log = fail(code, "http://127.0.0.1:9", tmp_path)
    check_facts(error, "http://127.0.0.1:9", said)
    assert "refused" in error
    assert "\n" not in error
    assert log == ""
    assert seconds < TOO_LONG


def test_a_hub_that_never_answers_is_waited_for_in_seconds(tmp_path: Path, silent_server: str) -> None:
    error, seconds, _ = fail(MODEL, silent_server, tmp_path, HF_HUB_ETAG_TIMEOUT="1")
    check_facts(error, silent_server, "reached")
    assert "timed out" in error
    assert 1 <= seconds < TOO_LONG


def test_what_the_cache_has_is_read_while_the_hub_does_not_answer(tmp_path: Path, silent_server: str) -> None:
    folder, commit = tmp_path / "hub" / "models--org--model", "0" * 40
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    (folder / "snapshots" / commit).mkdir(parents=True)
    (folder / "snapshots" / commit / "other.json").write_text("{}")
    found = "found = " + MODEL.strip().splitlines()[-1]
    code = f"{MODEL.strip().splitlines()[0]}\n{found}\nraise TellapartError(found.name)"
    error, seconds, _ = fail(code, silent_server, tmp_path, HF_HUB_ETAG_TIMEOUT="1")
    assert error == "other.json"
    assert seconds < TOO_LONG


def test_a_cached_snapshot_without_its_main_is_named(tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--org--model" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "other.json").write_text("{}")
    error, _, _ = fail(MODEL, "http://127.0.0.1:9", tmp_path)
    check_facts(error, "org/model", "other.json", "refs/main", f"local-dir:{snapshot}", "hf download org/model")
    assert "not in the hub's cache" not in error
