"""Chat models, messages in and a reply out: local weights, or a server with OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

from tellapart.errors import ModelError
from tellapart.models.api.completion import Completions
from tellapart.models.api.connection import Connection
from tellapart.models.huggingface.files import config_facts, import_transformers, load_tokenizer, load_weights, quiet
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import forward, import_torch, runtime, weights_fingerprint


def open_chat(options: ChatOptions, *, insecure: bool = False) -> Chat:
    """Open a chat model."""
    if options.served:
        from tellapart.builders.negatives.chat import ServedChat

        if not options.name:
            raise ModelError(f"{options.source} is a server; name one of its models with the key 'name'")
        return ServedChat(options, insecure=insecure)
    from tellapart.builders.negatives.chat import LocalChat

    if options.name:
        raise ModelError(
            f"{options.source} is a local model; the key 'name' is a server's, whose source begins with http:// or "
            "https://"
        )
    return LocalChat.load(options)


class ServedChat:
    """A model on a server; a request that a busy server refuses is repeated, with pauses.

    With temperature 0, or with a server that honours `seed`, the reply is the same each time. Other servers may answer
    otherwise; the journal keeps each candidate's outcome, so none is asked for twice.
    """

    def __init__(self, options: ChatOptions, *, insecure: bool = False) -> None:
        self._options = options
        connection = Connection(
            options.source, options.name, timeout=options.timeout, tries=options.tries, insecure=insecure
        )
        self._base, self._completions = connection.base, Completions(connection)

    @property
    def models(self) -> Mapping[str, str]:
        """The model's name; a server does not name the revision it serves."""
        return {self._options.name: f"as served by {self._base}"}

    def __call__(self, messages: Sequence[Message], seed: int, /) -> ChatReply:
        """Return the reply."""
        body = {
            "model": self._options.name,
            "messages": [message._asdict() for message in messages],
            "temperature": self._options.temperature,
            "seed": seed % 2**31,  # servers read 32 bits, some with a sign
        }
        reply = self._completions.ask(body, self._options.max_tokens)
        return ChatReply(reply.text, cut=reply.cut)


class LocalChat:
    """A causal model and its tokenizer; without a chat template, a conversation is read as plain turns.

    Conversations are answered one by one: neither neighbours nor the order of work change a reply.
    """

    def __init__(self, options: ChatOptions, model: Any, tokenizer: Any) -> None:
        self._options, self._model, self._tokenizer = options, model, tokenizer
        self._context: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        settings = model.generation_config
        end_ids = settings.eos_token_id if settings.eos_token_id is not None else tokenizer.eos_token_id
        self._ends: list[int] = end_ids if isinstance(end_ids, list) else [end_ids] if end_ids is not None else []
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else next(iter(self._ends), None)
        sampling = {"temperature": options.temperature, "top_k": 0} if options.temperature else {}
        # In place of the checkpoint's settings, from which the library would take every value that a call leaves out.
        model.generation_config = import_transformers().GenerationConfig(
            do_sample=options.temperature > 0, num_beams=1, max_new_tokens=options.max_tokens, pad_token_id=pad,
            eos_token_id=self._ends or None, bos_token_id=settings.bos_token_id, **sampling,
        )  # fmt: skip

    @classmethod
    def load(cls, options: ChatOptions) -> Self:
        """Load weights and tokenizer."""
        place = runtime(ModelOptions(device=options.device, dtype=options.dtype))
        tokenizer = load_tokenizer(options.source)
        return cls(options, load_weights("AutoModelForCausalLM", options.source, place), tokenizer)

    @cached_property
    def models(self) -> Mapping[str, str]:
        """The model's class, with a hash of its weights, configuration, vocabulary and template."""
        kind, template = type(self._model).__name__, self._tokenizer.chat_template
        vocabulary = repr(sorted(self._tokenizer.get_vocab().items()))
        facts = (config_facts(self._model.config), vocabulary, repr(template), self._options.dtype)
        return {kind: weights_fingerprint(self._model, *facts)[:16]}

    def __call__(self, messages: Sequence[Message], seed: int, /) -> ChatReply:
        """Return the reply."""
        torch = import_torch()
        ids = self._encode_messages(messages)
        if self._context is not None and len(ids) + self._options.max_tokens > self._context:
            raise ModelError(
                f"{self._options.source}: conversation and reply take {len(ids)} + {self._options.max_tokens} tokens "
                f"and its context holds {self._context}; give fewer max_tokens or examples, or another model"
            )
        row = torch.tensor([ids], device=self._model.device)
        devices = [self._model.device] if self._model.device.type == "cuda" else []
        with quiet(), forward(self._options.source, self._model), torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed % 2**63)
            out = self._model.generate(input_ids=row, attention_mask=torch.ones_like(row))[0].tolist()
        new = out[len(ids) :]
        text = str(self._tokenizer.decode(new, skip_special_tokens=True))
        return ChatReply(text, cut=len(new) == self._options.max_tokens and new[-1] not in self._ends)

    def _encode_messages(self, messages: Sequence[Message]) -> list[int]:
        if self._tokenizer.chat_template is None:
            turns = "".join(f"{message.role}: {message.content}\n\n" for message in messages)
            return list(self._tokenizer(f"{turns}assistant:").input_ids)
        turns = self._tokenizer.apply_chat_template(
            [message._asdict() for message in messages], tokenize=False, add_generation_prompt=True
        )
        # The template writes the special tokens itself.
        return list(self._tokenizer(turns, add_special_tokens=False).input_ids)


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
        """Return the reply; it depends on the messages and, if the model draws, on the seed alone."""


class ChatOptions(BaseModel):
    """The recipe's `[options.model]`; a server's key is not among them, but in the user's environment.

    Attributes:
        source: a folder or a hub id of a causal model of transformers, or the address of a server that speaks OpenAI's
            chat completions (`http://localhost:8000/v1`; https if it is another machine's).
        name: of the model on the server; only for a server.
        temperature: 0 takes the likeliest token, above it tokens are drawn, with the candidate's seed.
        max_tokens: of a reply; one that is cut off is rejected.
        timeout: seconds that a server may take to answer.
        tries: requests to the server before a candidate fails.
        device, dtype: of a local model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

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
