"""Words of other tools are answered with ours, which are there."""

from __future__ import annotations

import typer

from tellapart.cli import other_words
from tellapart.cli.main import app


def test_every_answer_is_a_command_or_an_option_that_is_there_and_no_word_is_ours() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    options = {word for command in commands.values() for each in command.params for word in each.opts}
    answers = {answer.split()[0] for answer in other_words._COMMANDS.values()}
    assert answers <= commands.keys()
    assert set(other_words._OPTIONS.values()) <= options
    assert not other_words._COMMANDS.keys() & commands.keys()


def test_a_word_of_another_tool_is_one_line_with_ours(command) -> None:
    for words, ours in (
        (["gate", "a"], "compare --gate"),
        (["train", "--output_path", "x"], "--out"),
        (["train", "--steps", "4"], "--limit"),
    ):
        ran = command(*words)
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert words[-2] in ran.err
        assert f"it is {ours} here" in ran.err
    assert "--benchmark" not in command("train", "--tasks", "demo").err  # which train does not take
