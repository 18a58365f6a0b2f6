"""Boards on real run folders: two models that really scored the same pairs, made once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason='the board needs: pip install "tellapart[board]"')

from fastapi.testclient import TestClient
from typer.testing import CliRunner

from boards import axe, chromium, serving  # noqa: F401
from tellapart.board.app import create_app
from tellapart.board.records import Board
from tellapart.board.settings import BoardSettings
from tellapart.cli.main import app
from tellapart.data.pairset import Outline
from tellapart.data.scores import Scores
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.models.scoring.score import Scored
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord, Sample
from tellapart.records.run_folder import write_result
from tellapart.records.samples import write_samples
from tellapart.tasks.pairs import ListedPairs, measure_pairs

HOSTILE = """<script>alert(1)</script>"'&{{7*7}}"""

WriteRun = Callable[..., Path]


def written_run(
    folder: Path,
    model: str,
    *,
    skill: float,
    benchmark: str = "shapes",
    seed: int = 0,
    n: int = 60,
    fingerprint: str = "f" * 64,
    clusters: int | None = None,
    started: str = "2026-01-01T00:00:00+00:00",
) -> Path:
    """Write the run folder of a model whose true pairs are higher by `skill` standard deviations."""
    values = np.random.default_rng(seed).normal(size=(n, 2, 2)) + skill * np.eye(2)
    ids = tuple(f"{benchmark}-{k:03}" for k in range(n))
    names = tuple(f"c{k % clusters}" if clusters else ids[k] for k in range(n))
    tags = tuple({"type": ("colour", "place")[k % 2]} for k in range(n))
    scores = Scores(ids, np.float32(values), "similarity")
    (units,) = measure_pairs(ListedPairs(Outline(ids, (2, 2), names, tags)), Scored(scores))
    measured = tabulate_units([units])
    record = BenchmarkResult(
        title=f"Title of {benchmark}",
        fingerprint=fingerprint,
        shape=(2, 2),
        kind="similarity",
        metrics=measured.metrics,
        by=measured.by,
        macro=measured.macro,
        curves=measured.curves,
        origin="made",
    )
    run = RunRecord(started=started, seed=0, command="tellapart run", versions={"numpy": "2"})
    result = Result(
        run=run,
        model=ModelRecord(name=model, fingerprint=f"weights of {model}", kind="similarity"),
        benchmarks={benchmark: record},
    )
    samples = [
        Sample(
            id=ids[k],
            cluster=names[k],
            tags=tags[k],
            images=(f"{k}_0.png", f"{k}_1.png"),
            texts=(f"a red cube on {k}", f"a blue cube on {k}"),
            scores=tuple(tuple(map(float, row)) for row in np.float32(values[k])),
            outcomes={metric.name: float(metric.strict[k]) for metric in units.values},
            tied=tuple(metric.name for metric in units.values if metric.ties[k]),
        )
        for k in range(n)
    ]
    write_samples(folder, benchmark, samples)
    write_result(folder, result)
    return folder


@pytest.fixture
def write_run() -> WriteRun:
    return written_run


@pytest.fixture(scope="session")
def module_write_run() -> WriteRun:
    """As `write_run`, for fixtures that last longer."""
    return written_run


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models far apart and one near the first, and a reference model."""
    folder = tmp_path_factory.mktemp("runs")
    written_run(folder / "good", "good", skill=3.0)
    written_run(folder / "near", "near", skill=3.0, seed=1)
    written_run(folder / "poor", "poor", skill=0.0, seed=2)
    written_run(folder / "random", "random", skill=0.0, seed=3)
    written_run(folder / "hostile", HOSTILE, skill=1.0, seed=4, benchmark="other", fingerprint="e" * 64)
    return folder


@pytest.fixture(scope="session")
def settings(runs: Path) -> BoardSettings:
    return BoardSettings(runs=(runs,))


def read_board(settings: BoardSettings) -> Board:
    board, problems = Board(settings), list[str]()
    board.read_in(problems.append)
    assert problems == []
    return board


@pytest.fixture(scope="session")
def shown(settings: BoardSettings) -> Board:
    return read_board(settings)


@pytest.fixture(scope="session")
def client(shown: Board) -> Any:
    return TestClient(create_app(shown))


GALLERY = 24  # images, with two captions each


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gallery of real pictures, and in `runs` the run folder of scores that were made elsewhere.

    Caption 0 finds its image third, behind two that are tied.
    """
    from PIL import Image

    folder = tmp_path_factory.mktemp("gallery")
    (folder / "data").mkdir()
    (folder / "images").mkdir()
    rows = []
    for k in range(GALLERY):
        Image.new("RGB", (24, 16), (10 * k, 0, 255 - 10 * k)).save(folder / "images" / f"{k}.png")
        rows.append({"image": f"{k}.png", "caption": [f"caption {k} a <b>", f"caption {k} b"]})
    (folder / "data" / "coco_test.json").write_text(json.dumps(rows))
    scores = np.random.default_rng(0).normal(size=(GALLERY, 2 * GALLERY)).astype(np.float32)
    scores[:, 0] = -np.arange(GALLERY)
    scores[[0, 7, 5], 0] = (5, 9, 9)
    image_ids, caption_ids = (np.array([str(k) for k in range(size)]) for size in (GALLERY, 2 * GALLERY))
    np.savez(folder / "mine.npz", image_ids=image_ids, caption_ids=caption_ids, scores=scores)
    given = {"--scores": "mine.npz", "--data": "data", "--images": "images", "--out": "runs/mine"}
    options = [part for option, path in given.items() for part in (option, str(folder / path))]
    done = CliRunner().invoke(app, ["score", "coco-retrieval", *options])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="session")
def gallery_board(gallery: Path) -> Board:
    return read_board(BoardSettings(runs=(gallery / "runs",)))
