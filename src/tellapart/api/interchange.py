"""Files for other tools, and from them: the functions of `export`, `import`, `convert`, `table`, `plot` and `gap`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tellapart.benchmarks.arguments import locations, refuse_columns, refuse_idle
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.given import BenchmarkGiven, as_benchmark
from tellapart.benchmarks.plugins import open_benchmark
from tellapart.catalog import nearest
from tellapart.data.arguments import PathGiven, as_names, as_path, as_paths
from tellapart.data.progress import Progress
from tellapart.errors import ModelError, RunError, UnknownNameError, quote
from tellapart.evaluation.export import Exported
from tellapart.evaluation.export import export as write_template
from tellapart.evaluation.gap import Gaps
from tellapart.evaluation.gap import gaps as measure_gaps
from tellapart.evaluation.verified import read_result
from tellapart.models.find import declared_prefix, name_forms
from tellapart.models.fusion.region_import import ImportedRegions
from tellapart.models.fusion.region_import import import_regions as take_regions
from tellapart.records.result import Result
from tellapart.records.run_folder import write_text_file
from tellapart.records.zipped import run_folders
from tellapart.report.benchmark_agreement import Agreeing
from tellapart.report.interchange.foreign import import_results as read_files
from tellapart.report.interchange.formats import FORMATS
from tellapart.report.interchange.formats import convert as write_as
from tellapart.report.paper_tables.layouts import TableSettings, lay_out
from tellapart.report.paper_tables.writing import write_csv, write_json, write_latex, write_markdown
from tellapart.report.plots.agreement import read_agreement
from tellapart.report.plots.prepare import PlotSettings, prepare_plot
from tellapart.report.plots.style import write_picture

__all__ = [
    "Converted",
    "agreement",
    "convert",
    "export",
    "gap",
    "import_results",
    "plot",
    "regions",
    "table",
]

_FORMATS = {"markdown": write_markdown, "latex": write_latex, "csv": write_csv}


def export(
    benchmark: BenchmarkGiven,
    to: PathGiven,
    *,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    columns: Mapping[str, str] | None = None,
) -> Exported:
    """Write the items that a system elsewhere scores or answers: a benchmark's pairs, or a task's records.

    Raises:
        TellapartError: no such benchmark, or the file cannot be written.

    >>> import tellapart as ta
    >>> template = getfixture("tmp_path") / "pairs.csv"
    >>> ta.export("demo", template).rows
    1600
    >>> template.read_text().splitlines()[0]
    'id,image,text,score,image_file,caption'
    """
    refuse_columns(columns, (benchmark,))
    place = refuse_idle((benchmark,), locations(data, images, outside_images, columns))
    if isinstance(benchmark, str):
        return write_template(find_benchmark(open_benchmark(benchmark), place), as_path(to, "to"))
    return write_template(as_benchmark(benchmark, place), as_path(to, "to"))


def import_results(
    files: PathGiven | Sequence[PathGiven], out: PathGiven, *, model: str | None = None, command: str = ""
) -> Result:
    """Take results of CLIP_benchmark or mteb, of one model, as a run folder.

    Raises:
        TellapartError: a file is none of theirs.

    >>> import json
    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path")
    >>> theirs = {"dataset": "winoground", "task": "image_caption_selection", "metrics": {"text_acc": 0.3}}
    >>> theirs |= {"model": "ViT-B-32", "pretrained": "openai"}
    >>> _ = (folder / "clip_benchmark.json").write_text(json.dumps(theirs))
    >>> result = ta.import_results(folder / "clip_benchmark.json", folder / "imported")
    >>> result.model.name, result.benchmarks["winoground"].metrics["text_score"].value
    ('ViT-B-32/openai', 0.3)
    """
    return read_files(as_paths(files, "files"), as_path(out, "out"), command=command, model=model)


@dataclass(frozen=True, slots=True)
class Converted:
    """A run's results in another format, or a model in another folder.

    Attributes:
        text: the results; None of a model.
        folder: the model's; None of results.
        parameters: how many the model has; None of results.
    """

    text: str | None = None
    folder: Path | None = None
    parameters: int | None = None


def convert(
    source: PathGiven,
    folder: PathGiven | None = None,
    *,
    to: str | None = None,
    tokenizer: PathGiven | None = None,
    card: PathGiven | None = None,
    out: PathGiven | None = None,
) -> Converted:
    """Write a model as safetensors or ONNX, or a run's results for model cards on the hub or as lm-eval does.

    A model in its authors' file (`albef:FILE`) becomes a folder without a pickle, and `compact:FOLDER` one for ONNX
    Runtime.

    Args:
        source: a model, or a run folder.
        folder: of a model: the new folder.
        to: of a run: the format of its results.
        tokenizer: of a model: its tokenizer's folder, if not in the file's folder or on the hub.
        card: of a run: a model card on disk, whose text with the results put in is returned.
        out: of a run: also write the text there.

    Raises:
        TellapartError: an argument of a run is given with a model, or the other way round; the folder is not a run, the
            format is unknown, the model has no such file, or the new folder holds something.

    >>> import tellapart as ta
    >>> run = ta.evaluate("oracle", "demo", limit=20)
    >>> ta.convert(run, to="lm-eval").text[:1]
    '{'
    """
    if to is None:
        _refuse_arguments({"card": card, "out": out}, "goes with a run, and so with to=FORMAT")
        if folder is None:
            raise RunError(
                f"convert {source}: name the output: of a model a new folder (tellapart convert {source} FOLDER), "
                f"of a run to={', to='.join(FORMATS)}"
            )
        new = as_path(folder, "folder")
        return Converted(folder=new, parameters=_convert_model(os.fspath(source), new, tokenizer))
    _refuse_arguments(
        {"folder": folder, "tokenizer": tokenizer}, "goes with a model; a run's results are written with out="
    )
    with run_folders(source, "source") as (run,):
        text = write_as(read_result(run), to, None if card is None else as_path(card, "card"))
    if out is not None:
        write_text_file(as_path(out, "out"), text)
    return Converted(text=text)


def _refuse_arguments(given: Mapping[str, PathGiven | None], reason: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise RunError(f"convert: {name}={os.fspath(value)} {reason}")


def _convert_model(model: str, folder: Path, tokenizer: PathGiven | None) -> int:
    prefix = declared_prefix(model)
    if prefix is None or prefix.convert is None or not model.partition(":")[2].strip():
        raise ModelError(
            f"convert({quote(model)}): no model that can be converted; write one of "
            f"{', '.join(name_forms(can_convert=True))}"
        )
    return prefix.convert(model, folder, None if tokenizer is None else as_path(tokenizer, "tokenizer"))


def regions(
    files: PathGiven | Sequence[PathGiven],
    images: PathGiven,
    out: PathGiven = "regions.safetensors",
    *,
    progress: Progress | None = None,
) -> ImportedRegions:
    """Take a detector's regions, as papers publish them, into one file that models on regions read.

    Raises:
        TellapartError: a file is none of theirs, or names none of the images.

    >>> from base64 import b64encode
    >>> import numpy as np
    >>> from PIL import Image
    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path")
    >>> Image.new("RGB", (8, 8)).save(folder / "dog_7.png")
    >>> box, features = (b64encode(np.array(row, np.float32)).decode() for row in ([0, 0, 4, 4], [0.5, 0.25]))
    >>> row = ("7", "8", "8", "1", box, features)  # id, width, height, how many boxes
    >>> _ = (folder / "trainval_36.tsv").write_text("\\t".join(row))
    >>> ta.regions(folder / "trainval_36.tsv", folder, folder / "regions.safetensors")
    ImportedRegions(images=1, without_regions=0, without_image=0)
    """
    sources = as_paths(files, "files")
    return take_regions(sources, as_path(images, "images"), as_path(out, "out"), progress)


def table(
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
        layout: instead of the benchmark's.
        intervals: also write intervals.
        out: the file.
        benchmarks: one, or several as a column each; all that were measured if none.
        average: of several: add the plain mean of the columns.
        average_as: add these averages that papers take of a benchmark's parts.
        costs: of the layout `vlue-cost`: a file of `tellapart time`, or CSV.
        labels: a model's name -> what to call it.
        sort: a metric to order the models by, the highest first; as they were named if not given.
        with_tiers: mark models that the items do not separate from the best.
        seed: of the tests behind that.

    Raises:
        TellapartError: a folder is not a run, the format is unknown, or the measurements cannot be laid out so.

    >>> import tellapart as ta
    >>> print(ta.table(ta.evaluate("oracle", "demo", limit=20)).splitlines()[0])
    **demo, 20 of 400 items, percent**
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
        raise UnknownNameError(f"table(form={quote(form)}){hint or ';'} the formats are {', '.join(known)}")
    with run_folders(runs, "runs") as folders:
        laid_out = lay_out(folders, layout, settings)
    text = write_json(laid_out) if form == "json" else _FORMATS[form](laid_out, intervals=intervals)
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
        TellapartError: a folder is not a run, or has no such picture.

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
    with run_folders(runs, "runs") as folders:
        write_picture(to, prepare_plot(kind, folders, settings))
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
        TellapartError: a folder is not a run, or there are not two benchmarks with five models in common.
    """
    with run_folders(runs, "runs") as folders:
        return read_agreement(folders, tuple(benchmarks), labels)


def gap(runs: Sequence[PathGiven]) -> Gaps:
    """Return the models' losses out of domain: every task that a run measured on both sides, and the correlation.

    Raises:
        RunError: a folder is not a run, or none measured both sides.

    >>> import json
    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path")
    >>> records = [{"sentence": "Two dogs.", "images": ["a.png", "b.png"], "label": "True"}] * 4
    >>> for file, right in (("nlvr2_test.json", 3), ("nlvr2_vlue_test.json", 2)):
    ...     predictions = [{"id": k, "prediction": k < right} for k in range(4)]
    ...     _ = (folder / file).write_text(json.dumps(records))
    ...     _ = (folder / f"mine_{file}").write_text(json.dumps(predictions))
    >>> files = {"nlvr2": folder / "mine_nlvr2_test.json", "vlue-nlvr2": folder / "mine_nlvr2_vlue_test.json"}
    >>> row = ta.gap([ta.score(None, files, name="mine", data=folder)]).rows[0]
    >>> row.task, row.in_domain, row.out_of_domain, row.gap
    ('nlvr2: accuracy', 0.75, 0.5, 0.25)
    """
    with run_folders(runs, "runs") as folders:
        return measure_gaps(folders)
