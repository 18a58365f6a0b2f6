"""What every bench needs: options that are a function's parameters, times of the processor, and a record as a file."""

import json
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

RECORDS = Path(__file__).resolve().parent / "records"


def run_bench(main: Callable[..., None]) -> None:
    """Run the program of a bench: its parameters are the options, and the text of its module is the help."""
    main.__doc__ = sys.modules[main.__module__].__doc__
    typer.run(main)


def write_record(file: Path | None, record: Any) -> None:
    """Print a record, and write it if a file is named."""
    text = json.dumps(record, indent=1)
    print(text)
    if file is not None:
        file.write_text(f"{text}\n", encoding="utf-8")


def command_line() -> str:
    """Return this command as a record names it."""
    return shlex.join(["python", f"bench/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def time_call(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what a call returns, and its seconds by the clock and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    result = run()
    return result, time.perf_counter() - wall, time.process_time() - processor
