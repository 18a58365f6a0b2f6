"""Names that steer a terminal, a page or a notebook, names that look like others, and options without effect."""

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

from attacks import STEERS, Attack, write_file
from container_doors import encode_picture

import tellapart as ta
from tellapart import catalog
from tellapart.board.submissions.routes import check_model_name
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.evaluation.verified import read_result
from tellapart.models.find import declared_prefix, find_model
from tellapart.models.options import MEANT_FOR, ModelOptions
from tellapart.records.run_folder import write_result
from tellapart.report.interchange.foreign import read_foreign

_MARKUP = "<img src=x onerror=alert(1)>"

#: A value of each option of models that is not its default.
_GIVEN: dict[str, Any] = {
    "device": "cuda", "dtype": "bfloat16", "reading": "itn", "regions": Path("none.npz"), "texts": "library",
    "image_size": 384, "tokenizer": Path("none"), "calls": 9, "insecure": True, "instruction": "Find it.",
}  # fmt: skip


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


def _export_board(run: Path) -> str:
    site = run.parent / "site"
    ta.board_export(site, runs=run, items=6, comparisons=0)
    return "".join(path.read_text("utf-8") for path in site.rglob("*.html"))


def _refuse_options(option: str) -> Attack:
    """An option that a family of models does not take, at each of these families, before a file is read."""

    def read(_folder: Path) -> None:
        errors = []
        for prefix in sorted(catalog.names("prefix")):
            declared = declared_prefix(f"{prefix}gone")
            if declared is None or option in (declared.takes or ()):
                continue
            try:
                find_model(f"{prefix}gone", ModelOptions(**{option: _GIVEN[option]}))
            except ta.TellapartError as error:
                errors.append(error)
                if option not in str(error) or "no effect" not in str(error):
                    raise AssertionError(f"{prefix} takes {option}: {error}") from error
            else:
                raise AssertionError(f"{prefix} takes {option}")
        raise errors[0]

    return Attack(read, (option, "no effect"))


def _call(call: Callable[[], object], *facts: str) -> Attack:
    return Attack(lambda _folder: call(), facts)


def _refuse(*facts: str, **options: Any) -> Attack:
    """An option of `evaluate` that has no effect or no such value."""
    return _call(lambda: ta.evaluate("demo-encoder", "demo", limit=4, cache=False, **options), *options, *facts)


_MTEB = '{"task_name": "a \\ud800", "mteb_version": "1", "scores": {"test": [{"accuracy": 0.5}]}}'

NAME_ATTACKS: dict[str, Attack] = {
    "names that steer: show --all": _shown(_show_all),
    "names that steer: table": _shown(lambda run: [ta.table(run, form) for form in ("markdown", "latex", "csv")]),
    "names that steer: page": _shown(_write_page, page=True),
    "names that steer: board": _shown(_export_board, page=True),
    "names that steer: notebook": _shown(_show_notebook, page=True),
    "half a character in mteb's JSON": Attack(
        lambda folder: read_foreign(write_file(folder / "mteb.json", _MTEB)), ("mteb.json", "\\ud800")
    ),
    "half a character in a model's name": _call(
        lambda: ta.score("demo", np.zeros((400, 2, 2)), name="a\udcff"), "name", "\\udcff"
    ),
    "a name in two scripts": _call(lambda: check_model_name("\u043eracle"), "looks like", "\\u043e"),
    **{
        f"a name for people: {name!a}": _call(partial(check_model_name, name), "looks like", "human")
        for name in (
            "\ua4e7\ua4f4\ua4df\ua4ee\ua4e0",
            "\u029c\u1d1c\u1d0d\u1d00\u0274",
            "\U0001d417 (h\u0336u\u0336m\u0336a\u0336n\u0336)",
            "Human (experts)",
            "human-level model",
            "h u m a n",
        )
    },
    "a name of two scripts in a word": _call(lambda: check_model_name("\u0421LIP"), "cyrillic", "latin"),
    "a name that turns the page around": _call(lambda: check_model_name("a\u202eb"), "\\u202e"),
    **{f"option without effect: {option}": _refuse_options(option) for option in MEANT_FOR},
    "option without effect: reading of a dual encoder": _refuse("itn", reading="itn"),
    "option without effect: a file of regions that is not there": _refuse("nosuch.npz", regions="nosuch.npz"),
    **{
        f"option without effect: {name}": _refuse("no effect", **{name: value})
        for name, value in (("data", "."), ("images", "."), ("strict", True))
    },
    **{
        f"unknown value of {name}": _refuse(value, **{name: value})
        for name, value in (("device", "gpu"), ("dtype", "float3"), ("texts", "polished"))
    },
}
