"""Every command has a function of its name, whose parameters are its options, and a help that opens with an example."""

import csv
import inspect
import re
import shlex
from pathlib import Path
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
def test_every_option_has_a_text_and_a_name_in_errors_and_every_command_an_example(name):
    assert [option.name for option in COMMANDS[name].params if not option.help and not option.hidden] == []
    text = inspect.getdoc(function_of(name)) or ""
    assert "+SKIP" not in text and ">>> " in text
    table = options_of(COMMANDS[name])
    for parameter, option in table.items():
        said = parameter if parameter.endswith("=False") else f"{parameter}="
        assert restate(f"x: leave {said} out", table) == f"x: leave {option} out"
    assert len(set(table.values())) == len(table)


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


@pytest.mark.parametrize("argument", ["out", "imagefolder", "parquet", "ray", "card"])
def test_captions_alone_have_no_output_of_a_set(argument, tmp_path):
    given = {argument: True if argument == "card" else "other"}
    with raises(RunError, "pairs=", f"{argument}="):
        tellapart.build("recipe.toml", pairs=tmp_path / "pairs.jsonl", **given)


def test_an_error_of_the_python_interface_names_the_option_on_the_command_line(command):
    with raises(TellapartError, "limit=") as raised:
        tellapart.evaluate("oracle", "demo", limit="x")
    done = command("run", "-m", "oracle", "--limit", "x", "--out", "run", code=2)
    assert "--limit" not in str(raised.value) and "--limit" in done.err and "limit=" not in done.err


# The help: panels by the reason to read it, and one example that opens each command's help.


def read_example(words: str) -> str:
    example = re.match(r"Example: `(.+)`\n", COMMANDS[words].help)
    assert example is not None, f"the docstring of {words} has no line 'Example: `tellapart {words} ...`'"
    return example[1]


@pytest.mark.parametrize("words", COMMANDS)
def test_the_help_of_a_command_opens_with_an_example_and_has_words_of_the_command_line(words, monkeypatch):
    example = read_example(words)
    assert example.startswith(f"tellapart {words}")
    arguments = shlex.split(example.removeprefix(f"tellapart {words}"))
    context = COMMANDS[words].make_context(words, arguments)  # it raises if a word is not understood
    required = {each.name for each in COMMANDS[words].params if each.required}
    assert all(context.params[name] not in (None, [], ()) for name in required)
    texts = {option.name: option.help or "" for option in COMMANDS[words].params}
    in_python = re.compile(r"\bNone\b|if not given (is|are)\b|\w\(\w+=|the result's|is returned|; with `\w")
    assert [name for name, text in texts.items() if in_python.search(text)] == []


def test_the_first_help_has_panels_with_the_most_used_commands_first_and_lists_show_no_examples(command):
    text = command("--help").out
    panels = ["Options", "Measure", "Compare and publish", "Build and check pairs", "Train", "Host", "Tools"]
    assert re.findall(r"^╭─ ([^─]+?) ─", text, re.MULTILINE) == panels
    assert re.search(r"Measure ─+╮\n│ run ", text)
    assert re.search(r"Compare and publish ─+╮\n│ compare ", text)
    for listed in (text, *(command(group, "--help").out for group in ("board", "annotate"))):
        assert "Example:" not in listed


#: Examples on files that somebody must have, or that need the network: their parsing is tested above.
NEED_FILES = {
    "annotate import", "annotate agree", "build", "curve", "risk", "gap", "import", "items", "mine", "push", "regions",
    "serve", "train",
}  # fmt: skip


@pytest.mark.slow
def test_the_examples_run(command, made_set):
    made_set("my_pairs")
    for name in sorted(COMMANDS, key=lambda name: name not in {"run", "export"}):
        if name in NEED_FILES or (name.startswith("board ") and name != "board export"):
            continue
        if name == "score":
            rows = list(csv.DictReader(Path("scores.csv").read_text(encoding="utf-8").splitlines()))
            filled = (f"{row['id']},{row['image']},{row['text']},{number % 7}" for number, row in enumerate(rows))
            Path("scores.csv").write_text("\n".join(["id,image,text,score", *filled]) + "\n")
        command(*shlex.split(read_example(name))[1:], code=0)
