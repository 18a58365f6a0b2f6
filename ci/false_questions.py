"""False questions to runs, of `why`, `curve` and `compare --anytime`: rows of the table of `false_inputs.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from attacks import Attack
from PIL import Image

import tellapart as ta


def _ask(ask: Callable[[Path], object], *facts: str, limit: int = 2) -> Attack:
    """A question to a run on the demonstration set."""
    measure = partial(ta.evaluate, "random", "demo", limit=limit, cache=False)
    return Attack(lambda folder: ask(measure(out=folder / "a").folder), facts)


def _ask_table(ask: Callable[[Path], object], sizes: list[object], *facts: str) -> Attack:
    """A question to a run on a table of items with one image and two captions, with a tag each."""

    def read(folder: Path) -> object:
        Image.new("RGB", (8, 8)).save(folder / "0.png")
        rows = [f"0.png,a cup {k},a bowl {k},{size}\n" for k, size in enumerate(sizes)]
        (folder / "a.csv").write_text("image,caption,foil,size\n" + "".join(rows))
        columns = {"tag:size": "size"}
        run = ta.evaluate("random", f"table:{folder / 'a.csv'}", out=folder / "a", cache=False, columns=columns)
        return ask(run.folder)

    return Attack(read, ("a.csv", *facts))


def _compare_lengths(run: Path) -> object:
    ta.evaluate("oracle", "demo", limit=3, out=run.parent / "b", cache=False)
    return ta.compare(run, run.parent / "b", anytime=True)


_curve_of_sizes = partial(ta.curve, over="size")

#: What, and at which door -> the attack.
FALSE_QUESTIONS: dict[str, Attack] = {
    "tag of words: curve": _ask(partial(ta.curve, over="aspect"), "demo", "over='aspect'", "'attribute'", "--columns"),
    "tag that no item has: curve": _ask(partial(ta.curve, over="sizes"), "demo", "over='sizes'", "--columns"),
    "set that no run measured: curve": _ask(
        partial(ta.curve, over="aspect", benchmark="dmo"), "did not measure 'dmo'", "benchmark=", "hold demo"
    ),
    "metric of a misspelt name: curve": _ask(
        partial(ta.curve, over="aspect", metric="groupscore"), "demo", "metric='groupscore'", "'group_score'"
    ),
    "tag with one value in all items: curve": _ask_table(_curve_of_sizes, [1] * 24, "'size'", "1 different", "3"),
    "tag of numbers but for one item: curve": _ask_table(
        _curve_of_sizes, [*range(23), "big"], "over='size'", "1 of 24", "row-24", "'big'"
    ),
    "items with one image and two texts: why": _ask_table(ta.why, [1, 2], "as many images as texts", "1 images"),
    "tag that no item has: why": _ask(partial(ta.why, by="aspekt"), "'aspekt'", "'aspect'"),
    "set that no run measured: why": _ask(partial(ta.why, benchmark="dmo"), "'dmo'", "hold demo"),
    "one run alone: compare --anytime": _ask(partial(ta.compare, anytime=True), "one model", "two"),
    "runs of other items: compare --anytime": _ask(_compare_lengths, "demo", "limit=", "same pairs"),
    "anytime p-values beside a gate: compare --anytime": _ask(
        lambda run: ta.compare(run, run, anytime=True, gate=True), "gate=True", "anytime="
    ),
}
