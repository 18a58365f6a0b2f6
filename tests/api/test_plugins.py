"""Plugins that the user names: files and packages, their mistakes, and that nobody else can name one."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

import tellapart as ta
from facts import check_facts, raises
from scripts import run_python
from tellapart import catalog
from tellapart.benchmarks import plugins
from tellapart.cli.once import OnceCommand
from tellapart.errors import DataError, ExitError, PluginError, TellapartError, UnknownNameError

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"


@pytest.fixture(autouse=True)
def as_in_a_new_process(monkeypatch) -> None:
    """What a test loads is gone after it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(plugins, "_FILES", {})
    monkeypatch.setattr(plugins, "_HOMES", set())
    monkeypatch.setattr(plugins, "_LOADED", [])
    monkeypatch.setattr(catalog, "_ADDED", {kind: {} for kind in catalog._ADDED})
    monkeypatch.setattr(OnceCommand, "debug", False)


@pytest.fixture
def mine(tmp_path) -> Path:
    """The two examples, in a folder of the user's own."""
    folder = tmp_path / "mine"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_a_model_is_a_file_of_ten_lines_and_a_benchmark_one_of_fifteen():
    assert sum(bool(line.strip()) for line in (EXAMPLES / "my_set.py").read_text().splitlines()) <= 15
    assert len((EXAMPLES / "my_model.py").read_text().splitlines()) <= 10


def test_a_chat_model_in_a_file_is_asked_about_a_set_in_a_file(command, mine):
    model, pairs = f"{mine}/my_chat.py:Chat", f"choice:{mine}/my_chat.py:SQUARES"
    ran = command("run", "-m", model, "-b", pairs, "--out", "r", "--json", code=0)
    record = ran.json["runs"][0]["benchmarks"]["choice:my_chat.py:SQUARES"]
    found = {name: value["value"] for name, value in record["metrics"].items()}
    assert found["true_first"] == 1 and found["both_orders"] == found["order_bias"] == 0.5
    verified = command("verify", "r", "--plugin", mine / "my_chat.py")
    assert verified.code == 0 and " 0 different" in verified.out, verified.out


@pytest.mark.slow
def test_both_are_measured_without_installing_anything(command, mine):
    model, pairs = f"{mine}/my_model.py:brightness", f"{mine}/my_set.py:MY_SET"
    (run,) = command("run", "-m", model, "-b", pairs, "--out", "r", "--json", code=0).json["runs"]
    assert run["model"]["name"] == "my_model.py:brightness"
    assert run["model"]["file"]["path"] == str(mine / "my_model.py")
    record = run["benchmarks"]["my_set.py:MY_SET"]
    assert record["own"]["path"] == str(mine / "my_set.py") and record["own"]["sha256"]
    assert record["metrics"]["group_score"]["value"] == 1.0
    assert Path("r/report.html").read_text().count("data:image/") > 0
    # ... and so do the other commands that take a model or a benchmark.
    assert (command("export", pairs, "--to", "pairs.csv").code, command("audit", pairs, "--no-images").code) == (0, 0)
    assert command("check", model).code == 0


def test_what_a_files_model_scores_is_kept_until_the_file_changes(command, mine):
    arguments = ("run", "-m", f"{mine}/my_model.py:brightness", "-b", f"{mine}/my_set.py:MY_SET", "--json", "--out")
    first, again = command(*arguments, "a").json["runs"][0], command(*arguments, "b").json["runs"][0]
    assert [run["benchmarks"]["my_set.py:MY_SET"]["pairs_scored"] for run in (first, again)] == [80, 0]
    file = mine / "my_model.py"
    file.write_text(file.read_text().replace("128:", "200:"))
    changed = command(*arguments, "c").json["runs"][0]
    assert changed["model"]["fingerprint"] != first["model"]["fingerprint"]
    assert changed["benchmarks"]["my_set.py:MY_SET"]["pairs_scored"] == 80


def test_a_run_folder_never_has_code_run_and_the_user_may(command, mine, tmp_path):
    pairs, ran_at = mine / "my_set.py", tmp_path / "ran"
    pairs.write_text(pairs.read_text() + f"with Path({str(ran_at)!r}).open('a') as file:\n    file.write('x')\n")
    command("run", "-m", "oracle", "-b", f"{pairs}:MY_SET", "--out", "r")
    assert ran_at.read_text() == "x"
    plugins._FILES.clear()
    catalog._ADDED["benchmark"].clear()
    shown = command("show", "r", code=0)
    assert ran_at.read_text() == "x"
    check_facts(shown.err, pairs, "--plugin", pairs)
    assert "kept" in shown.err
    shown = command("show", "r", "--plugin", pairs)
    assert (shown.err, ran_at.read_text()) == ("", "xx")


@pytest.mark.parametrize("words", [("compare", "--max-drop"), ("run", "-m", "oracle", "--out"), ("show", "--")])
def test_the_value_of_an_option_and_a_folder_after_two_hyphens_load_nothing(command, words, tmp_path):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nMODELS = {{'evil': None}}\n")
    command(*words, f"--plugin={tmp_path / 'evil.py'}", *(["-b", "no-such-set"] if words[0] == "run" else []), code=2)
    assert not (tmp_path / "ran").exists()


def test_neither_a_recipe_nor_a_configuration_can_name_a_file_of_code(mine):
    from tellapart.benchmarks.find import find_again, find_benchmark
    from tellapart.benchmarks.locations import Locations
    from tellapart.models.find import find_model

    for name in (f"{mine}/my_model.py:brightness", "my_model.py:brightness"):
        with pytest.raises(TellapartError):
            find_model(name)
    with pytest.raises(UnknownNameError):
        find_benchmark(f"{mine}/my_set.py:MY_SET")
    with raises(DataError, "my_set.py", "runs"):
        find_again("my_set.py:MY_SET", mine / "my_set.py", Locations())
    assert not plugins._FILES


PACKAGE = """
from tellapart import Benchmark
from tellapart.benchmarks.find import find_benchmark
from dataclasses import replace

def longer(image, text):
    return len(text)

longer.fingerprint = "longer-1"
MODELS = {"longer": lambda options: longer}
BENCHMARKS = {"again": replace(find_benchmark("demo"), name="again")}
"""

MARGIN = """
import numpy as np
from tellapart.metrics.metric import Metric, read_scores

def clear_margin(scores):
    values = read_scores(scores, "clear_margin", ("2x2",))
    return (values[:, [0, 1], [0, 1]] - values[:, [0, 1], [1, 0]] > 0.1).all(axis=1).astype(np.float64)

METRICS = {"clear-margin": Metric(name="clear_margin", title="by 0.1", source="here", shapes=("2x2",),
                                  strict=clear_margin)}
"""


@pytest.mark.slow
def test_a_plugins_metric_is_measured_with_the_others(tmp_path):
    (tmp_path / "margin.py").write_text(MARGIN)
    line = ["-m", "tellapart", "run", "--plugin", "margin.py", "-m", "oracle", "--limit", "3", "--json", "--no-cache"]
    done = run_python(*line, cwd=tmp_path)
    assert json.loads(done.stdout)["runs"][0]["benchmarks"]["demo"]["metrics"]["clear_margin"]["value"] == 1.0
    code = "import tellapart as ta; ta.text_score([[[1, 0], [0, 1]]]); ta.find_model('oracle'); ta.METRICS; "
    code += "ta.load_plugin('margin.py')"
    check_facts(run_python("-c", code, status=None, cwd=tmp_path).stderr, "metrics", "load")


def test_a_package_adds_what_its_tables_hold(command, tmp_path, monkeypatch):
    (tmp_path / "mine_package").mkdir()
    (tmp_path / "mine_package" / "__init__.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    ran = command("run", "--plugin", "mine_package", "-m", "longer", "-b", "again", "--limit", "4", "--json", code=0)
    assert (ran.json["runs"][0]["model"]["name"], list(ran.json["runs"][0]["benchmarks"])) == ("longer", ["again"])
    listed = command("--plugin", "mine_package", "ls", "benchmarks", "--json").json
    assert "again" in [row["name"] for row in listed]
    assert ta.load_plugin("mine_package") == ["again", "longer"]


@pytest.mark.few(2)
@pytest.mark.filterwarnings("ignore::tellapart.errors.TellapartWarning")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os\ndef f(image, text)\n", r"bad\.py:2: SyntaxError: expected ':'"),
        ("x = 1\ny = z\n", r"bad\.py:2: NameError: name 'z' is not defined"),
        ("import no_such_thing\n", r"bad\.py:1: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("def f(image, text):\n    x = image.widht\n    return x\n", r"bad\.py:2: AttributeError: .*'widht'"),
        ("class f:\n    def __init__(self, path): pass\n", "f is a class that needs path; give an object of it"),
        ("f = 7\n", r"7 \(int\) is no model: give a name"),
        ("g = 7\ndef ff(image, text): return 1\n", r"bad\.py holds no 'f'; .*it defines g, ff"),
        ("raise SystemExit(3)\n", r"bad\.py:1: SystemExit: 3"),
    ],
)
def test_a_mistake_in_a_plugin_is_one_line_with_its_place(command, tmp_path, code, said):
    (tmp_path / "bad.py").write_text(code)
    ran = command("run", "-m", "bad.py:f", "-b", "demo", "--limit", "2", "--out", "r")
    errors = [line for line in ran.err.splitlines() if not line.startswith("warning: ")]
    assert (ran.code, len(errors), ran.out) == (2, 1, "")
    assert errors[0].startswith("error: ")
    assert re.search(said, errors[0]), errors[0]
    traceback = command("run", "-m", "bad.py:f", "-b", "demo", "--limit", "2", "--out", "r", "--debug").err
    assert "Traceback (most recent call last)" in traceback


ENDS = """import argparse, sys
def quits(image, text): sys.exit(0)
def helps(image, text): argparse.ArgumentParser(prog="mine").parse_args(["--help"])
class Refuses:
    def __init__(self): sys.exit()
"""


@pytest.mark.filterwarnings("ignore::tellapart.errors.TellapartWarning")
@pytest.mark.parametrize(("name", "line"), [("quits", 2), ("helps", 3), ("Refuses", 5)])
@pytest.mark.parametrize("words", [("run", "-b", "demo", "--limit", "2", "--out", "r", "-m"), ("check",)])
def test_a_model_that_ends_the_program_is_an_error_with_its_line(command, tmp_path, words, name, line):
    (tmp_path / "ends.py").write_text(ENDS)
    ran = command(*words, f"ends.py:{name}", code=1)
    check_facts(ran.err.splitlines()[-1], "error", f"ends.py:{line}", "SystemExit")
    assert not (tmp_path / "r" / "results.json").exists()


@pytest.mark.filterwarnings("ignore::tellapart.errors.TellapartWarning")
def test_a_function_in_memory_that_ends_the_program_is_an_error_in_python():
    def quits(image: object, text: str) -> float:
        sys.exit(0)

    for call in (lambda: ta.evaluate(quits, limit=2, cache=False), lambda: ta.check(quits)):
        with raises(ExitError, Path(__file__).name, "SystemExit"):
            call()


@pytest.mark.slow
def test_a_model_that_ends_the_process_that_times_it_is_an_error(command, tmp_path):
    (tmp_path / "ends.py").write_text(ENDS)
    ran = command("time", "-m", "ends.py:quits", "--repeats", "2", "--warm-up", "1", code=1)
    check_facts(ran.err.splitlines()[-1], "error", "ends.py:quits")


def test_a_set_that_ends_a_command_of_another_kind_is_an_error(command, made_set, tmp_path):
    (tmp_path / "ends.py").write_text(
        f"import sys, tellapart as ta\nclass Reads(ta.PairSet):\n    def read_bytes(self, name): sys.exit(0)\n"
        f"SET = ta.load_pairs('folder:{made_set('s')}')\nSET = Reads(SET.name, SET.items, SET.root)\n"
    )
    ran = command("audit", "ends.py:SET", "--json", code=1)
    check_facts(ran.err.splitlines()[-1], "error", "ends.py:3", "SystemExit")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_package", ("plugin", "no_such_package")), ("json", ("plugin", "BENCHMARKS", "MODELS")),
        ("gone.py", "'gone.py'"), ("", "package"), ("..", "package"),
    ],
)  # fmt: skip
def test_a_plugin_that_is_none_is_refused(name, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with raises(PluginError, said):
        ta.load_plugin(name)


def test_a_plugin_cannot_replace_what_is_in_the_catalogue(tmp_path):
    (tmp_path / "bad.py").write_text("MODELS = {'oracle': None}\n")
    with raises(PluginError, "MODELS", "model", "'oracle'"):
        ta.load_plugin(tmp_path / "bad.py")


def test_two_sets_of_one_name_are_told_apart(command, mine, tmp_path):
    shutil.copytree(mine, tmp_path / "other")
    file = tmp_path / "other" / "my_set.py"
    file.write_text(file.read_text().replace("range(20)", "range(10)"))
    sets = ["-b", f"{mine}/my_set.py:MY_SET", "-b", f"{file}:MY_SET"]
    ran = command("run", "-m", "oracle", *sets, "--out", "r", "--json", code=0)
    names = ran.json["runs"][0]["benchmarks"].keys()
    assert sorted(name.partition("#")[0] for name in names) == ["my_set.py:MY_SET"] * 2
    assert json.loads(Path("r/results.json").read_text())["benchmarks"].keys() == names
