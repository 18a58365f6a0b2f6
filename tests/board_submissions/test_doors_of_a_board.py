"""Attacks on a board: names that look alike, guesses, spoiled and parallel files, labels by time, runs of strangers."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tellapart.board.app import create_app
from tellapart.board.records import Board, BoardSettings, read_settings
from tellapart.board.submissions import prepared
from tellapart.board.submissions.accounts import RefusedError
from tellapart.board.submissions.administer import board_retry
from tellapart.board.submissions.routes import check_model_name
from tellapart.board.submissions.service import Upload, open_submissions
from tellapart.board.submissions.worker import pack
from tellapart.data.scores import Scores
from tellapart.errors import RunError

#: Cyrillic, Greek and Armenian letters among Latin ones, whole words of them, digits, and other dashes.
ALIKE = ["\u043eracle", "0racle", "bIind", "\u043e\u0433\u0430\u0441\u04cf\u0435", "hum\u0430n", "bag\u2013of words"]
#: In Lisu and small capitals, letter by letter, struck through, with accents; as a word among others.
ALIKE += ["ranclom", "hurnan", "random", "  ORACLE ", "\uff42\uff4c\uff49\uff4e\uff44", "Human"]
ALIKE += ["\ua4e7\ua4f4\ua4df\ua4ee\ua4e0", "\u029c\u1d1c\u1d0d\u1d00\u0274", "h u m a n", "b.l.i.n.d", "or-acle"]
ALIKE += ["h\u0336u\u0336m\u0336a\u0336n\u0336", "h\u00fcm\u00e1n", "Human (experts)", "human-level model"]
ALIKE += ["HumanExperts", "expert humans", "People, five of each", "Random (chance)", "an Oracle", "Bag of words, 2"]
ALIKE += ["\U0001d5db\u03c5man CLIP", "CLIPHuman", "1Human", "human1", "Oracle 1", "hum4n", "Crowd workers"]
ALIKE += ["volunteers (5)"]
MIXED = ["CLI\u0420-large", "\u0415va-CLIP", "sig\u03bfip", "B\u03b2"]
#: Other lines, nothing to see (in braille, too), marks alone, no letters, or too many.
UNSEEN = [" ", "nul\0", "turned\u202eround", "two\u2028lines", "two\u2029lines", "\u3164", "clip\u2800", "\u0301\u0301"]
UNSEEN += ["--- ???", "a" * 101]
PLAIN = [
    "\u6a21\u578b 2", "CLIP (random crops)", "a" * 100, "\u03b1-CLIP", "\u901a\u4e49VL-7B", "\u30e2\u30c7\u30ebv2",
    "\u043c\u043e\u0434\u0435\u043b\u044c", "na\u00efve-CLIP", "Humboldt-CLIP (8 experts)",
    "randomised blinds, constants", "Humanity-1B",
]  # fmt: skip


@pytest.mark.parametrize("name", [*ALIKE, *MIXED, *UNSEEN])
def test_a_name_that_looks_like_another_or_is_not_seen_is_refused(name):
    with pytest.raises(RefusedError) as caught:
        check_model_name(name)
    assert (caught.value.status, str(caught.value).startswith("model: ")) == (422, True)
    assert ("scripts" in str(caught.value)) == (name in MIXED)
    assert ("looks like" in str(caught.value)) == (name in ALIKE)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", PLAIN)
def test_a_name_in_any_one_script_is_taken(name):
    assert check_model_name(name) == name


def test_guesses_at_an_account_are_counted_from_all_addresses_together(board):
    made = board(4, settings={"sign_ins_a_minute": 3})
    wrong, codes = f"tap_{made.tokens['ann'].split('_')[1]}_wrong", []
    for k in range(6):
        client = TestClient(made.client.app, client=(f"192.0.2.{k}", 1), follow_redirects=False)
        form, headers = {"token": wrong}, {"Authorization": f"Bearer {wrong}"}
        answer = client.post("/sign-in", data=form) if k % 2 else client.get("/submissions", headers=headers)
        codes.append(answer.status_code)
    assert codes == [401] * 3 + [429] * 3
    other = TestClient(made.client.app, client=("192.0.2.9", 1))
    assert other.get("/submissions", headers=made.of("ann")).status_code == 200  # she has her token


def test_a_file_that_curl_spoiled_is_refused_with_the_option_that_does_not(board):
    made, form = board(4), {"Content-Type": "application/x-www-form-urlencoded"}

    def send(data: bytes, file: str):
        address = f"/hidden/clocks/submissions?model=m&file={file}"
        return made.client.post(address, content=data, headers={**made.of("ann"), **form})

    whole = made.npz(made.right())
    spoiled = whole.translate(None, b"\r\n\0")
    for data, file in ((spoiled, "s.npz"), (b"id,scores a,1", "s.csv"), (b'{"a": 1}{"a": 2}', "s.jsonl")):
        answer = send(data, file)
        assert answer.status_code == 422 and "--data-binary" in answer.json()["detail"], answer.text
    assert not made.service.database.all("SELECT id FROM submission")
    assert [path.name for path in made.queue.folder.iterdir()] == [".lock"] or not [*made.queue.folder.glob("*.part")]
    assert send(whole, "s.npz").status_code == 202  # --data-binary names the same type


def test_a_program_may_send_a_form_and_is_told_what_an_address_lacks(made):
    whole, address = made.npz(made.right()), "/hidden/clocks/submissions"
    sent = made.client.post(f"{address}?model=m", files={"file": ("s.npz", whole)}, headers=made.of("ann"))  # curl -F
    assert sent.status_code == 202, sent.text
    assert made.service.database.all("SELECT model FROM submission")[0][0] == "m"
    for query, fact in (("?file=s.npz", "model=NAME"), ("?model=m", "file=NAME"), ("?model=m&file=s.txt", ".npz")):
        answer = made.client.post(f"{address}{query}", content=whole, headers=made.of("ann"))
        assert answer.status_code == 422 and fact in answer.json()["detail"]


def fail_file(made, id_: str) -> None:
    with made.service.database.change() as rows:
        rows.execute("UPDATE submission SET state = 'measuring', starts = 3 WHERE id = ?", (id_,))
    with made.queue.lock():
        assert made.queue.work_one()


def test_a_file_during_which_the_server_stopped_is_tried_again_and_counts_once(made):
    id_ = made.send(made.npz(made.right())).json()["id"]
    fail_file(made, id_)
    file = made.file()
    assert (board_retry(file), made.state(id_)) == ((id_,), "received")
    made.work()
    assert (made.state(id_), board_retry(file)) == ("done", ())
    with pytest.raises(RunError, match=id_):
        board_retry(file, id_)
    ends = [entry["what"].removeprefix("submission ") for entry in made.service.log() if "submission" in entry["what"]]
    assert ends == ["received", "taken up again", "failed", "tried again", "done"]


def test_a_failed_file_that_was_sent_again_is_not_counted_twice(made):
    first = made.send(b"x").json()["id"]
    fail_file(made, first)
    second = made.send(b"x").json()["id"]
    assert second != first
    assert board_retry(made.file()) == ()
    fail_file(made, second)
    assert board_retry(made.file()) == (second,)


@pytest.mark.slow
def test_files_taken_at_one_moment_and_measured_by_servers_that_die_use_the_days_places_once(board):
    made = board(4, limits={"daily": 2, "total": 3})
    files = [made.npz(made.right() + k) for k in range(6)]
    account = made.service.accounts.of_token(made.tokens["ann"])

    def take(k: int) -> str:
        path = made.queue.folder / f"{k}.part"
        path.write_bytes(files[k])
        upload = Upload(path, len(files[k]), f"{k:064x}")
        return str(made.queue.take(account, "clocks", "m", "s.npz", upload).id)

    with ThreadPoolExecutor(6) as pool:
        ids = list(pool.map(take, range(6)))
    for _ in range(2):  # a server that dies as it measures, and one that dies when it has counted
        child = os.fork()
        if not child:
            made.queue._record_end = lambda *_, **__: os.kill(os.getpid(), 9)
            with made.queue.lock():
                made.queue.work_one()
            os._exit(0)
        os.waitpid(child, 0)
    made.work()
    assert sorted(made.state(id_) for id_ in ids) == ["done"] * 2 + ["surplus"] * 4
    done = [entry for entry in made.service.log() if entry["what"] == "submission done"]
    assert len(done) == 2 == len({entry["about"]["submission"] for entry in done})
    assert made.send(made.npz(made.right() - 1)).status_code == 429


def test_a_measured_file_is_answered_at_a_full_quarter_of_a_second_whatever_the_labels(board, monkeypatch):
    made = board(24)
    hidden, moments = made.service.prepared["clocks"], iter([10.0, 10.1, 20.0, 20.62, 30.0, 30.0])
    waited: list[float] = []
    monkeypatch.setattr(prepared, "time", SimpleNamespace(monotonic=lambda: next(moments), sleep=waited.append))
    job = {"truth": str(hidden.truth), "task": "pairs", "metrics": list(hidden.metrics), "step": 0.01}
    ids = tuple(map(str, range(24)))
    good, half = (pack(Scores(ids, made.right(share), "similarity"), "pairs") for share in (1, 0.5))
    answers = [prepared.measure(job, form)[0] for form in (good, half, b"malformed")]
    assert waited == pytest.approx([0.15, 0.13, 0.0])
    assert [set(answer) for answer in answers] == [{"public", "private"}, {"public", "private"}, {"failed"}]


def test_a_program_gets_json_and_a_browser_a_page_of_every_error(board):
    client = TestClient(create_app(Board(BoardSettings()), board(4).service))
    for method, address, status in (("GET", "/no-such", 404), ("DELETE", "/hidden/clocks", 405), ("POST", "/", 405)):
        answer = client.request(method, address)
        assert answer.status_code == status and answer.json()["detail"]
        if status == 405:
            assert {"GET", method} <= set(answer.json()["detail"].replace(",", "").split())
        for head in ({"Accept": "text/html,*/*"}, {"Accept": "*/*", "HX-Request": "true"}):  # a browser, and its script
            assert "<html" in client.request(method, address, headers=head).text
    assert "<html" in client.get("/").text  # a page itself stays one for everybody


def test_a_strangers_run_folder_stops_no_board(tmp_path):
    names = ["pipe", "device", "folder", "deep", "half", "steers"]
    homes = {name: tmp_path / "runs" / name for name in names}
    for home in homes.values():
        home.mkdir(parents=True)
    os.mkfifo(homes["pipe"] / "results.json")
    (homes["device"] / "results.json").symlink_to("/dev/zero")
    (homes["folder"] / "results.json").mkdir()
    (homes["deep"] / "results.json").write_text("[" * 100_000)
    (homes["half"] / "results.json").write_text(json.dumps({"run": "\ud800"}))
    (homes["steers"] / "results.json").write_text(json.dumps({"a\x1b[2J\u202e": np.pi}))
    said: list[str] = []
    Board(BoardSettings(runs=(tmp_path / "runs",))).read_in(said.append)
    assert [line.isprintable() for line in said] == [True] * 3


def test_the_documents_own_board_file_works_as_it_stands_for_300_pairs(made_set, tmp_path):
    shown = (Path(__file__).parents[2] / "docs" / "hidden_benchmarks.md").read_text(encoding="utf-8")
    file = tmp_path / "board.toml"
    file.write_text(re.findall(r"```toml\n(.*?)```", shown, re.DOTALL)[0].replace("/srv/clocks", str(made_set(n=300))))
    with open_submissions(file, measuring=True) as service:
        assert [each["name"] for each in service.content()["benchmarks"]] == ["clocks"]
    assert read_settings(file).runs == ()
