"""The help of the command line: panels by the reason to read it, and one example that opens each command's help."""

import csv
import re
import shlex
from pathlib import Path

import pytest

from commands import COMMANDS


def read_example(words: str) -> str:
    example = re.match(r"Example: `(.+)`\n", COMMANDS[words].help)
    assert example is not None, f"the docstring of {words} has no line 'Example: `tellapart {words} ...`'"
    return example[1]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_commands_help_opens_with_an_example_that_parses(words, monkeypatch):
    example = read_example(words)
    assert example.startswith(f"tellapart {words}")
    arguments = shlex.split(example.removeprefix(f"tellapart {words}"))
    context = COMMANDS[words].make_context(words, arguments)  # it raises if a word is not understood
    required = {each.name for each in COMMANDS[words].params if each.required}
    assert all(context.params[name] not in (None, [], ()) for name in required)


@pytest.mark.parametrize("words", COMMANDS)
def test_options_are_explained_in_words_of_the_command_line_not_of_python(words):
    texts = {option.name: option.help or "" for option in COMMANDS[words].params}
    in_python = re.compile(r"\bNone\b|if not given (is|are)\b|\w\(\w+=|the result's|is returned|; with `\w")
    assert [name for name, text in texts.items() if in_python.search(text)] == []


def test_a_list_of_commands_does_not_show_the_examples(command):
    for words in ((), ("board",), ("annotate",)):
        assert "Example:" not in command(*words, "--help").out


def test_the_first_help_has_panels_with_the_most_used_commands_first(command):
    text = command("--help").out
    panels = re.findall(r"^╭─ ([^─]+?) ─", text, re.MULTILINE)
    assert panels == [
        "Options", "Measure", "Compare and publish", "Build and check pairs", "Train", "Host", "Tools"
    ]  # fmt: skip
    assert re.search(r"Measure ─+╮\n│ run ", text)
    assert re.search(r"Compare and publish ─+╮\n│ compare ", text)


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
