"""The command line. Everything heavy is imported inside the command that needs it: `--help` answers at once."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Optional, cast, get_args

import typer

from tellapart.cli.annotate import app as annotate_app
from tellapart.cli.audit import audit_command
from tellapart.cli.build import build_command
from tellapart.cli.detect import detect_command
from tellapart.cli.interchange import convert_command, import_command
from tellapart.cli.mine import mine_command
from tellapart.cli.options import (
    BenchmarkName,
    Cache,
    Data,
    Device,
    Dtype,
    Images,
    Json,
    NoCache,
    Out,
    Reading,
    Seed,
    print_json,
)
from tellapart.cli.plot import plot_command
from tellapart.cli.serve import board_app, serve_command
from tellapart.cli.table import table_command
from tellapart.cli.train import train_command
from tellapart.errors import TellapartError

if TYPE_CHECKING:
    from tellapart.cli.progress import TerminalProgress
    from tellapart.evaluation.check import Gate
    from tellapart.models.store import EmbeddingStore

__all__ = ["app", "main"]

app = typer.Typer(
    name="tellapart",
    help="Can a vision-language model tell two almost identical image-text pairs apart?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(annotate_app, name="annotate")
app.add_typer(board_app, name="board")


def main() -> NoReturn:
    """Run the command line; an error that was raised on purpose is one line and exit status 2."""
    try:
        try:
            app(prog_name="tellapart", standalone_mode=True)
        finally:
            if sys.stdout is not None:  # closed by the caller
                sys.stdout.flush()
    except TellapartError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output went away (`tellapart ls | head`): there is nobody to tell, now or at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


def _version(wanted: bool) -> None:
    if wanted:
        from tellapart import __version__

        print(f"tellapart {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


@app.command("run")
def run_command(
    model: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "-m", "--model", help="A model (`tellapart ls models`): a name, a file, a folder or a hub id. Repeatable."
        ),
    ] = None,
    benchmark: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("-b", "--benchmark", help="A benchmark (`tellapart ls benchmarks`) or folder:PATH. Repeatable."),
    ] = None,
    limit: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--limit", help="Measure only so many items (20) or such a share of them (0.1), spread evenly."),
    ] = None,
    data: Data = None,
    images: Images = None,
    batch_size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--batch-size", min=1, help="Encoded together; what suits the model if not given. Changes no number."
        ),
    ] = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    reading: Reading = None,
    regions: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--regions", help="Regions that a detector found (.npz, .safetensors), for LXMERT and VisualBERT."
        ),
    ] = None,
    seed: Seed = 0,
    cache: Cache = None,
    no_cache: NoCache = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Measure models on benchmarks: a table, and a run folder with a report.

    Without arguments: the default model and the reference models on the embedded demo, offline.
    """
    from tellapart.benchmarks.locations import Locations
    from tellapart.evaluation.distributed import run_in_ranks
    from tellapart.evaluation.run import Settings

    chosen: dict[str, Any] = {"models": tuple(model)} if model else {}
    chosen |= {"benchmarks": tuple(benchmark)} if benchmark else {}
    chosen |= {"place": Locations(data, images)}
    settings = Settings(
        **chosen,
        limit=limit,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        reading=reading,
        regions=regions,
        seed=seed,
    )
    folder = out or _new_folder()
    with _store(cache, no_cache) as store, _progress() as progress:
        try:
            made = run_in_ranks(settings, folder, store=store, command=_command(), progress=progress.told)
        except KeyboardInterrupt:
            progress.stop()
            again = _command() if out else f"{_command()} --out {shlex.quote(str(folder))}"
            print(f"interrupted; what is done is kept. Go on with: {again}", file=sys.stderr)
            raise typer.Exit(130) from None
    if made:  # of several ranks the first shows it
        _show(folder, as_json)


@app.command("score")
def score_command(
    benchmark: BenchmarkName,
    scores: Annotated[
        Path, typer.Option("--scores", help="The file of scores (.npz, .csv, .jsonl) or of a task's predictions.")
    ],
    kind: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--kind", help="What the scores are: similarity, logit or probability."),
    ] = None,
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--name", help="The model's name in results; the file's name if not given."),
    ] = None,
    data: Data = None,
    images: Images = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Measure scores or predictions that were made elsewhere; `export` writes the file to fill in."""
    from tellapart.benchmarks.locations import Locations
    from tellapart.data.scores import ScoreKind
    from tellapart.errors import ScoreError
    from tellapart.evaluation.run import run_scores

    if kind is not None and kind not in get_args(ScoreKind):
        raise ScoreError(f"--kind {kind}: use one of {', '.join(get_args(ScoreKind))}")
    folder = run_scores(
        benchmark,
        scores,
        out or _new_folder(),
        kind=cast(ScoreKind | None, kind),
        name=name,
        seed=seed,
        command=_command(),
        place=Locations(data, images),
    )
    _show(folder, as_json)


@app.command("export")
def export_command(
    benchmark: BenchmarkName,
    to: Annotated[Path, typer.Option("--to", help="The file: .csv or .jsonl.")],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Write what a system elsewhere is to score or to answer: a benchmark's image-text pairs, or a task's records."""
    from tellapart.benchmarks.benchmark import find_benchmark
    from tellapart.benchmarks.locations import Locations
    from tellapart.evaluation.export import export

    written = export(find_benchmark(benchmark, Locations(data)), to)
    if as_json:
        print_json({"to": str(to), written.noun: written.rows})
    else:
        named = ["--data", str(data)] if data else []
        again = shlex.join(["tellapart", "score", benchmark, "--scores", written.scores, *named])
        print(f"{written.rows:,} {written.noun} in {to}; {written.todo}, then: {again}")


@app.command("show")
def show_command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    as_json: Json = False,
) -> None:
    """Print a run's tables again, and make its report anew."""
    _show(run, as_json)


@app.command("compare")
def compare_command(
    run_a: Annotated[Path, typer.Argument(help="A run folder.")],
    run_b: Annotated[Path, typer.Argument(help="Another, on the same items.")],
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare two runs: paired difference with its interval, and the exact McNemar test."""
    from tellapart.evaluation.compare import compare
    from tellapart.report.show import print_comparison

    comparison = compare(run_a, run_b, seed=seed)
    if as_json:
        print_json(comparison.model_dump(mode="json"))
    else:
        print_comparison(comparison)


@app.command("gap")
def gap_command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, of one model or of several.")],
    as_json: Json = False,
) -> None:
    """Show what models lose out of domain: every task that a run measured on both sides, and the correlation."""
    from tellapart.evaluation.gap import gaps
    from tellapart.report.show import print_gaps

    found = gaps(runs)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_gaps(found)


@app.command("time")
def time_command(
    model: Annotated[
        list[str],
        typer.Option(
            "-m", "--model", help="A model (`tellapart ls models`): a name, a file, a folder or a hub id. Repeatable."
        ),
    ],
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
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", help="The file to write, timing.json say."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure what models cost: latency of one pair by part, throughput, parameters, FLOPs, memory."""
    from tellapart.benchmarks.locations import Locations
    from tellapart.evaluation.timing import TimingSettings, time_models
    from tellapart.records.timing_record import write_timings
    from tellapart.report.timings import print_timings

    settings = TimingSettings(
        benchmark=benchmark,
        repeats=repeats,
        warm_up=warm_up,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        reading=reading,
        place=Locations(data, images),
    )
    with _progress() as progress:
        timings = time_models(model, settings, command=_command(), progress=progress.told("timing"))
    if out is not None:
        write_timings(out, timings)
    if as_json:
        print_json(timings.model_dump(mode="json", by_alias=True))
    else:
        print_timings(timings)


@app.command("check")
def check_command(
    model: Annotated[Optional[str], typer.Argument(help="Also test a model of your own.")] = None,  # noqa: UP045
    device: Device = "cpu",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Show that models whose results are known beforehand get them, on every shape."""
    from tellapart.benchmarks.benchmark import find_pairs
    from tellapart.evaluation.check import check_model, check_references
    from tellapart.evaluation.evaluate import chosen
    from tellapart.models.find import find_model
    from tellapart.models.options import ModelOptions
    from tellapart.report.show import print_gates

    subject = find_model(model, ModelOptions(device=device, seed=seed)) if model is not None else None
    with _progress() as progress:
        gates = check_references(progress.told("reference models"))
        if subject is not None:
            pairs = find_pairs("demo").pairs()
            gates += check_model(subject, pairs.select(chosen(len(pairs), "30")))
    if as_json:
        print_json(_gates_json(gates))
    else:
        print_gates(gates)
    if not all(gate.passed for gate in gates):
        raise typer.Exit(1)


app.command("audit")(audit_command)
app.command("build")(build_command)
app.command("serve")(serve_command)
app.command("train")(train_command)
app.command("mine")(mine_command)
app.command("detect")(detect_command)
app.command("plot")(plot_command)
app.command("table")(table_command)
app.command("import")(import_command)
app.command("convert")(convert_command)


@app.command("ls")
def ls_command(
    what: Annotated[str, typer.Argument(help="benchmarks, models, losses or builders")],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List benchmarks, and which of their files are there; models; or training losses."""
    from tellapart.benchmarks.locations import Locations
    from tellapart.report.listing import listing, print_listing

    rows = listing(what, Locations(data))
    if as_json:
        print_json(rows)
    else:
        print_listing(what, rows)


def _store(cache: Path | None, no_cache: bool) -> EmbeddingStore:
    from tellapart.errors import StoreError
    from tellapart.models.store import EmbeddingStore, default_store_path

    if cache is not None and no_cache:
        raise StoreError("--cache and --no-cache were both given; give one of them")
    path = cache / "store.sqlite" if cache is not None else default_store_path()
    return EmbeddingStore(None if no_cache else path)


def _progress() -> TerminalProgress:
    from tellapart.cli.progress import TerminalProgress

    return TerminalProgress()


def _new_folder() -> Path:
    """Name a run folder after the time, so that no run ever lands in another's."""
    from datetime import datetime

    return Path("runs") / datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S.%f")[:-3]


def _command() -> str:
    return shlex.join(["tellapart", *sys.argv[1:]])


def _show(folder: Path, as_json: bool) -> None:
    """Make a run's report, and print its records: as tables, or as one object with all of them."""
    from tellapart.records.run_folder import find_runs, read_result
    from tellapart.report.show import print_runs, write_run_report

    report = write_run_report(folder)
    if as_json:
        runs = [read_result(each).model_dump(mode="json", by_alias=True) for each in find_runs(folder)]
        print_json({"out": str(folder), "report": None if report is None else str(report), "runs": runs})
    else:
        print_runs(folder, report)


def _gates_json(gates: list[Gate]) -> dict[str, Any]:
    return {"passed": all(gate.passed for gate in gates), "gates": [asdict(gate) for gate in gates]}
