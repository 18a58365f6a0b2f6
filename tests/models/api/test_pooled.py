"""A dual encoder and a reranker behind a server get the scores that they get in memory, whatever the server does."""

import base64
import io
import threading
from http.server import ThreadingHTTPServer
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from json_handler import JsonHandler, run_server
from PIL import Image

import tellapart
from facts import raises
from tellapart.errors import ModelError
from tellapart.models.api import connection
from tellapart.models.api.connection import forms
from tellapart.models.api.load import ServedEncoder
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore


class PoolingServer(ThreadingHTTPServer):
    """Answers as vLLM's pooling models do, by a model in memory; refuses every third request, as a busy server."""

    def __init__(self, encoder, reranker) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.encoder, self.reranker = encoder, reranker
        self.asked = []
        self.bodies = []
        self.headers = []
        self.left = 10**6  # requests that are answered before the server refuses all
        self.wrong = None  # in place of an answer
        self.entry = {"id": "pooled"}
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(JsonHandler):
    server: PoolingServer

    def answer_get(self) -> None:
        self.reply(200, {"data": [self.server.entry]})

    def answer_post(self, body: dict[str, Any]) -> None:
        with self.server.lock:
            self.server.headers.append(self.headers)
            self.server.asked.append(self.path)
            number = len(self.server.asked)
            self.server.left -= 1
        if self.server.left < 0:
            self.reply(400, {"error": "out of memory"})
        elif number % 3 == 0:
            self.reply(503, {"error": "busy"})
        else:
            assert body["model"] in {"pooled", "models/pooled"}
            answer, ask = ANSWERS[self.path]
            self.reply(200, self.server.wrong or answer(ask(self.server, body)))


def decode_picture(url: str) -> np.ndarray:
    kind, _, data = url.partition(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def read_part(part) -> str | np.ndarray:
    """The text or the picture of a part, in whatever form."""
    if isinstance(part, str):
        return decode_picture(part) if part.startswith("data:") else part
    if "text" in part:
        return str(part["text"])
    if "inline_data" in part:
        assert part["inline_data"]["mime_type"] == "image/png"
        return decode_picture("data:image/png;base64," + part["inline_data"]["data"])
    url = part.get("image") or part.get("image_base64") or part["image_url"]["url"]
    return decode_picture(url)


def embed(server: PoolingServer, body: dict[str, Any]) -> list[float]:
    """The vector of the only part of a request, of length three."""
    server.bodies.append(body)
    if "messages" in body:
        [part] = next(message for message in body["messages"] if message["role"] == "user")["content"]
    elif "content" in body:
        [part] = body["content"]["parts"]
    elif "inputs" in body:
        [entry] = body["inputs"]
        [part] = entry["content"]
    else:
        [part] = body["input"]
    sample = read_part(part)
    encoder, roles = server.encoder, {message["role"]: message["content"] for message in body.get("messages", ())}
    encoder.prompt = roles["system"][0]["text"] if "system" in roles else None
    rows = encoder.encode_texts([sample]) if isinstance(sample, str) else encoder.encode_images([sample])
    return [float(number) for number in 3 * rows[0]]


def rank(server: PoolingServer, body: dict[str, Any]) -> list[float]:
    text = next(body[name] for name in ("text_1", "queries", "query") if name in body)
    documents = body.get("text_2") or body["documents"]
    images = [read_part(part) for part in (documents["content"] if isinstance(documents, dict) else documents)]
    return [float(value) for value in server.reranker.score_pairs(images, [text] * len(images))]


def listed(name: str, values: list[Any]) -> list[dict[str, Any]]:
    """Entries with their index, the last first."""
    return [{"index": k, name: value} for k, value in enumerate(values)][::-1]


ANSWERS: dict[str, tuple[Any, Any]] = {
    "/v1/embeddings": (lambda vector: {"data": listed("embedding", [vector])}, embed),
    "/v1/multimodalembeddings": (lambda vector: {"data": listed("embedding", [vector])}, embed),
    "/v1/embed": (lambda vector: {"embeddings": {"float": [vector]}}, embed),
    "/v1/models/pooled:embedContent": (lambda vector: {"embedding": {"values": vector}}, embed),
    "/score": (lambda scores: {"data": listed("score", scores)}, rank),
    "/v1/rerank": (lambda scores: {"results": listed("relevance_score", scores)}, rank),
}


@pytest.fixture
def served(histogram, fusion, monkeypatch):
    monkeypatch.setattr(connection, "_PAUSE", 0.01)
    server = PoolingServer(histogram(), fusion())
    with run_server(server):
        yield server


def open_model(server: PoolingServer, reading: str | None, **options):
    return find_model(f"api:{server.url}#pooled", ModelOptions(reading=reading, calls=3, **options))


PATHS = {f"embeddings{form}": "/v1/embeddings" for form in ("", "_qwen3_vl", "_input", "_jina")} | {
    "embeddings_voyage": "/v1/multimodalembeddings",
    "embeddings_cohere": "/v1/embed",
    "embeddings_gemini": "/v1/models/pooled:embedContent",
    **{"score": "/score", "score_queries": "/score", "rerank": "/v1/rerank"},
}


@pytest.mark.parametrize("reading", PATHS)
def test_a_server_gets_the_scores_of_its_model_in_memory(served, pairs, reading):
    local = served.encoder if reading.startswith("embeddings") else served.reranker
    values = score(open_model(served, reading), pairs, store=EmbeddingStore(None), batch_size=5).scores.values
    expected = score(local, pairs, store=EmbeddingStore(None)).scores.values
    assert np.abs(values - expected).max() < 1e-6
    assert set(served.asked) == {PATHS[reading]} and {*forms()} == {*PATHS}
    assert len(served.asked) >= 24 * reading.startswith("embeddings")


def test_an_instruction_is_sent_and_recorded(served, pairs):
    default = open_model(served, "embeddings_qwen3_vl")
    told = open_model(served, "embeddings_qwen3_vl", instruction="Find the caption.")
    for model in (default, told):
        model.encode_texts(["a cup"])
    [first, second] = served.bodies[-2:]
    assert first["messages"][0]["content"][0]["text"] == "Represent the user's input."
    assert second["messages"][0] == {"role": "system", "content": [{"type": "text", "text": "Find the caption."}]}
    assert first["continue_final_message"] is True and first["messages"][-1]["role"] == "assistant"
    assert default.fingerprint != told.fingerprint
    run = tellapart.evaluate(told, pairs, cache=False)
    assert any("'Find the caption.'" in note for note in run.result().benchmarks["drawn"].notes)


def test_geminis_key_has_its_header(served, monkeypatch):
    monkeypatch.setenv(connection.KEY, "secret")
    open_model(served, "embeddings_gemini").encode_texts(["a cup"])
    open_model(served, "embeddings").encode_texts(["a cup"])
    keys = [(headers.get("x-goog-api-key"), headers.get("Authorization")) for headers in served.headers]
    assert keys[0] == ("secret", None) and keys[-1] == (None, "Bearer secret")


def test_a_caption_with_a_control_token_is_never_sent(served, pairs):
    with raises(ModelError, "'<|im_end|>'"):
        open_model(served, "embeddings").encode_texts(["a cup", "a cup<|im_end|>"])
    with raises(ModelError, "'<|im_end|>'"):
        open_model(served, "score").score_pairs([pairs.pixels("0.png")], ["a cup<|im_end|>"])
    assert not served.asked


def test_a_run_that_was_cut_off_asks_for_the_rest_alone(served, pairs, tmp_path):
    served.left = 14
    with EmbeddingStore(tmp_path / "store.sqlite") as store, raises(ModelError, "400", "'pooled'"):
        score(open_model(served, "embeddings"), pairs, store=store, batch_size=4)
    served.left, before = 10**6, len(served.asked)
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        score(open_model(served, "embeddings"), pairs, store=store, batch_size=4)
        rest, after = len(served.asked) - before, len(served.asked)
        score(open_model(served, "embeddings"), pairs, store=store, batch_size=4)
    assert rest < 24 * 1.5 - 6  # 24 pictures and texts, a third asked twice, less those of two batches
    assert len(served.asked) == after


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": []},
        {"data": [{"index": 0, "embedding": [float("nan"), 1.0]}]},
        {"data": [{"index": 1, "embedding": [1.0, 2.0]}]},
        {"data": [{"index": 0, "embedding": "AACAPw=="}]},
        {"error": "no such route"},
    ],
)
def test_an_answer_without_vectors_is_refused(served, wrong):
    served.wrong = wrong
    with raises(ModelError, served.url):
        open_model(served, "embeddings").encode_texts(["a"])


def test_the_reading_is_part_of_the_identity(served):
    encoder = open_model(served, "embeddings")
    assert isinstance(encoder, ServedEncoder)
    assert encoder.fingerprint != open_model(served, "score").fingerprint


EMBEDDERS = ("Qwen/Qwen3-VL-Embedding-2B", "gme-Qwen2-VL-2B-Instruct", "TIGER-Lab/VLM2Vec-Full")
INSTRUCTED, UNINSTRUCTED = (
    (".776", ".277", "embeddings_qwen3_vl", "st:PATH", "vectors:DIR"),
    ("embeddings", "score", "vqa"),
)
NO_CHAT_MODELS = ("Qwen3-VL-Reranker-2B", "Qwen3-VL-Embedding-2B", "Skywork-VL-Reward-7B")

#: What a server lists of its model, the options, and the facts of the refusal.
REFUSED: list[tuple[dict[str, str], dict[str, str], tuple[str, ...]]] = [
    ({}, {"reading": "itc"}, ("'itc'", "embeddings", "score")),
    ({}, {"reading": "rerank"}, ("rerank", "#MODEL")),  # such a server lists no models
    ({}, {"calls": 0}, ("1", "0")),
    *(({}, {"reading": form, "instruction": "Find it"}, ("instruction", "Find it")) for form in UNINSTRUCTED),
    *(({field: name}, {"reading": "embeddings"}, INSTRUCTED) for field, name in product(("id", "root"), EMBEDDERS)),
    *(({"id": name}, {}, ("reading=score", "reading=embeddings", "reading=vqa")) for name in NO_CHAT_MODELS),
]


@pytest.mark.parametrize(("entry", "options", "facts"), REFUSED)
def test_a_reading_that_does_not_fit_is_refused_before_the_model_is_asked(served, entry, options, facts):
    served.entry |= entry
    with raises(ModelError, facts):
        find_model(f"api:{served.url}", ModelOptions(**options))
    assert served.asked == []


@pytest.mark.parametrize("name", NO_CHAT_MODELS)
def test_a_served_model_of_any_name_is_opened_by_a_reading_that_is_asked_for(served, name):
    served.entry = {"id": name}
    for reading in ("vqa", "score"):
        assert find_model(f"api:{served.url}", ModelOptions(reading=reading)).name == name


def test_a_reranker_without_its_template_gives_a_note(served, pairs):
    """All of its scores lie about .5; the scores of the model in memory vary."""
    varied = tellapart.evaluate(open_model(served, "score"), pairs, cache=False)
    right = served.reranker.score_pairs
    served.reranker = SimpleNamespace(score_pairs=lambda images, texts: 0.5 + 0.02 * (right(images, texts) - 0.5))
    flat = tellapart.evaluate(open_model(served, "score"), pairs, cache=False)
    notes = [[note for note in run.result().benchmarks["drawn"].notes if "template" in note] for run in (varied, flat)]
    assert [len(found) for found in notes] == [0, 1]
    assert "24 scores" in notes[1][0]
