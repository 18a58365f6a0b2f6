"""Commands made from functions of the Python interface: parameters, defaults and their `Args:` are typed once, there.

A function's source is read, not imported: its module loads numpy and more, for which no `--help` should wait.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import tellapart
from tellapart.cli.once import OnceCommand, load_plugins
from tellapart.cli.options import NEGATIONS, columns_of, labels_of, make_hint, read_words
from tellapart.report.terminal import print_text

if TYPE_CHECKING:
    from tellapart.report.progress import CommandProgress


def command_line() -> str:
    """Return the command as it was typed, quoted for a shell."""
    return shlex.join(["tellapart", *sys.argv[1:]])


def new_run_folder() -> Path:
    """Name a run folder after the time, so that no run ever lands in another's."""
    from datetime import datetime

    return Path("runs") / datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S.%f")[:-3]


@contextmanager
def interruptible(
    kept: Callable[[], str | None] = lambda: None, *, again: str | Callable[[], str] | None = None, quiet: bool = False
) -> Iterator[CommandProgress]:
    """Show progress; on Ctrl-C print which results are kept and how to go on, and exit with 130."""
    from tellapart.report.progress import show_progress

    with show_progress(quiet=quiet) as progress:
        try:
            yield progress
        except KeyboardInterrupt:
            progress.stop()
            left, command = kept(), again() if callable(again) else again or command_line()
            ending = f"{left}. Go on with: {command}" if left else f"nothing is kept. Begin again with: {command}"
            print_text(f"interrupted; {ending}", error=True)
            raise typer.Exit(130) from None


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

_Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="No progress: no bar on a terminal, no line every half minute elsewhere.")
]

#: Options of any command, which the help of `tellapart` itself lists.
_SHARED: dict[str, Any] = {
    "plugin": Annotated[list[str] | None, typer.Option("--plugin", hidden=True)],
    "debug": Annotated[bool, typer.Option("--debug", hidden=True)],
}

#: Parameters that a command fills in, or that a caller in Python alone has a use for.
FILLED = {"progress", "command", "ready", "left_out", "batched", "form"}

#: Words of an annotation -> the type that is read; text for any other.
_TYPES = {"PathGiven": Path, "CacheGiven": Path, "int": int, "float": float, "bool": bool}

_EMPTY = inspect.Parameter.empty

#: Parameters of mappings -> what reads them.
_READERS: dict[str, Callable[[list[str]], Any]] = {"columns": columns_of, "labels": labels_of}


class Parameter(NamedTuple):
    """A parameter of a function of the interface, as its source has it."""

    name: str
    annotation: str
    default: Any
    named: bool  # by keyword alone
    several: bool  # `*name`
    text: str


@cache
def read_parameters(function: str) -> tuple[Parameter, ...]:
    """Return the parameters of a function of the root by its source.

    >>> over = read_parameters("curve")[1]
    >>> over.name, over.annotation, over.named, over.text[:24]
    ('over', 'str', True, 'The tag: of numbers, as ')
    """
    node, module = _find(function, tellapart._WHERE[function])
    arguments, texts = node.args, _read_args(ast.get_docstring(node) or "")
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    rows = [(argument, default, False, False) for argument, default in zip(arguments.args, defaults, strict=True)]
    rows += [(arguments.vararg, None, False, True)] if arguments.vararg else []
    rows += [
        (row, default, True, False) for row, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return tuple(
        Parameter(row.arg, ast.unparse(row.annotation), _value(default, module), named, several, texts.get(row.arg, ""))
        for row, default, named, several in rows
    )


@cache
def _statements(module: str) -> list[ast.stmt]:
    """Return the statements of a module, the last first: overloads stand before their function."""
    file = Path(tellapart.__file__).parents[1] / f"{module.replace('.', '/')}.py"
    return ast.parse(file.read_text(encoding="utf-8")).body[::-1]


def _find(name: str, module: str) -> tuple[Any, str]:
    """Return the function, or the value, of a name in a module, and the module in which it is written."""
    for node in _statements(module):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node, module
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return _find(node.value.id, module) if isinstance(node.value, ast.Name) else (node.value, module)
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return _find(name, node.module or "")
    raise LookupError(f"{module} has no {name}")


def _value(default: ast.expr | None, module: str) -> Any:
    """Return a default as a value; none if a parameter has none, or one that no command line could give."""
    if default is None or isinstance(default, ast.Attribute):
        return _EMPTY
    return ast.literal_eval(_find(default.id, module)[0] if isinstance(default, ast.Name) else default)


def _read_args(docstring: str) -> dict[str, str]:
    """Return the first sentence on each parameter of a docstring's `Args:`; none where it only refers to others.

    >>> _read_args("Do.\\n\\nArgs:\\n    a, b: two; all if None. More.\\n    c: as of `f`.\\n    seed: of draws.\\n")
    {'a': 'Two; all if not given.', 'b': 'Two; all if not given.', 'seed': 'Seed of draws.'}
    """
    block = re.search(r"^Args:\n((?: {4}.*\n|\n)+)", f"{docstring}\n", re.MULTILINE)
    texts: dict[str, str] = {}
    for entry in re.split(r"^ {4}(?! )", block[1] if block else "", flags=re.MULTILINE):
        names, _, text = " ".join(entry.split()).partition(": ")
        text = re.sub(r"\bif none\b", "if not given", re.split(r"(?<=\.) (?=[A-Z])", text)[0], flags=re.IGNORECASE)
        if not re.match(r"as of|likewise|with `adaptive`", text):
            for name in names.replace("*", "").split(", ") if text else ():
                full = f"{name.replace('_', ' ')} {text}" if text.startswith("of ") else text
                texts[name] = full[:1].upper() + full[1:]
    return texts


class Call:
    """A command as it was typed: its values are attributes; called, it calls the function of the interface."""

    def __init__(self, function: str, values: dict[str, Any]) -> None:
        self._function, self._values = function, values

    def __getattr__(self, name: str) -> Any:
        return self._values[name]

    def __call__(self, kept: Callable[[], str | None] | None = None, again: Any = None, **others: Any) -> Any:
        """Call the function with what was typed, and with further arguments; show its progress if it has one.

        An interrupt prints what is kept, which is of the store if the function has one, and how to go on.
        """
        several: tuple[Any, ...] = ()
        given: dict[str, Any] = {}
        parameters = read_parameters(self._function)
        for parameter in parameters:
            value = self._values.get(parameter.name)
            if parameter.several:
                several = tuple(value or ())
            elif value is not None and value != []:
                read = _READERS.get(parameter.name)
                given[parameter.name] = read(value) if read else value
        annotations = {parameter.name: parameter.annotation for parameter in parameters}
        if "command" in annotations:
            given["command"] = command_line()
        if "left_out" in annotations:
            given["left_out"] = lambda problem: print_text(f"left out: {problem}", error=True)
        function = partial(getattr(tellapart, self._function), *several, **given | others)
        if "progress" not in annotations:
            return function()
        if kept is None and "cache" in annotations:
            from tellapart.models.store.cache import describe_stored

            kept = partial(describe_stored, self.cache)
        with interruptible(kept or (lambda: None), again=again, quiet=self.quiet) as progress:
            whole = annotations["progress"] == "ProgressGiven"  # else that of a single task
            return function(progress=progress.callback if whole else progress.callback(self._function))


class Answer:
    """What a command prints.

    Args:
        facts: for `--json`; a record, or a function that returns them, too.
        shown: lines, and functions that print, in their order.
        passed: whether the exit status is 0.
    """

    def __init__(self, facts: Any, *shown: str | Callable[[], object] | None, passed: bool = True) -> None:
        self.facts, self.shown, self.passed = facts, shown, passed

    def print(self, *, as_json: bool) -> None:
        """Print facts or lines; exit with 1 if it has not passed."""
        if as_json:
            print_json(_as_facts(self.facts))
        for line in () if as_json else self.shown:
            if line is not None:
                print_text(line) if isinstance(line, str) else line()
        if not self.passed:
            raise typer.Exit(1)


def _as_facts(result: Any) -> Any:
    if hasattr(result, "to_json"):
        return result.to_json()
    record = getattr(result, "record", result)
    if hasattr(record, "model_dump"):
        return record.model_dump(mode="json", by_alias=True)
    return record() if callable(record) else record


def print_json(value: Any) -> None:
    """Print a value as JSON in ASCII, which every terminal's encoding has; NaN is refused."""
    print_text(json.dumps(value, indent=1, allow_nan=False))


@dataclass
class Declaration:
    """A command of typer for a function of the root, made when it is first asked for.

    Attributes:
        words: the command, without `tellapart`.
        function: of the root.
        hints: of its parameters, in addition to those of `commands.toml`.
        body: takes the `Call`, and the options that the command alone has; returns the `Answer`, if any.
    """

    words: str
    function: str
    hints: dict[str, Any]
    body: Callable[..., Answer | None]

    def make(self) -> Any:
        """Return the command."""
        parameters = read_parameters(self.function)
        words = read_words()[self.words].get("options", {})
        options = [
            _make_option(parameter, make_hint(parameter.name, words, self.hints))
            for parameter in parameters
            if parameter.name not in FILLED
        ]
        alone = {option.name: option for option in inspect.signature(self.body, eval_str=True).parameters.values()}
        del alone["call"]
        shared = {"quiet": _Quiet} if any(parameter.name == "progress" for parameter in parameters) else {}
        returns = ast.unparse(_find(self.function, tellapart._WHERE[self.function])[0].returns)
        shared |= _SHARED if returns == "None" else {"as_json": Json, **_SHARED}
        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(name, keyword, default=None if name == "plugin" else False, annotation=kind)
            for name, kind in shared.items()
        ]
        options += [*alone.values(), *(option for option in added if option.name not in alone)]

        def run(*, plugin: list[str] | None, debug: bool, **values: Any) -> None:
            OnceCommand.debug |= debug
            load_plugins(plugin)
            typed = {NEGATIONS[name]: not value for name, value in values.items() if name in NEGATIONS}
            answer = self.body(Call(self.function, typed | values), **{name: values[name] for name in alone})
            if answer is not None:
                answer.print(as_json=values.get("as_json", False))

        run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        app.command()(run)
        return typer.main.get_command(app)


def _show_result(shows: str, call: Call) -> Answer:
    result, (module, _, function) = call(), shows.partition(":")
    show = partial(getattr(import_module(f"tellapart.{module}"), function), result) if shows else result.show
    return Answer(result, show)


def _make_option(parameter: Parameter, hint: dict[str, Any]) -> inspect.Parameter:
    """Return a parameter as typer takes it: an argument if it is needed, unless a hint makes it an option."""
    name, default = parameter.name, parameter.default
    if not hint.pop("needed", True) and default is _EMPTY:
        default = None
    words = {"str"} if hint.pop("text", False) else set(re.findall(r"\w+", parameter.annotation))
    kind = next((kind for word, kind in _TYPES.items() if word in words and "str" not in words), str)
    argument = hint.pop("argument", parameter.default is _EMPTY and not parameter.named)
    settings: dict[str, Any] = {"help": parameter.text, **({"min": 1} if kind is int else {})}
    if hint.pop("several", parameter.several) or words & {"Sequence", "Mapping"}:
        kind, default = list[kind], default if default is _EMPTY else None  # type: ignore[valid-type]
    elif default is True:
        name, default = next(negative for negative, positive in NEGATIONS.items() if positive == name), False
    elif default is not None and default is not _EMPTY:
        default = kind(default)
    names = hint.pop("names", (f"--{name.replace('_', '-')}",))
    shown = typer.Argument(**settings | hint) if argument else typer.Option(*names, **settings | hint)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown])


class Commands(typer.Typer):
    """Commands of functions of the interface: a group of a name, or a panel of the help, in their order."""

    def __init__(self, group: str = "", *, panel: str | None = None, **settings: Any) -> None:
        super().__init__(rich_markup_mode="markdown", no_args_is_help=True, **settings)
        self.group, self._panel = group, panel

    def declare(
        self, name: str, function: str | None = None, /, *, shows: str = "", **hints: Any
    ) -> Callable[[Any], Any]:
        """Add a command for the function of its name, or of another; what is decorated is its body.

        Its words are those of `commands.toml`. Without a body the result shows itself, or `shows` prints it: a
        `module:function` of the package.
        """
        words = f"{self.group} {name}".strip()
        text, example = read_words()[words]["help"], read_words()[words]["example"]

        def lazy() -> None: ...

        declaration = Declaration(words, function or words.replace(" ", "_"), hints, partial(_show_result, shows))
        lazy.declaration = declaration  # type: ignore[attr-defined]
        settings = {"short_help": text.partition("\n\n")[0], "rich_help_panel": self._panel}
        help_text = f"Example: `{f'tellapart {words} {example}'.strip()}`\n\n{text}"
        self.command(name, cls=OnceCommand, help=help_text, **settings)(lazy)

        def by(body: Any) -> Any:
            declaration.body = body
            return body

        return by
