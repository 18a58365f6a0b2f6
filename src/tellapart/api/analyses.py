"""Analyse runs and verify them: the functions of `tellapart items`, `curve`, `risk`, `why` and `verify`."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tellapart.benchmarks.arguments import locations, refuse_columns, refuse_idle
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.data.arguments import PathGiven, as_names, as_path, as_paths, expect_used
from tellapart.data.rows import spreadsheet_cell
from tellapart.data.scores import ScoreKind, join_names
from tellapart.diagnosis.curve import Curves, measure_curves, read_chances
from tellapart.diagnosis.item_analysis import (
    FamilyGiven,
    ItemAnalysis,
    ItemOutcomes,
    analyse_items,
    list_families,
    list_score_files,
    outcomes_of,
    read_systems,
)
from tellapart.diagnosis.psychometric import DIRECTIONS, LEAST_ITEMS
from tellapart.diagnosis.risk import Risks, measure_risks
from tellapart.diagnosis.why import Why, explain
from tellapart.diagnosis.why import debias as subtract_means
from tellapart.errors import RunError, TellapartError, plain, quote
from tellapart.evaluation.systems import System, choose_models
from tellapart.evaluation.verify import Verification, verify_run
from tellapart.models.store.cache import CacheGiven, default_store_path, use_store
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.run_folder import find_runs, write_text_file
from tellapart.records.zipped import run_folders, unpacked
from tellapart.report.diagnoses import curve_facts, draw_risks, draw_thresholds, print_why, risk_facts
from tellapart.report.frame import Frame, Printed, columns_of
from tellapart.report.image_sources import ImageSources
from tellapart.report.page import first_to_check, make_item_page
from tellapart.report.plots.style import write_picture
from tellapart.report.printing import list_reasons
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.report.show import check_report
from tellapart.report.tables import Table
from tellapart.report.terminal import print_lines

if TYPE_CHECKING:
    from tellapart.models.memory.held import ModelGiven


def items(
    *runs: PathGiven,
    scores: PathGiven | Sequence[PathGiven] | None = None,
    benchmark: str | None = None,
    metric: str | None = None,
    family: FamilyGiven = None,
    without: str | Sequence[str] | None = None,
    kind: ScoreKind | None = None,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    columns: Mapping[str, str] | None = None,
    page: PathGiven | None = None,
    short: int | None = None,
    to: PathGiven | None = None,
    seed: int = 0,
) -> ItemsAnalysed:
    """Analyse a benchmark's items through many systems: difficulty, discrimination, suspects, reliability.

    Args:
        runs: runs, run folders, or zip archives of them: all models of each, but for reference models that only lie
            with them.
        scores: files of scores or predictions, one a system, or folders of them; a system is named as its file.
        benchmark: which; the one that all the runs share if None.
        metric: by which an item is right or wrong; the one that ranks models if None.
        family: families of systems, which are resampled as one: a CSV file with the columns `system` and `family`,
            or "name", the letters that a system's name begins with. It may be a mapping, too; if None, each
            system is a family.
        without: systems that are left out.
        kind: of the files' scores: similarity, logit or probability.
        data, images, outside_images: as of `evaluate`; the benchmark's files give ids, tags, clusters and captions.
        columns: `{"prediction": FIELD}`, the files' field of predictions, whatever its name; of a `table:FILE`, as of
            `evaluate`.
        page: the HTML file to write: difficulty by discrimination, and each item with its images and captions.
        short: choose a short form of so many items, and try such forms on systems that had no part in choosing them.
        to: the file to write its ids to, one a line: `run(items=FILE)` measures these alone.
        seed: of the permutations and folds.

    Raises:
        RunError: fewer than five systems, systems with other items, or no such benchmark, metric, family or system;
            `to` without `short`.
        MetricError: too few systems or families to try a short form on.
        TellapartError: a file or folder cannot be read.

    >>> import numpy as np
    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path")
    >>> items = ta.find_benchmark("demo").outline().ids
    >>> rng = np.random.default_rng(0)
    >>> for system in range(6):
    ...     np.save(folder / f"model{system}.npy", rng.random((400, 2, 2)) + 0.1 * system * np.eye(2))
    >>> found = ta.items(scores=folder, benchmark="demo")
    >>> len(found), found.record.systems[0], found.record.suspects, 0 < found.record.alpha < 1
    (400, 'model0', 0, True)
    """
    files = [] if scores is None else list_score_files(as_paths(scores, "scores"))
    for option, value in (("benchmark", benchmark), ("metric", metric)):
        if value is not None and not isinstance(value, str):
            raise RunError(f"{option}={quote(value)}: give a name")
    if to is not None and short is None:
        raise RunError("to= is the file of a short form's ids: add short=, its number of items")
    if scores is None:
        expect_used("items", "without scores=FILES", kind=(kind, None), columns=(columns, None))
        if page is None:
            expect_used("items", "without scores=FILES or page=FILE", data=(data, None), images=(images, None))
    place = locations(data, images, outside_images, columns)
    with unpacked([as_path(run, "runs") for run in runs]) as folders:
        models = choose_models(folders).runs if folders else ()
        left_out = as_names(without, "without")
        systems = read_systems(models, files, benchmark=benchmark, without=left_out, kind=kind, place=place)
        outcomes = outcomes_of(*systems, metric)
        record = analyse_items(outcomes, list_families(family, outcomes.systems), short=short, seed=seed)
        if page is not None:
            read_image = _find_images(models, outcomes.benchmark, benchmark, place)
            write_text_file(as_path(page, "page"), make_item_page(record, outcomes, read_image))
    if to is not None:
        write_text_file(as_path(to, "to"), "".join(f"{id_}\n" for id_ in record.short))
    return ItemsAnalysed(record, outcomes)


class ItemsAnalysed(Printed):
    """The analysis: a row for each item, printed as `tellapart items` does.

    Attributes:
        record: all of it: items, set, tags, groups.
        outcomes: the matrix `(item, system)` that it is made of, with the items' ids and tags.
    """

    def __init__(self, record: ItemAnalysis, outcomes: ItemOutcomes) -> None:
        self.record, self.outcomes = record, outcomes
        tags = sorted({tag for row in record.items for tag in row.tags})
        columns = columns_of(row.model_dump(exclude={"tags"}) for row in record.items)
        columns |= {f"tag:{tag}": [row.tags.get(tag, "") for row in record.items] for tag in tags}
        super().__init__(columns, "items", analysis=record, first=first_to_check(record))

    def show(self) -> None:
        """Print it as `tellapart items` does."""
        fields = self.outcomes.fields
        for field in dict.fromkeys(fields.values()):
            systems = join_names([system for system in fields if fields[system] == field])
            print_lines(plain(f"{systems}: read from field {field}"))
        super().show()

    def to_csv(self) -> str:
        """Return CSV with a line for each item; a spreadsheet reads no text of it as a formula."""
        text, rows = io.StringIO(), [self.columns, *zip(*self.columns.values(), strict=True)]
        csv.writer(text, lineterminator="\n").writerows(map(spreadsheet_cell, row) for row in rows)
        return text.getvalue()


def _find_images(
    runs: Sequence[System], name: str, typed: str | None, place: Locations
) -> Callable[[str], bytes] | None:
    """Return a reader of the benchmark's images: the first run's, or one of the folders in `place`; None without."""
    for run in runs:
        if name in run.folders:
            reader = ImageSources.of(run.folders[name], run.result, name).reader(outside=place.outside)
            if reader is not None:
                return reader
    try:
        return find_benchmark(typed or name, place).read_image()
    except TellapartError:  # its files are not here: the page has no pictures
        return None


_CURVE_COLUMNS = (
    *("model", "subset", "n", "right", "threshold", "outside", "low", "high"),
    *("slope", "lapse", "p_fit", "reason"),
)


def _expect_names(needed: str = "", **given: object) -> None:
    """Refuse options that are no names; None is allowed for an option that is not `needed`."""
    for option, value in given.items():
        is_name, may_be_none = isinstance(value, str) and value != "", option != needed
        if not is_name and not (value is None and may_be_none):
            raise RunError(f"{option}={quote(value)}: give a name")


def _choose_measured(folders: Sequence[Path]) -> tuple[System, ...]:
    """Choose the models of run folders, and refuse reference models alone."""
    choice = choose_models(folders)
    if not choice.runs:
        names = join_names([*choice.left_out])
        raise RunError(f"{join_names([*map(str, folders)])}: only reference models ({names}); name their folders")
    return choice.runs


def curve(
    *runs: PathGiven,
    over: str,
    by: str | None = None,
    benchmark: str | None = None,
    metric: str | None = None,
    direction: str | None = None,
    out: PathGiven | None = None,
    seed: int = 0,
    model: str | ModelGiven | None = None,
    adaptive: int | None = None,
    items: PathGiven | None = None,
    data: PathGiven | None = None,
    columns: Mapping[str, str] | None = None,
    device: str = "cpu",
    cache: CacheGiven = None,
    progress: ProgressGiven = None,
) -> CurvesFitted:
    """Fit a psychometric function to each model: P(right) over a numeric tag of items, and the tag's threshold.

    Args:
        runs: runs, run folders, or zip archives of them: all models of each, but for reference models that only lie
            with them.
        over: the tag: of numbers, as many as there are. `caption_edits`, by how many words two captions differ, and
            `first_difference`, the place of the first such word, are computed if no item has a tag of that name.
        by: a tag; the items of each of its values get curves of their own, too.
        benchmark: which; the one that all the runs share if None.
        metric: of right and wrong, with a chance; the one that ranks models if None.
        direction: of all curves: rising if larger values are easier, falling if they are harder; what fits better if
            None.
        out: the picture to write: .pdf, .svg or .png.
        seed: of the draws of clusters, or of items.
        model, adaptive: in place of runs: measure this model on so many items of `benchmark`, chosen one by one, each
            of the value that is expected to narrow the threshold most.
        items, data, columns, device, cache, progress: with `adaptive`, as of `evaluate`.

    Raises:
        RunError: runs of other items, no such benchmark, metric or tag, a tag that is not of numbers, or too few items
            or values of it; with `adaptive`, items of one value that differ in kind or share a cluster.
        TellapartError: a folder cannot be read.

    >>> import tellapart as ta
    >>> from PIL import Image
    >>> folder = getfixture("tmp_path")
    >>> Image.new("RGB", (8, 8)).save(folder / "a.png")
    >>> rows = "".join(f"a.png,a cat,a dog,{k % 8}\\n" for k in range(80))
    >>> _ = (folder / "pairs.csv").write_text("image,caption,foil,tag:size\\n" + rows)
    >>> run = ta.evaluate("random", f"table:{folder / 'pairs.csv'}")
    >>> ta.curve(run, over="size")["n"]
    [80]
    """
    _expect_names("over", over=over, by=by, benchmark=benchmark, metric=metric)
    if direction not in (None, *DIRECTIONS):
        raise RunError(f"direction={quote(direction)}: give one of {join_names(DIRECTIONS)}")
    if adaptive is not None:
        if isinstance(adaptive, bool) or not isinstance(adaptive, int) or adaptive < LEAST_ITEMS:
            raise RunError(f"adaptive={quote(adaptive)}: give a number of items from {LEAST_ITEMS}, for example 100")
        if model is None or benchmark is None or runs or by is not None:
            raise RunError(f"adaptive={adaptive}: name one model= and benchmark=, and neither runs nor by=")
        # Curves of runs need no model.
        from tellapart.api.evaluate import open_given
        from tellapart.benchmarks.plugins import open_benchmark
        from tellapart.diagnosis.adaptive import search_threshold
        from tellapart.evaluation.run import Settings
        from tellapart.models.memory.adapter import keep_random_state

        refuse_columns(columns, (benchmark,))
        settings = Settings(
            models=(open_given(model),), device=device, seed=seed,
            benchmarks=(open_benchmark(benchmark),), items=None if items is None else as_path(items, "items"),
            place=refuse_idle((benchmark,), locations(data, None, False, columns)),
        )  # fmt: skip
        with use_store(cache) as store, keep_random_state(), reporting(progress) as report:
            bar = report(f"{model} on {benchmark}") if report else None
            curves = search_threshold(
                settings, over, adaptive, store=store, metric=metric, direction=direction, progress=bar
            )
        return _draw(CurvesFitted(curves), draw_thresholds, out)
    expect_used("curve", "without adaptive=N", model=(model, None), items=(items, None), data=(data, None),
                columns=(columns or None, None), device=(device, "cpu"))  # fmt: skip
    with unpacked(as_paths(list(runs), "runs")) as folders:
        models = _choose_measured(folders)
        outcomes = outcomes_of(*read_systems(models, benchmark=benchmark), metric)
        chances = read_chances(models, outcomes, by)
        curves = measure_curves(outcomes, over, chances=chances, by=by, direction=direction, seed=seed)
    return _draw(CurvesFitted(curves), draw_thresholds, out)


def _draw(measured: _Drawn, draw: Callable[[Any], Any], out: PathGiven | None) -> _Drawn:
    """Write the picture of a result, if its file is named, and return the result."""
    if out is not None:
        write_picture(as_path(out, "out"), partial(draw, measured.record))
    return measured


class CurvesFitted(Printed):
    """The curves: a row for each, printed as `tellapart curve` does.

    Attributes:
        record: all of it: curves with their levels, and differences of thresholds.
    """

    def __init__(self, record: Curves) -> None:
        self.record = record
        rows = ({name: getattr(row, name) for name in _CURVE_COLUMNS} for row in record.curves)
        super().__init__(columns_of(rows), "curves", **curve_facts(record))


def risk(
    *runs: PathGiven,
    benchmark: str | None = None,
    metric: str | None = None,
    out: PathGiven | None = None,
    seed: int = 0,
) -> RisksMeasured:
    """Measure how many errors are left if a model answers only the items on which it is surest.

    Args:
        runs: runs, run folders, or zip archives of them: all models of each, but for reference models that only lie
            with them.
        benchmark: which; the one that all the runs share if None.
        metric: of comparisons of scores; the one that ranks models if None.
        out: the picture to write: .pdf, .svg or .png.
        seed: of the draws of clusters.

    Raises:
        RunError: runs of other items, no such benchmark or metric, a metric that has no margin, or items without
            scores.
        TellapartError: a folder cannot be read.

    >>> import numpy as np
    >>> import tellapart as ta
    >>> rng = np.random.default_rng(0)
    >>> found = ta.risk(ta.score("demo", rng.random((400, 2, 2)) + 0.2 * np.eye(2), name="mine"))
    >>> row = found.record.rows[0]
    >>> row.n, row.least < row.low < row.area < row.high, row.curve[-1] == (1.0, row.risk)
    (400, True, True)
    """
    _expect_names(benchmark=benchmark, metric=metric)
    with unpacked(as_paths(list(runs), "runs")) as folders:
        record = measure_risks(_choose_measured(folders), benchmark=benchmark, metric=metric, seed=seed)
    return _draw(RisksMeasured(record), draw_risks, out)


class RisksMeasured(Printed):
    """Curves of risk over coverage: a row for each model, printed as `tellapart risk` does.

    Attributes:
        record: all of it: curves, areas and their differences.
    """

    def __init__(self, record: Risks) -> None:
        self.record = record
        columns = columns_of(row.model_dump(exclude={"curve"}) for row in record.rows)
        super().__init__(columns, "risks", **risk_facts(record))


_Drawn = TypeVar("_Drawn", CurvesFitted, RisksMeasured)


def why(
    *runs: PathGiven,
    benchmark: str | None = None,
    by: str | None = None,
    debias: int | None = None,
    cache: CacheGiven = None,
    seed: int = 0,
    progress: ProgressGiven = None,
) -> Explained:
    """Explain why models fail on square items: no match, or a match that a prior outweighs.

    Args:
        runs: runs, run folders, zip archives of them, or CSV files of outcomes. All models of each are explained, but
            for reference models that only lie with them. A file holds outcomes of the four comparisons of 2x2 items,
            as BiVLC's: they give bounds.
        benchmark: which; all with square items if None.
        by: a tag: its values' reasons are printed, too.
        debias: also open each model again, and subtract its means over so many unrelated captions and pictures.
        cache, progress: as of `evaluate`, for `debias`.
        seed: of the bootstrap, of the sign flips, and of what is unrelated.

    Raises:
        RunError: no run has items of as many images as texts, or none measured that benchmark, or no item has the tag;
            `debias` of scores from a file, or of a model or a set that is not here.

    >>> import numpy as np
    >>> import tellapart as ta
    >>> file = getfixture("tmp_path") / "mine.npy"
    >>> np.save(file, np.tile([[0.9, 0.8], [0.3, 0.4]], (400, 1, 1)))
    >>> explained = ta.why(ta.score("demo", file, name="mine"))
    >>> explained.record.rows[0].reasons["picture_prior"].value
    1.0
    """
    if debias is not None and (isinstance(debias, bool) or not isinstance(debias, int) or debias < 1):
        raise RunError(f"debias={quote(debias)}: give a number of captions and pictures from 1, for example 64")
    with unpacked([as_path(run, "runs") for run in runs]) as folders:
        files = [path for path in folders if path.is_file()]
        if debias is not None and files:
            raise RunError(f"debias={debias}: {files[0]} holds outcomes and no model; name runs of models loaded here")
        places = [path for path in folders if path not in files]
        models = choose_models(places).runs if places or not files else ()
        record = explain(models, files, benchmark=benchmark, by=by, seed=seed)
        if debias is not None:
            with use_store(cache) as store, reporting(progress) as report:
                subtract = partial(subtract_means, unrelated=debias, store=store, seed=seed, progress=report)
                systems = {run.label: run for run in models}
                rows = [after for row in record.rows for after in subtract(systems[row.model], row.benchmark)]
            record = record.model_copy(update={"debiased": tuple(rows)})
        return Explained(record, by)


class Explained(Frame):
    """The reasons: a row for each model, benchmark and reason or share, printed as `tellapart why` does.

    From answers and outcomes alone, only bounds are known: `value` is the lower one, with its `low`, and `at_most` the
    upper one, with its `high`. From scores, `at_most` is `value`.

    Attributes:
        record: all of it: by tag, item by item, and the models' paired differences.
    """

    def __init__(self, record: Why, by: str | None = None) -> None:
        self.record, self._by = record, by
        super().__init__(
            columns_of(
                {"model": row.model, "benchmark": row.benchmark, "what": name, "value": value.value}
                | {"at_most": most.value, "low": value.low, "high": most.high, "n": value.n}
                for row in record.rows
                for name, value, most in row.bounds()
            )
        )

    def show(self) -> None:
        """Print it as `tellapart why` does."""
        print_why(self.record, by=self._by)


_FACT_COLUMNS = ("benchmark", "fact", "state", "recorded", "measured", "why")


def verify(*runs: PathGiven, scores: PathGiven | Sequence[PathGiven] = ()) -> Verified:
    """Measure every number of runs again from their samples, and check the samples.

    A number is *equal*, *different*, or *cannot be checked*. Samples are checked against their digest, the set's files,
    and the file of scores or predictions that they were read from; the set's title, fingerprint and counts against its
    files; the model's name against the store; the page against records and samples. Facts that nothing here can show
    are listed.

    Args:
        runs: runs, run folders, folders of them, or zip archives of either.
        scores: the files of scores or predictions that a single run was made of, to check it against: each is
            found by its hash, or else by its name; the file of a run's only set may have another name.

    Raises:
        RunError: a folder is not a run, a record does not follow the schema, a file of scores is not there or is none
            of the run's, or several runs are given with one.

    >>> import tellapart as ta
    >>> verified = ta.verify(ta.evaluate("oracle", "demo", limit=20))
    >>> verified.passed, verified["state"].count("different")
    (True, 0)
    """
    paths, files = as_paths(runs, "runs"), as_paths(scores, "scores") if scores else []
    if missing := [path for path in files if not path.is_file()]:
        raise RunError(f"verify: scores={missing[0]} is no file; name the file of scores that the run was made of")
    with run_folders(paths, "runs") as folders:
        listed = [
            (run, str(folder), str(path))
            for path, folder in zip(paths, folders, strict=True)
            for run in find_runs(folder)
        ]
        if files and len(listed) != 1:
            raise RunError(f"verify: scores={files[0]} is of one run; got {len(listed)} runs: verify each by itself")
        cache = default_store_path()
        with EmbeddingStore(cache if cache.is_file() else None) as store:
            verifications = [_verify_run(run, store, files, folder, path) for run, folder, path in listed]
    return Verified(verifications)


def _verify_run(run: Path, store: EmbeddingStore, scores: Sequence[Path], folder: str, path: str) -> Verification:
    """Verify a run and its report. `folder` is where the user's `path` was unpacked; the result names the path."""
    verified, report = verify_run(run, store, scores), check_report(run)
    checks = (*verified.checks, *([report] if report else []))
    return verified.model_copy(update={"run": f"{path}{str(run).removeprefix(folder)}", "checks": checks})


class Verified(Printed):
    """Runs, verified: a row for each number and each file; printed as `tellapart verify` does.

    Attributes:
        runs: the verification of each run.
    """

    def __init__(self, runs: Sequence[Verification]) -> None:
        self.runs = tuple(runs)
        super().__init__(
            columns_of(
                {"run": run.run, "model": run.model} | {name: getattr(check, name) for name in _FACT_COLUMNS}
                for run in self.runs
                for check in run.checks
            ),
            "verifications",
            runs=self.runs,
            list_reasons=list_reasons,
        )

    @property
    def passed(self) -> bool:
        """Whether nothing differs."""
        return "different" not in self["state"]

    @property
    def unchecked(self) -> int:
        """How many numbers and files cannot be checked."""
        return self["state"].count("cannot be checked")

    def tables(self) -> list[Table]:
        """Return a table of everything that is not equal, for a notebook."""
        rows = [row for row in self.rows() if row["state"] != "equal"]
        return Frame({name: [row[name] for row in rows] for name in self.columns}).tables() if rows else []

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `tellapart verify --json`."""
        return {"passed": self.passed, "runs": [run.model_dump(mode="json") for run in self.runs]}
