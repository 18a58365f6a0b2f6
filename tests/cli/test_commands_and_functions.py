"""Every command has a function of its name at the root, with the same parameters and defaults."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import tellapart
from facts import raises
from tellapart.cli.main import app
from tellapart.cli.once import options_of, restate
from tellapart.cli.options import NEGATIONS
from tellapart.errors import RunError, TellapartError

#: Commands whose name Python has for itself.
NAMES = {"import": "import_results"}

#: Options about what is printed, or about the command itself: of any command, and of some.
PRINTED = {"as_json", "quiet", "bundle"}
ALONE = {
    "audit": {"strict", "open_card"},  # the exit status; a browser
    "build": {"open_card"},
    "compare": {"markdown"},
    "items": {"as_csv"},
    "show": {"every", "by"},  # run.show(every=, by=)
    "parity": {"most"},  # the exit status
    "table": {"latex", "markdown", "as_csv"},  # form=
    "verify": {"strict"},  # the exit status
}

#: `score --scores BENCHMARK=FILE` names no benchmark, in Python it is None then; `--no-cache` is `cache=False`.
LEFT_OUT = {("score", "benchmark"), ("run", "no_cache")}

#: Parameters that a command fills in, or that a caller in Python alone has a use for.
FILLED = {"progress", "command", "ready", "left_out"}
PYTHON = {"run": {"batched"}, "table": {"form"}}


def commands() -> dict[str, Any]:
    """Every command by its words, those of groups, too: `annotate export`."""
    found: dict[str, Any] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found |= {name: command} if inner is None else {f"{name} {each}": one for each, one in inner.items()}
    return found


def function_of(name: str) -> Any:
    return getattr(tellapart, NAMES.get(name, name.replace(" ", "_")))


@pytest.mark.parametrize("name", commands())
def test_a_command_and_the_function_of_its_name_take_the_same(name: str) -> None:
    options = {each.name: each for each in commands()[name].params}
    given = {NEGATIONS.get(each, each) for each in options} - PRINTED - ALONE.get(name, set())
    parameters = dict(inspect.signature(function_of(name)).parameters)
    assert given == set(parameters) - FILLED - PYTHON.get(name, set())


@pytest.mark.parametrize("name", commands())
def test_a_command_and_the_function_of_its_name_have_the_same_defaults(name: str) -> None:
    parameters = inspect.signature(function_of(name)).parameters
    for option in commands()[name].params:
        parameter = parameters.get(NEGATIONS.get(option.name, option.name))
        if parameter is None or parameter.kind is inspect.Parameter.VAR_POSITIONAL or (name, option.name) in LEFT_OUT:
            continue
        needed = parameter.default is inspect.Parameter.empty
        assert option.required == needed, option.name
        if needed or (option.multiple and not option.default):  # an option that is not given leaves the argument out
            continue
        default = not option.default if option.name in NEGATIONS else option.default
        assert (str(default) if isinstance(default, Path) else default) == parameter.default, option.name


@pytest.mark.parametrize("name", commands())
def test_the_function_of_a_command_has_an_example_that_runs(name: str) -> None:
    text = inspect.getdoc(function_of(name)) or ""
    assert "+SKIP" not in text
    assert ">>> " in text


def test_the_functions_of_commands_are_of_the_python_interface() -> None:
    doors = {f"tellapart.{module}" for module in tellapart._WHERE.values()}
    assert {function_of(name).__module__ for name in commands()} <= doors
    assert tellapart.run is tellapart.evaluate


@pytest.mark.parametrize("name", commands())
def test_errors_name_options_in_place_of_parameters_and_no_two_parameters_share_one(name: str) -> None:
    table = options_of(commands()[name])
    for parameter, option in table.items():
        said = parameter if parameter.endswith("=False") else f"{parameter}="
        assert restate(f"x: leave {said} out", table) == f"x: leave {option} out"
    assert len(set(table.values())) == len(table)
    parameters = {word.partition("=")[0] for word in table}
    known = {*inspect.signature(function_of(name)).parameters, "plugin"} | PRINTED | ALONE.get(name, set())
    assert parameters <= known


@pytest.mark.parametrize("argument", ["out", "imagefolder", "parquet", "ray", "card"])
def test_captions_alone_have_no_output_of_a_set(argument: str, tmp_path: Path) -> None:
    given = {argument: True if argument == "card" else "other"}
    with raises(RunError, "pairs=", f"{argument}="):
        tellapart.build("recipe.toml", pairs=tmp_path / "pairs.jsonl", **given)


def test_an_error_of_the_python_interface_names_the_option_on_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(TellapartError) as raised:
        tellapart.evaluate("oracle", "demo", limit="x")
    assert "limit=" in str(raised.value) and "--limit" not in str(raised.value)
    command = [sys.executable, "-m", "tellapart", "run", "-m", "oracle", "--limit", "x", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--limit" in done.stderr and "limit=" not in done.stderr
