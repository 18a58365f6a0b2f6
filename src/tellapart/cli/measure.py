"""The commands that measure: models, scores made elsewhere, and costs."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer

from tellapart.cli.command import Call, Commands, command_line, new_run_folder
from tellapart.cli.once import name_options
from tellapart.cli.options import BENCHMARK, Bundle, Hint, Json, NoCache, cache_of, print_json
from tellapart.cli.publish import show_run
from tellapart.report.terminal import print_text

measure_app = Commands("Measure")


@measure_app.declare(
    "run",
    benchmarks=f"{BENCHMARK} Repeatable.",
    dtype="What torch models compute in: float32, bfloat16, float16, or auto; scores are float32.",
    flips="Of --dtype auto: the largest share of outcomes that may flip; .005.",
    follow=Hint(type=str),
    out="The run folder; made if it is not there.",
)
def _run(call: Call, *, no_cache: NoCache = False, bundle: Bundle = False, as_json: Json = False) -> None:
    """Measure models on benchmarks: a table, and a run folder with a report.

    Without arguments: the default model and the reference models on the embedded demo, offline.

    Example: `tellapart run -m demo-encoder -b demo --out runs/a`
    """
    from tellapart.api.evaluate import describe_kept

    folder, command = call.out or new_run_folder(), command_line()
    store = cache_of(call.cache, no_cache=no_cache)
    if call.follow is not None and not call.quiet:
        print_text(f"following {call.follow}, every {call.every}, into {folder} (stop it with Ctrl-C)", error=True)
    again = command if call.out else f"{command} --out {shlex.quote(str(folder))}"

    def print_measured(name: str) -> None:
        print_text(f"measured: {name}; {folder / 'report.html'}", error=True)

    measured = call.watched(
        partial(describe_kept, folder, store),
        again,
        out=folder,
        cache=store,
        command=command,
        ready=None if call.quiet else print_measured,
        left_out=lambda problem: print_text(f"left out: {problem}", error=True),
    )
    if measured.plan is not None:
        planned = replace(measured.plan, problems=tuple(map(name_options, measured.plan.problems)))
        print_json(planned.to_json()) if as_json else planned.show()
        if planned.problems:
            raise typer.Exit(1)
    elif measured.leads:  # of several ranks the first shows the run
        show_run(measured, bundle=bundle, outside_images=call.outside_images, as_json=as_json)


@measure_app.declare(
    "score",
    scores=Hint(
        "A file of scores (.npz, .npy, .csv, .jsonl, .parquet) or of a task's predictions. Repeatable with BENCHMARK=.",
        metavar="FILE | BENCHMARK=FILE",
        argument=False,
        several=True,
    ),
    benchmark=Hint(f"{BENCHMARK[:-1]}; not with BENCHMARK=FILE.", argument=True, needed=False),
)
def _score(call: Call, *, bundle: Bundle = False, as_json: Json = False) -> None:
    """Measure one model's scores or predictions that were made elsewhere; `export` writes the file to fill in.

    Files of further benchmarks join the same run folder: in this command, or in a later one with the same --name.

    Example: `tellapart score demo --scores scores.csv --name mine --out runs/b`
    """
    measured = call.watched(
        benchmark=None,
        scores=_files_of(call.benchmark, call.scores),
        out=call.out or new_run_folder(),
        command=command_line(),
    )
    show_run(measured, bundle=bundle, outside_images=call.outside_images, as_json=as_json)


def _files_of(benchmark: str | None, scores: list[str]) -> dict[str, Path]:
    """Read `--scores`: one file of the benchmark that is named, or any number of BENCHMARK=FILE.

    >>> _files_of(None, ["sugarcrepe=a.jsonl", "bivlc=b.npz"])
    {'sugarcrepe': PosixPath('a.jsonl'), 'bivlc': PosixPath('b.npz')}
    """
    from tellapart.errors import RunError

    if benchmark is not None:
        if len(scores) > 1:
            raise RunError(f"{benchmark} is measured from one file; got {len(scores)} --scores: write BENCHMARK=FILE")
        return {benchmark: Path(scores[0])}
    files: dict[str, Path] = {}
    for score in scores:
        name, separator, path = score.partition("=")
        if not (name and separator and path):
            raise RunError(f"--scores {score}: of which benchmark? write --scores BENCHMARK={score or 'FILE'}")
        if name in files:
            raise RunError(f"--scores {name}= is given twice; name each benchmark once")
        files[name] = Path(path)
    return files


@measure_app.declare("export", benchmark=BENCHMARK)
def _export(call: Call, *, as_json: Json = False) -> None:
    """Write items for a system elsewhere to score or answer: a benchmark's image-text pairs, or a task's records.

    Example: `tellapart export demo --to scores.csv`
    """
    written = call()
    if as_json:
        print_json({"to": str(call.to), written.noun: written.rows})
    else:
        location = ["--data", str(call.data)] if call.data else []
        location += ["--images", str(call.images)] if call.images else []
        location += ["--outside-images"] if call.outside_images else []
        location += [f"--columns={column}" for column in call.columns or ()]
        next_command = shlex.join(["tellapart", "score", call.benchmark, "--scores", written.scores, *location])
        print_text(f"{written.rows:,} {written.noun} in {call.to}; {written.todo}, then: {next_command}")


@measure_app.declare("time", warm_up=Hint(min=0))
def _time(call: Call, *, as_json: Json = False) -> None:
    """Measure the costs of models: latency of one pair by part, throughput, parameters, FLOPs, memory.

    Example: `tellapart time -m demo-encoder --repeats 10`
    """
    from tellapart.report.printing import print_timings

    timings = call.watched(command=command_line())
    print_json(timings.model_dump(mode="json", by_alias=True)) if as_json else print_timings(timings)
