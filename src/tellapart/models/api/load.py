"""The prefix `api:`: models on servers."""

from __future__ import annotations

from tellapart.errors import ModelError, quote
from tellapart.models.api.answers import Answers
from tellapart.models.api.connection import Connection
from tellapart.models.api.pooled import ServedEncoder, ServedReranker
from tellapart.models.api.served import Served, ServedChoice, ServedYes
from tellapart.models.api.server import Server
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix

__all__ = ["API"]

#: Seconds that a server may take to answer.
_TIMEOUT = 300.0
#: With pauses that double up to a minute: about five minutes for a server to come back.
_TRIES = 12
_READINGS = ("vqa", "yes_no", "choice", "embeddings", "score")


def _load_served(name: str, options: ModelOptions) -> Served | ServedEncoder | ServedReranker:
    address, _, model = name.removeprefix("api:").partition("#")
    reading = options.reading or "vqa"
    if reading not in _READINGS:
        raise ModelError(
            f"{name} cannot be read by {quote(reading)}: a server gives likeliest first tokens, vectors or scores; "
            f"use one of {', '.join(_READINGS)}"
        )
    connection = Connection(address, model, timeout=_TIMEOUT, tries=_TRIES, insecure=options.insecure)
    server = Server(connection, model, Answers(options.answers), options.calls)
    if reading == "embeddings":
        return ServedEncoder(server)
    if reading == "score":
        return ServedReranker(server)
    return ServedChoice(server) if reading == "choice" else ServedYes(server, over_no=reading == "yes_no")


API = ModelPrefix(
    {"api:URL#MODEL": "a model on a server with OpenAI's chat completions (vLLM, SGLang, llama.cpp, a provider)"},
    _load_served,
    takes=frozenset({"reading", "calls", "insecure"}),
)
