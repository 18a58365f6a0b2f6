"""A served model is asked in OpenAI's words; a busy server is asked again, a refusing one is not; no key leaks."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tellapart.builders.negatives import chat_server
from tellapart.builders.negatives.chat import ChatOptions, ChatReply, Message
from tellapart.builders.negatives.open_chat import open_chat
from tellapart.errors import ModelError

HELLO = [Message("system", "Be short."), Message("user", "a dog — é")]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_server, "_PAUSE", 0.01)


def options(server: Any, **changes: Any) -> ChatOptions:
    return ChatOptions(**{"source": server.url, "name": "small", "tries": 3, "timeout": 5.0, **changes})


def test_a_request_says_all_that_the_recipe_says(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_CHAT_KEY", "secret-1")
    server.write = lambda body: body["messages"][-1]["content"].upper()
    chat = open_chat(options(server, key_variable="TEST_CHAT_KEY", temperature=0.5, max_tokens=7))
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


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(server: Any, status: int) -> None:
    server.statuses = [status, status]
    server.write = lambda body: "NONE"
    assert open_chat(options(server))(HELLO, 1).text == "NONE"
    assert len(server.asked) == 3
    assert server.keys == [None] * 3


def test_a_server_that_stays_busy_fails_the_candidate_after_its_tries(server: Any) -> None:
    server.statuses = [429] * 9
    with pytest.raises(ModelError, match=r"/v1: no reply in 3 tries: HTTP 429 .*not now"):
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
    with pytest.raises(ModelError, match=r"no reply in one try: timed out"):
        open_chat(options(server, tries=1, timeout=0.1))(HELLO, 1)
    with pytest.raises(ModelError, match=r"127.0.0.1:9/v1: no reply in 2 tries: .*refused"):
        open_chat(options(server, source="http://127.0.0.1:9/v1", tries=2))(HELLO, 1)


@pytest.mark.parametrize(("status", "asked"), [(400, 2), (401, 1), (404, 1)])
def test_a_refusal_is_told_and_one_that_all_would_get_is_asked_for_once(server: Any, status: int, asked: int) -> None:
    server.statuses = [status] * 9
    chat = open_chat(options(server))
    says = rf"refuses the request: HTTP {status} .*not now.*; check the address, the model's name 'small' and the key"
    for _ in range(2):
        with pytest.raises(ModelError, match=says):
            chat(HELLO, 1)
    assert len(server.asked) == asked


@pytest.mark.parametrize("address", ["http://me:secret@127.0.0.1/v1", "http://127.0.0.1/v1?key=secret", "http:///v1"])
def test_an_address_that_would_be_recorded_with_a_secret_is_refused(address: str) -> None:
    with pytest.raises(ModelError, match=r"the address of a server is http\(s\)://HOST") as refused:
        open_chat(ChatOptions(source=address, name="small"))
    assert "secret" not in str(refused.value)


def test_a_redirect_does_not_take_the_key_elsewhere(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_CHAT_KEY", "secret-1")
    server.statuses, server.headers = [302], {"Location": f"{server.url}/elsewhere"}
    with pytest.raises(ModelError, match="refuses the request: HTTP 302"):
        open_chat(options(server, key_variable="TEST_CHAT_KEY"))(HELLO, 1)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>", "answers something else than JSON: b'<html>'"),
        (b'{"choices": []}', r"answers no chat completion: \{"),
        (b"[1]", r"answers no chat completion: \[1\]"),
        (b'{"choices": [{"message": {"content": 3}}]}', "answers no text: 3"),
    ],
)
def test_an_answer_that_is_no_chat_completion_is_shown(server: Any, body: bytes, says: str) -> None:
    server.body = body
    with pytest.raises(ModelError, match=says):
        open_chat(options(server))(HELLO, 1)


def test_a_reply_that_was_cut_off_says_so_and_none_is_empty(server: Any) -> None:
    server.finish, server.write = "length", lambda body: "CHANGE: a"
    assert open_chat(options(server))(HELLO, 1).cut
    server.finish, server.write = "stop", lambda body: None
    assert open_chat(options(server))(HELLO, 1) == ChatReply("")


def test_what_a_recipe_lacks_is_said_before_anything_is_asked(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_CHAT_KEY", raising=False)
    with pytest.raises(
        ModelError, match="its key is read from the environment variable TEST_CHAT_KEY, which is not set"
    ):
        open_chat(options(server, key_variable="TEST_CHAT_KEY"))
    with pytest.raises(ModelError, match="is a server; say which of its models with the key 'name'"):
        open_chat(options(server, name=""))
    with pytest.raises(
        ModelError, match="models/chat is a local model; the keys 'name' and 'key_variable' are a server's"
    ):
        open_chat(ChatOptions(source="models/chat", name="small"))
    assert server.asked == []
