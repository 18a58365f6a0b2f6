"""Thresholds of models over a numeric tag: the function of `tellapart curve`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from tellapart.benchmarks.arguments import locations, refuse_columns, refuse_idle
from tellapart.data.arguments import PathGiven, as_path, as_paths, expect_used
from tellapart.data.scores import join_names
from tellapart.errors import RunError, quote
from tellapart.evaluation.curve import Curves, measure_curves, read_chance
from tellapart.evaluation.item_analysis import read_outcomes
from tellapart.evaluation.systems import choose_models
from tellapart.records.zipped import unpacked
from tellapart.report.curves import curve_lines, curve_tables, draw_thresholds
from tellapart.report.frame import Frame, text_of
from tellapart.report.plots.style import write_picture
from tellapart.report.progress import ProgressGiven
from tellapart.report.terminal import console, print_lines
from tellapart.stats.psychometric import LEAST_ITEMS

if TYPE_CHECKING:
    from rich.table import Table

    from tellapart.models.memory.given import ModelGiven
    from tellapart.models.store.cache import CacheGiven

__all__ = ["CurvesFitted", "curve"]

_COLUMNS = ("model", "subset", "n", "right", "threshold", "outside", "low", "high", "slope", "lapse", "p_fit", "reason")


def curve(
    *runs: PathGiven,
    over: str,
    by: str | None = None,
    benchmark: str | None = None,
    metric: str | None = None,
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
    for option, value in (("over", over), ("by", by), ("benchmark", benchmark), ("metric", metric)):
        if not (isinstance(value, str) and value) and (value is not None or option == "over"):
            raise RunError(f"{option}={quote(value)}: give a name")
    if adaptive is not None:
        if isinstance(adaptive, bool) or not isinstance(adaptive, int) or adaptive < LEAST_ITEMS:
            raise RunError(f"adaptive={quote(adaptive)}: give a number of items from {LEAST_ITEMS}, for example 100")
        if model is None or benchmark is None or runs or by is not None:
            raise RunError(f"adaptive={adaptive}: name one model= and benchmark=, and neither runs nor by=")
        # Curves of runs need no model.
        from tellapart.benchmarks.plugins import open_benchmark, open_model
        from tellapart.evaluation.adaptive import search_threshold
        from tellapart.evaluation.run import Settings
        from tellapart.models.memory.given import as_model
        from tellapart.models.memory.rest import keep_random_state
        from tellapart.models.store.cache import use_store
        from tellapart.report.progress import reporting

        refuse_columns(columns, (benchmark,))
        settings = Settings(
            models=(open_model(model) if isinstance(model, str) else as_model(model),), device=device, seed=seed,
            benchmarks=(open_benchmark(benchmark),), items=None if items is None else as_path(items, "items"),
            place=refuse_idle((benchmark,), locations(data, None, False, columns)),
        )  # fmt: skip
        with use_store(cache) as store, keep_random_state(), reporting(progress) as report:
            bar = report(f"{model} on {benchmark}") if report else None
            curves = search_threshold(settings, over, adaptive, store=store, metric=metric, progress=bar)
        return _draw(curves, out)
    expect_used("curve", "without adaptive=N", model=(model, None), items=(items, None), data=(data, None),
                columns=(columns or None, None), device=(device, "cpu"))  # fmt: skip
    with unpacked(as_paths(list(runs), "runs")) as folders:
        choice = choose_models(folders)
        if not choice.runs:
            raise RunError(
                f"{join_names([*map(str, folders)])}: only reference models ({join_names([*choice.left_out])}); "
                "name their folders"
            )
        outcomes = read_outcomes(choice.runs, benchmark=benchmark, metric=metric)
        curves = measure_curves(outcomes, over, chance=read_chance(choice.runs, outcomes), by=by, seed=seed)
    return _draw(curves, out)


def _draw(curves: Curves, out: PathGiven | None) -> CurvesFitted:
    if out is not None:
        write_picture(as_path(out, "out"), partial(draw_thresholds, curves))
    return CurvesFitted(curves)


class CurvesFitted(Frame):
    """The curves: a row for each, printed as `tellapart curve` does.

    Attributes:
        record: all of it: curves with their levels, and differences of thresholds.
    """

    def __init__(self, record: Curves) -> None:
        self.record = record
        super().__init__({name: [getattr(row, name) for row in record.curves] for name in _COLUMNS})

    def tables(self) -> list[Table]:
        """Return the tables that are printed."""
        return curve_tables(self.record)

    def show(self) -> None:
        """Print it as `tellapart curve` does."""
        for table in self.tables():
            console().print(table)
            print_lines("")
        print_lines(*curve_lines(self.record))

    def __repr__(self) -> str:
        return "\n".join([text_of(self.tables()), *curve_lines(self.record)])
