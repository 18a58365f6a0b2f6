"""Attacks over HTTP with a user's token or none: each is refused, and costs the server little."""

import asyncio
import gzip
import hashlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tellapart.board.submissions import routes
from tellapart.board.submissions.accounts import UploadLimit

PAGE = {"Accept": "text/html"}


@pytest.fixture
def made(board):
    return board(4, limits={"daily": 100, "total": 100})


def test_the_log_cannot_be_filled_with_guesses_and_who_guesses_keeps_nobody_out(board):
    made = board(4, settings={"sign_ins_a_minute": 3})
    wrong = {"Authorization": f"Bearer tap_{made.tokens['ann'].split('_')[1]}_wrong"}
    codes = [made.client.get("/submissions", headers=wrong).status_code for _ in range(20)]
    assert codes == [401] * 3 + [429] * 17
    assert [entry["what"] for entry in made.service.log()].count("token refused") == 3
    assert made.client.get("/submissions", headers=made.of("ann")).status_code == 200  # from the same address


def test_all_of_an_ipv6_customers_addresses_are_one(board):
    made, codes = board(4, settings={"sign_ins_a_minute": 2}), []
    for host in ("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:0:1:2:3:4", "2001:db8:0:1::1"):
        client = TestClient(made.client.app, client=(host, 1))
        codes.append(client.get("/submissions", headers={"Authorization": "Bearer tap_a_b"}).status_code)
    assert codes == [401, 401, 429, 401]


def test_only_a_proxy_is_believed_about_whom_it_serves(board):
    made = board(4, settings={"sign_ins_a_minute": 2})
    app = ProxyHeadersMiddleware(made.client.app, trusted_hosts="127.0.0.1")

    def guess(peer: str, forwarded: str) -> int:
        headers = {"Authorization": "Bearer tap_a_b", "X-Forwarded-For": forwarded}
        return int(TestClient(app, client=(peer, 1)).get("/submissions", headers=headers).status_code)

    # A stranger's claims are all his own; behind the proxy, what the stranger claimed stands before what the proxy saw.
    assert [guess("192.0.2.1", f"198.51.100.{k}") for k in range(3)] == [401, 401, 429]
    assert [guess("127.0.0.1", f"10.0.0.{k}, 192.0.2.9") for k in range(3)] == [401, 401, 429]
    assert guess("127.0.0.1", "192.0.2.10") == 401


def test_reading_without_a_token_is_counted_by_address_and_with_one_by_token(board):
    made, pages = board(4, settings={"requests_a_minute": 4}), ["/hidden", "/hidden/clocks", "/sign-in"] * 2
    assert [made.client.get(page).status_code for page in pages] == [200] * 4 + [429] * 2
    cookie = made.service.accounts.sign_in(made.tokens["ann"], hours=1)
    assert made.client.get("/hidden", headers={"Cookie": f"tellapart_session={cookie}"}).status_code == 200


def send_form(made, *parts: tuple[str, bytes], **how: str):
    content, headers = made.form(*parts, **how)
    return made.client.post("/hidden/clocks/submissions", content=content, headers=headers)


FILE = ('name="file"; filename="s.npz"', b"x")
MODEL = ('name="model"', b"m")
FORMS: dict[str, dict[str, Any]] = {
    "ten thousand parts": {"parts": [(f'name="a{k}"', b"") for k in range(10_000)]},
    "two files": {"parts": [MODEL, FILE, FILE]},
    "a long head": {"parts": [MODEL, (FILE[0] + "\r\nX: " + "a" * (4 << 20), b"x")]},
    "a long file name": {"parts": [MODEL, (f'name="file"; filename="{"a" * (4 << 20)}.npz"', b"x")]},
    "ten thousand heads": {"parts": [MODEL, (FILE[0] + "\r\nX: a" * 10_000, b"x")]},
    "a long field": {"parts": [("name=model", b"a" * 100_000), FILE]},
    "no file": {"parts": [MODEL]},
    "a file that is a field": {"parts": [MODEL, ('name="file"', b"x")]},
    "no name": {"parts": [MODEL, ("x", b"x")]},
    "no boundary": {"parts": [MODEL, FILE], "kind": "multipart/form-data"},
    "a long boundary": {"parts": [MODEL, FILE], "boundary": "b" * 10_000},
    "another boundary": {"parts": [MODEL, FILE], "boundary": "c"},
    **{
        f"in {charset}": {"parts": [('name="model"', b"\\ud800" * 1000), FILE], "boundary": f"b; charset={charset}"}
        for charset in ("punycode", "unicode_escape", "idna", "utf-7", "zip", "undefined")
    },
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", list(FORMS))
def test_a_form_that_no_browser_sends_is_refused_and_leaves_nothing(made, name):
    how = dict(FORMS[name])
    answer = send_form(made, *how.pop("parts"), **how)
    assert answer.status_code in (400, 403, 413, 422) and len(answer.text) < 500, answer.text
    assert list(made.queue.folder.iterdir()) == []
    assert send_form(made, MODEL, FILE).status_code == 303  # such as browsers send


def test_a_form_from_another_site_is_refused_before_it_is_read(made):
    def never() -> Iterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    headers = made.form()[1] | {"Sec-Fetch-Site": "same-site"}
    answer = made.client.post("/hidden/clocks/submissions", content=never(), headers=headers)
    assert (answer.status_code, "another site" in answer.text) == (403, True)


async def trickle() -> dict[str, Any]:
    await asyncio.sleep(0.02)
    return {"type": "http.request", "body": b"a", "more_body": True}


def test_a_body_that_trickles_in_is_given_up(made, monkeypatch):
    for limit, value in (("_GRACE", 0.2), ("_SLOWEST", 1 << 40), ("_SOON", 0.2)):
        monkeypatch.setattr(routes, limit, value)
    where = "/hidden/clocks/submissions?model=m&file=s.npz"
    assert (made.post(where, made.of("ann"), trickle)[0], list(made.queue.folder.iterdir())) == (408, [])
    assert made.post("/sign-in", {}, trickle)[0] == 408
    assert made.send(b"x").status_code == 202  # and its place is free again


def test_one_user_sends_two_files_at_once_and_all_of_them_eight(made):
    uploads: UploadLimit = made.service.uploads
    with uploads.hold("ann"), uploads.hold("ann") as others:
        assert others == 1
        answer, said = made.send(b"x"), "ann is sending as many as may come, 2; wait until one has come"
        assert (answer.status_code, answer.json()["detail"]) == (429, said)
        assert made.send(b"x", user="bob").status_code == 202
    made.service.uploads = UploadLimit(each=9, most=1)
    with made.service.uploads.hold("bob"):
        assert made.send(b"x").status_code == 503
    assert made.send(b"x").status_code == 202
    assert not made.service.uploads._uploads


def test_a_disk_must_have_room_for_all_that_are_being_sent(board, monkeypatch):
    made = board(4, settings={"upload_bytes": 1024})
    with made.service.uploads.hold("bob"), made.service.uploads.hold("rita"):
        for free, status in ((3 * 1024 - 1, 507), (3 * 1024, 202)):
            monkeypatch.setattr(routes.shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
            assert made.send(b"x").status_code == status


def test_a_body_is_never_unpacked_on_its_way_in(made):
    packed = gzip.compress(bytes(1 << 20))
    sent = {"params": {"model": "m", "file": "s.npz"}, "content": packed}
    headers = {**made.of("ann"), "Content-Encoding": "gzip"}
    seen = made.see(made.client.post("/hidden/clocks/submissions", headers=headers, **sent))
    assert (seen["bytes"], seen["sha256"]) == (len(packed), hashlib.sha256(packed).hexdigest())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "CONNECT", "X"])
def test_other_methods_do_nothing(made, method):
    for where in ("/hidden/clocks", "/submissions", "/sign-in", "/hidden/clocks/task.zip"):
        assert made.client.request(method, where, headers=made.of("root")).status_code == 405


PATHS = [
    "/hidden/%2e%2e/secret", "/hidden/..%2f..%2fsecret", "/hidden/clocks/..%2ftruth.json", "/hidden/clocks/truth.json",
    "/hidden/%00", "/hidden/clocks%00", "/hidden/CLOCKS", "/hidden/" + "a" * 60_000, "/submissions/..%5c..%5csecret",
    "/submissions/%ff%fe", "//hidden/clocks/task.zip",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:40])
def test_addresses_lead_to_what_is_published_and_nowhere_else(made, path):
    for accept in ("application/json", "text/html"):
        answer = made.client.get(path, headers={**made.of("root"), "Accept": accept})
        assert answer.status_code == 404 and len(answer.content) < 3000


def test_parts_of_the_task_file_are_not_made_without_end(made):
    whole = made.client.get("/hidden/clocks/task.zip", headers=made.of("rita"))
    many = "bytes=" + ",".join(f"{k}-{k}" for k in range(0, 50_000, 2))
    for wanted in (many, "bytes=0-", "bytes=-5", "bytes=9-1", "bytes=0-99999999999999999999", "lines=1-2"):
        answer = made.client.get("/hidden/clocks/task.zip", headers={**made.of("rita"), "Range": wanted})
        assert answer.status_code in (200, 206, 400, 416) and len(answer.content) <= 2 * len(whole.content)
    assert whole.headers["Cache-Control"] == "private, no-store"  # a cookie may have opened it: no proxy keeps it


def test_pages_of_the_signed_in_are_kept_nowhere_and_a_session_is_new_and_secure(made):
    cookie = made.service.accounts.sign_in(made.tokens["ann"], hours=1)
    for where in ("/hidden", "/hidden/clocks", "/submissions", "/sign-in", "/submissions/none"):
        answer = made.client.get(where, headers={**PAGE, "Cookie": f"tellapart_session={cookie}"})
        assert answer.headers["Cache-Control"] == "no-store"
    chosen = {"Cookie": "tellapart_session=chosen-by-somebody-else"}
    answer = made.client.post("/sign-in", data={"token": made.tokens["ann"]}, headers=chosen)
    given = answer.headers["Set-Cookie"]
    assert "chosen" not in given and "Secure" not in given  # over http a browser would not send that back
    assert made.client.get("/submissions", headers=chosen).status_code == 401
    client = TestClient(made.client.app, base_url="https://board.example.org", follow_redirects=False)
    answer = client.post("/sign-in", data={"token": made.tokens["ann"]})
    assert {"Secure", "HttpOnly", "SameSite=strict"} <= set(answer.headers["Set-Cookie"].split("; "))


def test_what_a_file_says_is_not_repeated_at_length_nor_turned_around(board):
    made, nasty = board(4), "\u202e<script>\\u001b[2J\\u0000" + "a" * 3_000_000
    seen = made.measured(f'{{"label": "{nasty}", "score": 1}}'.encode(), file="s.jsonl")
    assert seen["state"] == "refused" and len(seen["error"]) < 200 and "aaaa" in seen["error"]
    assert seen["error"].startswith("s.jsonl:1: field 'label': expected ID_c0_i0; got '\\u202e<script>\\x1b[2J\\x00aaa")
    page = made.client.get(f"/submissions/{seen['id']}", headers={**made.of("ann"), **PAGE}).text
    assert "&lt;script&gt;" in page and str(made.folder) not in page
