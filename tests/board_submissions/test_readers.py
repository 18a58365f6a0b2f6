"""Readers are answered while a file is measured: a real server, its real worker process."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import httpx
import pytest
import uvicorn

from tellapart.board.app import Connection, create_app
from tellapart.board.records import read_in
from tellapart.board.settings import read_settings
from tellapart.board.store import Store

READERS = 20
BOARD = Path(__file__).parents[2] / "examples" / "vlue_board" / "board.toml"
MODELS = {"ViLBERT", "LXMERT", "UNITER", "VL-T5", "ALBEF", "X-VLM", "METER"}


@pytest.fixture
def served(board: Callable[..., Any], tmp_path: Path) -> Iterator[tuple[Any, str]]:
    """The example board with a hidden benchmark at an address of this machine."""
    made, settings = board(), read_settings(BOARD)
    with Store(f"sqlite:///{tmp_path / 'board.sqlite'}") as store, socket.socket() as listening:
        read_in(store, settings, print)
        listening.bind(("127.0.0.1", 0))
        app = create_app(settings, store, made.service)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", http=Connection))
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        made.service.start()
        while not server.started:
            time.sleep(0.02)
        yield made, f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.mark.slow
def test_twenty_readers_are_all_answered_while_a_file_is_measured(served: tuple[Any, str]) -> None:
    made, at = served
    together, ended = Barrier(READERS + 1), Event()

    def read(_: int) -> list[dict[str, Any]]:
        """Read from before the file is sent until it is measured."""
        pages = []
        with httpx.Client(base_url=at, timeout=60) as client:
            together.wait(timeout=60)
            while not pages or not ended.is_set():
                answer = client.get("/", params={"format": "json"})
                assert answer.status_code == 200
                pages.append(answer.json())
        return pages

    params, data = {"model": "mine", "file": "scores.npz"}, made.npz(made.right())
    with ThreadPoolExecutor(READERS) as pool:
        reading = [pool.submit(read, k) for k in range(READERS)]
        together.wait(timeout=60)
        try:
            answer = httpx.post(
                f"{at}/hidden/clocks/submissions", params=params, content=data, headers=made.of("ann"), timeout=60
            )
            seen, end = made.see(answer), time.monotonic() + 60
            while seen["state"] in ("received", "validated", "measuring") and time.monotonic() < end:
                time.sleep(0.05)
                seen = made.see(answer)
        finally:
            ended.set()
        pages = [page for one in reading for page in one.result()]
    assert (seen["state"], seen["public"]["values"]) == ("done", {"group_score": 1.0})
    assert {row["model"]["label"] for row in pages[0]["rows"]} >= MODELS
    assert all(page == pages[0] for page in pages)
