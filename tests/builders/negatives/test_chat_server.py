"""A served model is asked in OpenAI's words; a busy server is asked again, a refusing one is not; no key leaks."""

from __future__ import annotations

import time
from typing import Any

import pytest

from facts import raises
from tellapart.builders.negatives.language_negatives import ChatOptions, ChatReply, Message, open_chat
from tellapart.errors import ModelError
from tellapart.models.api import connection
from tellapart.models.api.connection import HOST, KEY

HELLO = [Message("system", "Be short."), Message("user", "a dog — é")]


ELSEWHERE = "http://models.example/v1"


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PAUSE", 0.01)
    for name in (KEY, HOST, "http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


def options(server: Any, **changes: Any) -> ChatOptions:
    return ChatOptions(**{"source": server.url, "name": "small", "tries": 3, "timeout": 5.0, **changes})


def test_a_request_says_all_that_the_recipe_says(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "secret-1")
    server.write = lambda body: body["messages"][-1]["content"].upper()
    chat = open_chat(options(server, temperature=0.5, max_tokens=7))
    assert chat(HELLO, 2**40 + 5) == ChatReply("A DOG — É")
    assert server.asked == [
        {
            "path": "/v1/chat/completions",
            "model": "small",
            "messages": [message._asdict() for message in HELLO],
            "temperature": 0.5,
            "max_tokens": 7,
            "seed": 5,
        }
    ]
    assert server.keys == ["Bearer secret-1"]
    assert "secret-1" not in repr(chat.models)


def test_a_newer_model_gets_the_limit_by_its_other_name_at_once_from_then_on(server: Any) -> None:
    server.newer, server.write = True, lambda body: "NONE"
    chat = open_chat(options(server, max_tokens=7))
    assert [chat(HELLO, seed).text for seed in (1, 2)] == ["NONE", "NONE"]
    assert ["max_tokens" in body for body in server.asked] == [True, False, False]
    assert [body.get("max_completion_tokens") for body in server.asked] == [None, 7, 7]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(server: Any, status: int) -> None:
    server.statuses = [status, status]
    server.write = lambda body: "NONE"
    assert open_chat(options(server))(HELLO, 1).text == "NONE"
    assert len(server.asked) == 3
    assert server.keys == [None] * 3


def test_a_server_that_stays_busy_fails_the_candidate_after_its_tries(server: Any) -> None:
    server.statuses = [429] * 9
    with raises(ModelError, "/v1", "3", "HTTP", "429"):
        open_chat(options(server))(HELLO, 1)
    assert len(server.asked) == 3


def test_the_wait_that_a_server_asks_for_is_kept(server: Any) -> None:
    server.statuses, server.headers = [429], {"Retry-After": "1"}
    began = time.monotonic()
    server.write = lambda body: "NONE"
    open_chat(options(server))(HELLO, 1)
    assert time.monotonic() - began >= 1


def test_a_server_that_is_too_slow_or_away_is_named(server: Any) -> None:
    server.seconds = 0.5
    with raises(ModelError, "timed out", "reply"):
        open_chat(options(server, tries=1, timeout=0.1))(HELLO, 1)
    with raises(ModelError, "127.0.0.1:9/v1", "2"):
        open_chat(options(server, source="http://127.0.0.1:9/v1", tries=2))(HELLO, 1)


@pytest.mark.parametrize(("status", "asked"), [(400, 2), (401, 1), (404, 1)])
def test_a_refusal_is_told_and_one_that_all_would_get_is_asked_for_once(server: Any, status: int, asked: int) -> None:
    server.statuses = [status] * 9
    chat = open_chat(options(server))
    for _ in range(2):
        with raises(ModelError, f"HTTP {status}", "not now", "'small'", KEY):
            chat(HELLO, 1)
    assert len(server.asked) == asked


@pytest.mark.parametrize(
    "address",
    ["http://me:secret@127.0.0.1/v1", "http://127.0.0.1/v1?key=secret", "https://models.example/v1#secret"],
)
def test_an_address_that_would_be_recorded_with_a_secret_is_refused(address: str) -> None:
    with raises(ModelError, "http(s)://HOST", "server") as refused:
        open_chat(ChatOptions(source=address, name="small"))
    assert "secret" not in str(refused.value)


def test_a_redirect_does_not_take_the_key_elsewhere(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "secret-1")
    server.statuses, server.headers = [302], {"Location": f"{server.url}/elsewhere"}
    with raises(ModelError, "HTTP", "302"):
        open_chat(options(server))(HELLO, 1)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>", ("JSON", "b'<html>'", "answers")),
        (b"[" * 9_000, ("JSON", "b'[[", "answers")),
        (b'{"choices": [], "choices": [1]}', ("JSON", "answers")),
        (b'{"choices": []}', ("{", "answers")),
        (b"[1]", ("[1]", "answers")),
        (b'{"choices": [{"message": {"content": 3}}]}', ("3", "answers", "text")),
    ],
)
def test_an_answer_that_is_no_chat_completion_is_shown(server: Any, body: bytes, says: str | tuple[str, ...]) -> None:
    server.body = body
    with raises(ModelError, says):
        open_chat(options(server))(HELLO, 1)


def test_a_reply_that_was_cut_off_says_so_and_none_is_empty(server: Any) -> None:
    server.finish, server.write = "length", lambda body: "CHANGE: a"
    assert open_chat(options(server))(HELLO, 1).cut
    server.finish, server.write = "stop", lambda body: None
    assert open_chat(options(server))(HELLO, 1) == ChatReply("")


def test_what_a_recipe_lacks_is_said_before_anything_is_asked(server: Any) -> None:
    with raises(ModelError, "'name'", "server"):
        open_chat(options(server, name=""))
    with raises(ModelError, "models/chat", "model", "'name'"):
        open_chat(ChatOptions(source="models/chat", name="small"))
    assert server.asked == []


@pytest.mark.parametrize(
    "address",
    ["http:///v1", "http://[::1/v1", "http://127.0.0.1:a/v1", "http://local\thost/v1", "http://a\\@127.0.0.1/v1"],
)
def test_what_is_no_address_is_refused_in_one_line(address: str) -> None:
    with raises(ModelError, "https://HOST", "server"):
        open_chat(ChatOptions(source=address, name="small"))


@pytest.mark.parametrize(
    "host", ["models.example", "192.168.0.7", "localhost.example", "10.0.0.1", "127.0.0.1.example"]
)
def test_another_machine_is_not_asked_over_plain_http(host: str) -> None:
    for scheme in ("http", "HTTP"):
        with raises(ModelError, host, "https://", "insecure=True"):
            open_chat(ChatOptions(source=f"{scheme}://{host}/v1", name="small"))
    for source in (f"https://{host}/v1", f"HTTPS://{host}:8443/v1"):
        assert open_chat(ChatOptions(source=source, name="small")).models == {"small": f"as served by {source}"}


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "127.8.9.10:9", "[::1]:9"])
def test_this_machine_is_asked_over_plain_http(host: str) -> None:
    assert open_chat(ChatOptions(source=f"http://{host}/v1", name="small")).models


def test_what_is_for_this_machine_passes_no_proxy(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.write = lambda body: "NONE"
    assert open_chat(options(server, tries=1))(HELLO, 1).text == "NONE"


def test_a_key_goes_to_no_host_that_only_the_recipe_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "secret-1")
    with raises(ModelError, KEY, "models.example", f"{HOST}=models.example") as refused:
        open_chat(ChatOptions(source="https://models.example/v1", name="small"))
    assert "secret-1" not in str(refused.value)


@pytest.mark.parametrize(("owner", "sent"), [("models.example", "Bearer secret-1"), ("other.example", None)])
def test_a_key_goes_to_the_host_that_the_user_names(
    server: Any, monkeypatch: pytest.MonkeyPatch, owner: str, sent: str | None
) -> None:
    monkeypatch.setenv(KEY, "secret-1")
    monkeypatch.setenv(HOST, owner)
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))  # stands in for the way to that host
    server.write, server.statuses = lambda body: "NONE", [200, 401]
    chat = open_chat(options(server, source=ELSEWHERE), insecure=True)
    assert chat(HELLO, 1).text == "NONE"
    with raises(ModelError, KEY, "sent" if sent else owner):
        chat(HELLO, 1)
    assert server.keys == [sent, sent]
    assert server.asked[0]["path"] == f"{ELSEWHERE}/chat/completions"


def test_a_key_of_another_host_is_not_sent_to_this_machine(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "secret-1")
    monkeypatch.setenv(HOST, "models.example")
    server.write = lambda body: "NONE"
    open_chat(options(server))(HELLO, 1)
    assert server.keys == [None]


def test_a_key_with_the_end_of_a_line_in_it_is_refused(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "secret-1\nX-Other: 1")
    with raises(ModelError, KEY, "key") as refused:
        open_chat(options(server))
    assert "secret-1" not in str(refused.value)
