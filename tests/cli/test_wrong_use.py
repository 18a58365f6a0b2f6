"""Wrong input on the command line: exit status 2, and one line that says what is wrong and what helps."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "-m", "oracel"], "error: no model 'oracel'; did you mean 'oracle'\\?"),
        (["run", "-m", "zebra"], "error: no model 'zebra'.*`tellapart ls models` lists them all"),
        (["run", "-b", "winogrund"], "error: no benchmark 'winogrund'; did you mean 'winoground'\\?"),
        (["run", "-b", "folder:gone", "-m", "random"], "error: no folder 'gone'; a pair set is a folder with"),
        (["run", "-b", "winoground", "-m", "random"], "error: .*run: tellapart score winoground --scores FILE"),
        (["run", "-m", "onnx:gone"], "error: gone has no config.json; an ONNX dual encoder is a folder with"),
        (["run", "-m", "random", "--limit", "all"], "error: --limit all: give a number of items"),
        (["run", "-m", "random", "--device", "tpu"], "error: device 'tpu' is unknown; use one of cpu, cuda"),
        (["run", "--cache", "c", "--no-cache"], "error: --cache and --no-cache were both given"),
        (["score", "winoground", "--scores", "gone.npz"], r"error: gone.npz: cannot be read \(No such file"),
        (
            ["score", "winoground", "--scores", "gone.txt"],
            "error: gone.txt: scores are read from .npz, .csv, .jsonl or .npy",
        ),
        (
            ["score", "winoground", "--scores", "a.csv", "--kind", "cosine"],
            "error: --kind cosine: use one of similarity",
        ),
        (["show", "gone"], "error: no run in gone; name a run folder"),
        (["compare", "gone", "gone"], "error: no run in gone; name a run folder"),
        (["check", "oracel"], "error: no model 'oracel'; did you mean 'oracle'\\?"),
        (
            ["ls", "model"],
            "error: nothing to list under 'model'; did you mean 'models'\\? use benchmarks, models, losses or builders",
        ),
        (["ls", "zebras"], "error: nothing to list under 'zebras'; use benchmarks, models, losses or builders"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["tables", "json"])
def test_a_wrong_value_is_one_line_that_helps(command, arguments: list[str], said: str, options: list[str]) -> None:
    ran = command(*arguments, *options)
    assert (ran.code, ran.out) == (2, "")
    assert re.match(said, ran.err), ran.err
    assert ran.err.count("\n") == 1
    assert not Path("runs").exists()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["rum"], "Did you mean 'run'"),
        (["run", "--modle", "random"], "No such option: --modle"),
        (["run", "--batch-size", "0"], "Invalid value for '--batch-size'"),
        (["run", "--batch-size", "many"], "Invalid value for '--batch-size'"),
        (["run", "--seed", "-1"], "Invalid value for '--seed'"),
        (["run", "-m"], "Option '-m' requires an argument"),
        (["run", "random"], "unexpected extra argument"),
        (["score", "winoground"], "Missing option '--scores'"),
        (["export"], "Missing argument 'BENCHMARK'"),
        (["score"], "Missing option '--scores'"),
        (["compare"], "Missing argument 'RUN...'"),
        (["ls"], "Missing argument 'WHAT'"),
    ],
)
def test_a_wrong_use_is_one_line_that_says_what_is_wrong_and_which_help_to_read(
    command, arguments: list[str], said: str
) -> None:
    ran = command(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert said.lower() in ran.err.lower()  # typer spells arguments in capitals or not, by version
    owner = f" {arguments[0]}" if arguments[0] not in {"bogus", "rum"} else ""
    assert ran.err.endswith(f" see: tellapart{owner} --help\n")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["run", "--limit", "2", "-m", "random", "--limit", "3"], "--limit"),
        (["detect", "demo", "-m", "a", "--model", "b"], "--model"),
        (["table", "r", "--costs", "a.csv", "--costs", "b.csv"], "--costs"),
        (["plot", "pareto", "r", "--out", "a.svg", "--costs", "a.csv", "--costs", "b.csv"], "--costs"),
        (["ls", "benchmarks", "--data", ".", "--data", "."], "--data"),
        (["annotate", "agree", "study", "--scores", "a.npz", "--scores", "b.npz"], "--scores"),
    ],
)
def test_an_option_of_one_value_is_not_taken_twice(command, arguments: list[str], option: str) -> None:
    ran = command(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert re.fullmatch(rf"error: {option} is given twice; give it once; see: tellapart .* --help\n", ran.err), ran.err


def test_options_that_may_be_repeated_and_switches_are_taken_twice(command, made_set) -> None:
    name = f"folder:{made_set()}"
    ran = command("run", "-m", "random", "-m", "oracle", "-b", name, "--out", "r", "--no-cache", "--no-cache", "--json")
    assert [run["model"]["name"] for run in ran.json["runs"]] == ["random", "oracle"]


def test_costs_are_an_error_where_nothing_shows_them(command, made_set) -> None:
    command("run", "-m", "random", "-b", f"folder:{made_set()}", "--out", "r")
    Path("costs.csv").write_text("model,milliseconds\nrandom,1\n")
    for arguments, said in (
        (("table", "r"), "--costs is shown by one layout; add --layout vlue-cost, or leave it out"),
        (
            ("plot", "tiers", "r", "--out", "a.svg"),
            "--costs is of pareto; tiers shows no costs of models: leave it out",
        ),
    ):
        ran = command(*arguments, "--costs", "costs.csv")
        assert (ran.code, ran.out, ran.err) == (2, "", f"error: {said}\n")


@pytest.mark.slow
def test_costs_of_one_model_that_are_listed_twice_are_an_error(command, made_set) -> None:
    name = f"folder:{made_set()}"
    command("run", "-m", "random", "-b", name, "--out", "r")
    Path("costs.csv").write_text("model,milliseconds\nrandom,1\nrandom,2\n")
    command(
        "time", "-m", "random", "-b", name, "--repeats", "1", "--warm-up", "1", "--batch-size", "2", "--out", "t.json"
    )
    timings = json.loads(Path("t.json").read_text())
    timings["models"] *= 2
    Path("t.json").write_text(json.dumps(timings))
    for file, said in (
        ("costs.csv", "costs.csv:3: random is listed twice"),
        ("t.json", "t.json measured a model twice"),
    ):
        ran = command("plot", "pareto", "r", "--costs", file, "--out", "a.svg")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"error: {said}")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "-m", "random"],
        ["score", "demo", "--scores", "a.csv"],
        ["export", "demo", "--to", "a.csv"],
        ["audit", "demo"],
        ["time", "-m", "random"],
        ["detect", "demo", "-m", "random"],
        ["annotate", "export", "match", "demo", "--to", "study"],
        ["ls", "benchmarks"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_data_folder_that_is_not_there_is_one_line(command, arguments: list[str]) -> None:
    ran = command(*arguments, "--data", "gone")
    assert (ran.code, ran.out, ran.err) == (2, "", "error: --data gone: there is no such folder\n")
