"""Mine hard negatives, and separate natural from synthetic: the functions of `tellapart mine` and `detect`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tellapart.auditing.detectors import Detection, DetectorSettings
from tellapart.auditing.detectors import detect as fit_and_measure
from tellapart.benchmarks.arguments import PairsGiven, load_sets, locations
from tellapart.benchmarks.plugins import exit_is_error, open_model
from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.idle_options import expect_used
from tellapart.models.options import ModelOptions
from tellapart.models.scoring.deferred import find_deferred
from tellapart.models.store.cache import CacheGiven, use_store
from tellapart.records.run_folder import write_text_file
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.training.data.rows import images_root, read_rows, write_rows
from tellapart.training.mining.negatives import MiningSettings, coarse_to_fine, nearest_images

__all__ = ["Mined", "detect", "detection_text", "mine"]


@dataclass(frozen=True, slots=True)
class Mined:
    """A file of rows with negatives: its path, how many rows, and the folder that their images are relative to."""

    out: Path
    rows: int
    images: Path


@exit_is_error
def mine(
    rows: str,
    model: str,
    out: PathGiven,
    *,
    scorer: str | None = None,
    reading: str | None = None,
    nearest: int | None = None,
    negatives: int = 15,
    hard: int = 8,
    images: PathGiven | None = None,
    outside_images: bool = False,
    limit: int | None = None,
    device: str = "cpu",
    seed: int = 0,
    cache: CacheGiven = None,
    progress: ProgressGiven = None,
) -> Mined:
    """Find hard negatives among training images and captions: by the nearest images, or coarse to fine by a scorer.

    Args:
        rows: training rows: a JSONL file with image and caption, a pair set's folder, a TSV.
        model: a dual encoder: its vectors find the nearest images.
        out: the JSONL file to write, which `train` reads.
        scorer: scores captions of near images, and the hardest are taken; the nearest images alone if not given.
        reading: which of the scorer's readings is used.
        nearest: near images of each: 128 with a scorer, else 3, as for NegCLIP.
        negatives: false captions a row, with a scorer.
        hard: of them the hardest; the others are drawn.
        images, outside_images: the folder of the images, the file's if not given; whether they may lie outside of it.
        limit: only the first so many rows.
        device, seed: of the models, and of the draws.
        cache, progress: as of `evaluate`.

    Raises:
        TellapartError: the rows cannot be read, or a model cannot be found.

    >>> import tellapart as ta
    >>> out = getfixture("tmp_path") / "rows.jsonl"
    >>> ta.mine("examples/eqsim_ablation/smoke_scenes", "demo-encoder", out, limit=4, nearest=1, cache=False).rows
    8
    """
    if scorer is None:
        expect_used(
            "mine", "without scorer=MODEL, which judges captions",
            reading=(reading, None), negatives=(negatives, 15), hard=(hard, 8), seed=(seed, 0),
        )  # fmt: skip
    folder, to = None if images is None else as_path(images, "images"), as_path(out, "out")
    root = images_root(rows, folder)
    source = read_rows([rows], Path(), None if folder is None else str(folder), limit=limit, outside=outside_images)
    with use_store(cache) as store, reporting(progress) as report:
        update = None if report is None else report(to.name)
        features = find_deferred(open_model(model), ModelOptions(device=device), store)
        if scorer is None:
            mined = nearest_images(source, features, store=store, count=nearest or 3, progress=update)
        else:
            settings = MiningSettings(nearest or 128, negatives, hard, seed)
            judge = find_deferred(open_model(scorer), ModelOptions(device=device, reading=reading), store)
            mined = coarse_to_fine(source, features, judge, store=store, settings=settings, progress=update)
    write_rows(to, mined, root, outside=outside_images)
    return Mined(to, len(mined), root)


@exit_is_error
def detect(
    pairs: PairsGiven,
    model: str,
    *,
    trained_on: PairsGiven | None = None,
    folds: int = 5,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    device: str = "cpu",
    seed: int = 0,
    cache: CacheGiven = None,
    out: PathGiven | None = None,
    progress: ProgressGiven = None,
) -> Detection:
    """Separate natural from synthetic by frozen features, and play the benchmark by that alone.

    Args:
        pairs: a pair set, its folder, or a benchmark: first natural, second synthetic.
        model: a dual encoder, which stays frozen.
        trained_on: fit the heads on this set; on the other folds of the same one if not given.
        folds: parts, of clusters that stay together.
        data, images, outside_images, device, cache, progress: as of `evaluate`.
        seed: of the folds and the bootstrap.
        out: also write the record there, as JSON.

    Raises:
        TellapartError: a set or the model cannot be found, or it is not a dual encoder.

    >>> import tellapart as ta
    >>> pairs = ta.load_pairs("demo").select(range(20))
    >>> found = ta.detect(pairs, "demo-encoder", folds=2, cache=False)  # both pictures of an item are drawn alike
    >>> found.items, 0.3 < found.scores["image_accuracy"].value < 0.7
    (20, True)
    """
    if trained_on is not None:
        expect_used("detect", "with trained_on=PAIRS: there are no folds then", folds=(folds, 5))
    place = locations(data, images, outside_images)
    with use_store(cache) as store, reporting(progress) as report:
        own, other = load_sets(pairs, trained_on, place)
        detection = fit_and_measure(
            own,
            find_deferred(open_model(model), ModelOptions(device=device), store),
            store=store,
            trained_on=other,
            settings=DetectorSettings(folds=folds, seed=seed),
            progress=None if report is None else report("detect"),
        )
    if out is not None:
        write_text_file(as_path(out, "out"), detection_text(detection))
    return detection


def detection_text(detection: Detection) -> str:
    """Return a detection's record as JSON, in ASCII, which every terminal's encoding has."""
    return json.dumps(detection.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"
