"""Runs made with the real metrics on drawn scores and drawn pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from browsers import chromium  # noqa: F401
from pictures import encoded
from tellapart.benchmarks.find import declared_benchmark
from tellapart.data.pairset import Outline
from tellapart.data.scores import ScoreKind, Scores
from tellapart.errors import DataError
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.models.scoring.score import Scored
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord, Sample
from tellapart.report.benchmark_runs import ReportRun
from tellapart.tasks.authors import count_ties
from tellapart.tasks.pairs import ListedPairs, measure_pairs

COLOURS = ("red", "blue", "green", "orange", "purple", "teal")


@dataclass(frozen=True)
class Plan:
    """What a made run holds."""

    model: str = "plain"
    benchmark: str = "shapes"
    shape: tuple[int, int] = (2, 2)
    kind: ScoreKind = "similarity"
    n: int = 30
    with_images: bool = True
    tags: Sequence[dict[str, str]] = ({"type": "colour", "side": "left"}, {"type": "place", "side": "right"}, {})


def drawn_scores(plan: Plan, skill: float, seed: int) -> NDArray[np.float32]:
    """Random scores in which true pairs are higher by `skill` standard deviations."""
    images, texts = plan.shape
    values = np.random.default_rng(seed).normal(size=(plan.n, images, texts))
    for k in range(images if images == texts else 1):
        values[:, k, k] += skill
    values = 0.25 + 0.04 * values
    return (1 / (1 + np.exp(-20 * (values - 0.25))) if plan.kind == "probability" else values).astype(np.float32)


def made_run(plan: Plan, scores: NDArray[np.float32]) -> ReportRun:
    """Measure scores and put them into the records a report reads."""
    ids = tuple(f"{plan.benchmark}-{k:04d}" for k in range(plan.n))
    tags = tuple(plan.tags[k % len(plan.tags)] for k in range(plan.n)) if plan.tags else ({},) * plan.n
    outline = Outline(ids, plan.shape, ids, tags)
    measured = measure_pairs(ListedPairs(outline), Scored(Scores(ids, scores, plan.kind)))
    declared = declared_benchmark(plan.benchmark)
    if declared and declared.tie_rule != "wrong":
        measured = [count_ties(measured[0], declared.tie_rule)]
    table = tabulate_units(measured)
    values = measured[0].values
    samples = [
        Sample(
            id=item,
            cluster=item,
            tags=tags[k],
            images=tuple(f"{item}/{i}.png" for i in range(plan.shape[0])) if plan.with_images else (),
            texts=tuple(caption(k, t) for t in range(plan.shape[1])),
            scores=tuple(map(tuple, scores[k].tolist())),
            outcomes={one.name: float(one.strict[k]) for one in values if one.reduce is None},
            tied=tuple(one.name for one in values if one.ties[k]),
        )
        for k, item in enumerate(ids)
    ]
    record = BenchmarkResult(
        title=plan.benchmark.capitalize(), fingerprint=f"{plan.benchmark}{plan.n}".encode().hex(),
        shape=plan.shape, kind=plan.kind, metrics=table.metrics, by=table.by, macro=table.macro, curves=table.curves,
        images=plan.n * plan.shape[0] if plan.with_images else 0, texts=plan.n * plan.shape[1], origin=plan.benchmark,
    )  # fmt: skip
    result = Result(
        run=RunRecord(started="2026-11-21T07:00:00+00:00", seed=0, versions={"tellapart": "0.1.0"}, command="run"),
        model=ModelRecord(name=plan.model, fingerprint="ab" * 32, kind=plan.kind),
        benchmarks={plan.benchmark: record},
    )
    return ReportRun(result, {plan.benchmark: samples}, drawn_image if plan.with_images else None)


def caption(item: int, text: int) -> str:
    """Name the colour that `drawn_image` draws."""
    return f"a {COLOURS[(item + text) % len(COLOURS)]} circle on a pale table, seen from above"


def drawn_image(benchmark: str, reference: str) -> bytes:
    """Draw one circle; the file name says which."""
    item, image = reference.removesuffix(".png").removeprefix(f"{benchmark}-").split("/")
    if not item.isdigit():
        raise DataError(f"{benchmark}: no image {reference!r}")
    picture = Image.new("RGB", (120, 120), "#e9e4da")
    ImageDraw.Draw(picture).ellipse((25, 25, 95, 95), fill=COLOURS[(int(item) + int(image)) % len(COLOURS)])
    return encoded(picture)


@pytest.fixture(scope="session")
def make_run() -> Callable[..., ReportRun]:
    """Make a run: `make_run(skill=1.0, seed=0, model="m", shape=(2, 2), ...)`."""

    def make(*, skill: float = 1.0, seed: int = 0, scores: NDArray[np.float32] | None = None, **plan) -> ReportRun:
        described = Plan(**plan)
        return made_run(described, drawn_scores(described, skill, seed) if scores is None else scores)

    return make
