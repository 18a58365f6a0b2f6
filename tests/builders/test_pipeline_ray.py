"""A build on a Ray cluster loses a node and ends in the same bytes; what is wrong with a cluster is said at once."""

import json
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from facts import raises
from scripts import run_python
from sets import contents
from tellapart.builders.builder import Candidate
from tellapart.builders.executor import RayExecutor
from tellapart.builders.pipeline import WorkerPlan, attempt, build, sources_of
from tellapart.builders.recipe_file import open_builder, read_recipe_file
from tellapart.errors import MissingDependencyError, RunError

RECIPE = 'name = "few"\nbuilder = "squares"\nseed = 3\n[options]\ncount = 12\n'


@pytest.fixture
def ray_folder():
    """Delete Ray's folder of logs and sockets; it has no other place, for the path of a socket may have 107 bytes."""
    yield
    shutil.rmtree(Path(tempfile.gettempdir()) / "ray", ignore_errors=True)


@pytest.mark.slow
def test_a_cluster_that_loses_a_node_builds_the_same_bytes(site, ray_folder, tmp_path):
    pytest.importorskip("ray", reason="needs the ray extra")
    (tmp_path / "recipe.toml").write_text(RECIPE)
    whole = build(tmp_path / "recipe.toml", tmp_path / "whole")
    # A process of its own: Ray leaves threads, sockets and warnings behind.
    command = [Path(__file__).with_name("ray_driver.py"), tmp_path / "recipe.toml", tmp_path / "set"]
    variables = {"PYTHONPATH": str(site), "TEST_SECONDS_PER_ITEM": "0.3", "RAY_USAGE_STATS_ENABLED": "0"}
    said = json.loads(run_python(*command, timeout=150, env=os.environ | variables).stdout.splitlines()[-1])
    assert (said["items"], said["alive"], said["told"]) == (10, 1, list(range(13)))
    assert "has tellapart" in said["refused"][0]
    assert "tellapart 0 is at work here; install the same on every node" in said["refused"][0]
    assert said["refused"][1].endswith("has 2 CPUs and 0 GPUs; a worker takes 1 CPU and 1 GPUs")
    assert contents(whole.folder) == contents(tmp_path / "set")


def test_an_address_where_nothing_answers_is_an_error_at_once():
    pytest.importorskip("ray", reason="needs the ray extra")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and deaf
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with raises(RunError, "Ray", f"'{address}'"):
            next(RayExecutor(address).perform(abs, [1]))
    with raises(RunError, "'nowhere'", "Ray", "HOST:PORT"):
        next(RayExecutor("nowhere").perform(abs, [1]))


def test_without_ray_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with raises(MissingDependencyError, 'pip install "tellapart[ray]"', "run"):
        next(RayExecutor("local").perform(abs, [1]))


def test_a_worker_with_other_inputs_or_another_version_refuses_to_work(site, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    read = read_recipe_file(path)
    sources = dict(sources_of(open_builder(read, tmp_path)))
    for wrong, says in (
        ({"tellapart": "0"}, ("tellapart is", "0")),
        ({"file captions.csv": "9f86" * 16}, ("captions.csv", "9f869f869f86")),
        ({"model painter": "2"}, ("model", "1", "2")),
    ):
        told = tuple(sorted((sources | wrong).items()))
        with raises(RunError, says):
            attempt([Candidate("square-000", 0)], WorkerPlan(read.model_dump_json(), tmp_path, "0123", told))
