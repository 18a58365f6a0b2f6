"""The command line: all commands. A command imports heavy modules when it runs, so that `--help` answers at once."""

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

#: The least address space of a command: with less, OpenBLAS (in numpy) ends the process, or tries for ever.
_LEAST_BYTES = 1 << 30

#: The words by which libraries report a lack of memory, if they raise neither MemoryError nor ENOMEM.
_LACKS = re.compile(
    r"can't allocate memory|cannot allocate memory|not enough memory|out of memory|failed to allocate|bad_alloc"
    r"|bad allocation|unable to allocate|can't start new thread|failed to map segment|resource temporarily unavailable"
    r"|insufficient memory",
    re.IGNORECASE,
)


def describe_lack(error: BaseException) -> str | None:
    """Return one line for an error whose cause is too little memory; None for any other."""
    for cause in _walk_causes(error):
        of_system = isinstance(cause, OSError) and cause.errno == errno.ENOMEM
        of_library = isinstance(cause, RuntimeError | ImportError | SystemError) or type(cause) is Exception
        if isinstance(cause, MemoryError) or of_system or (of_library and _LACKS.search(first_line(cause))):
            reason = first_line(cause)
            return (
                f"too little memory ({reason}); what was done is kept: run the same command again with more, or with a "
                "smaller --batch-size or fewer --workers where the command has them"
            )
    return None


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause or the error during whose handling it was raised, and so on; a circle ends this."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


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


#: The base class of the errors in a typed command. It is of `click`, or of typer's copy of it, by typer's version.
_UsageError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> NoReturn:
    """Run the command line. One line and status 2 end it after an error of tellapart, of usage, or in a plugin.

    If code of a plugin calls `sys.exit`, with any status, one line and status 1 end it.
    """
    status = None
    spell_out(sys.stdout)  # before anything is printed, help included
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
    except SystemExit as error:
        from tellapart.benchmarks.plugins import blame, exit_error

        if error.code and blame(error) is None:  # a library's, which has printed why
            raise
        _exit_failed(str(exit_error(error)), error, status=1)
    except TellapartError as error:
        # A lack of memory is one possible cause: a damaged file, too, can ask for more than any machine has.
        message = str(error) if describe_lack(error) is None else f"{error} (it may be too little memory)"
        if error.__cause__ is not None and (blamed := _blame_plugin(error.__cause__)) is not None:
            message += f"; {blamed}"
        _exit_failed(message, error, status=1 if isinstance(error, ExitError) else 2)
    except OSError as error:
        _exit_failed(describe_lack(error) or str(error), error)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except _UsageError as error:
        _explain_usage(error)
        sys.exit(2)
    except Exception as error:
        loop = str(error) if str(error).startswith("Symlink loop") else None  # of pathlib, before Python 3.13
        problem = describe_lack(error) or loop or _blame_plugin(error)
        if problem is None:  # a mistake of this program, to be reported with Python's traceback
            raise
        _exit_failed(problem, error)
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


def _print_warning(usual: Callable[..., None], message: Warning | str, category: type[Warning], *args: Any) -> None:
    """Print a warning of tellapart in one line; the usual printer prints any other."""
    if issubclass(category, TellapartWarning):
        print_text(f"warning: {name_options(message)}", error=True)
    else:
        usual(message, category, *args)


def _explain_usage(error: Any) -> None:
    """Print the mistyped argument and which help to read; typer itself draws a box of five lines."""
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    if not message:  # a group was typed without its command: typer has printed the group's help
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
