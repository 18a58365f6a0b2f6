"""Results proposed to the hub, by its own client, to a server that speaks the hub's calls."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from hub_server import TOKEN, Hub, client_of_hub

import tellapart as ta
from facts import check_facts

hub_client = pytest.importorskip("huggingface_hub")
constants = pytest.importorskip("huggingface_hub.constants")

CARD = """---
license: mit
tags: [clip]
model-index:
- name: Their name
  results:
  - task: {type: image-classification}
    dataset: {name: CIFAR-10, type: cifar10}
    metrics: [{type: accuracy, value: 0.9}]
---
# A model

Words that stay.
"""
EARLIER = """- {dataset: {id: facebook/winoground, task_id: text_score}, value: 0.01}
- {dataset: {id: cais/hle, task_id: default}, value: 20.9, notes: kept}
"""
RESULTS = ".eval_results/tellapart.yaml"
SCORES = ("text_score", "image_score", "group_score", "match_score")


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[Hub]:
    with client_of_hub(tmp_path / "hub-cache", monkeypatch) as server:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


@pytest.fixture
def winoground(tmp_path) -> Path:
    """A run on Winoground's ids, which are known without its files: every third item all right."""
    scores = [np.eye(2) if k % 3 == 0 else np.full((2, 2), 0.5) for k in range(400)]
    return ta.score("winoground", np.array(scores), name="mine/clip", out=tmp_path / "run").folder


def test_a_pull_request_holds_the_results_and_what_was_there(hub, winoground, command):
    files = {"README.md": CARD.encode(), RESULTS: EARLIER.encode()}
    hub.repositories["models/me/clip"] = dict(files)
    ran = command("push", winoground, "me/clip", code=0)
    assert ran.out == f"pull request: {hub.address}/me/clip/discussions/1\n"
    (request,) = hub.pull_requests
    said = ("me/clip", "Results on winoground, measured with tellapart", {"README.md", RESULTS})
    assert (request["repo"], request["summary"], set(request["files"])) == said
    assert hub.repositories["models/me/clip"] == files  # nothing but the pull request was written
    card = hub_client.ModelCard(request["files"]["README.md"])
    assert "Words that stay." in card.text
    assert (card.data.license, card.data.model_name) == ("mit", "Their name")
    values = {one.metric_type: one.metric_value for one in card.data.eval_results}
    assert values == {"accuracy": 0.9, **dict.fromkeys(SCORES, 134 / 400)}
    entries = hub_client.parse_eval_result_entries(yaml.safe_load(request["files"][RESULTS]))
    assert [(one.dataset_id, one.task_id, one.value) for one in entries] == [
        ("cais/hle", "default", 20.9),
        *(("facebook/winoground", metric, 134 / 400) for metric in SCORES),
    ]


def test_a_page_without_a_card_gets_one_and_the_same_again_is_nothing_to_propose(hub, winoground, command):
    hub.repositories["models/me/new"] = {}
    assert command("push", winoground, "me/new", "--json").json["pull_request"] == f"{hub.address}/me/new/discussions/1"
    made = hub.pull_requests[0]["files"]
    assert hub_client.ModelCard(made["README.md"]).data.model_name == "mine/clip"
    hub.repositories["models/me/new"] = {path: text.encode() for path, text in made.items()}
    again = command("push", winoground, "me/new")
    assert again.out == f"{hub.address}/me/new has these files as they are: nothing to propose\n"
    assert len(hub.pull_requests) == 1


def test_a_dry_run_prints_the_files_that_would_be_sent_and_sends_nothing(hub, winoground, command, monkeypatch):
    hub.repositories["models/me/clip"] = {"README.md": CARD.encode()}
    monkeypatch.delenv("HF_TOKEN")
    printed = command("push", winoground, "me/clip", "--dry-run", code=0)
    assert {method for method, _ in hub.requests} <= {"HEAD", "GET"}
    assert hub.tokens == {None}
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert command("push", winoground, "me/clip").code == 0
    for path, text in hub.pull_requests[0]["files"].items():
        assert f"==> {path}\n{text}" in printed.out


def test_the_token_is_from_the_environment_alone(hub, winoground, command, monkeypatch, tmp_path):
    hub.repositories["models/me/clip"] = {}
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN")
    check_facts(command("push", winoground, "me/clip", code=2).err, "HF_TOKEN", "--dry-run")
    assert hub.tokens == {None} and not hub.pull_requests


@pytest.mark.parametrize(
    ("files", "repo", "token", "facts"),
    [
        ({}, "me/gone", TOKEN, ("OWNER/NAME", "HF_TOKEN")),
        ({}, "me/clip", "hf_other", ("HF_TOKEN", "403", "Forbidden")),
        ({}, "no id", TOKEN, ("id", "id", "OWNER/NAME")),
        # The hub's check of a card, in its words.
        ({"README.md": CARD.replace("license:", "licence:")}, "me/clip", TOKEN, ("Invalid", '"licence"', '"license"')),
        *(({RESULTS: text}, "me/clip", TOKEN, (RESULTS,)) for text in ("- a: 1\n", "{", "- 7\n")),
    ],
)
def test_what_the_hub_refuses_is_one_line(hub, winoground, command, monkeypatch, files, repo, token, facts):
    hub.repositories["models/me/clip"] = {path: text.encode() for path, text in files.items()}
    monkeypatch.setenv("HF_TOKEN", token)
    ran = command("push", winoground, repo, code=2)
    check_facts(ran.err, *facts)
    assert ran.err.count("\n") == 1


def test_a_set_that_is_not_on_the_hub_is_in_the_card_alone(hub, made_set, command):
    hub.repositories["models/me/clip"] = {}
    made_set("pairs", n=6)
    assert command("run", "-m", "random", "-b", "folder:pairs", "--out", "r", "--no-cache").code == 0
    ran = command("push", "r", "me/clip", code=0)
    assert "not in .eval_results, which knows only datasets on the hub: folder:pairs" in ran.out
    assert set(hub.pull_requests[0]["files"]) == {"README.md"}


def test_a_benchmark_gets_a_task_for_each_metric_that_results_name(hub, winoground, command):
    hub.repositories |= {"datasets/facebook/winoground": {}, "models/me/clip": {}}
    command("push", "winoground", "facebook/winoground", "--benchmark", "--split", "validation", code=0)
    assert command("push", winoground, "me/clip").code == 0
    benchmark, model = hub.pull_requests
    assert benchmark["kind"] == "datasets"
    content = yaml.safe_load(benchmark["files"]["eval.yaml"])
    assert content["evaluation_framework"] == "tellapart"
    entries = yaml.safe_load(model["files"][RESULTS])
    assert [task["id"] for task in content["tasks"]] == [entry["dataset"]["task_id"] for entry in entries]
    assert {(task["config"], task["split"]) for task in content["tasks"]} == {("default", "validation")}


def test_offline_nothing_is_sent_and_a_dry_run_says_what_it_does_not_know(hub, winoground, command, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    check_facts(command("push", winoground, "me/clip", code=2).err, "HF_HUB_OFFLINE")
    dry = command("push", winoground, "me/clip", "--dry-run", code=0)
    check_facts(dry.err, "HF_HUB_OFFLINE", "page")
    assert f"==> {RESULTS}" in dry.out
    assert not hub.requests


@pytest.mark.slow
def test_from_a_shell_and_with_no_server_there(hub, winoground, tmp_path):
    hub.repositories["models/me/clip"] = {"README.md": CARD.encode()}

    def push(address: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN}
        environment.pop("HF_HUB_OFFLINE", None)
        arguments = [sys.executable, "-m", "tellapart", "push", str(winoground), "me/clip", "--json"]
        return subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300, check=False)

    done = push(hub.address)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pull_request"] == f"{hub.address}/me/clip/discussions/1"
    with socket.socket() as deaf:  # bound, so that nobody else takes the port, and not listening
        deaf.bind(("127.0.0.1", 0))
        refused = push(f"http://127.0.0.1:{deaf.getsockname()[1]}")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "reached" in refused.stderr
