"""Plugins that the user names: a file of Python, an object in one (`my_model.py:MyModel`), or an importable package.

To load a plugin is to run its code, so only the user's arguments load plugins. A recipe, a configuration or a run
folder can only refer to a loaded plugin (docs/trust.md).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache, partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, ParamSpec, TypeVar

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import ASKED, as_benchmark
from tellapart.catalog import add
from tellapart.data.pairset import PairSet
from tellapart.errors import ExitError, PluginError, TellapartError, UnknownNameError, first_line, nearest
from tellapart.models.memory.held import as_model
from tellapart.models.protocols import Model

Given = ParamSpec("Given")
Result = TypeVar("Result")

#: The tables that a plugin may define (name -> object, as in `tellapart.catalog`), and the kind of object in each.
TABLES: Mapping[str, str] = {
    "BENCHMARKS": "benchmark", "MODELS": "model", "PREFIXES": "prefix", "LOSSES": "loss", "METRICS": "metric",
    "BUILDERS": "builder", "FILTERS": "filter", "SELECTIONS": "selection",
}  # fmt: skip

_FILE_AND_NAME = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)", re.DOTALL)
#: The folders of loaded plugins: errors that are raised in them are blamed on the plugins.
_HOMES: set[Path] = set()
_PACKAGE = Path(__file__).resolve().parents[1]

#: The plugin files that were run: path -> (digest of the content, module).
_FILES: dict[Path, tuple[str, ModuleType]] = {}

#: The calls that loaded plugins, in order: the function's name and its argument.
_LOADED: list[tuple[str, str]] = []


def load_plugin(name: str | Path) -> list[str]:
    """Load a plugin: a package by its dotted name, or a file; return the names that it adds.

    It adds the objects of its tables `BENCHMARKS`, `MODELS`, `PREFIXES`, `METRICS`, `LOSSES`, `BUILDERS`, `FILTERS` and
    `SELECTIONS` (name -> object, as in `tellapart.catalog` and docs/plugins.md). A file also adds every benchmark and
    pair set among its variables, as `FILE.py:NAME`.

    Raises:
        PluginError: it does not exist, its code fails, or it defines none of the tables.

    >>> file = getfixture("tmp_path") / "mine.py"
    >>> _ = file.write_text("def dim(image, text): return 0.5\\nMODELS = {'dim': lambda options: dim}\\n")
    >>> load_plugin(file)
    ['dim']
    """
    text = str(name)
    module = _run_file(Path(text).expanduser()) if text.endswith(".py") else _import_package(text)
    added = [entry for table, kind in TABLES.items() for entry in _add_table(module, table, kind)]
    if text.endswith(".py"):
        path = Path(text).expanduser()
        variables = [key for key, value in vars(module).items() if isinstance(value, Benchmark | PairSet)]
        added += [open_benchmark(f"{path}:{variable}") for variable in variables]
    _LOADED.append(("load_plugin", text))
    if not added:
        raise PluginError(f"plugin={text} holds none of the tables {', '.join(TABLES)}; see docs/plugins.md")
    return added


def open_benchmark(name: str) -> str:
    """Return the name under which a benchmark is found; `FILE.py:NAME` is loaded first, and found by its full path."""
    prefix = next(filter(name.startswith, ASKED), "")
    match = _FILE_AND_NAME.fullmatch(name.removeprefix(prefix))
    if match is None:
        return name
    value, path = _read_object(match)
    full = f"{path}:{match['name']}"
    _LOADED.append(("open_benchmark", full))
    add("benchmark", full, as_benchmark(value, name=f"{path.name}:{match['name']}", file=path))
    return f"{prefix}{full}"


def open_model(name: str) -> str:
    """Return the name under which a model is found; `FILE.py:NAME` is loaded first, and found by its full path."""
    match = _FILE_AND_NAME.fullmatch(name)
    if match is None:
        return name
    value, path = _read_object(match)
    full = f"{path}:{match['name']}"
    make = cache(lambda: as_model(value, name=f"{path.name}:{match['name']}", file=path))
    _LOADED.append(("open_model", full))
    add("model", full, lambda _options: make())
    return full


def loaded() -> tuple[tuple[str, str], ...]:
    """Return the calls that loaded plugins in this process, for `load_again` in another."""
    return tuple(dict.fromkeys(_LOADED))


def load_again(calls: tuple[tuple[str, str], ...]) -> None:
    """Load the plugins that another process had loaded, by its `loaded` calls; skip files that are gone."""
    for function, name in calls:
        file = Path(name.rpartition(":")[0] if function != "load_plugin" else name)
        if file.suffix == ".py" and not file.expanduser().is_file():
            continue
        {"load_plugin": load_plugin, "open_benchmark": open_benchmark, "open_model": open_model}[function](name)


def blame(error: BaseException) -> str | None:
    """Return a plugin's line that raised, as `my_model.py:7: ZeroDivisionError: division by zero`; None if none did."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_plugin_file(frame.filename)]
    if isinstance(error, SyntaxError) and error.filename and _is_plugin_file(error.filename):
        place = f"{_short_path(error.filename)}:{error.lineno}"
    elif frames:
        place = f"{_short_path(frames[-1].filename)}:{frames[-1].lineno}"
    else:
        return None
    kind, message = type(error).__name__, first_line(error)
    return f"{place}: {kind if message == kind else f'{kind}: {message}'}"


def exit_error(ended: SystemExit) -> ExitError:
    """Return the `ExitError` of code that called `sys.exit`; it names the line of the call."""
    place = blame(ended)
    if place is None:
        frames = traceback.extract_tb(ended.__traceback__)
        line = f"{_short_path(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""
        place = f"{line}SystemExit: {ended.code}"
    return ExitError(f"{place} (the program would end without its results); raise an error there, or return")


def exit_is_error(call: Callable[Given, Result]) -> Callable[Given, Result]:
    """Decorate a function that calls plugins' code: a `sys.exit` in it becomes an `ExitError`."""

    @wraps(call)
    def guarded(*args: Given.args, **options: Given.kwargs) -> Result:
        try:
            return call(*args, **options)
        except SystemExit as ended:
            raise exit_error(ended) from ended

    return guarded


def _read_object(match: re.Match[str]) -> tuple[Any, Path]:
    """Run the file of a `FILE.py:NAME`; return the object of that name and the file's full path."""
    path = Path(match["file"]).expanduser()
    module = _run_file(path)
    if not hasattr(module, match["name"]):
        defined = [  # without imported modules, classes and functions
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and not isinstance(value, ModuleType)
            if getattr(value, "__module__", module.__name__) == module.__name__
        ]
        hint = nearest(match["name"], defined) or ";"
        raise PluginError(f"{path} holds no {match['name']!r}{hint} it defines {', '.join(defined) or 'nothing'}")
    return getattr(module, match["name"]), path.resolve()


def _run_file(path: Path) -> ModuleType:
    """Run a file of Python, once unless its content changes; its folder is appended to `sys.path` for its imports."""
    if not path.is_file():
        raise PluginError(f"no file {str(path)!r}; name a file of Python, as in my_model.py")
    path = path.resolve()
    source = path.read_bytes()
    digest = hashlib.sha256(source).hexdigest()
    if path in _FILES and _FILES[path][0] == digest:
        return _FILES[path][1]
    _HOMES.add(path.parent)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    name = f"tellapart_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        # Not by `import`: its cached bytecode would hide a change within a second that keeps the file's size.
        exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102  (the user named it to be run)
    except BaseException as error:
        del sys.modules[name]
        _raise_mistake(error, str(path))
    _FILES[path] = digest, module
    return module


def _import_package(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise PluginError(f"plugin={name}: no such package; name an importable package or a file (NAME.py)")
    try:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            _HOMES.add(Path(found.origin).resolve().parent)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            _raise_mistake(error, name)
        raise PluginError(f"plugin={name}: no such package; install it first, or name a file (NAME.py)") from error
    except BaseException as error:
        _raise_mistake(error, name)


def _raise_mistake(error: BaseException, name: str) -> NoReturn:
    """Raise a plugin's error as a `PluginError`; an error of tellapart or an interrupt is raised unchanged."""
    if isinstance(error, TellapartError | KeyboardInterrupt):
        raise error
    place = blame(error) or f"{name}: {type(error).__name__}: {first_line(error)}"
    raise PluginError(f"{place} (in a plugin, which therefore cannot be loaded)") from error


def _add_table(module: ModuleType, table: str, kind: str) -> list[str]:
    """Add the objects of one of a plugin's tables to the catalogue; return their names."""
    entries = getattr(module, table, {})
    if not isinstance(entries, Mapping):
        raise PluginError(f"{module.__name__}.{table} is a {type(entries).__name__}; it must map names to objects")
    if kind == "metric" and entries and "tellapart.metrics.registry" in sys.modules:
        raise PluginError(f"{module.__name__} adds metrics: load it earlier, before anything is measured")
    for name, entry in entries.items():
        try:
            add(kind, str(name), partial(_make_model, str(name), entry) if kind == "model" else entry)
        except UnknownNameError as error:
            raise PluginError(f"{module.__name__}.{table}: {error}") from error
    return list(map(str, entries))


def _make_model(name: str, make: Callable[[Any], Any], options: Any) -> Any:
    """Make a plugin's model: an object of a model protocol is used as it is, anything else is wrapped by `as_model`."""
    model = make(options)
    return model if isinstance(model, Model) else as_model(model, name=name)


def _is_plugin_file(file: str) -> bool:
    """Return whether a file is part of a loaded plugin, and of neither tellapart nor an installed package."""
    path = Path(file)
    outside = path.is_absolute() and not path.resolve().is_relative_to(_PACKAGE)
    return outside and "site-packages" not in path.parts and any(home in path.resolve().parents for home in _HOMES)


def _short_path(file: str) -> str:
    """Return a path relative to the working directory, if it lies in it."""
    path = Path(file).resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
