"""The queue holds: a file is measured once, whatever ends in the middle; limits hold for each user and server."""

import re
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from boards import until
from facts import check_facts
from tellapart.board.submissions import service


def logged(made, what: str) -> int:
    return sum(entry["what"] == what for entry in made.service.log())


def open_with(opened, pragma: str) -> Callable[..., Any]:
    """Open a database with another setting of SQLite: its most pages, or no wait for others."""

    @contextmanager
    def open_(self):
        with opened(self) as rows:
            rows.execute(f"PRAGMA {pragma}")
            yield rows

    return open_


@pytest.mark.slow
def test_a_file_that_is_sent_again_is_answered_with_what_it_got_and_does_not_count(board):
    made = board(4, limits={"daily": 2, "total": 2})
    data = made.npz(made.right(0.5))
    first = made.measured(data)
    for model in ("mine", "another name"):
        again = made.send(data, model=model)
        assert (again.status_code, again.json()["id"], again.json()["state"]) == (200, first["id"], "done")
        assert again.json()["model"] == "mine"  # under which it is kept
    assert made.send(data, user="bob").json()["id"] != first["id"]  # another's file says nothing
    assert made.measured(made.npz(made.right()))["state"] == "done"  # the second place was not taken
    assert made.send(data).json()["again"]  # nor does it need one
    made.service.close("clocks", by="root")
    assert made.send(data).json()["again"]
    assert made.send(data + b" ").status_code == 409
    assert len(made.service.database.all("SELECT id FROM submission WHERE user = 'ann'")) == 2
    assert len([path for path in made.queue.folder.iterdir() if path.is_dir()]) == 3


@pytest.mark.slow
def test_a_refused_file_is_read_again_under_another_ending_and_on_another_day(made):
    first = made.measured(b"id,a\n", file="scores.csv")
    assert first["state"] == "refused"
    expected = {"id": first["id"], "state": "refused", "model": "mine", "at": f"/submissions/{first['id']}"}
    assert made.send(b"id,a\n", file="other.csv").json() == expected | {"again": True}
    assert made.measured(b"id,a\n", file="scores.jsonl")["id"] != first["id"]
    made.clock.now += 86_400
    assert made.measured(b"id,a\n", file="scores.csv")["id"] != first["id"]


@pytest.mark.slow
def test_a_file_that_did_not_count_or_failed_is_taken_again(board):
    made = board(4, limits={"daily": 1})
    files = [made.npz(made.right(share)) for share in (1.0, 0.5)]
    ids = [made.send(data).json()["id"] for data in files]
    made.work()
    assert [made.state(id_) for id_ in ids] == ["done", "surplus"]
    said = "files before this one used up that day's submissions (1); it does not count"
    assert made.client.get(f"/submissions/{ids[1]}", headers=made.of("ann")).json()["submission"]["error"] == said
    assert not (made.queue.folder / ids[1]).exists()
    made.clock.now += 86_400
    assert made.measured(files[1])["state"] == "done"
    made.clock.now += 86_400
    failed = made.send(b"x").json()["id"]
    made.queue._record_end(failed, "failed", "the server's fault")
    again = made.send(b"x").json()["id"]
    assert again != failed
    made.queue._record_end(again, "stopped", "it did not end")  # counts, and so does it when it comes again
    assert made.send(b"x").status_code == 429


@pytest.mark.slow
def test_what_an_orphan_says_after_the_end_changes_nothing(board):
    made = board()
    seen = made.measured(made.npz(made.right()))
    made.queue._record_end(seen["id"], "failed", "late", public=None)
    assert (made.state(seen["id"]), logged(made, "submission done")) == ("done", 1)


def test_a_file_that_takes_the_server_down_again_is_given_up_and_one_process_works(made):
    id_ = made.send(b"x").json()["id"]
    with made.service.database.change() as rows:
        rows.execute("UPDATE submission SET state = 'measuring', starts = 3")
    with made.queue.lock():
        assert made.queue.work_one()
    seen = made.client.get(f"/submissions/{id_}", headers=made.of("ann")).json()["submission"]
    assert (seen["state"], seen["error"]) == ("failed", "the server stopped 3 times while it was at this file")
    assert made.send(b"x").status_code == 202  # and it is given back
    with made.queue.lock() as first, made.queue.lock() as second:
        assert (first, second) == (True, False)


@pytest.mark.slow
def test_the_running_server_measures_by_itself_and_stops_without_losing_the_file_at_hand(board):
    made = board()
    made.service.start()
    first = made.send(made.npz(made.right())).json()["id"]
    until(lambda: made.state(first) == "done", every=0.02)
    second = made.send(made.npz(made.right(0.5))).json()["id"]
    until(lambda: made.queue._worker is not None)
    made.service.stop()
    assert made.state(second) in ("received", "validated", "measuring")
    made.open()
    made.work()
    row = made.service.database.one("SELECT state, starts FROM submission WHERE id = ?", second)
    assert tuple(row) == ("done", 1)


def test_uploads_that_were_cut_off_by_the_servers_end_are_swept(made):
    kept = made.send(b"x").json()["id"]
    (made.queue.folder / "cut.part").write_bytes(b"half")
    (made.queue.folder / "orphan").mkdir()
    made.open()
    with made.queue.lock():  # as another server has it: what it is taking is left alone
        made.service.start()
        made.service.stop()
        assert (made.queue.folder / "cut.part").exists()
    made.open()
    made.service.start()
    made.service.stop()
    assert {path.name for path in made.queue.folder.iterdir()} <= {kept, ".lock"}


def test_a_file_to_a_benchmark_that_the_board_does_not_have_any_more_fails(made):
    id_ = made.send(b"x").json()["id"]
    made.service.prepared.clear()
    with made.queue.lock():
        made.queue.work_one()
    assert made.state(id_) == "failed"


def test_a_full_disk_under_the_database_takes_nothing(board, monkeypatch):
    made = board(4, limits={"daily": 100, "total": 100})
    with made.service.database.change() as rows:
        pages = rows.execute("PRAGMA page_count").fetchone()[0]
    kind = type(made.service.database)  # SQLite's own way to say that the disk is full
    monkeypatch.setattr(kind, "_open_connection", open_with(kind._open_connection, f"max_page_count = {pages}"))
    monkeypatch.setattr(service, "REFUSED_A_DAY", 100)
    answers = [made.send(b"x%09d" % k, model="m" * 100) for k in range(40)]
    full = [answer.json()["detail"] for answer in answers if answer.status_code == 507]
    assert full and all("nothing was counted" in detail for detail in full)
    taken = {answer.json()["id"] for answer in answers if answer.status_code == 202}
    assert {path.name for path in made.queue.folder.iterdir()} == taken
    assert {row["id"] for row in made.service.database.all("SELECT id FROM submission")} == taken


def test_useless_files_are_not_looked_at_without_end(made, monkeypatch):
    monkeypatch.setattr(service, "REFUSED_A_DAY", 3)
    for k in range(2):
        made.queue._record_end(made.send(b"%d" % k).json()["id"], "refused", "no")
    made.send(b"waits")
    answer, said = made.send(b"x"), "3 files of ann wait or came to nothing today, and no more are read; the next day"
    assert answer.status_code == 429 and answer.json()["detail"].startswith(said)
    assert made.send(b"waits").json()["again"]
    assert made.send(b"x", user="bob").status_code == 202
    made.clock.now += 86_400
    assert made.send(b"x").status_code == 202


def test_who_sends_many_files_does_not_keep_others_waiting(board):
    made = board(4, limits={"daily": 9, "total": 9})
    order = [made.send(b"%d" % k, user=user).json()["id"] for k, user in enumerate(("ann",) * 3 + ("bob", "root"))]
    measured = []
    with made.queue.lock():
        made.queue._measure_file = lambda id_, *_: (measured.append(id_), made.queue._record_end(id_, "failed", ""))
        while made.queue.work_one():
            pass
    assert measured == [order[k] for k in (0, 3, 4, 1, 2)]


@pytest.mark.slow
def test_whatever_goes_wrong_with_one_file_the_next_is_measured(board, caplog):
    made = board(limits={"daily": 9, "total": 9})
    bad, good = (made.send(made.npz(made.right(share))).json()["id"] for share in (0.5, 1.0))
    measure = made.queue._measure_file

    def fail(id_: str, *more) -> None:
        if id_ == bad:
            raise RuntimeError("can't start new thread")
        measure(id_, *more)

    made.queue._measure_file = fail
    made.service.start()
    made.queue.every = 0.05
    until(lambda: made.state(good) == "done" and made.state(bad) == "failed")
    made.service.stop()
    assert sum("it is tried again" in record.getMessage() for record in caplog.records) == 3


def test_a_result_is_kept_until_the_disk_takes_it(made, monkeypatch):
    id_ = made.send(b"x").json()["id"]
    monkeypatch.setattr(service, "_AGAIN", 0.01)
    other = sqlite3.connect(made.service.database.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")  # locks out all other writers
    kind = type(made.service.database)
    monkeypatch.setattr(kind, "_open_connection", open_with(kind._open_connection, "busy_timeout = 0"))
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(made.queue._record_end, id_, "failed", "kept")
        time.sleep(0.2)
        assert not ending.done()
        other.execute("ROLLBACK")
        ending.result(timeout=10)
    other.close()
    assert made.state(id_) == "failed"


def test_a_benchmark_closed_by_its_date_stays_closed_when_the_clock_is_set_back(board):
    made = board(4, limits={"closes": "2024-10-05T00:00:00Z"})  # day 20,001 since 1970
    made.clock.now += 86_401
    assert made.client.get("/hidden/clocks").json()["benchmark"]["closed"]
    assert logged(made, "benchmark closed") == 1
    made.clock.now -= 2 * 86_400
    assert made.client.get("/hidden/clocks").json()["benchmark"]["closed"]
    assert made.send(b"x").status_code == 409
    later = made.settings.hidden[0].model_copy(update={"closes": None})
    made.settings = made.settings.model_copy(update={"hidden": (later,)})
    made.open()  # with a board file that says otherwise
    assert made.send(b"x").status_code == 409
    assert made.service.queue.is_closed("clocks")
    assert logged(made, "benchmark closed") == 1


@pytest.mark.slow
def test_a_file_that_came_before_the_closing_and_is_measured_after_it_counts(board):
    made = board(limits={"closes": "2024-10-05T00:00:00Z"})
    made.clock.now += 86_399
    answer = made.send(made.npz(made.right()))
    made.clock.now += 2
    assert made.send(b"x").status_code == 409
    with made.queue.lock():
        made.queue.work_one()
    assert made.see(answer)["private"]["values"] == {"group_score": 1.0}


@pytest.mark.slow
def test_a_running_board_shows_private_numbers_once_the_date_has_come(board):
    made = board(limits={"closes": "2024-10-05T00:00:00Z"})
    made.measured(made.npz(made.right()))
    made.service.start()
    made.queue.every = 0.05
    made.service.queue.wake.set()
    splits = lambda: {*made.service.results()[0].benchmarks["clocks"].by["split"]}  # noqa: E731
    assert splits() == {"public"}
    made.clock.now += 2 * 86_400
    until(lambda: splits() == {"public", "private"})


@pytest.mark.slow
def test_two_servers_on_one_state_measure_each_file_once_and_share_the_limits(board):
    made = board(limits={"daily": 2})
    first, through_first = made.service, made.client
    first.start()
    made.open()  # a second server on the same folder
    made.service.start()
    params = {"model": "m", "file": "s.npz"}
    try:
        how = {"params": params, "headers": made.of("ann")}
        files = [made.npz(made.right(share)) for share in (1.0, 0.5, 0.25)]
        clients = (through_first, made.client)
        sent = [c.post("/hidden/clocks/submissions", content=f, **how) for c, f in zip(clients, files, strict=False)]
        until(lambda: all(made.state(one.json()["id"]) == "done" for one in sent), every=0.05)
        for client in clients:
            assert client.post("/hidden/clocks/submissions", content=files[2], **how).status_code == 429
            assert client.post("/hidden/clocks/submissions", content=files[0], **how).json()["again"]
    finally:
        first.stop()
        through_first.close()
    assert (logged(made, "submission done"), logged(made, "submission taken up again")) == (2, 0)


def left(made) -> tuple[dict[str, int], ...]:
    """The files that ann and bob have left, as their pages give them."""
    answers = [made.client.get("/submissions", headers=made.of(user)).json() for user in ("ann", "bob")]
    return tuple(answer["left"]["clocks"] for answer in answers)


def test_a_senders_pages_have_the_files_that_are_left(board):
    made = board(4, limits={"daily": 2, "total": 7})
    assert left(made) == ({"today": 2, "in_all": 7},) * 2
    assert made.client.get("/submissions", headers=made.of("rita")).json()["left"] == {}  # she may not send
    page, facts = made.of("ann") | {"Accept": "text/html"}, re.compile(r"still.* 2 today \(UTC\), 7 in all")
    assert facts.search(made.client.get("/submissions", headers=page).text)
    assert not facts.search(made.client.get("/hidden/clocks", headers=page).text)  # a program has no form there
    made.client.post("/sign-in", data={"token": made.tokens["ann"]})
    for path in ("/submissions", "/hidden/clocks"):
        assert facts.search(made.client.get(path, headers={"Accept": "text/html"}).text)
    made.service.close("clocks", by="test")
    assert made.client.get("/submissions", headers=made.of("ann")).json()["left"] == {}


@pytest.mark.parametrize(("typed", "facts"), [("clock", "did you mean 'clocks'?"), ("zebra", "this board has clocks")])
def test_a_misspelt_benchmark_is_answered_with_its_name(made, typed, facts):
    ann, params = made.of("ann"), {"model": "a", "file": "a.npz"}
    sent = made.client.post(f"/hidden/{typed}/submissions", params=params, content=b"x", headers=ann)
    for answer in (sent, *(made.client.get(f"/hidden/{typed}{what}", headers=ann) for what in ("", "/task.zip"))):
        assert answer.status_code == 404
        check_facts(answer.json()["detail"], repr(typed), facts)


@pytest.mark.slow
def test_limits_of_a_day_and_in_all_hold_for_each_user(board):
    made = board(4, limits={"daily": 2, "total": 3})
    assert [made.measured(made.npz(made.right(share)))["state"] for share in (1.0, 0.5)] == ["done"] * 2
    assert (left(made), made.send(b"x").status_code) == (({"today": 0, "in_all": 1}, {"today": 2, "in_all": 3}), 429)
    assert made.send(b"x", user="bob").status_code == 202
    made.clock.now += 86_399
    said = "ann has used today's submissions (2) to clocks; the next day (UTC)"
    assert made.send(b"x").json()["detail"].startswith(said)
    made.clock.now += 1
    assert left(made)[0] == {"today": 1, "in_all": 1}  # of two a day
    assert made.measured(made.npz(made.right(0.25)))["state"] == "done"
    assert made.send(b"x").json()["detail"] == "ann has used all submissions (3) to clocks"
