"""A client of chat models on servers with OpenAI's chat completions: vLLM, llama.cpp, Ollama, or a provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tellapart.builders.negatives.chat import ChatOptions, ChatReply, Message
from tellapart.models.api.completion import Completion
from tellapart.models.api.connection import Connection

__all__ = ["ServedChat"]


class ServedChat:
    """A model on a server; a request that a busy server refuses is repeated, with pauses.

    With temperature 0, or with a server that honours `seed`, the reply is the same each time. Other servers may answer
    otherwise; the journal keeps each candidate's outcome, so none is asked for twice.

    Args:
        options: of the recipe.
        insecure: ask a server of another machine over plain http, too.

    Raises:
        ModelError: as `Connection`.
    """

    def __init__(self, options: ChatOptions, *, insecure: bool = False) -> None:
        self._options = options
        self._server = Connection(
            options.source, options.name, timeout=options.timeout, tries=options.tries, insecure=insecure
        )

    @property
    def models(self) -> Mapping[str, str]:
        """The model's name; a server does not say which revision it serves."""
        return {self._options.name: f"as served by {self._server.base}"}

    def __call__(self, messages: Sequence[Message], seed: int, /) -> ChatReply:
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
        reply = Completion.read(self._server.ask("chat/completions", body), self._server.base)
        return ChatReply(reply.text, cut=reply.cut)
