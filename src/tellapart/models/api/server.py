"""A model on a server: its facts, and many questions at once, each answer kept as it comes."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from tellapart.data.images import pixel_hash
from tellapart.errors import ModelError, quote
from tellapart.models.api.answers import Answers
from tellapart.models.api.completion import Completion, Completions
from tellapart.models.api.connection import Connection
from tellapart.models.protocols import Pixels

T = TypeVar("T")

#: The likeliest tokens that are asked for: the most that OpenAI gives, and vLLM unless it is started otherwise.
LISTED = 20

#: The facts that a server lists of a model and that tell apart models of one name; of vLLM, of llama.cpp.
_FACTS = ("id", "owned_by", "root", "max_model_len", "meta")
#: The paths of servers' versions, beside `/v1`; by `owned_by`.
_VERSIONS = {"vllm": ("/version", "version"), "llamacpp": ("/props", "build_info")}


class Question(NamedTuple):
    """Pictures, RGB uint8 `(height, width, 3)`, and the prompt after them.

    Attributes:
        tokens: the longest answer.
        listed: whether the likeliest first tokens are asked for, with their log-probabilities.
    """

    pictures: Sequence[Pixels]
    prompt: str
    tokens: int
    listed: bool = False


@dataclass
class Usage:
    """The cost of answers: requests, answers that were kept before, tokens, and the price that a server names."""

    asked: int = 0
    kept: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    versions: set[str] = field(default_factory=set)

    def add_reply(self, reply: Completion, *, asked: bool) -> None:
        """Count a reply; one that was kept before costs nothing."""
        if reply.version:
            self.versions.add(reply.version)
        if not asked:
            self.kept += 1
            return
        self.asked += 1
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        self.cost += reply.cost

    def notes(self) -> tuple[str, ...]:
        """Return sentences for the user: calls, tokens, cost, and versions of the model if there were several."""
        cost = f", at a cost of {self.cost:.4g} as the server counts it" if self.cost else ""
        reuse_note = f"; {self.kept:,} answers were kept from before (--no-cache asks again)" if self.kept else ""
        tokens = f"{self.prompt_tokens:,} tokens read and {self.completion_tokens:,} written"
        notes = [f"the server was asked {self.asked:,} times: {tokens}{cost}{reuse_note}"]
        if len(self.versions) > 1:
            version_names = ", ".join(sorted(self.versions))
            notes.append(f"the server named {len(self.versions)} versions of the model: {version_names}")
        return tuple(notes)


class Server:
    """A model on a server that speaks OpenAI's API.

    Attributes:
        model: its name.
        facts: the server's description of the model and of itself, for the fingerprint.
        usage: since it was taken last.
    """

    def __init__(self, connection: Connection, model: str, answers: Answers, calls: int) -> None:
        self._connection, self._answers, self._calls = connection, answers, calls
        entry = _find_entry(connection, model)
        self.model = connection.model = str(entry["id"])
        self.facts = {name: entry[name] for name in _FACTS if name in entry} | {"address": connection.base}
        self.facts |= _ask_version(connection, str(entry.get("owned_by")))
        self.usage = Usage()
        self._completions = Completions(connection)

    @property
    def base(self) -> str:
        """The server's address."""
        return self._connection.base

    def ask(self, questions: Sequence[Question]) -> list[Completion]:
        """Answer every question, several at once; each answer is kept as soon as it is there."""
        keys = [self._question_key(question) for question in questions]
        replies = {key: reply for key in dict.fromkeys(keys) if (reply := self._answers.get(key)) is not None}
        open_ = {key: question for key, question in zip(keys, questions, strict=True) if key not in replies}
        for key in keys:
            if key in replies:
                self.usage.add_reply(replies[key], asked=False)
        for key, reply in zip(open_, self._run_calls(self._complete_question, open_, open_.values()), strict=True):
            replies[key] = reply
            self.usage.add_reply(reply, asked=True)
        return [replies[key] for key in keys]

    def post(self, path: str, bodies: Sequence[dict[str, Any]]) -> list[Any]:
        """Return the JSON of the answer to each body, with the model's name in it; several at once, none is kept."""
        return list(self._run_calls(lambda body: self._connection.ask(path, {"model": self.model, **body}), bodies))

    def _run_calls(self, call: Callable[..., T], *given: Iterable[Any]) -> Iterator[T]:
        """Yield the results of calls in their order; `calls` of them run at once."""
        pool = ThreadPoolExecutor(self._calls, thread_name_prefix="api")
        try:
            yield from pool.map(call, *given)
        finally:
            pool.shutdown(cancel_futures=True)

    def take_usage(self) -> Usage:
        """Return the usage so far, and count from 0 again."""
        usage, self.usage = self.usage, Usage()
        return usage

    def _question_key(self, question: Question) -> bytes:
        pictures = [pixel_hash(picture) for picture in question.pictures]
        facts = [self.facts, pictures, question.prompt, question.tokens, question.listed and LISTED]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).digest()

    def _complete_question(self, key: bytes, question: Question) -> Completion:
        reply = self._completions.ask(self._request_body(question), question.tokens)
        if question.listed and reply.first is None:
            raise ModelError(
                f"{self.base} gives no log-probabilities (`logprobs`) of {self.model!r}, and its scores are made of "
                "them; start the server with them, or read the model's words alone: reading=choice"
            )
        self._answers.put(key, reply)
        return reply

    def _request_body(self, question: Question) -> dict[str, Any]:
        pictures = [image_part(picture) for picture in question.pictures]
        content = [*pictures, {"type": "text", "text": question.prompt}]
        listed = {"logprobs": True, "top_logprobs": LISTED} if question.listed else {}
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "seed": 0,
            **listed,
        }


def image_part(pixels: Pixels) -> dict[str, Any]:
    """Return a picture as a part of a message: a PNG in a URL, its very pixels."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", compress_level=1)
    url = f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _find_entry(connection: Connection, model: str) -> Mapping[str, Any]:
    """Return the entry of a model in the server's list."""
    listed = connection.ask("models", tries=1)
    entries = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and "id" in entry for entry in entries):
        raise ModelError(f"{connection.base}/models lists no models: {json.dumps(listed):.200}")
    matching = [
        entry for entry in entries if not model or model == entry["id"] or model in (entry.get("aliases") or ())
    ]
    if len(matching) != 1:
        names = ", ".join(str(entry["id"]) for entry in entries[:20]) or "none"
        problem = f"no model {quote(model)}" if model else f"{len(entries)} models"
        raise ModelError(f"{connection.base} has {problem}; name one as api:{connection.base}#MODEL, of {names}")
    return dict(matching[0])


def _ask_version(connection: Connection, owner: str) -> dict[str, str]:
    """Return the version that a server reports, as a mapping; empty if it reports none."""
    if owner not in _VERSIONS:
        return {}
    path, name = _VERSIONS[owner]
    try:
        answer = connection.ask(path, tries=1)
    except ModelError:
        return {}
    return {"version": str(answer.get(name))} if isinstance(answer, dict) else {}
