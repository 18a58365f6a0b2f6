"""A connection to a server that speaks OpenAI's API: who may be asked, with which key, how often, and in which form.

The address comes from the command line or from a recipe, which a stranger may have written; the user's environment
holds the key and names its server. The forms of requests for vectors and scores are tables of `forms.toml`.
"""

from __future__ import annotations

import base64
import io
import ipaddress
import json
import logging
import math
import os
import time
import tomllib
import urllib.request
from collections.abc import Mapping
from functools import cache
from http.client import HTTPException, HTTPResponse
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, TypeAdapter

from tellapart.data.strict_json import decode_text, parse_json
from tellapart.errors import DataError, ModelError, plain
from tellapart.models.protocols import Pixels

KEY, HOST = "TELLAPART_API_KEY", "TELLAPART_API_HOST"
"""The environment variables with the key of a server, and with the name of the host that it is for."""

#: Statuses after which the same request may succeed: too many requests, a server in trouble, or (0) no answer at all.
_TRANSIENT = frozenset({0, 408, 409, 429, 500, 502, 503, 504})
#: Statuses that every other request would get, too: no key, no right, no such address or model.
_FINAL = frozenset({401, 403, 404})
#: Seconds to wait after the first failure, doubled after each; and at most, even if the server asks for more.
_PAUSE, _LONGEST = 0.5, 60.0
#: Failures of one request after which the user is warned: a progress that stands still has a reason.
_WARNED = 4
#: A reply of a few hundred tokens has a few kilobytes; a longer body is not read to its end.
_BYTES = 4_000_000

#: The field of the token limit for OpenAI's newer models; other servers call it `max_tokens`.
_NEW_LIMIT = "max_completion_tokens"

_log = logging.getLogger(__name__)


class Connection:
    """Requests to one server, repeated after pauses if the server is busy or cannot be reached.

    Several threads may use it at once.
    """

    def __init__(
        self, base: str, model: str, *, timeout: float, tries: int, insecure: bool, key_header: str = "Authorization"
    ) -> None:
        self.base = base.rstrip("/")
        self.model, self._timeout, self._tries, self._refusal = model, timeout, tries, ""
        self._warned, self._limit = False, "max_tokens"
        host = _read_host(self.base, insecure)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        key, self._key = _key_for(host)
        if key:
            self._headers[key_header] = f"Bearer {key}" if key_header == "Authorization" else key
        # A request to this machine goes through no proxy: that would be another machine, reached over plain http.
        proxies = [urllib.request.ProxyHandler({})] if _is_here(host) else []
        self._open = urllib.request.build_opener(_EveryStatus, *proxies).open

    def ask(self, path: str, body: dict[str, Any] | None = None, *, tries: int | None = None) -> Any:
        """Return the JSON of an answer: to a POST of the body, or to a GET if there is none.

        A path that begins with `/` is beside the API's `/v1`, others are in it.
        """
        if self._refusal:  # a run has thousands of requests, and the server refuses all
            raise ModelError(self._refusal)
        tries = tries or self._tries
        data, problem = None if body is None else json.dumps(body).encode(), ""
        for attempt in range(tries):
            status, answer, wait = self._send_request(path, data)
            if 200 <= status < 300:
                try:
                    return parse_json(decode_text(answer, self.base), self.base)
                except DataError as error:
                    advice = "is it the address of the API? (most end in /v1)"
                    raise ModelError(
                        f"{self.base} answers something else than JSON: {answer[:80]!r}; {advice}"
                    ) from error
            text = " ".join(answer[:500].decode("utf-8", "replace").split())
            problem = f"HTTP {status} {text:.200}" if status else text
            if status not in _TRANSIENT:
                refusal = (
                    f"{self._locate(path)} refuses the request: {problem}; check the address (most end in /v1), the "
                    f"model's name {self.model!r} and the key: {self._key}"
                )
                self._refusal = refusal if data and status in _FINAL else ""
                raise ModelError(refusal)
            if attempt + 1 < tries:
                pause = min(wait or _PAUSE * 2**attempt, _LONGEST)
                again = plain(f"{self.base}: {problem}; asked again in {pause:.1f} s (try {attempt + 2} of {tries})")
                if attempt + 1 == _WARNED and not self._warned:
                    self._warned = True
                    _log.warning("%s", again)
                else:
                    _log.info("%s", again)
                time.sleep(pause)
        raise ModelError(
            f"{self.base}: no reply in {f'{tries} tries' if tries > 1 else 'one try'}: {problem}; see to the server "
            "or the address, and give the same command again"
        )

    def complete(self, body: Mapping[str, Any], tokens: int) -> Completion:
        """Return the reply to a chat of at most so many tokens; the limit is named as the model knows it."""
        limit = self._limit
        try:
            answer = self.ask("chat/completions", {**body, limit: tokens})
        except ModelError as error:
            if limit == _NEW_LIMIT or _NEW_LIMIT not in str(error):  # the error of newer models names it
                raise
            self._limit = _NEW_LIMIT
            answer = self.ask("chat/completions", {**body, _NEW_LIMIT: tokens})
        return Completion.read(answer, self.base)

    def _locate(self, path: str) -> str:
        return f"{self.base.removesuffix('/v1')}{path}" if path.startswith("/") else f"{self.base}/{path}"

    def _send_request(self, path: str, data: bytes | None) -> tuple[int, bytes, float]:
        """Return the status (0: no answer), the body or the error, and the seconds that the server asks to wait."""
        # http or https: `_read_host`
        request = urllib.request.Request(self._locate(path), data, self._headers)  # noqa: S310
        try:
            with self._open(request, timeout=self._timeout) as response:
                wait = (response.headers.get("Retry-After") or "").strip()
                seconds = float(wait) if wait.isascii() and wait.isdigit() else 0.0
                return response.status, response.read(_BYTES), seconds
        except (OSError, HTTPException) as error:  # URLError and timeouts are OSErrors
            return 0, str(getattr(error, "reason", None) or error or type(error).__name__).encode(), 0.0


def _read_host(base: str, insecure: bool) -> str:
    """Return the host of a server's address, in lower case; raise if it may not be asked."""
    try:
        address = urlsplit(base)
        has_host = bool(address.hostname) and (address.port is None or address.port > 0)
        has_host = has_host and address.scheme in {"http", "https"}
    except ValueError:  # brackets without an IPv6 address, a port that is not a number
        has_host = False
    # urlsplit passes over characters that the request would not, and then they name two hosts.
    if not has_host or not base.isprintable() or " " in base or "\\" in base:
        raise ModelError(
            f"{base!r:.200} is not an address of a server; expected https://HOST[:PORT]/PATH, or http://localhost:PORT/PATH"
        )
    if address.username or address.password or address.query or address.fragment:
        raise ModelError(
            "the address of a server is http(s)://HOST[:PORT]/PATH, without a password, a query or a fragment, for it "
            f"is recorded; a key belongs into the environment variable {KEY}"
        )
    host = str(address.hostname)
    if address.scheme != "https" and not _is_here(host) and not insecure:
        raise ModelError(
            f"{base}: {host} is another machine, and over http all on the way can read the captions and the key; write "
            "https://, or allow http with insecure=True"
        )
    return host


def _is_here(host: str) -> bool:
    """Whether a host is this machine by its name alone, without asking a name server."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _key_for(host: str) -> tuple[str, str]:
    """Return the key of the environment if it is this host's, else an empty text, and for messages, what became of it.

    A recipe may name the host: without the user's word for it, a stranger's recipe could collect the key.
    """
    key, owner = (os.environ.get(name, "").strip() for name in (KEY, HOST))
    if not (key.isascii() and key.isprintable()):
        raise ModelError(f"{KEY} holds a character that no key has, such as the end of a line; set it again")
    if key and not owner and not _is_here(host):
        raise ModelError(
            f"the key in {KEY} would go to {host}; if it is that server's key, set {HOST}={host}, or else unset {KEY}"
        )
    if owner.lower() not in {"", host}:
        return "", f"that in {KEY} is kept for {owner}" if key else f"{KEY} is not set"
    return key, f"that in {KEY} was sent" if key else f"{KEY} is not set"


class _EveryStatus(urllib.request.HTTPErrorProcessor):
    """Return every answer: an error's body names the mistake, and a redirect would take the key to another server."""

    def http_response(self, request: urllib.request.Request, response: HTTPResponse) -> HTTPResponse:  # noqa: ARG002
        return response

    https_response = http_response


#: A blank before a token, as servers show it: plain, or by the sign of SentencePiece or GPT-2.
_BLANKS = " \N{LOWER ONE EIGHTH BLOCK}\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}"


class Completion(BaseModel):
    """A reply, as it is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    cut: bool = False  # whether it ended at the limit of tokens
    first: tuple[tuple[str, float], ...] | None = None  # candidates for the first token, log-probabilities in nats
    version: str = ""  # the server's name of its version of the model (`system_fingerprint`)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0  # in the server's unit, if it names one

    @classmethod
    def read(cls, answer: Any, base: str) -> Completion:
        """Read a server's answer to `chat/completions`; `base` is its address, for messages."""
        try:
            choice = answer["choices"][0]
            message, reason = choice["message"], choice.get("finish_reason")
            # A refusal has a field of its own, and no content. Content in parts may hold a thought as another part.
            text = message.get("refusal") if message.get("content") is None else message["content"]
            if isinstance(text, list):
                text = "".join(part["text"] for part in text if part["type"] == "text")
            listed = ((choice.get("logprobs") or {}).get("content") or [{}])[0].get("top_logprobs")
            usage = answer.get("usage") or {}
            first = tuple((str(entry["token"]), float(entry["logprob"])) for entry in listed or ()) or None
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise ModelError(f"{base} answers no chat completion: {json.dumps(answer):.200}") from error
        if reason == "error":  # of a provider behind a router: no answer of the model, and none to keep
            raise ModelError(f"{base} answers with an error: {json.dumps(choice):.200}; give the same command again")
        if text is not None and not isinstance(text, str):
            raise ModelError(f"{base} answers no text: {json.dumps(text):.200}")
        if wrong := next((entry for entry in first or () if not entry[1] <= 1e-3), None):  # NaN, too; 0 may be rounded
            raise ModelError(f"{base} gives a log-probability that is none: {wrong[0]!r} {wrong[1]}")
        return cls(
            text=text or "",
            cut=reason == "length",
            first=first,
            version=str(answer.get("system_fingerprint") or ""),
            prompt_tokens=_read_number(usage.get("prompt_tokens"), int),
            completion_tokens=_read_number(usage.get("completion_tokens"), int),
            cost=_read_number(usage.get("cost"), float),
        )

    def probability(self, word: str) -> tuple[float, bool]:
        """Return P(the first token is the word), blanks before it aside, and whether it is a bound.

        If the server lists the `k` likeliest tokens and the word is not among them, it is at most as likely as the
        last of them, and at most the rest that they leave.
        """
        listed = [(token.lstrip(_BLANKS), math.exp(log)) for token, log in self.first or ()]
        if spellings := [value for token, value in listed if token == word]:  # with a blank and without
            return min(1.0, sum(spellings)), False
        unlisted = 1.0 - sum(value for _, value in listed)
        return max(0.0, min([unlisted, *(value for _, value in listed)])), True


def _read_number(value: object, kind: type) -> Any:
    return kind(value) if isinstance(value, (int, float)) and math.isfinite(value) and value >= 0 else kind(0)


class Form(BaseModel, frozen=True, extra="forbid"):
    """A request for a vector, or for scores of one text with several images; the file explains the fields."""

    source: str
    path: str
    answer: str
    image: Any
    body: dict[str, Any]
    text: Any = None  # None of a form of scores
    instruction: str | None = None  # the default; None of a form without a place for one
    lists_models: bool = True  # at /models, so that the name may be left out
    key_header: str = "Authorization"

    @property
    def scores(self) -> bool:
        """Whether it asks for scores."""
        return self.text is None

    def image_part(self, pixels: Pixels) -> Any:
        """Return a picture as a part of the request."""
        url = picture_url(pixels)
        return fill_template(self.image, {"{url}": url, "{base64}": url.partition(",")[2]})

    def request(self, model: str, **values: Any) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of a request; `values` are what its braces name."""
        body = fill_template(self.body, {f"{{{name}}}": value for name, value in values.items()}, model)
        return self.path.replace("{model}", model), {"model": model} | body

    def read(self, answer: Any, count: int) -> list[NDArray[np.float64]] | None:
        """Return the finite vectors or scores of an answer, as many as were asked for; None if it has others."""
        try:
            values = [answer]
            for key in self.answer.split("."):
                values = [entry for value in values for entry in (_in_order(value) if key == "*" else [value[key]])]
            numbers = [np.asarray(value, np.float64) for value in values]
        except (KeyError, IndexError, TypeError, ValueError, OverflowError):
            return None
        right = all(number.ndim == int(not self.scores) and np.isfinite(number).all() for number in numbers)
        return numbers if right and len(numbers) == count else None


@cache
def forms() -> Mapping[str, Form]:
    """Return the forms by their names, which are readings of `api:`.

    >>> forms()["rerank"].scores, forms()["embeddings_qwen3_vl"].instruction
    (True, "Represent the user's input.")
    """
    with files("tellapart.models.api").joinpath("forms.toml").open("rb") as file:
        return TypeAdapter(dict[str, Form]).validate_python(tomllib.load(file))


def picture_url(pixels: Pixels) -> str:
    """Return a picture as a `data:` URL of a PNG: its very pixels."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"


def fill_template(template: Any, values: Mapping[str, Any], model: str = "") -> Any:
    """Replace the texts of a template that are keys of the values, and the model's name within others."""
    if isinstance(template, dict):
        return {name: fill_template(part, values, model) for name, part in template.items()}
    if isinstance(template, list):
        return [fill_template(part, values, model) for part in template]
    if not isinstance(template, str):
        return template
    return values[template] if template in values else template.replace("{model}", model)


def _in_order(entries: Any) -> list[Any]:
    """Return the entries of a list by their `index`, if they have one; it must count them from 0."""
    if not isinstance(entries, list):
        raise TypeError(entries)
    if not all(isinstance(entry, dict) and "index" in entry for entry in entries):
        return entries
    ordered = sorted(entries, key=lambda entry: int(entry["index"]))
    if [entry["index"] for entry in ordered] != list(range(len(ordered))):
        raise ValueError(entries)
    return ordered
