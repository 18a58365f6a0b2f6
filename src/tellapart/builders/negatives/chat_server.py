"""A language model behind any server that speaks OpenAI's chat completions: vLLM, llama.cpp, Ollama, or a provider."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from email.message import Message as Headers
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from tellapart.builders.negatives.chat import ChatOptions, Message, Reply
from tellapart.errors import ModelError

__all__ = ["ServedChat"]

#: Statuses after which the same request may succeed: too many requests, and a server that is ill or away.
_PASSING = frozenset({408, 409, 429, 500, 502, 503, 504})
#: Statuses that every other request would get, too: no key, no right, no such address or model.
_FINAL = frozenset({401, 403, 404})
#: Seconds to wait after the first failure, doubled after each; and at most, whatever the server asks for.
_PAUSE, _LONGEST = 0.5, 60.0
#: A reply of a few hundred tokens has a few kilobytes; more is no reply.
_BYTES = 4_000_000


class ServedChat:
    """A model on a server, asked by HTTP; a request that a busy or ill server refuses is made again, with pauses.

    With temperature 0, or with a server that honours `seed`, the reply is the same each time; what else a server does is
    its own affair, and the journal keeps each candidate's outcome, so that none is asked for twice.

    Raises:
        ModelError: the variable that is to hold the key is not set, or the address holds a password or a query, which
            would stand in every record of the set.

    >>> ServedChat(ChatOptions(source="http://localhost:8000/v1/", name="small")).models
    {'small': 'as served by http://localhost:8000/v1'}
    """

    def __init__(self, options: ChatOptions) -> None:
        self._options = options
        self._base = options.source.rstrip("/")
        address = urlsplit(self._base)
        if address.username or address.password or address.query or not address.hostname:
            raise ModelError(
                "the address of a server is http(s)://HOST[:PORT]/PATH, without a password or a query, for it is recorded; "
                "name the variable that holds the key with the key 'key_variable'"
            )
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if options.key_variable:
            key = os.environ.get(options.key_variable, "").strip()
            if not key:
                raise ModelError(
                    f"{self._base}: the environment variable {options.key_variable} is to hold its key and is not set"
                )
            self._headers["Authorization"] = f"Bearer {key}"
        self._refused: str | None = None
        # A redirect would take the key to another server.
        self._open = urllib.request.build_opener(_NoRedirect).open

    @property
    def models(self) -> Mapping[str, str]:
        """The model's name; a server does not say which revision it serves."""
        return {self._options.name: f"as served by {self._base}"}

    def __call__(self, messages: Sequence[Message], seed: int, /) -> Reply:
        """Return the reply.

        Raises:
            ModelError: the server refuses the request, cannot be reached in as many tries as the options allow, or
                answers something else than a chat completion.
        """
        body = {
            "model": self._options.name,
            "messages": [message._asdict() for message in messages],
            "temperature": self._options.temperature,
            "max_tokens": self._options.max_tokens,
            "seed": seed % 2**31,  # servers read 32 bits, some with a sign
        }
        data = json.dumps(body).encode()
        if self._refused is not None:  # a build has thousands of candidates, and the server said no
            raise ModelError(self._refused)
        for left in reversed(range(self._options.tries)):
            try:
                return self._reply(self._post(data))
            except _PassingError as error:
                if not left:
                    tried = f"{self._options.tries} tries" if self._options.tries > 1 else "one try"
                    raise ModelError(f"{self._base}: no reply in {tried}: {error}") from error
                waited = error.wait or _PAUSE * 2 ** (self._options.tries - 1 - left)
                time.sleep(min(waited, _LONGEST))
        raise AssertionError("unreachable: the last try returns or raises")

    def _post(self, data: bytes) -> Any:
        request = urllib.request.Request(  # noqa: S310  (the scheme is http or https: `ChatOptions.served`)
            f"{self._base}/chat/completions", data, self._headers, method="POST"
        )
        try:
            with self._open(request, timeout=self._options.timeout) as response:
                found = response.read(_BYTES)
        except urllib.error.HTTPError as refusal:
            with refusal:
                said = " ".join(refusal.read(500).decode("utf-8", "replace").split())
            if refusal.code in _PASSING:
                raise _PassingError(f"HTTP {refusal.code} {said:.200}", _seconds(refusal.headers)) from refusal
            refused = (
                f"{self._base} refuses the request: HTTP {refusal.code} {said:.200}; check the address, the model's name "
                f"{self._options.name!r} and the key"
            )
            self._refused = refused if refusal.code in _FINAL else None
            raise ModelError(refused) from refusal
        except (OSError, HTTPException) as error:  # URLError and timeouts are OSErrors
            raise _PassingError(str(getattr(error, "reason", None) or error or type(error).__name__)) from error
        try:
            return json.loads(found)
        except ValueError as error:
            raise ModelError(f"{self._base} answers something else than JSON: {found[:80]!r}") from error

    def _reply(self, answer: Any) -> Reply:
        try:
            choice = answer["choices"][0]
            text, reason = choice["message"]["content"], choice.get("finish_reason")
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ModelError(f"{self._base} answers no chat completion: {json.dumps(answer):.200}") from error
        if text is not None and not isinstance(text, str):
            raise ModelError(f"{self._base} answers no text: {json.dumps(text):.200}")
        return Reply(text or "", cut=reason == "length")


class _PassingError(Exception):
    """The same request may succeed later; `wait` is for how many seconds the server asks."""

    def __init__(self, said: str, wait: float = 0.0) -> None:
        super().__init__(said)
        self.wait = wait


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: object, **_options: object) -> None:
        return None


def _seconds(headers: Headers) -> float:
    """Read `Retry-After`, if it is a number of seconds."""
    value = (headers.get("Retry-After") or "").strip()
    return float(value) if value.isascii() and value.isdigit() else 0.0
