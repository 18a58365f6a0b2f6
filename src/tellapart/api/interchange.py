"""Files for other tools, and from them: what `export`, `import`, `convert`, `table`, `plot` and `gap` call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tellapart.api.arguments import PathGiven, as_names, as_path, as_paths, locations
from tellapart.api.plugins import open_benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.given import BenchmarkGiven, as_benchmark
from tellapart.catalog import nearest
from tellapart.data.progress import Progress
from tellapart.errors import ModelError, UnknownNameError, quote
from tellapart.evaluation.export import Exported
from tellapart.evaluation.export import export as write_template
from tellapart.evaluation.gap import Gaps
from tellapart.evaluation.gap import gaps as measure_gaps
from tellapart.models.find import declared_prefix, name_forms
from tellapart.models.fusion.region_import import ImportedRegions
from tellapart.models.fusion.region_import import import_regions as take_regions
from tellapart.records.result import Result
from tellapart.records.run_folder import read_result, write_text_file
from tellapart.report.benchmark_agreement import Agreeing
from tellapart.report.interchange.foreign import import_results as read_files
from tellapart.report.interchange.formats import convert as write_as
from tellapart.report.paper_tables.layouts import TableSettings, lay_out
from tellapart.report.paper_tables.writing import write_csv, write_json, write_latex, write_markdown
from tellapart.report.plots.agreement import read_agreement
from tellapart.report.plots.prepare import PlotSettings, prepare_plot
from tellapart.report.plots.style import write_picture

__all__ = [
    "agreement",
    "convert",
    "convert_model",
    "export",
    "gaps",
    "import_regions",
    "import_results",
    "paper_table",
    "plot",
]

_FORMATS = {"markdown": write_markdown, "latex": write_latex, "csv": write_csv}


def export(
    benchmark: BenchmarkGiven,
    to: PathGiven,
    *,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
) -> Exported:
    """Write what a system elsewhere is to score or to answer: a benchmark's pairs, or a task's records.

    Raises:
        TellapartError: no such benchmark, or the file cannot be written.

    >>> import tellapart as ta
    >>> template = getfixture("tmp_path") / "pairs.csv"
    >>> ta.export("demo", template).rows
    1200
    >>> template.read_text().splitlines()[0]
    'id,image,text,score,image_file,caption'
    """
    place = locations(data, images, outside_images)
    if isinstance(benchmark, str):
        return write_template(find_benchmark(open_benchmark(benchmark), place), as_path(to, "to"))
    return write_template(as_benchmark(benchmark, place), as_path(to, "to"))


def import_results(
    files: PathGiven | Sequence[PathGiven], out: PathGiven, *, model: str | None = None, command: str = ""
) -> Result:
    """Take results of CLIP_benchmark or mteb, of one model, as a run folder.

    Raises:
        TellapartError: a file is none of theirs.
    """
    return read_files(as_paths(files, "files"), as_path(out, "out"), command=command, model=model)


def convert(run: PathGiven, to: str, *, card: PathGiven | None = None, out: PathGiven | None = None) -> str:
    """Return a run's results for model cards on the hub, or as lm-evaluation-harness writes them; `out` writes a file.

    Raises:
        TellapartError: the folder is no run, or there is no such format.
    """
    text = write_as(read_result(as_path(run, "run")), to, None if card is None else as_path(card, "card"))
    if out is not None:
        write_text_file(as_path(out, "out"), text)
    return text


def convert_model(model: str, folder: PathGiven, *, tokenizer: PathGiven | None = None) -> int:
    """Write a model as another folder; return how many parameters it has.

    One in its authors' file (`albef:FILE`) becomes a folder without a pickle, `compact:FOLDER` one for ONNX Runtime.

    Raises:
        TellapartError: the model has no such file, or the folder holds something already.
    """
    prefix = declared_prefix(str(model))
    if prefix is None or prefix.convert is None or not str(model).partition(":")[2].strip():
        raise ModelError(
            f"convert_model({quote(model)}): no model that can be converted; write one of "
            f"{', '.join(name_forms(can_convert=True))}"
        )
    vocabulary = None if tokenizer is None else as_path(tokenizer, "tokenizer")
    return prefix.convert(str(model), as_path(folder, "folder"), vocabulary)


def import_regions(
    files: PathGiven | Sequence[PathGiven],
    images: PathGiven,
    out: PathGiven = "regions.safetensors",
    *,
    progress: Progress | None = None,
) -> ImportedRegions:
    """Take a detector's regions, as papers publish them, into one file that models on regions read.

    Raises:
        TellapartError: a file is none of theirs, or names none of the images.
    """
    sources = as_paths(files, "files")
    return take_regions(sources, as_path(images, "images"), as_path(out, "out"), progress)


def paper_table(
    runs: PathGiven | Sequence[PathGiven],
    form: str = "markdown",
    *,
    layout: str | None = None,
    intervals: bool = False,
    out: PathGiven | None = None,
    benchmarks: Sequence[str] = (),
    average: bool = False,
    average_as: Sequence[str] = (),
    costs: PathGiven | None = None,
    labels: Mapping[str, str] | None = None,
    sort: str | None = None,
    with_tiers: bool = True,
    seed: int = 0,
) -> str:
    """Lay runs out as the papers do: markdown, latex, csv or json; `out` writes a file.

    Args:
        runs: runs, or run folders.
        form: the format.
        layout: instead of the benchmark's own.
        intervals: also write intervals.
        out: the file.
        benchmarks: one, or several as a column each; all that were measured if none.
        average: of several: add the plain mean of the columns.
        average_as: add these averages that papers take of a benchmark's parts.
        costs: of the layout `vlue-cost`: a file of `tellapart time`, or CSV.
        labels: a model's name -> what to call it.
        sort: a metric to order the models by, the highest first; as they were named if not given.
        with_tiers: mark models that the items do not tell apart from the best.
        seed: of the tests behind that.

    Raises:
        TellapartError: a folder is no run, there is no such format, or what they measured cannot be laid out so.

    >>> import tellapart as ta
    >>> print(ta.paper_table(ta.evaluate("oracle", "demo", limit=20)).splitlines()[0])
    **demo, 20 of 300 items, percent**
    """
    settings = TableSettings(
        benchmarks=as_names(benchmarks, "benchmarks"),
        average=average,
        average_as=as_names(average_as, "average_as"),
        costs=None if costs is None else as_path(costs, "costs"),
        labels=labels or {},
        sort=sort,
        with_tiers=with_tiers,
        seed=seed,
    )
    if form not in (known := (*_FORMATS, "json")):
        hint = nearest(form, known) if isinstance(form, str) else ""
        raise UnknownNameError(f"paper_table(form={quote(form)}){hint or ';'} the formats are {', '.join(known)}")
    table = lay_out(as_paths(runs, "runs"), layout, settings)
    text = write_json(table) if form == "json" else _FORMATS[form](table, intervals=intervals)
    if out is not None:
        write_text_file(as_path(out, "out"), text)
    return text


def plot(
    kind: str,
    runs: PathGiven | Sequence[PathGiven],
    out: PathGiven,
    *,
    benchmarks: Sequence[str] = (),
    metrics: Sequence[str] = (),
    item: str | None = None,
    tag: str | None = None,
    costs: PathGiven | None = None,
    cost: str = "latency",
    labels: Mapping[str, str] | None = None,
    sort: str | None = None,
    seed: int = 0,
) -> Path:
    """Draw a picture for a paper to a file: .pdf, .svg or .png.

    Args:
        kind: of picture: bars, heatmap, matrix, pareto, cost, agree, ...
        runs: runs, or run folders; for cost and agree also files, as the command takes them.
        out: the file.
        benchmarks: one; several for pareto, which takes their mean, and for agree, which takes all if none.
        metrics: those of a first look if none.
        item: its id, for matrix.
        tag: for heatmap; that of the benchmark's paper if not given.
        costs: a file of `tellapart time`, or CSV, for pareto.
        cost: which cost of the file.
        labels: a model's name -> what to call it.
        sort: a metric to order the models by, the best first; as they were named if not given.
        seed: of the tests behind tiers.

    Raises:
        TellapartError: a folder is no run, or there is no such picture of it.

    >>> import tellapart as ta
    >>> run = ta.evaluate("oracle", "demo", limit=20)
    >>> ta.plot("bars", run, getfixture("tmp_path") / "bars.png").name
    'bars.png'
    """
    settings = PlotSettings(
        benchmarks=as_names(benchmarks, "benchmarks"),
        metrics=as_names(metrics, "metrics"),
        item=item,
        tag=tag,
        costs=None if costs is None else as_path(costs, "costs"),
        cost=cost,
        seed=seed,
        labels=labels or {},
        sort=sort,
    )
    to = as_path(out, "out")
    write_picture(to, prepare_plot(kind, as_paths(runs, "runs"), settings))
    return to


def agreement(
    runs: PathGiven | Sequence[PathGiven], *, benchmarks: Sequence[str] = (), labels: Mapping[str, str] | None = None
) -> Agreeing:
    """Return how alike benchmarks rank the models that all of them were measured on.

    Args:
        runs: run folders, or TOML files of imported numbers.
        benchmarks: which; all if none.
        labels: a model's name -> what to call it.

    Raises:
        TellapartError: a folder is no run, or no two benchmarks share five models.
    """
    return read_agreement(as_paths(runs, "runs"), tuple(benchmarks), labels)


def gaps(runs: Sequence[PathGiven]) -> Gaps:
    """Return what models lose out of domain: every task that a run measured on both sides, and the correlation.

    Raises:
        RunError: a folder is no run, or none measured both sides.
    """
    return measure_gaps(as_paths(runs, "runs"))
