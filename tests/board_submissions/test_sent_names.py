"""Names of the files that are sent, and of their models: seen as they are, and never a path, markup or a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def made(board: Callable[..., Any]) -> Any:
    return board()


@pytest.mark.parametrize("file", ["scores.pkl", "scores.py", "../../etc/passwd", "s.npz.exe", "npz", "a\0.npy"])
def test_only_the_endings_of_score_files_are_taken(made: Any, file: str) -> None:
    answer = made.send(b"x", file=file)
    assert (answer.status_code, "send a file that ends in .npz, .csv, .jsonl" in answer.json()["detail"]) == (422, True)


def test_a_file_without_a_name_is_answered_with_the_address_to_use(made: Any) -> None:
    answer = made.send(b"x", file="")
    assert (answer.status_code, "&file=NAME" in answer.json()["detail"]) == (422, True)


@pytest.mark.slow
def test_a_path_in_the_files_name_goes_nowhere(made: Any) -> None:
    seen = made.measured(made.npz(made.right()), file="../../../../tmp/evil.npz")
    assert seen["state"] == "done"
    assert {path.name for path in (made.queue.folder / seen["id"]).iterdir()} == {"sent.npz"}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("mine.NPZ", "mine.npz"),
        ("C:\\Users\\ann\\my scores.npz", "my scores.npz"),
        ("../../etc/a.b.npz", "a.b.npz"),
        ("\u202eturned\x1b[2J\n.npz", "turned[2J.npz"),
        ("a" * 500 + ".npz", "a" * 76 + ".npz"),
        ("\x00.npz", "file.npz"),
        ("sent.csv.npz", "sent.csv.npz"),
    ],
)
def test_the_sender_sees_a_files_name_and_nothing_that_a_name_could_hide(made: Any, file: str, shown: str) -> None:
    seen = made.measured(b"no archive", file=file)
    assert (seen["state"], seen["error"].split(" is not")[0]) == ("refused", shown)


@pytest.mark.parametrize("model", ["", " ", "a" * 101, "two\nlines", "turned\u202eround", "nul\0"])
def test_a_models_name_is_one_line_that_can_be_seen(made: Any, model: str) -> None:
    answer = made.send(b"x", model=model)
    assert (answer.status_code, answer.json()["detail"].startswith("model: ")) == (422, True)


NASTY = """<script>alert(1)</script>'; DROP TABLE submission; -- " onmouseover="x {{ 7*7 }} a&b"""


@pytest.mark.slow
def test_a_models_name_is_never_markup_nor_a_query(made: Any) -> None:
    seen = made.measured(made.npz(made.right()), model=NASTY)
    assert seen["model"] == NASTY
    cookie = made.service.accounts.sign_in(made.tokens["ann"], hours=1)
    for where in ("/hidden/clocks", "/submissions", f"/submissions/{seen['id']}"):
        text = made.client.get(where, headers={"Accept": "text/html", "Cookie": f"tellapart_session={cookie}"}).text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert not [part for part in ("<script", 'onmouseover="', " 49 ") if part in text]
    assert [row["model"] for row in made.client.get("/hidden/clocks").json()["models"]] == [NASTY]
    assert made.client.get("/hidden/clocks' OR 1=1 --").status_code == 404
