"""The command line: all commands joined. Each imports heavy modules when it runs, so that `--help` answers at once."""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, NoReturn

import typer

from tellapart.cli.commands import GROUPS, PANELS
from tellapart.cli.once import OnceCommand, load_plugins, name_options
from tellapart.errors import ExitError, RunError, TellapartError, TellapartWarning, first_line
from tellapart.report.terminal import print_text, spell_out

#: Address space below which a command is refused: OpenBLAS (numpy) ends the process without memory, or tries for ever.
_LEAST_BYTES = 1 << 30

#: Words of libraries for it; MemoryError and ENOMEM need none.
_LACKS = re.compile(
    r"can't allocate memory|cannot allocate memory|not enough memory|out of memory|failed to allocate|bad_alloc"
    r"|bad allocation|unable to allocate|can't start new thread|failed to map segment|resource temporarily unavailable"
    r"|insufficient memory",
    re.IGNORECASE,
)


def describe_lack(error: BaseException) -> str | None:
    """Return one line for an error whose cause is too little memory; None for any other."""
    for cause in _walk_causes(error):
        system = isinstance(cause, OSError) and cause.errno == errno.ENOMEM
        library = isinstance(cause, RuntimeError | ImportError | SystemError) or type(cause) is Exception
        if isinstance(cause, MemoryError) or system or (library and _LACKS.search(first_line(cause))):
            what = first_line(cause)
            return (
                f"too little memory ({what}); what was done is kept: run the same command again with more, or with a "
                "smaller --batch-size or fewer --workers where the command has them"
            )
    return None


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors that it was raised from or while, each once."""
    seen: set[int] = set()
    here: BaseException | None = error
    while here is not None and id(here) not in seen:
        seen.add(id(here))
        yield here
        here = here.__cause__ or here.__context__


def refuse_little_memory() -> None:
    """Refuse to begin if the process may not have the memory that every command needs."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LEAST_BYTES:
        raise RunError(
            f"this process may have {limit >> 20:,} MiB of address space, and every command needs "
            f"{_LEAST_BYTES >> 20:,}; raise the limit (ulimit -v, or the service's)"
        )


app = typer.Typer(
    name="tellapart",
    help="Can a vision-language model tell two almost identical image-text pairs apart?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _panel in PANELS:
    app.add_typer(_panel)
for _group, _panel_name in GROUPS.items():
    app.add_typer(_group, name=_group.group, rich_help_panel=_panel_name)
_COMMANDS = [command.name for panel in PANELS for command in panel.registered_commands]


#: The parent of every error in how a command was typed. Its library is `click`, or typer's copy of it, by version.
_TypedWrong: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> NoReturn:
    """Run the command line; an error that was raised on purpose, in typing, or in a plugin is one line and status 2.

    Code of a plugin that calls `sys.exit`, whatever its status is, is one line and status 1.
    """
    status = None
    spell_out(sys.stdout)  # which help is printed on, too
    warnings.showwarning = partial(_print_warning, warnings.showwarning)
    try:
        try:
            refuse_little_memory()
            status = app(prog_name="tellapart", standalone_mode=False)
        finally:
            if sys.stdout is not None:  # closed by the caller
                sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has closed it (`tellapart ls | head`): nothing can be printed, now or at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except SystemExit as ended:
        from tellapart.benchmarks.plugins import blame, exit_error

        if ended.code and blame(ended) is None:  # a library's, which has printed why
            raise
        _exit_failed(str(exit_error(ended)), ended, status=1)
    except TellapartError as error:  # it names the file, which may also promise more than any memory holds
        lack = "" if describe_lack(error) is None else " (it may be too little memory)"
        # What a plugin's code raised for one input stands behind the input's name.
        if error.__cause__ is not None and (blamed := _blame_plugin(error.__cause__)) is not None:
            lack += f"; {blamed}"
        _exit_failed(f"{error}{lack}", error, status=1 if isinstance(error, ExitError) else 2)
    except OSError as error:
        _exit_failed(describe_lack(error) or str(error), error)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except _TypedWrong as error:
        _explain_usage(error)
        sys.exit(2)
    except Exception as error:
        loop = str(error) if str(error).startswith("Symlink loop") else None  # of pathlib, before Python 3.13
        said = describe_lack(error) or loop or _blame_plugin(error)
        if said is None:  # a mistake of this program, to be reported with Python's traceback
            raise
        _exit_failed(said, error)
    sys.exit(status if isinstance(status, int) else 0)


def _exit_failed(message: str, error: BaseException, status: int = 2) -> NoReturn:
    if OnceCommand.debug:
        traceback.print_exception(error)
    print_text(f"error: {name_options(message)}", error=True)
    sys.exit(status)


def _blame_plugin(error: BaseException) -> str | None:
    from tellapart.benchmarks.plugins import blame

    place = blame(error)
    return None if place is None else f"{place} (in a plugin; --debug shows the traceback)"


def _print_warning(other: Callable[..., None], message: Warning | str, category: type[Warning], *args: Any) -> None:
    """Print a warning of ours in one line."""
    if issubclass(category, TellapartWarning):
        print_text(f"warning: {name_options(message)}", error=True)
    else:
        other(message, category, *args)


def _explain_usage(error: Any) -> None:
    """Print the mistyped argument and which help to read; typer itself draws a box of five lines."""
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    if not message:  # a group of commands without one: its help is printed already
        return
    context = getattr(error, "ctx", None)
    typed = [word for word in sys.argv[1:2] if word in _COMMANDS]
    command = context.command_path if context is not None else " ".join(["tellapart", *typed])
    print_text(f"error: {message}{'' if message.endswith('?') else ';'} see: {command} --help", error=True)


def _print_version(version: bool) -> None:
    if version:
        from tellapart import __version__

        print_text(f"tellapart {__version__}")
        raise typer.Exit


@app.callback()
def _root_options(
    version: Annotated[  # noqa: ARG001  (its callback acts)
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin",
            help="A package, or a file of Python, that adds benchmarks, models or metrics; its code runs. Any command "
            "takes it, too. Repeatable.",
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error. Any command takes it, too.")
    ] = False,
) -> None:
    OnceCommand.debug = debug
    load_plugins(plugin)
