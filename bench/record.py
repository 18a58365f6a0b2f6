"""What every bench needs: options that are a function's parameters, times of the processor, and a record as a file."""

import inspect
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

RECORDS = Path(__file__).resolve().parent / "records"


def run_bench(measure: Callable[..., Any], name: str | None = None, option: str = "--out") -> None:
    """Run the program of a bench: parameters are its options, its module's text is the help, and it returns the record.

    The record is printed, and written to the file of `option`: `records/NAME.json` if none is given, or nowhere. The
    exit status is 1 where the record names goals that were missed.
    """

    def main(**options: Any) -> None:
        file = options.pop("record_file")
        record = measure(**options)
        if record is not None:
            text = json.dumps(record, indent=1)
            print(text)
            if file is not None:
                file.write_text(f"{text}\n", encoding="utf-8")
            raise typer.Exit(bool(isinstance(record, dict) and record.get("missed")))

    default = RECORDS / f"{name}.json" if name else None
    file = inspect.Parameter(
        "record_file",
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[Path | None, typer.Option(option)],
    )
    known = inspect.signature(measure)
    main.__signature__ = known.replace(parameters=[*known.parameters.values(), file])  # type: ignore[attr-defined]
    main.__annotations__ = {each.name: each.annotation for each in (*known.parameters.values(), file)}
    main.__doc__ = sys.modules[measure.__module__].__doc__
    typer.run(main)


def command_line() -> str:
    """Return this command as a record names it."""
    return shlex.join(["python", f"bench/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def circumstances(device: str = "cpu") -> dict[str, Any]:
    """Return this command, the day and the machine, as a record begins."""
    from tellapart.records.machine import this_machine

    if device == "cuda":
        import torch  # noqa: F401  (it names the GPU)
    machine = this_machine(device).model_dump(exclude_none=True)
    return {"command": command_line(), "date": time.strftime("%Y-%m-%d"), "machine": machine}


def run_python(*arguments: object, **variables: str) -> tuple[dict[str, float], str]:
    """Return a Python command's seconds by the clock and of processors, its highest memory in MB, and its output."""
    command, began = [sys.executable, *map(str, arguments)], time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | variables)
    output = process.stdout.read() if process.stdout else ""
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{shlex.join(command)} failed")
    processor, megabytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    return {"seconds": round(seconds, 2), "processor_seconds": round(processor, 2), "mb": round(megabytes)}, output


def time_call(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what a call returns, and its seconds by the clock and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    result = run()
    return result, time.perf_counter() - wall, time.process_time() - processor
