"""Files for other tools, and from them: what `export`, `import`, `convert`, `table`, `plot` and `gap` call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tellapart.api.arguments import as_path, as_tuple, choose, field_names, locations
from tellapart.api.plugins import open_benchmark
from tellapart.api.run import Run
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.given import as_benchmark
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
from tellapart.report.interchange.formats import convert as write_as
from tellapart.report.interchange.imported import import_results as read_files
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
    benchmark: Any, to: str | Path, *, data: Any = None, images: Any = None, outside_images: bool = False
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


def import_results(files: Any, out: str | Path, *, model: str | None = None, command: str = "") -> Result:
    """Take results of CLIP_benchmark or mteb, of one model, as a run folder.

    Raises:
        TellapartError: a file is none of theirs.
    """
    return read_files(
        [as_path(each, "files") for each in as_tuple(files, "files")], as_path(out, "out"), command=command, model=model
    )


def convert(run: str | Path, to: str, *, card: str | Path | None = None, out: str | Path | None = None) -> str:
    """Return a run's results for model cards on the hub, or as lm-evaluation-harness writes them; `out` writes a file.

    Raises:
        TellapartError: the folder is no run, or there is no such format.
    """
    text = write_as(read_result(as_path(run, "run")), to, None if card is None else as_path(card, "card"))
    if out is not None:
        write_text_file(as_path(out, "out"), text)
    return text


def convert_model(model: str, folder: str | Path, *, tokenizer: str | Path | None = None) -> int:
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
    files: Any, images: str | Path, out: str | Path = "regions.safetensors", *, progress: Progress | None = None
) -> ImportedRegions:
    """Take a detector's regions, as papers publish them, into one file that models on regions read.

    Raises:
        TellapartError: a file is none of theirs, or names none of the images.
    """
    sources = [as_path(each, "files") for each in as_tuple(files, "files")]
    return take_regions(sources, as_path(images, "images"), as_path(out, "out"), progress)


def paper_table(
    runs: Run | str | Path | Sequence[Run | str | Path],
    form: str = "markdown",
    *,
    layout: str | None = None,
    intervals: bool = False,
    out: str | Path | None = None,
    **options: Any,
) -> str:
    """Lay runs out as the papers do: markdown, latex, csv or json; `out` writes a file.

    Args:
        runs: runs, or run folders.
        form: the format.
        layout: instead of the benchmark's own.
        intervals: also write intervals.
        out: the file.
        options: of `tellapart.report.paper_tables.layouts.TableSettings`.

    Raises:
        TellapartError: a folder is no run, there is no such format, or what they measured cannot be laid out so.

    >>> import tellapart as ta
    >>> print(ta.paper_table(ta.evaluate("oracle", "demo", limit=20)).splitlines()[0])
    **demo, 20 of 300 items, percent**
    """
    settings = TableSettings(**choose("paper_table", options, field_names(TableSettings)))
    if form not in (known := (*_FORMATS, "json")):
        hint = nearest(form, known) if isinstance(form, str) else ""
        raise UnknownNameError(f"paper_table(form={quote(form)}){hint or ';'} the formats are {', '.join(known)}")
    table = lay_out([as_path(run, "runs") for run in as_tuple(runs, "runs")], layout, settings)
    text = write_json(table) if form == "json" else _FORMATS[form](table, intervals=intervals)
    if out is not None:
        write_text_file(as_path(out, "out"), text)
    return text


def plot(kind: str, runs: Run | str | Path | Sequence[Run | str | Path], out: str | Path, **options: Any) -> Path:
    """Draw a picture for a paper to a file: .pdf, .svg or .png; options are those of `PlotSettings`.

    Raises:
        TellapartError: a folder is no run, or there is no such picture of it.

    >>> import tellapart as ta
    >>> run = ta.evaluate("oracle", "demo", limit=20)
    >>> ta.plot("bars", run, getfixture("tmp_path") / "bars.png").name
    'bars.png'
    """
    settings = PlotSettings(**choose("plot", options, field_names(PlotSettings)))
    to = as_path(out, "out")
    write_picture(to, prepare_plot(kind, [as_path(run, "runs") for run in as_tuple(runs, "runs")], settings))
    return to


def agreement(
    runs: str | Path | Sequence[str | Path], *, benchmarks: Sequence[str] = (), labels: Mapping[str, str] | None = None
) -> Agreeing:
    """Return how alike benchmarks rank the models that all of them were measured on.

    Args:
        runs: run folders, or TOML files of imported numbers.
        benchmarks: which; all if none.
        labels: a model's name -> what to call it.

    Raises:
        TellapartError: a folder is no run, or no two benchmarks share five models.
    """
    return read_agreement([as_path(run, "runs") for run in as_tuple(runs, "runs")], tuple(benchmarks), labels)


def gaps(runs: Sequence[str | Path]) -> Gaps:
    """Return what models lose out of domain: every task that a run measured on both sides, and the correlation.

    Raises:
        RunError: a folder is no run, or none measured both sides.
    """
    return measure_gaps([as_path(run, "runs") for run in as_tuple(runs, "runs")])
