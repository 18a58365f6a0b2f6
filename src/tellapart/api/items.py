"""Items through many systems: the function of `tellapart items`."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tellapart.benchmarks.arguments import locations
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.data.arguments import PathGiven, as_names, as_path, as_paths, expect_used
from tellapart.data.scores import ScoreKind, join_names
from tellapart.errors import RunError, TellapartError, plain, quote
from tellapart.evaluation.item_analysis import (
    ItemAnalysis,
    ItemOutcomes,
    analyse_items,
    list_score_files,
    name_family,
    read_families,
    read_outcomes,
)
from tellapart.evaluation.systems import System, choose_models
from tellapart.records.run_folder import write_text_file
from tellapart.records.zipped import unpacked
from tellapart.report.frame import Frame, Shown
from tellapart.report.image_sources import ImageSources
from tellapart.report.item_page import analysis_lines, analysis_tables, make_item_page
from tellapart.report.terminal import console, print_lines

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["FamilyGiven", "ItemsAnalysed", "items"]

#: A CSV file, each system's family, "name" for the letters that its name begins with, or None.
FamilyGiven: TypeAlias = PathGiven | Mapping[str, str] | None

_COLUMNS = (
    "id", "solved", "right", "discrimination", "low", "high", "p", "p_holm", "p_fdr", "suspect", "group", "difficulty",
    "difficulty_error", "infit",
)  # fmt: skip


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
        outcomes = read_outcomes(
            models,
            files,
            benchmark=benchmark,
            metric=metric,
            without=as_names(without, "without"),
            kind=kind,
            place=place,
        )
        record = analyse_items(outcomes, _list_families(family, outcomes.systems), short=short, seed=seed)
        if page is not None:
            read_image = _find_images(models, outcomes.benchmark, benchmark, place)
            write_text_file(as_path(page, "page"), make_item_page(record, outcomes, read_image))
    if to is not None:
        write_text_file(as_path(to, "to"), "".join(f"{id_}\n" for id_ in record.short))
    return ItemsAnalysed(record, outcomes)


class ItemsAnalysed(Shown, Frame):
    """The analysis: a row for each item, printed as `tellapart items` does.

    Attributes:
        record: all of it: items, set, tags, groups.
        outcomes: the matrix `(item, system)` that it is made of, with the items' ids and tags.
    """

    def __init__(self, record: ItemAnalysis, outcomes: ItemOutcomes) -> None:
        self.record, self.outcomes = record, outcomes
        tags = sorted({tag for row in record.items for tag in row.tags})
        columns = {name: [getattr(row, name) for row in record.items] for name in _COLUMNS}
        super().__init__(columns | {f"tag:{tag}": [row.tags.get(tag, "") for row in record.items] for tag in tags})

    def tables(self) -> list[Table]:
        """Return the tables that are printed."""
        return analysis_tables(self.record)

    def show(self) -> None:
        """Print it as `tellapart items` does."""
        by_field: dict[str, list[str]] = {}
        for system, field in self.outcomes.fields.items():
            by_field.setdefault(field, []).append(system)
        print_lines(*(plain(f"{join_names(names)}: read from field {field}") for field, names in by_field.items()))
        for table in self.tables():
            console().print(table)
            print_lines("")
        print_lines(*analysis_lines(self.record))

    def to_csv(self) -> str:
        """Return a line for each item, under the columns' names."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        return text.getvalue()


def _find_images(
    runs: Sequence[System], name: str, typed: str | None, place: Locations
) -> Callable[[str], bytes] | None:
    """Return a reader of the benchmark's images: as the first run finds them, else in the folders that are given."""
    for run in runs:
        if name in run.folders:
            reader = ImageSources.of(run.folders[name], run.result, name).reader(outside=place.outside)
            if reader is not None:
                return reader
    try:
        return find_benchmark(typed or name, place).read_image()
    except TellapartError:  # its files are not here: the page has no pictures
        return None


def _list_families(family: FamilyGiven, systems: Sequence[str]) -> list[str] | None:
    if family is None:
        return None
    if family == "name":
        return [name_family(system) for system in systems]
    if isinstance(family, Mapping):
        if missing := [system for system in systems if system not in family]:
            raise RunError(f"family= has no family of {join_names(missing)}; name one for each system")
        return [str(family[system]) for system in systems]
    return read_families(as_path(family, "family"), systems)
