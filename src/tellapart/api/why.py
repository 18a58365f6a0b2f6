"""Why models fail: the function of `tellapart why`."""

from __future__ import annotations

from functools import partial

from tellapart.data.arguments import PathGiven, as_path
from tellapart.errors import RunError, quote
from tellapart.evaluation.systems import choose_models
from tellapart.evaluation.why import Why, explain
from tellapart.evaluation.why import debias as subtract_means
from tellapart.models.store.cache import CacheGiven, use_store
from tellapart.records.zipped import unpacked
from tellapart.report.frame import Frame
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.report.why import print_why

__all__ = ["Explained", "why"]


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
    with unpacked([as_path(each, "runs") for each in runs]) as folders:
        files = [path for path in folders if path.is_file()]
        if debias is not None and files:
            raise RunError(f"debias={debias}: {files[0]} holds outcomes and no model; name runs of models loaded here")
        places = [path for path in folders if path not in files]
        models = choose_models(places).runs if places or not files else ()
        record = explain(models, files, benchmark=benchmark, by=by, seed=seed)
        if debias is not None:
            with use_store(cache) as store, reporting(progress) as report:
                subtract = partial(subtract_means, unrelated=debias, store=store, seed=seed, progress=report)
                of = {run.label: run for run in models}
                rows = [each for row in record.rows for each in subtract(of[row.model], row.benchmark)]
            record = record.model_copy(update={"debiased": tuple(rows)})
        return Explained(record, by)


class Explained(Frame):
    """The reasons: a row for each model, benchmark and reason or share, printed as `tellapart why` does.

    Of answers and outcomes alone `value` is at least, and `at_most` at most, with `low` of the first and `high` of the
    second. Of scores `at_most` is `value`.

    Attributes:
        record: all of it: by tag, item by item, and the models' paired differences.
    """

    def __init__(self, record: Why, by: str | None = None) -> None:
        self.record, self._by = record, by
        rows = [
            (row.model, row.benchmark, name, value.value, most.value, value.low, most.high, value.n)
            for row in record.rows
            for name, value, most in row.bounds()
        ]
        names = ("model", "benchmark", "what", "value", "at_most", "low", "high", "n")
        super().__init__({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})

    def show(self) -> None:
        """Print it as `tellapart why` does."""
        print_why(self.record, by=self._by)
