"""Build pair sets from recipes: the function of `tellapart build`."""

from __future__ import annotations

from pathlib import Path
from typing import overload

from tellapart.auditing.show import audit_folder
from tellapart.benchmarks.plugins import exit_is_error
from tellapart.builders.captions.counterfactuals import PairsWritten, write_caption_pairs
from tellapart.builders.executor import RayExecutor
from tellapart.builders.hub_export import write_imagefolder, write_parquet
from tellapart.builders.pipeline import BuildResult
from tellapart.builders.pipeline import build as run_recipe
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.arguments import PathGiven, as_path, expect_used
from tellapart.data.folder import read_pair_set
from tellapart.data.pairset import PairSet
from tellapart.report.progress import ProgressGiven, reporting


class Built:
    """A pair set that was built.

    Attributes:
        result: its folder, and how many candidates each step rejected.
        page: its data card, if one was asked for.
        verdict: the sentence of that card's audit.
    """

    def __init__(self, result: BuildResult, page: Path | None = None, verdict: str | None = None) -> None:
        self.result, self.page, self.verdict = result, page, verdict

    @property
    def folder(self) -> Path:
        """The set's folder."""
        return self.result.folder

    @property
    def pairs(self) -> PairSet:
        """The pair set."""
        return read_pair_set(self.folder)

    def __repr__(self) -> str:
        lines = [
            f"{', '.join(filter(None, (step, reason)))}: {count:,}" for step, reason, count in self.result.funnel.rows()
        ]
        return "\n".join([*lines, f"pair set: {self.folder}"])


@overload
def build(
    recipe: PathGiven,
    out: PathGiven | None = None,
    *,
    workers: int | None = None,
    limit: int | None = None,
    imagefolder: PathGiven | None = None,
    parquet: PathGiven | None = None,
    pairs: None = None,
    ray: str | None = None,
    ray_gpus: float = 0.0,
    insecure: bool = False,
    card: bool = False,
    progress: ProgressGiven = None,
) -> Built: ...
@overload
def build(
    recipe: PathGiven,
    *,
    workers: int | None = None,
    limit: int | None = None,
    pairs: PathGiven,
    progress: ProgressGiven = None,
) -> PairsWritten: ...
@exit_is_error
def build(
    recipe: PathGiven,
    out: PathGiven | None = None,
    *,
    workers: int | None = None,
    limit: int | None = None,
    imagefolder: PathGiven | None = None,
    parquet: PathGiven | None = None,
    pairs: PathGiven | None = None,
    ray: str | None = None,
    ray_gpus: float = 0.0,
    insecure: bool = False,
    card: bool = False,
    progress: ProgressGiven = None,
) -> Built | PairsWritten:
    """Build a pair set from a recipe; an interrupted build resumes when it is called again.

    Args:
        recipe: a TOML file that names a builder (`tellapart ls builders`).
        out: the pair set's folder; sets/NAME of the recipe if not given.
        workers: processes; 1, or all that a Ray cluster has room for, if not given.
        limit: try only the first so many candidates.
        imagefolder, parquet: also write the set for Hugging Face: to a new folder, to one file.
        pairs: a JSONL file for the caption pairs of `counterfactual-captions` alone, without images.
        ray: work on a Ray cluster: local, auto or HOST:PORT.
        ray_gpus: the share of a GPU for each worker there.
        insecure: ask a server that the recipe names over plain http on another machine, too.
        card: audit the set; card.html and card.md into its folder.
        progress: as of `evaluate`.

    Raises:
        TellapartError: the recipe is not valid, an input cannot be read, or the folder holds something else; or
            `pairs` is named with the output of a set.

    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path")
    >>> _ = (folder / "captions.csv").write_text("image,caption\\na.npy,a dog on a red bed\\n")
    >>> import numpy as np
    >>> np.save(folder / "a.npy", np.zeros((8, 8, 3), np.uint8))
    >>> options = 'captions = "captions.csv"\\nimages = "."\\nkinds = ["swap_obj"]'
    >>> _ = (folder / "mine.toml").write_text(f'name = "mine"\\nbuilder = "negatives"\\n[options]\\n{options}')
    >>> ta.build(folder / "mine.toml", folder / "set").pairs.items[0].texts
    ('a dog on a red bed', 'a bed on a red dog')
    """
    if pairs is not None:
        expect_used(
            "build", "with pairs=FILE, which writes captions alone", out=(out, None), imagefolder=(imagefolder, None),
            parquet=(parquet, None), ray=(ray, None), ray_gpus=(ray_gpus, 0.0), card=(card, False),
            insecure=(insecure, False),
        )  # fmt: skip
        path, to = as_path(recipe, "recipe"), as_path(pairs, "pairs")
        with reporting(progress) as report:
            update = None if report is None else report(to.name)
            return write_caption_pairs(path, to, workers=workers or 1, limit=limit, progress=update)
    if ray is None:
        expect_used("build", "without ray=ADDRESS", ray_gpus=(ray_gpus, 0.0))
    path, folder = as_path(recipe, "recipe"), default_folder(recipe, out)
    executor = RayExecutor(ray, workers, ray_gpus) if ray is not None else None
    with reporting(progress) as report:
        update = None if report is None else report(folder.name)
        built = run_recipe(
            path, folder, workers=workers or 1, executor=executor, limit=limit, progress=update, insecure=insecure
        )
        page, verdict = audit_folder(folder, None if report is None else report("audit")) if card else (None, None)
    if imagefolder is not None:
        write_imagefolder(read_pair_set(folder), as_path(imagefolder, "imagefolder"))
    if parquet is not None:
        write_parquet(read_pair_set(folder), as_path(parquet, "parquet"))
    return Built(built, page, verdict)


def default_folder(recipe: PathGiven, out: PathGiven | None = None) -> Path:
    """Return the folder that a recipe's set is built to: `out` if it is given, else sets/NAME of the recipe.

    Raises:
        DataError: the recipe cannot be read.
    """
    return as_path(out, "out") if out is not None else Path("sets") / read_recipe_file(as_path(recipe, "recipe")).name
