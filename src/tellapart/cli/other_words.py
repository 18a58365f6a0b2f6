"""Commands and options of other tools as ours, for the answer to a word that tellapart does not have."""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["answer_other_word"]

_COMMANDS = {
    **dict.fromkeys(("eval", "evaluate", "measure", "bench", "benchmark", "test", "predict"), "run"),
    **dict.fromkeys(("gate", "regression"), "compare --gate"),
    **dict.fromkeys(("leaderboard", "host", "dashboard"), "serve"),
    **dict.fromkeys(("list", "models", "benchmarks"), "ls"),
    **{"report": "show", "diff": "compare", "finetune": "train", "fine-tune": "train", "generate": "build"},
}
_OPTIONS = {
    **dict.fromkeys(("--task", "--tasks", "--dataset", "--datasets", "--set"), "--benchmark"),
    **dict.fromkeys(("--pretrained", "--checkpoint", "--model-name", "--model-args", "--ckpt"), "--model"),
    **dict.fromkeys(("--output", "--output-path", "--output-dir", "--output-folder", "--save"), "--out"),
    **dict.fromkeys(("--num-samples", "--max-samples", "--samples", "--subset", "--steps", "--max-steps"), "--limit"),
    **dict.fromkeys(("--image-root", "--image-dir", "--image-folder", "--images-dir"), "--images"),
    **dict.fromkeys(("--dataset-root", "--data-dir", "--data-root", "--root"), "--data"),
    **{"--precision": "--dtype", "--bs": "--batch-size", "--rename": "--label"},
}


def answer_other_word(message: str, options: Collection[str]) -> str:
    """Return a message of typer with our word in place of its guesses, if another tool's word was typed.

    Args:
        message: as typer writes it, with the word that is unknown.
        options: of the command that was typed.

    >>> answer_other_word("No such command 'eval'", ())
    "No such command 'eval': it is run here"
    >>> answer_other_word("No such option: --tasks (Possible options: --data)", ["--benchmark"])
    'No such option: --tasks: it is --benchmark here'
    >>> answer_other_word("No such option: --tasks", ["--out"])
    'No such option: --tasks'
    """
    found = re.match(r"No such (?:command '(?P<command>[\w-]+)'|option: (?P<option>--[\w-]+))", message)
    if found is None:
        return message
    ours = _COMMANDS.get(found["command"] or "") or _OPTIONS.get((found["option"] or "").replace("_", "-"))
    if ours is None or (ours.startswith("-") and ours not in options):
        return message
    return f"{found[0]}: it is {ours} here"
