"""Test-time matching: a model is trained, in rounds, on its own confident matches of the items that it is measured on.

No label is trained on. The outcome is transductive, and marked as such.

Source: Zhu, Zhang and Tang, "Test-Time Matching" (arXiv 2510.07632). As there, the match of an item is the assignment
of texts to images with the largest sum of scores, and a round takes those that lead the second best by a threshold,
which falls from round to round; weights go on, and the optimiser begins anew. Other than there, a tie is no match.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.benchmarks.find import load_pairs
from tellapart.data.folder import LISTINGS, read_pair_set, write_pair_set
from tellapart.data.pairset import describe
from tellapart.data.rows import read_object
from tellapart.errors import DataError, RunError
from tellapart.metrics.matching import best_assignments
from tellapart.metrics.registry import METRICS
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.records.run_folder import write_text_file
from tellapart.training.config import ReportConfig, TrainConfig
from tellapart.training.data.validation import rescore
from tellapart.training.encoders.load_start import resolve_name
from tellapart.training.ranks import RankGroup, open_accelerator
from tellapart.training.record import MatchedRound
from tellapart.training.run_files import RunFiles
from tellapart.training.training_run import FinishedRun, Rounds, data_locations, run_training


def train_matched(config: TrainConfig, home: Path, out: Path, *, resume: bool = False, **settings: Any) -> FinishedRun:
    """Train in rounds, each from the weights and on the matches of the round before; the last is the run of `out`."""
    assert config.test_time_matching is not None  # noqa: S101  (for the type checker)
    files, ranks, done = RunFiles(out), RankGroup(open_accelerator(config.device)), list[MatchedRound]()
    if not resume and ranks.first(lambda: out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise RunError(f"{out} holds something already; add resume=True to go on with it, or name a new out=")
    items, start = files.rounds.absolute() / "items", resolve_name(config.model, home)
    ranks.first(lambda: None if items.exists() else _write_items(config, home, items))
    name, settings = start, settings | {"resume": resume, "allow_leak": True}
    for number, threshold in enumerate(thresholds := config.test_time_matching.thresholds(), 1):
        folder, last = items.with_name(str(number)), number == len(thresholds)
        done.append(ranks.first(partial(_match_items, config, name, items, folder, threshold)))
        data = config.data.model_copy(update={"train": [f"folder:{folder / 'pairs'}"], "images": str(items)})
        values = {"model": name, "data": data} | ({} if last else {"report": ReportConfig()})
        rounds, to = Rounds(config, start, config.data.train[0], tuple(done)), out if last else folder / "run"
        finished = run_training(config.model_copy(update=values), home, to, rounds=rounds, **settings)
        name = ranks.first(partial(str, finished.name))
    ranks.leave()
    return finished


def _write_items(config: TrainConfig, home: Path, folder: Path) -> None:
    """Copy the items' pictures and captions, as every round reads them."""
    pairs = load_pairs(resolve_name(config.data.train[0], home), data_locations(config.data, home))
    if not METRICS["match_score"].defined_for(pairs.shape):
        raise DataError(
            f"test_time_matching: {pairs.name} has items of {describe(pairs.shape)}, and a match is of as many images "
            "as texts, two to six; name such a set in data.train"
        )
    images = dict.fromkeys(image for item in pairs.items for image in item.images)
    copies = {image: f"images/{number}{Path(image).suffix}" for number, image in enumerate(images)}
    items = [
        item.model_copy(update={"images": tuple(map(copies.get, item.images)), "provenance": {}})
        for item in pairs.items
    ]
    write_pair_set(folder, items, {copy: pairs.read_bytes(image) for image, copy in copies.items()}, {})


def _match_items(config: TrainConfig, name: str, items: Path, folder: Path, threshold: float) -> MatchedRound:
    """Write the matches that lead by a threshold as a pair set, if they are not there."""
    if (record := folder / "matched.json").is_file():
        return MatchedRound.model_validate(read_object(record))
    options = ModelOptions(device=config.device, reading=config.reading, image_size=config.image_size)
    model, pairs = find_model(name, options), read_pair_set(items)
    scores = rescore(model, pairs)
    matches, leads = best_assignments(METRICS["match_score"].scaled(scores.values, scores.kind))
    sure = np.flatnonzero((leads >= threshold) & (leads > 0))
    if not len(sure):
        raise DataError(
            f"test_time_matching.threshold: no match of round {folder.name} leads by {threshold:g}, and the largest "
            f"lead of {len(pairs)} items is {leads.max():g}; lower it"
        )
    matched_items = ((pairs.items[k], [pairs.items[k].texts[text] for text in matches[k]]) for k in sure)
    rows = (json.dumps(item.model_dump(exclude={"true"}) | {"texts": texts}) + "\n" for item, texts in matched_items)
    write_text_file(folder / "pairs" / LISTINGS[0], "".join(rows))
    right = int((matches[sure] == np.arange(matches.shape[1])).all(axis=1).sum())
    round_record = MatchedRound(
        start=model.fingerprint, threshold=threshold, items=len(pairs), matched=len(sure), right=right
    )
    write_text_file(record, round_record.model_dump_json() + "\n")
    return round_record
