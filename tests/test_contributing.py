"""The recipes of CONTRIBUTING.md work: another package follows them to the letter."""

import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from scripts import install, run_python

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```(?:python|toml)\n# (\S+\.(?:py|toml))\n(.*?)```", PAGE, re.DOTALL))
ENTRY_POINTS = [
    (group, line)
    for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for group, points in tomllib.loads(block).get("project", {}).get("entry-points", {}).items()
    for line in (f"{name} = {target}" for name, target in points.items())
]


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """Install what the page shows, and return the folder to put on the path."""
    site = tmp_path_factory.mktemp("site")
    for name, code in FILES.items():
        path = site / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    install(site, "of_the_page", "".join(f"[{group}]\n{line}\n" for group, line in ENTRY_POINTS), "")
    return site


def python(package: Path, *arguments: str) -> str:
    """Run Python in a process of its own that has the package, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(package), "TELLAPART_CACHE": str(package / "cache"), "NO_COLOR": "1"}
    return run_python(*arguments, cwd=package, env=environment).stdout


def tellapart(package: Path, *arguments: str):
    return json.loads(python(package, "-m", "tellapart", *arguments, "--json"))


def test_every_recipe_has_a_file_and_an_entry_point():
    kinds = {group.removeprefix("tellapart.") for group, _ in ENTRY_POINTS}
    assert kinds == {"benchmarks", "metrics", "prefixes", "losses"}
    assert len(FILES) == len(ENTRY_POINTS) + 1  # the presets of the loss


@pytest.mark.slow
def test_the_benchmark_the_metric_and_the_prefix_meet_in_a_run(package):
    (run,) = tellapart(package, "run", "-b", "clocks", "-m", "brightness:mine", "--out", "run")["runs"]
    assert run["model"]["name"] == "brightness:mine"
    metrics = run["benchmarks"]["clocks"]["metrics"]
    assert {"group_score", "clear_margin"} <= metrics.keys()
    # A share without a chance level is no deviation: it has no spread.
    assert (metrics["clear_margin"]["n"], metrics["clear_margin"]["mean_absolute"]) == (4, None)


@pytest.mark.slow
def test_the_prefix_is_listed_and_a_wrong_one_names_it(package):
    assert "brightness:NAME" in python(package, "-m", "tellapart", "ls", "models")
    command = ("-m", "tellapart", "run", "-m", "brightnes:mine")
    done = run_python(*command, status=2, env={**os.environ, "PYTHONPATH": str(package)})
    assert "brightness:" in done.stderr


@pytest.mark.slow
def test_the_loss_is_computed_and_brings_its_preset_and_the_bounds_of_its_options(package):
    pytest.importorskip("torch", reason="losses need the train extra")
    values = ('name = "run"', 'model = "x"', 'preset = "wide-hinge"', '[data]\ntrain = ["a"]', "[batch]\nsize = 2")
    (package / "run.toml").write_text("\n".join((*values, "[optimiser]\nsteps = 1")))
    program = """
from pathlib import Path
import torch
from tellapart.training.config import read_config
from tellapart.training.losses.loss import Batch, find_loss
batch = Batch(torch.eye(3), torch.eye(3), torch.tensor(0.0), torch.arange(3))
print(find_loss("hinge")(batch)["total"].item())
config = read_config(Path("run.toml"))
print(config.loss_terms()[0].options["margin"], config.optimiser.learning_rate)
try:
    find_loss("hinge").read_options({"margin": -1.0}, "[loss]")
except Exception as error:
    print(error)
"""
    total, options, refused = python(package, "-c", program).splitlines()
    assert (float(total), options) == (0.0, "0.5 1e-05")
    assert "'margin'" in refused and "-1.0" in refused
    listed = {row["name"]: row["about"] for row in tellapart(package, "ls", "losses")}
    assert listed["hinge"] == "Each image's own text beats every other text by a margin."
