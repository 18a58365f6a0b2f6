"""Chat completions: a reply's text, the likeliest first tokens with their log-probabilities, and its tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from tellapart.errors import ModelError
from tellapart.models.api.connection import Connection

#: The limit of tokens, as most servers know it, and as OpenAI's newer models do.
_LIMIT, _NEW_LIMIT = "max_tokens", "max_completion_tokens"

#: A blank before a token, as servers show it: plain, or by the sign of SentencePiece or GPT-2.
_BLANKS = " \N{LOWER ONE EIGHTH BLOCK}\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}"


class Probability(NamedTuple):
    """P(word) as the first token; `censored` if the server did not list it, and `value` is the most that it can be."""

    value: float
    censored: bool


class Completion(BaseModel):
    """A reply, as it is kept.

    Attributes:
        text: of the reply.
        cut: whether it ended at the limit of tokens.
        first: the listed candidates for the first token with their log-probabilities, in nats; None if the server gave
            none.
        version: the server's name of its version of the model (`system_fingerprint`), if it has one.
        prompt_tokens, completion_tokens: that the server counted.
        cost: the server's charge, in its unit, if it names one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    cut: bool = False
    first: tuple[tuple[str, float], ...] | None = None
    version: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @classmethod
    def read(cls, answer: Any, base: str) -> Completion:
        """Read a server's answer to `chat/completions`; `base` is its address, for messages.

        >>> Completion.read({"choices": [{"message": {"content": "Yes"}, "finish_reason": "stop"}]}, "here").text
        'Yes'
        """
        try:
            choice = answer["choices"][0]
            text, reason = choice["message"]["content"], choice.get("finish_reason")
            listed = ((choice.get("logprobs") or {}).get("content") or [{}])[0].get("top_logprobs")
            usage = answer.get("usage") or {}
            first = None if not listed else tuple((str(one["token"]), float(one["logprob"])) for one in listed)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise ModelError(f"{base} answers no chat completion: {json.dumps(answer):.200}") from error
        if text is not None and not isinstance(text, str):
            raise ModelError(f"{base} answers no text: {json.dumps(text):.200}")
        if first and not all(value <= 1e-3 for _, value in first):  # NaN, too; rounding may pass 0 by a little
            raise ModelError(f"{base} gives a log-probability that is none: {first[0][0]!r} {first[0][1]}")
        return cls(
            text=text or "",
            cut=reason == "length",
            first=first,
            version=str(answer.get("system_fingerprint") or ""),
            prompt_tokens=_read_number(usage.get("prompt_tokens"), int),
            completion_tokens=_read_number(usage.get("completion_tokens"), int),
            cost=_read_number(usage.get("cost"), float),
        )

    def probability(self, word: str) -> Probability:
        """Return P(the first token is the word), blanks before it aside.

        If the server lists the `k` likeliest tokens and the word is not among them, it is at most as likely as the
        last of them, and at most the rest that they leave.

        >>> listed = [("Yes", math.log(0.5)), (" Yes", math.log(0.1)), ("No", math.log(0.3))]
        >>> reply = Completion(text="Yes", first=listed)
        >>> [(round(value, 3), censored) for value, censored in map(reply.probability, ("Yes", "No", "Maybe"))]
        [(0.6, False), (0.3, False), (0.1, True)]
        """
        listed = [(token.lstrip(_BLANKS), math.exp(log)) for token, log in self.first or ()]
        if own := [value for token, value in listed if token == word]:
            return Probability(min(1.0, sum(own)), censored=False)
        left = 1.0 - sum(value for _, value in listed)
        return Probability(max(0.0, min([left, *(value for _, value in listed)])), censored=True)


class Completions:
    """Chat completions of a server; several threads may ask at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._limit = connection, _LIMIT

    def ask(self, body: Mapping[str, Any], tokens: int) -> Completion:
        """Return the reply to a request of at most so many tokens; the limit is named as the model knows it."""
        limit = self._limit
        try:
            answer = self._connection.ask("chat/completions", {**body, limit: tokens})
        except ModelError as error:
            if limit == _NEW_LIMIT or _NEW_LIMIT not in str(error):  # the error of newer models names it
                raise
            self._limit = _NEW_LIMIT
            answer = self._connection.ask("chat/completions", {**body, _NEW_LIMIT: tokens})
        return Completion.read(answer, self._connection.base)


def _read_number(value: object, kind: type) -> Any:
    return kind(value) if isinstance(value, (int, float)) and math.isfinite(value) and value >= 0 else kind(0)
