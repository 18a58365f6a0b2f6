"""Hidden results beside others': a database that several boards share, and a site of files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlmodel import select
from typer.testing import CliRunner

from tellapart.board.app import create_app
from tellapart.board.records import read_in
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Benchmark, Store
from tellapart.cli.main import app
from tellapart.data.folder import read_pair_set

MakeBoard = Callable[..., Any]


def names(store: Store) -> list[str]:
    with store.session() as session:
        return sorted(session.exec(select(Benchmark.name)).all())


def board_file(made: Any) -> Path:
    path = made.folder / "board.toml"
    path.write_text(
        '[board]\nruns = ["runs"]\n[submissions]\nstate = "state"\n[[hidden]]\nname = "clocks"\n'
        f'pairs = "{made.pairs}"\nmetrics = ["group_score"]\ntotal = 5\nlargest_share = 1000.0\n'
    )
    (made.folder / "runs").mkdir()
    return path


def marks(made: Any) -> list[str]:
    """Return the digests of the secret and the labels, by which a guess at them could be checked."""
    rows = made.service.database.all("SELECT name, value FROM mark WHERE name NOT LIKE '%task.zip'")
    return [row["value"] for row in rows]


def numbers(made: Any, sent: dict[str, Any]) -> list[str]:
    """Return the private numbers of a file as a page or a record would print them."""
    row = made.service.database.one("SELECT private FROM submission WHERE id = ?", sent["id"])
    value = json.loads(row["private"])["values"]["group_score"]
    assert value not in (sent["public"]["values"]["group_score"], 0.0, 1.0)
    return [f'"value":{value}', f'"value": {value}', f'"group_score": {value}', f">{100 * value:.4g}<"]


@pytest.mark.slow
def test_a_board_that_knows_no_hidden_benchmark_deletes_none_of_their_records(board: MakeBoard) -> None:
    made = board()
    made.measured(made.npz(made.right()))
    made.service.write_records()
    runs = made.folder / "runs"
    runs.mkdir()
    with Store("sqlite://") as store:
        read_in(store, BoardSettings(runs=(runs, made.service.records)), pytest.fail)
        assert names(store) == ["clocks"]
        read_in(store, BoardSettings(runs=(runs,)), pytest.fail)
        assert names(store) == ["clocks"]
        read_in(store, BoardSettings(imported=()), pytest.fail)
        assert names(store) == ["clocks"]
        (record,) = (made.service.records / "clocks").iterdir()
        (record / "results.json").unlink()  # gone from where this board looks: its own to delete
        read_in(store, BoardSettings(runs=(made.service.records,)), pytest.fail)
        assert names(store) == []


@pytest.mark.slow
def test_a_site_has_the_hidden_leaderboard_as_published_and_no_label(board: MakeBoard, tmp_path: Path) -> None:
    made = board()
    sent = made.measured(made.npz(made.right(0.8)))
    made.service.write_records()
    given = ["--board", str(board_file(made)), "--out", str(tmp_path / "site")]
    live = f"sqlite:///{tmp_path / 'live.sqlite'}"
    for _ in range(2):
        done = CliRunner().invoke(app, ["board", "export", *given, "--database", live], catch_exceptions=False)
        assert done.exit_code == 0, done.output
    with Store(live) as store:
        assert names(store) == ["clocks"]
    site = tmp_path / "site"
    assert json.loads((site / "hidden/clocks/data.json").read_text()) == json.loads(
        made.client.get("/hidden/clocks").text
    )
    page = (site / "hidden/clocks/index.html").read_text()
    assert f"{100 * sent['public']['values']['group_score']:.4g}" in page
    assert "<form" not in page
    assert " items, rounded to 1 point" in (site / "index.html").read_text()  # beside the number of the first page, too
    assert "/sign-in" not in page and "/sign-in" not in (site / "index.html").read_text()
    assert '"../hidden/index.html"' in page.replace("../../hidden", "../hidden")
    assert 'href="hidden/index.html"' in (site / "index.html").read_text()
    assert (site / "benchmarks/clocks/index.html").is_file()
    truth = json.loads(made.service.prepared["clocks"].truth.read_text())
    told = b"".join(path.read_bytes() for path in site.rglob("*") if path.is_file())
    assert b"private_rank" in told
    items = read_pair_set(made.pairs).items
    texts = [text for item in items for text in (item.id, *item.images, *item.texts)]
    kept = [*texts, *(item["id"] for item in truth["items"]), *truth["sources"], *truth["pixels"].values()]
    kept += [*made.tokens.values(), "scores.npz", "truth.json", *marks(made), *numbers(made, sent)]
    assert len(kept) > 200
    assert not [text for text in kept if text.encode() in told]


def test_head_is_answered_on_the_pages_of_hidden_benchmarks_too(board: MakeBoard) -> None:
    made = board(4)
    with Store("sqlite://") as store:
        client = TestClient(create_app(BoardSettings(), store, made.service))
        for path in ("/hidden", "/hidden/clocks", "/sign-in", "/submissions", "/hidden/clocks/task.zip"):
            found = client.head(path, headers=made.of("rita"))
            whole = client.get(path, headers=made.of("rita"))
            assert (found.status_code, found.content) == (whole.status_code, b"") == (200, b"")
            assert found.headers["content-length"] == whole.headers["content-length"]


def test_a_site_of_a_board_that_was_never_served_makes_no_state(made_set: Any, tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    (tmp_path / "runs").mkdir()
    file.write_text(f'[board]\nruns = ["runs"]\n[[hidden]]\nname = "clocks"\npairs = "{made_set("clocks", n=4)}"\n')
    done = CliRunner().invoke(app, ["board", "export", "--board", str(file), "--out", str(tmp_path / "site")])
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "state").exists()
    assert "hidden" not in (tmp_path / "site" / "index.html").read_text()
