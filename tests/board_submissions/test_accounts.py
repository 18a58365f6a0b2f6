"""Invalid tokens, roles that are not allowed, forms of other sites, and too many requests."""

import sqlite3
from collections.abc import Iterator

import pytest

from facts import raises
from tellapart.board.submissions.accounts import Database, RefusedError
from tellapart.errors import StoreError


def stolen(made) -> dict[str, str]:
    """Invalid tokens by what is wrong with them."""
    good = made.tokens["ann"]
    _, id_, secret = good.split("_", 2)
    other = made.tokens["root"].split("_", 2)[2]
    revoked_id, revoked = made.service.accounts.issue("ann", days=1, by="test")
    made.service.accounts.revoke(revoked_id, by="root")
    digest = made.service.database.one("SELECT hex(digest) AS hex FROM token WHERE id = ?", id_)["hex"]
    return {
        "revoked": revoked, "another's secret": f"tap_{id_}_{other}", "no secret": f"tap_{id_}_",
        "secret without its end": good[:-1], "unknown id": f"tap_{'0' * 12}_{secret}",
        "the digest itself": f"tap_{id_}_{digest}", "a query": "tap_' OR 1=1 --_x", "nothing": "",
        "not ASCII": "tap_é_ü",
    }  # fmt: skip


def test_a_token_that_is_not_good_opens_nothing_and_gets_no_reason(made):
    made.service.sign_ins.a_minute = 1000
    made.service.sign_ins._buckets.clear()
    for what, token in stolen(made).items():
        headers = {"Authorization": f"Bearer {token}".encode()}
        for method, where in (("GET", "/submissions"), ("POST", "/hidden/clocks/submissions"), ("GET", "/admin/log")):
            answer = made.client.request(method, where, headers=headers)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), what
            assert "revoked" not in answer.json()["detail"] or "mistyped, expired or revoked" in answer.json()["detail"]
    why = {entry["about"]["why"] for entry in made.service.log() if entry["what"] == "token refused"}
    assert why == {"revoked", "wrong secret"}


def test_a_token_expires_and_its_sessions_with_it(made):
    cookie = made.service.accounts.sign_in(made.tokens["ann"], hours=10_000)
    assert made.service.accounts.of_session(cookie).user == "ann"
    made.clock.now += 366 * 86_400
    assert made.client.get("/submissions", headers=made.of("ann")).status_code == 401
    assert made.service.accounts.of_session(cookie) is None
    assert made.service.log()[-1]["about"]["why"] == "expired"
    made.clock.now -= 366 * 86_400  # a clock that is set back makes it no better, and nobody else's worse
    assert made.client.get("/submissions", headers=made.of("ann")).status_code == 401
    assert made.client.get("/submissions", headers=made.of("bob")).status_code == 200


def test_revoking_a_token_ends_what_is_signed_in_with_it(made):
    cookie = made.service.accounts.sign_in(made.tokens["ann"], hours=1)
    id_ = made.tokens["ann"].split("_")[1]
    assert made.client.post(f"/admin/tokens/{id_}/revoke", headers=made.of("root")).json() == {"revoked": id_}
    assert made.service.accounts.of_session(cookie) is None
    assert made.client.post(f"/admin/tokens/{id_}/revoke", headers=made.of("root")).status_code == 404


@pytest.mark.parametrize("door", ["token", "form"])
@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_a_file_whose_token_ends_while_it_comes_is_not_taken(made, door, end):
    data, headers, where = made.npz(made.right()), made.of("ann"), "/hidden/clocks/submissions?model=m&file=s.npz"
    if door == "form":
        data, headers = made.form(('name="file"; filename="s.npz"', data))

    def pieces() -> Iterator[bytes]:
        yield data[:200]
        if end == "revoked":
            made.service.accounts.revoke(made.tokens["ann"].split("_")[1], by="root")
        else:
            made.clock.now += 365 * 86_400
        yield data[200:]

    answer = made.client.post(where, content=pieces(), headers=headers)
    assert (answer.status_code, "nothing was counted" in answer.text) == (401, True)
    assert (made.service.database.all("SELECT * FROM submission"), list(made.queue.folder.iterdir())) == ([], [])


ALLOWED = [
    ("GET", "/hidden/clocks/task.zip", {"reader", "submitter", "admin"}),
    ("GET", "/submissions", {"reader", "submitter", "admin"}),
    ("POST", "/hidden/clocks/submissions?model=m&file=s.npz", {"submitter", "admin"}),
    ("POST", "/admin/users?name=eve&role=admin", {"admin"}),
    ("POST", "/admin/tokens?user=ann", {"admin"}),
    ("POST", "/admin/tokens/x/revoke", {"admin"}),
    ("POST", "/admin/hidden/clocks/close", {"admin"}),
    ("GET", "/admin/log", {"admin"}),
]


@pytest.mark.parametrize(("method", "where", "roles"), ALLOWED)
def test_each_role_does_what_it_may_and_no_more(made, method, where, roles):
    assert made.client.request(method, where).status_code == 401
    for user, role in (("rita", "reader"), ("ann", "submitter"), ("root", "admin")):
        status = made.client.request(method, where, headers=made.of(user)).status_code
        assert (status != 403) == (role in roles), (role, status)


def test_nobody_sees_what_another_sent_and_administration_takes_a_token_alone(made):
    id_ = made.send(b"x").json()["id"]
    assert made.client.get(f"/submissions/{id_}", headers=made.of("bob")).status_code == 404
    assert made.client.get(f"/submissions/{id_}", headers=made.of("root")).status_code == 200
    assert made.client.get("/submissions", headers=made.of("bob")).json()["submissions"] == []
    cookie = made.service.accounts.sign_in(made.tokens["root"], hours=1)
    answer = made.client.post("/admin/hidden/clocks/close", headers={"Cookie": f"tellapart_session={cookie}"})
    assert answer.status_code == 401
    assert not made.service.queue.is_closed("clocks")


def test_a_browser_signs_in_sends_a_form_and_signs_out(made):
    page = {"Accept": "text/html"}
    assert "Your token" in made.client.get("/sign-in", headers=page).text
    # Origin: null is what a browser sends from a page with Referrer-Policy: no-referrer, as the board's are.
    own = {**page, "Origin": "null", "Sec-Fetch-Site": "same-origin"}
    answer = made.client.post("/sign-in", data={"token": made.tokens["ann"]}, headers=own)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/submissions")
    assert {"HttpOnly", "SameSite=strict"} <= set(answer.headers["Set-Cookie"].split("; "))
    text = made.client.get("/hidden/clocks", headers=page).text
    key = text.split('name="key" value="')[1].split('"')[0]
    sent = {"files": {"file": ("mine.npz", made.npz(made.right()))}, "headers": page}
    where = "/hidden/clocks/submissions"
    assert made.client.post(where, data={"model": "m", "key": key}, **sent).status_code == 303
    # Another site can make the browser send its cookie, and cannot know the key.
    for data in ({"model": "m"}, {"model": "m", "key": ""}, {"model": "m", "key": key[:-1] + "0"[key[-1] == "0" :]}):
        answer = made.client.post(where, data=data, **sent)
        assert (answer.status_code, "not from the board" in answer.text) == (403, True)
    foreign = {"headers": {**page, "Origin": "https://evil.example"}, "files": sent["files"]}
    assert "another site" in made.client.post(where, data={"model": "m", "key": key}, **foreign).text
    assert made.client.post(where, content=b"x", params={"model": "m", "file": "s.npz"}).status_code == 401
    assert len(made.client.get("/submissions").json()["submissions"]) == 1
    assert made.client.post("/sign-out", data={"key": "x"}).status_code == 403
    assert made.client.post("/sign-out", data={"key": key}).status_code == 303
    assert made.client.get("/submissions").status_code == 401


def test_a_sign_in_from_another_site_is_refused(made):
    data = {"token": made.tokens["ann"]}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert made.client.post("/sign-in", data=data, headers=headers).status_code == 403
    assert made.client.post("/sign-in", content=b"a" * 9000).status_code == 413


def test_asking_too_often_is_slowed_down(board):
    made = board(4, settings={"requests_a_minute": 5})
    found = [made.client.get("/submissions", headers=made.of("ann")).status_code for _ in range(7)]
    assert found == [200] * 5 + [429] * 2
    assert made.client.get("/submissions", headers=made.of("bob")).status_code == 200  # nobody else waits for it
    assert "try again in" in made.client.get("/submissions", headers=made.of("ann")).json()["detail"]


def test_the_log_is_only_added_to_and_the_database_holds_no_token(made):
    before = made.service.log()
    assert {entry["what"] for entry in before} == {"user added", "token issued"}
    for query in ("DELETE FROM log", "UPDATE log SET who = 'nobody'"):
        with made.service.database.change() as rows, pytest.raises(sqlite3.IntegrityError, match="only added to"):
            rows.execute(query)
    assert made.service.log() == before
    assert made.client.get("/admin/log?after=3", headers=made.of("root")).json()["entries"][0]["id"] == 4
    cookie = made.service.accounts.sign_in(made.tokens["ann"], hours=1)
    data = b"".join(path.read_bytes() for path in (made.folder / "state").glob("submissions.sqlite*"))
    for secret in (made.tokens["ann"].split("_", 2)[2], cookie):
        assert secret.encode() not in data
    with raises(RefusedError, "3660", "0"):
        made.service.accounts.issue("ann", days=0, by="test")


@pytest.mark.parametrize(
    ("name", "role", "status"),
    [("ann", "reader", 409), ("a b", "reader", 422), ("x", "king", 422), ("Server", "admin", 422)],
)
def test_users_that_cannot_be_are_refused(made, name, role, status):
    answer = made.client.post("/admin/users", params={"name": name, "role": role}, headers=made.of("root"))
    assert answer.status_code == status
    assert made.client.post("/admin/tokens?user=nobody", headers=made.of("root")).status_code == 404


def test_a_file_that_is_no_database_of_this_version_is_refused(tmp_path):
    (tmp_path / "a.sqlite").write_bytes(b"no database" * 100)
    with raises(StoreError, "database"):
        Database(tmp_path / "a.sqlite")
    Database(tmp_path / "b.sqlite")
    with sqlite3.connect(tmp_path / "b.sqlite") as rows:
        rows.execute("PRAGMA user_version = 9")
    rows.close()
    with raises(StoreError, "9", "tellapart reads", "3"):
        Database(tmp_path / "b.sqlite")


@pytest.mark.slow
@pytest.mark.parametrize("back", [60.0, 400 * 86_400.0])
def test_limits_count_what_was_sent_later_than_now(board, back):
    made = board(8, limits={"daily": 2})
    for share in (1.0, 0.5):
        made.measured(made.npz(made.right(share)))
    assert made.send(made.npz(made.right(0.25))).status_code == 429
    made.clock.now -= back
    refused = made.send(made.npz(made.right(0.25)))
    assert refused.status_code == 429 and "submissions (2)" in refused.json()["detail"]


@pytest.mark.slow
def test_a_file_that_waits_is_measured_and_counted_once(board):
    made = board(8, limits={"daily": 1})
    first, second = made.send(made.npz(made.right())), made.send(made.npz(made.right(0.5)))
    made.clock.now -= 3 * 86_400
    made.work()
    assert (made.see(first)["state"], made.see(second)["state"]) == ("done", "surplus")


@pytest.mark.slow
def test_a_session_that_was_over_is_not_open_again(made):
    accounts = made.service.accounts
    cookie = accounts.sign_in(made.tokens["ann"], hours=1)
    for later, is_open in ((0, True), (3601, False), (-7200, False)):
        made.clock.now += later
        assert (accounts.of_session(cookie) is not None) == is_open
    made.clock.now += 3600
    assert accounts.of_session(accounts.sign_in(made.tokens["ann"], hours=1)).user == "ann"
