"""The prefix `api:`: models on servers."""

from __future__ import annotations

from collections.abc import Sequence

from tellapart.errors import ModelError, quote
from tellapart.models.api.answers import Answers
from tellapart.models.api.connection import Connection
from tellapart.models.api.pooled import ServedEncoder, ServedReranker
from tellapart.models.api.served import Served, ServedChoice, ServedYes
from tellapart.models.api.server import Server
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix
from tellapart.models.purpose import match_name, reads_instruction

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
    _expect_kind(name, (server.model, str(server.facts.get("root", ""))), options.reading)
    if reading == "embeddings":
        return ServedEncoder(server)
    if reading == "score":
        return ServedReranker(server)
    return ServedChoice(server) if reading == "choice" else ServedYes(server, over_no=reading == "yes_no")


def _expect_kind(name: str, served: Sequence[str], reading: str | None) -> None:
    """Refuse a model of an embedder's or reranker's name, which does not read the request that it would get.

    Source: QwenLM/Qwen3-VL-Embedding, issue 8, and vllm-project/vllm, issue 33167: the cosine of one pair.
    """
    if reading == "embeddings" and any(map(reads_instruction, served)):
        raise ModelError(
            f"{name} is an embedder that reads an instruction, and marks around image and text. A server gets one "
            "message of the user here, without them, and the vectors are others: a cosine of .776 becomes .277. "
            "Write st:PATH or st:ORG/REPO with its files, or give its vectors: vectors:DIR"
        )
    if reading is None and (part := next(filter(None, map(match_name, served)), "")):
        raise ModelError(
            f'{name} has {part!r} in its name: an embedder, a reranker or a reward model, and P("Yes") of one means '
            "nothing. Name the reading: reading=embeddings or reading=score, or reading=vqa if it is a chat model"
        )


API = ModelPrefix(
    {"api:URL#MODEL": "a model on a server with OpenAI's chat completions (vLLM, SGLang, llama.cpp, a provider)"},
    _load_served,
    takes=frozenset({"reading", "calls", "insecure"}),
)
