"""Boards on real run folders: two models that really scored the same pairs, made once."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason='the board needs: pip install "tellapart[board]"')

from fastapi.testclient import TestClient
from typer.testing import CliRunner

from boards import HOSTILE, open_board, write_run
from browsers import chromium  # noqa: F401
from pictures import plain
from tellapart.board.app import create_app
from tellapart.board.records import Board
from tellapart.cli.main import app


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    """Two models far apart and one near the first, and a reference model."""
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "good", "good", skill=3.0)
    write_run(folder / "near", "near", skill=3.0, seed=1)
    write_run(folder / "poor", "poor", skill=0.0, seed=2)
    write_run(folder / "random", "random", skill=0.0, seed=3)
    write_run(folder / "hostile", HOSTILE, skill=1.0, seed=4, benchmark="other", fingerprint="e" * 64)
    return folder


@pytest.fixture(scope="session")
def shown(runs) -> Board:
    return open_board(runs)[1]


@pytest.fixture(scope="session")
def client(shown):
    return TestClient(create_app(shown))


GALLERY = 24  # images, with two captions each


@pytest.fixture(scope="session")
def gallery(tmp_path_factory) -> Path:
    """A gallery of real pictures, and in `runs` the run folder of scores that were made elsewhere.

    Caption 0 finds its image third, behind two that are tied.
    """
    folder = tmp_path_factory.mktemp("gallery")
    (folder / "data").mkdir()
    (folder / "images").mkdir()
    rows = []
    for k in range(GALLERY):
        (folder / "images" / f"{k}.png").write_bytes(plain((10 * k, 0, 255 - 10 * k), (24, 16)))
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
def gallery_board(gallery) -> Board:
    return open_board(gallery / "runs")[1]
