"""The commands that measure models: run, score, export, time."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tellapart.cli.invocation import command_line, interruptible, new_run_folder
from tellapart.cli.once import name_options
from tellapart.cli.options import (
    BenchmarkName,
    Bundle,
    Cache,
    Columns,
    Data,
    Device,
    Dtype,
    Images,
    Json,
    ModelName,
    ModelNames,
    NoCache,
    Out,
    Outside,
    Quiet,
    Reading,
    Seed,
    Strict,
    cache_of,
    columns_of,
    print_json,
)
from tellapart.cli.publishing import show_run
from tellapart.report.terminal import print_text

if TYPE_CHECKING:
    from tellapart.data.scores import ScoreKind


def run_command(
    models: ModelNames = None,
    names: Annotated[
        list[str] | None, typer.Option("--name", help="What results call the model; once for each -m, in its order.")
    ] = None,
    benchmarks: Annotated[
        list[str] | None,
        typer.Option("-b", "--benchmark", help="A benchmark (`tellapart ls benchmarks`) or folder:PATH. Repeatable."),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option("--limit", help="Measure only so many items (20) or such a share of them (0.1), spread evenly."),
    ] = None,
    items: Annotated[
        Path | None, typer.Option("--items", help="Measure only the items that a file names, an id a line.")
    ] = None,
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    columns: Columns = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", min=1, help="Encoded together; what suits the model if not given. Changes no number."
        ),
    ] = None,
    device: Device = "cpu",
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype", help="What torch models compute in: float32, bfloat16, float16, or auto; scores are float32."
        ),
    ] = "float32",
    check: Annotated[
        int | None,
        typer.Option("--check", min=1, help="Score so many items in float32, too; count outcomes that --dtype flips."),
    ] = None,
    flips: Annotated[
        float | None,
        typer.Option("--flips", help="Of --dtype auto: the largest share of outcomes that may flip; .005."),
    ] = None,
    reading: Reading = None,
    regions: Annotated[
        Path | None,
        typer.Option(
            "--regions", help="Regions that a detector found (.npz, .safetensors), for LXMERT and VisualBERT."
        ),
    ] = None,
    texts: Annotated[
        str,
        typer.Option(
            "--texts",
            help="raw; cleaned, for models in their authors' files; library: its own way (SigLIP).",
        ),
    ] = "raw",
    image_size: Annotated[
        int | None, typer.Option("--image-size", min=1, help="Side of their images in pixels, if not the file's own.")
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", help="Folder of their tokenizer, if not beside the file or on the hub."),
    ] = None,
    calls: Annotated[int, typer.Option("--calls", min=1, help="Requests in flight at once, to a server (api:).")] = 8,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Ask a server (api:) of another machine over plain http, too.")
    ] = False,
    frames: Annotated[
        int | None, typer.Option("--frames", min=1, help="Frames of each video, evenly spread; the set's own, or 8.")
    ] = None,
    seed: Seed = 0,
    strict: Strict = False,
    follow: Annotated[
        str | None,
        typer.Option(
            "--follow",
            help="A folder, or a pattern in quotes, of checkpoints that land there: each is measured once. "
            "{} in -m is their path.",
        ),
    ] = None,
    every: Annotated[str, typer.Option("--every", help="Time between two looks for them: 30s, 10m, 2h.")] = "10m",
    until: Annotated[
        int | None, typer.Option("--until", min=1, help="Stop after so many checkpoints; else Ctrl-C stops.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List every problem, what is stored, and time and memory of the rest.")
    ] = False,
    cache: Cache = None,
    no_cache: NoCache = False,
    out: Out = None,
    bundle: Bundle = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure models on benchmarks: a table, and a run folder with a report.

    Without arguments: the default model and the reference models on the embedded demo, offline.

    Example: `tellapart run -m demo-encoder -b demo --out runs/a`
    """
    from tellapart.api.evaluate import describe_kept, run

    folder = out or new_run_folder()
    command = command_line()
    again = command if out else f"{command} --out {shlex.quote(str(folder))}"
    store = cache_of(cache, no_cache=no_cache)
    if follow is not None and not quiet:
        print_text(f"following {follow}, every {every}, into {folder} (stop it with Ctrl-C)", error=True)
    with interruptible(partial(describe_kept, folder, store), again=again, quiet=quiet) as progress:
        measured = run(
            models,
            benchmarks or "demo",
            out=folder,
            limit=limit,
            items=items,
            data=data,
            images=images,
            outside_images=outside_images,
            columns=columns_of(columns),
            cache=store,
            progress=progress.callback,
            command=command,
            names=names or (),
            batch_size=batch_size,
            device=device,
            dtype=dtype,
            check=check,
            flips=flips,
            reading=reading,
            regions=regions,
            texts=texts,
            image_size=image_size,
            tokenizer=tokenizer,
            calls=calls,
            insecure=insecure,
            frames=frames,
            seed=seed,
            strict=strict,
            follow=follow,
            every=every,
            until=until,
            dry_run=dry_run,
            ready=None if quiet else lambda name: print_text(f"measured: {name}; {folder / 'report.html'}", error=True),
            left_out=lambda problem: print_text(f"left out: {problem}", error=True),
        )
    if measured.plan is not None:
        planned = replace(measured.plan, problems=tuple(map(name_options, measured.plan.problems)))
        print_json(planned.to_json()) if as_json else planned.show()
        if planned.problems:
            raise typer.Exit(1)
    elif measured.leads:  # of several ranks the first shows the run
        show_run(measured, bundle=bundle, outside_images=outside_images, as_json=as_json)


def score_command(
    scores: Annotated[
        list[str],
        typer.Option(
            "--scores",
            metavar="FILE | BENCHMARK=FILE",
            help="A file of scores (.npz, .npy, .csv, .jsonl, .parquet) or of a task's predictions. "
            "Repeatable with BENCHMARK=.",
        ),
    ],
    benchmark: Annotated[
        str | None,
        typer.Argument(help="A benchmark (`tellapart ls benchmarks`) or folder:PATH; not with BENCHMARK=FILE."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="What the scores are: similarity, logit or probability.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The model's name in results; a single file's name if not given.")
    ] = None,
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    columns: Columns = None,
    seed: Seed = 0,
    strict: Strict = False,
    out: Out = None,
    bundle: Bundle = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure one model's scores or predictions that were made elsewhere; `export` writes the file to fill in.

    Files of further benchmarks join the same run folder: in this command, or in a later one with the same --name.

    Example: `tellapart score demo --scores scores.csv --name mine --out runs/b`
    """
    from tellapart.api.evaluate import score

    files = _files_of(benchmark, scores)
    with interruptible(quiet=quiet) as progress:
        measured = score(
            None,
            files,
            name=name,
            kind=cast("ScoreKind | None", kind),  # checked there
            out=out or new_run_folder(),
            data=data,
            images=images,
            outside_images=outside_images,
            columns=columns_of(columns),
            seed=seed,
            strict=strict,
            progress=progress.callback,
            command=command_line(),
        )
    show_run(measured, bundle=bundle, outside_images=outside_images, as_json=as_json)


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


def export_command(
    benchmark: BenchmarkName,
    to: Annotated[Path, typer.Option("--to", help="The file: .csv or .jsonl.")],
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    columns: Columns = None,
    as_json: Json = False,
) -> None:
    """Write items for a system elsewhere to score or answer: a benchmark's image-text pairs, or a task's records.

    Example: `tellapart export demo --to scores.csv`
    """
    from tellapart.evaluation.export import export

    written = export(
        benchmark, to, data=data, images=images, outside_images=outside_images, columns=columns_of(columns)
    )
    if as_json:
        print_json({"to": str(to), written.noun: written.rows})
    else:
        location = ["--data", str(data)] if data else []
        location += ["--images", str(images)] if images else []
        location += ["--outside-images"] if outside_images else []
        location += [f"--columns={column}" for column in columns or ()]
        next_command = shlex.join(["tellapart", "score", benchmark, "--scores", written.scores, *location])
        print_text(f"{written.rows:,} {written.noun} in {to}; {written.todo}, then: {next_command}")


def time_command(
    models: ModelName,
    benchmark: Annotated[
        str, typer.Option("-b", "--benchmark", help="Whose images and texts to use; or folder:PATH.")
    ] = "demo",
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Pairs whose latency is measured.")] = 50,
    warm_up: Annotated[int, typer.Option("--warm-up", min=0, help="Pairs before them, which do not count.")] = 5,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Given at once, for the throughput.")] = 32,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    reading: Reading = None,
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    out: Annotated[Path | None, typer.Option("--out", help="The file to write, timing.json say.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure the costs of models: latency of one pair by part, throughput, parameters, FLOPs, memory.

    Example: `tellapart time -m demo-encoder --repeats 10`
    """
    from tellapart.api.costs import time
    from tellapart.report.timings import print_timings

    with interruptible(quiet=quiet) as progress:
        timings = time(
            models,
            benchmark,
            out=out,
            data=data,
            images=images,
            outside_images=outside_images,
            progress=progress.callback,
            command=command_line(),
            repeats=repeats,
            warm_up=warm_up,
            batch_size=batch_size,
            device=device,
            dtype=dtype,
            reading=reading,
        )
    if as_json:
        print_json(timings.model_dump(mode="json", by_alias=True))
    else:
        print_timings(timings)
