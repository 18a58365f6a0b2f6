"""Scores that hardly vary are said with the likely cause, in the record, the report and the output; others are not."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from facts import check_facts
from tellapart.benchmarks.find import find_benchmark
from tellapart.data.scores import ScoreKind, Scores, note_spread
from tellapart.evaluation.evaluate import evaluate, prepare
from tellapart.evaluation.run import run_scores
from tellapart.evaluation.verified import read_result
from tellapart.models.memory.external import write_scores
from tellapart.models.reference import Constant
from tellapart.models.store.embedding_store import EmbeddingStore


class Flat:
    """A pair scorer whose scores lie about .5, as a reranker's do without its template."""

    name, fingerprint = "flat", "flat-1"

    def __init__(self, width: float, kind: ScoreKind = "probability") -> None:
        self.width, self.kind = width, kind

    def score_pairs(self, images: Sequence[NDArray[np.uint8]], texts: Sequence[str]) -> NDArray[np.float32]:
        drawn = [(image.mean() * sum(map(ord, text))) % 1 for image, text in zip(images, texts, strict=True)]
        return np.array([0.5 + self.width * (number - 0.5) for number in drawn], np.float32)


def rankings(folder: Path) -> str:
    """Rankings of a pair set's images, as a task."""
    images = [f"images/{k}_0.png" for k in range(6)]
    row = {"query": "a red cup", "candidates": images, "people": list(range(1, 7))}
    path = folder / "rankings.jsonl"
    path.write_text("".join(json.dumps(row | {"id": name}) + "\n" for name in ("a", "b")))
    return f"ranking:{path}"


@pytest.mark.parametrize("task", ["pairs", "ranking"])
def test_a_model_whose_scores_hardly_vary_is_noted(made_set, task):
    folder = made_set()
    name = f"folder:{folder}" if task == "pairs" else rankings(folder)

    def notes(model) -> list[str]:
        ready = prepare(find_benchmark(name), store=EmbeddingStore(None))
        return [note for note in evaluate(model, ready).result.notes if "template" in note]

    (note,) = notes(Flat(0.05))
    check_facts(note, "48" if task == "pairs" else "12", ".1")
    (note,) = notes(Flat(0.0))
    check_facts(note, "100 %", "0.5")
    assert notes(Flat(0.5)) == notes(Flat(0.05, "similarity")) == notes(Constant()) == []
    (note,) = notes(Flat(0.0, "logit"))


def test_a_file_whose_scores_hardly_vary_is_noted_and_shown(made_set, tmp_path, command):
    folder = made_set()
    ids = tuple(json.loads(line)["id"] for line in (folder / "pairs.jsonl").read_text().splitlines())
    values = 0.5 + 0.04 * np.random.default_rng(0).random((len(ids), 2, 2), dtype=np.float32)
    for kind, noted in (("probability", 1), ("similarity", 0)):
        write_scores(Scores(ids, values, kind), tmp_path / f"{kind}.npz")
        out = run_scores({f"folder:{folder}": tmp_path / f"{kind}.npz"}, tmp_path / kind)
        (record,) = read_result(out).benchmarks.values()
        assert sum("template" in note for note in record.notes) == noted
        assert ("without its chat template" in " ".join(command("show", out).out.split())) == noted


def test_cosines_of_an_encoder_in_a_narrow_range_are_ordinary():
    """As SigLIP's: between -.1 and .1; and a few that are equal."""
    cosines = np.random.default_rng(0).normal(0.02, 0.01, (100, 2, 2)).astype(np.float32)
    cosines[:90] = cosines[0]
    ids = tuple(map(str, range(100)))
    assert note_spread([Scores(ids, cosines, "similarity")]) == ()
    cosines[:] = 0.7
    cosines[0, 0, 0] = 0.1
    (note,) = note_spread([Scores(ids, cosines, "similarity")])
    check_facts(note, "99.75 % of 400", "0.7")


def test_too_few_scores_say_nothing():
    assert note_spread([]) == note_spread([Scores(("a", "b"), np.full((2, 2, 2), 0.5), "probability")]) == ()
