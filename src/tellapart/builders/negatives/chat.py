"""The protocol of chat models, messages in and a reply out, and the options that name one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Chat", "ChatOptions", "ChatReply", "Message"]


class Message(NamedTuple):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A model's answer, and whether it was cut off at the limit of tokens."""

    text: str
    cut: bool = False


class Chat(Protocol):
    """Answers a conversation that ends in a message of the user.

    >>> class Echo:
    ...     models = {"echo": "1"}
    ...     def __call__(self, messages, seed):
    ...         return ChatReply(messages[-1].content)
    >>> chat: Chat = Echo()
    >>> chat([Message("user", "a dog")], 0).text
    'a dog'
    """

    @property
    def models(self) -> Mapping[str, str]:
        """Its name with its revision, for the recipe's fingerprint and the provenance of the items."""

    def __call__(self, messages: Sequence[Message], seed: int, /) -> ChatReply:
        """Return the reply; it depends on the messages and, if the model draws, on the seed alone.

        Raises:
            ModelError: the model gives no reply; another try may get one.
        """


class ChatOptions(BaseModel):
    """The recipe's `[options.model]`; a server's key is not among them, but in the user's environment.

    Attributes:
        source: a folder or a hub id of a causal model of transformers, or the address of a server that speaks OpenAI's
            chat completions (`http://localhost:8000/v1`; https if it is another machine's).
        name: of the model on the server; only for a server.
        temperature: 0 takes the likeliest token, above it tokens are drawn, with a seed of the candidate's own.
        max_tokens: of a reply; one that is cut off is rejected.
        timeout: seconds that a server may take to answer.
        tries: requests to the server before a candidate fails.
        device, dtype: of a local model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source: str = Field(min_length=1)
    name: str = ""
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    max_tokens: int = Field(default=120, ge=1)
    timeout: float = Field(default=120.0, gt=0.0)
    tries: int = Field(default=5, ge=1, le=20)
    device: str = "cpu"
    dtype: str = "float32"

    @property
    def served(self) -> bool:
        """Whether the model is a server's."""
        return self.source.lower().startswith(("http://", "https://"))
