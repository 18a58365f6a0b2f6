"""Wrong input on the command line: exit status 2, and one line that says what is wrong and what helps."""

import json
from pathlib import Path

import pytest

from facts import check_facts


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "-m", "oracel"], ("'oracel'", "'oracle'")),
        (["run", "-b", "winoground", "-m", "random"], "tellapart score winoground --scores FILE"),
        (["run", "-m", "random", "--limit", "all"], "--limit all"),
        (["run", "--cache", "c", "--no-cache"], ("--cache", "--no-cache")),
        (["score", "winoground", "--scores", "gone.npz"], ("gone.npz", "No such file")),
        (["score", "winoground", "--scores", "gone.txt"], ("gone.txt", ".npz", ".csv", ".jsonl", ".npy")),
        (["score", "winoground", "--scores", "a.csv", "--kind", "cosine"], ("--kind cosine", "similarity")),
        # A name of bytes that are not UTF-8, as Python reads it from the command line.
        (["score", "winoground", "--scores", "a.csv", "--name", "a\udcffb"], (r"'a\udcffb'", "UTF-8", "0xff")),
        (["show", "gone"], ("gone", "run folder")),
        (["compare", "gone", "gone"], ("gone", "run folder")),
        (["ls", "model"], ("'model'", "'models'", "benchmarks", "losses", "builders")),
        (["plot", "bras", "runs/a"], ("'bras'", "'bars'")),  # before the --out that is missing
        (["ls", "zebras"], ("'zebras'", "benchmarks", "models", "losses", "builders")),
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["tables", "json"])
def test_a_wrong_value_is_one_line_that_helps(command, arguments, said, options):
    ran = command(*arguments, *options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    check_facts(ran.err, said)
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
def test_a_wrong_use_is_one_line_that_says_what_is_wrong_and_which_help_to_read(command, arguments, said):
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
def test_an_option_of_one_value_is_not_taken_twice(command, arguments, option):
    ran = command(*arguments)
    assert (ran.code, ran.out) == (2, "")
    check_facts(ran.err, "error", option, "twice", f"tellapart {arguments[0]}", "--help")


def test_options_that_may_be_repeated_and_switches_are_taken_twice(command, made_set):
    name = f"folder:{made_set()}"
    ran = command("run", "-m", "random", "-m", "oracle", "-b", name, "--out", "r", "--no-cache", "--no-cache", "--json")
    assert [run["model"]["name"] for run in ran.json["runs"]] == ["random", "oracle"]


@pytest.mark.slow
def test_costs_of_one_model_that_are_listed_twice_are_an_error(command, made_set):
    name = f"folder:{made_set()}"
    command("run", "-m", "random", "-b", name, "--out", "r")
    Path("costs.csv").write_text("model,milliseconds\nrandom,1\nrandom,2\n")
    command(
        "time", "-m", "random", "-b", name, "--repeats", "1", "--warm-up", "1", "--batch-size", "2", "--out", "t.json"
    )
    timings = json.loads(Path("t.json").read_text())
    timings["models"] *= 2
    Path("t.json").write_text(json.dumps(timings))
    for file, said in (("costs.csv", ("costs.csv:3", "random", "twice")), ("t.json", ("t.json", "twice"))):
        ran = command("plot", "pareto", "r", "--costs", file, "--out", "a.svg")
        assert (ran.code, ran.out) == (2, "")
        check_facts(ran.err, "error", said)


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
def test_a_data_folder_that_is_not_there_is_one_line(command, arguments):
    ran = command(*arguments, "--data", "gone")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    check_facts(ran.err, "error", "--data gone", "folder")
