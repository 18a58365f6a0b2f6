"""Every command has a function of its name at the root, whose parameters are its options."""

import inspect
from typing import Any

import pytest

import tellapart
from commands import COMMANDS
from facts import raises
from tellapart.cli.command import FILLED, read_parameters
from tellapart.cli.main import app
from tellapart.cli.once import options_of, restate
from tellapart.cli.options import read_words
from tellapart.errors import RunError, TellapartError

#: Commands whose name Python has for itself.
NAMES = {"import": "import_results"}


def function_of(name: str):
    return getattr(tellapart, NAMES.get(name, name.replace(" ", "_")))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_source_of_a_function_has_the_parameters_that_the_function_has(name):
    read = read_parameters(NAMES.get(name, name.replace(" ", "_")))
    parameters = inspect.signature(function_of(name)).parameters
    assert [parameter.name for parameter in read] == list(parameters)
    for parameter in read:
        if parameter.name not in FILLED:
            assert parameter.default == parameters[parameter.name].default, parameter.name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_text(name):
    assert [option.name for option in COMMANDS[name].params if not option.help and not option.hidden] == []


def test_every_hint_is_of_a_parameter_of_its_function():
    def list_declarations(app) -> list[Any]:
        groups = [group.typer_instance for group in app.registered_groups]
        return [each.callback.declaration for each in app.registered_commands] + [
            declaration for group in groups for declaration in list_declarations(group)
        ]

    declared = list_declarations(app)
    assert {each.words for each in declared} == set(COMMANDS) == set(read_words()) - {"shared"}
    for each in declared:
        hints = {*each.hints, *read_words()[each.words].get("options", {})}
        assert hints <= {parameter.name for parameter in read_parameters(each.function)}, each.words


@pytest.mark.parametrize("name", COMMANDS)
def test_the_function_of_a_command_has_an_example_that_runs(name):
    text = inspect.getdoc(function_of(name)) or ""
    assert "+SKIP" not in text
    assert ">>> " in text


@pytest.mark.parametrize("name", COMMANDS)
def test_errors_name_options_in_place_of_parameters_and_no_two_parameters_share_one(name):
    table = options_of(COMMANDS[name])
    for parameter, option in table.items():
        said = parameter if parameter.endswith("=False") else f"{parameter}="
        assert restate(f"x: leave {said} out", table) == f"x: leave {option} out"
    assert len(set(table.values())) == len(table)


@pytest.mark.parametrize("argument", ["out", "imagefolder", "parquet", "ray", "card"])
def test_captions_alone_have_no_output_of_a_set(argument, tmp_path):
    given = {argument: True if argument == "card" else "other"}
    with raises(RunError, "pairs=", f"{argument}="):
        tellapart.build("recipe.toml", pairs=tmp_path / "pairs.jsonl", **given)


def test_an_error_of_the_python_interface_names_the_option_on_the_command_line(command):
    with pytest.raises(TellapartError) as raised:
        tellapart.evaluate("oracle", "demo", limit="x")
    assert "limit=" in str(raised.value) and "--limit" not in str(raised.value)
    done = command("run", "-m", "oracle", "--limit", "x", "--out", "run")
    assert done.code == 2 and "--limit" in done.err and "limit=" not in done.err
