"""Names that steer a terminal, a page or a notebook, and options without effect."""

import io
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent))

from attacks import STEERS, Attack, declared, write_file
from container_doors import encode_picture
from false_inputs import export_board

import tellapart as ta
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.evaluation.verified import read_result
from tellapart.records.run_folder import write_result
from tellapart.report.interchange.foreign import read_foreign

_MARKUP = "<img src=x onerror=alert(1)>"


def _draw_set() -> PairSet:
    """Return pairs whose ids, tags and captions are markup, and steer."""
    items = tuple(
        Item(
            id=f"{_MARKUP}{k}",
            images=("a.png", "b.png"),
            texts=(f"{STEERS} {k} {_MARKUP}", f"{k} {STEERS}"),
            tags={"kind": f"{_MARKUP}{k % 2}"},
        )
        for k in range(6)
    )
    return PairSet("steering", items, Path(), read=lambda name: encode_picture("png", side=8 + (name == "b.png")))


def _write_run(folder: Path) -> Path:
    """Write a run of a model with such a name on such pairs."""
    run = ta.evaluate("random", _draw_set(), out=folder / "run", cache=False).folder
    result = read_result(run)
    model = result.model.model_copy(update={"name": f"{STEERS}{_MARKUP}"})
    write_result(run, result.model_copy(update={"model": model}))
    return Path(run)


def _shown(show: Callable[[Path], object], *, page: bool = False) -> Attack:
    """A run of hostile names at a door that prints them: nothing steers, and in a page nothing is markup."""

    def read(folder: Path) -> None:
        run = _write_run(folder)
        with redirect_stdout(io.StringIO()) as printed:
            text = f"{show(run)}{printed.getvalue()}"
        if len(text) < 40 or set(text) & {"\x1b", "\x07", "\u202e"} or (page and "<img src=x" in text):
            raise AssertionError(f"names are shown as they are: {text[:200]!a}")

    return Attack(read)


def _show_all(run: Path) -> object:
    opened = ta.open_run(run)
    opened.show(every=True)
    return repr(opened), repr(opened.items()), repr(opened.items()[0])


def _show_notebook(run: Path) -> str:
    opened = ta.open_run(run)
    shown = (opened, opened.table(), opened.items(), opened.items()[0], ta.verify(run))
    return "".join(each._repr_html_() for each in shown)


def _write_page(run: Path) -> str:
    path = ta.open_run(run).write_report().path
    text = "" if path is None else path.read_text("utf-8")
    return re.sub(r'(?s)id="report-data">.*?</script>', "", text)  # its texts become text nodes, a block each


def _refuse(*facts: str, **options: Any) -> Attack:
    """An option of `evaluate` that has no effect or no such value."""
    return Attack(
        lambda _folder: ta.evaluate("demo-encoder", "demo", limit=4, cache=False, **options), (*options, *facts)
    )


_MTEB = '{"task_name": "a \\ud800", "mteb_version": "1", "scores": {"test": [{"accuracy": 0.5}]}}'

NAME_ATTACKS: dict[str, Attack] = {
    "names that steer: show --all": _shown(_show_all),
    "names that steer: table": _shown(lambda run: [ta.table(run, form) for form in ("markdown", "latex", "csv")]),
    "names that steer: page": _shown(_write_page, page=True),
    "names that steer: board": _shown(partial(export_board, items=6), page=True),
    "names that steer: notebook": _shown(_show_notebook, page=True),
    "half a character in mteb's JSON": Attack(
        lambda folder: read_foreign(write_file(folder / "mteb.json", _MTEB)), ("mteb.json", "\\ud800")
    ),
    "half a character in a model's name": Attack(
        lambda _folder: ta.score("demo", np.zeros((400, 2, 2)), name="a\udcff"), ("name", "\\udcff")
    ),
    **declared("option", _refuse),
}
