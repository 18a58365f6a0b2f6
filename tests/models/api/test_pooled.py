"""A dual encoder and a reranker behind a server get the scores that they get in memory, whatever the server does."""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from json_handler import JsonHandler
from PIL import Image

import tellapart
from facts import raises
from tellapart.data.pairset import PairSet
from tellapart.errors import ModelError
from tellapart.models.api import connection
from tellapart.models.api.load import ServedEncoder
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore


class PoolingServer(ThreadingHTTPServer):
    """Answers as vLLM's pooling models do, by a model in memory; refuses every third request, as a busy server."""

    def __init__(self, encoder: Any, reranker: Any) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.encoder, self.reranker = encoder, reranker
        self.asked: list[str] = []
        self.left = 10**6  # requests that are answered before the server refuses all
        self.wrong: Any = None  # in place of an answer
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
            self.server.asked.append(self.path)
            number = len(self.server.asked)
            self.server.left -= 1
        if self.server.left < 0:
            self.reply(400, {"error": "out of memory"})
        elif number % 3 == 0:
            self.reply(503, {"error": "busy"})
        else:
            assert body["model"] == "pooled"
            self.reply(200, self.server.wrong or {"/v1/embeddings": self.embed, "/score": self.score}[self.path](body))

    def embed(self, body: dict[str, Any]) -> dict[str, Any]:
        [message] = body["messages"]
        [part] = message["content"]
        encoder = self.server.encoder
        rows = encoder.encode_texts([part["text"]]) if "text" in part else encoder.encode_images([decode_part(part)])
        return {"data": [{"index": 0, "embedding": (3 * rows[0]).tolist()}]}

    def score(self, body: dict[str, Any]) -> dict[str, Any]:
        images = [decode_part(part) for part in body["text_2"]["content"]]
        values = self.server.reranker.score_pairs(images, [body["text_1"]] * len(images))
        return {"data": [{"index": k, "score": float(value)} for k, value in enumerate(values)][::-1]}


def decode_part(part: dict[str, Any]) -> np.ndarray:
    kind, _, data = part["image_url"]["url"].partition(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


@pytest.fixture
def served(histogram: Any, fusion: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[PoolingServer]:
    for name in (connection.KEY, connection.HOST):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connection, "_PAUSE", 0.01)
    with PoolingServer(histogram(), fusion()) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def open_model(server: PoolingServer, reading: str | None) -> Any:
    return find_model(f"api:{server.url}", ModelOptions(reading=reading, calls=3))


@pytest.mark.parametrize("reading", ["embeddings", "score"])
def test_a_server_gets_the_scores_of_its_model_in_memory(served: PoolingServer, pairs: PairSet, reading: str) -> None:
    local = {"embeddings": served.encoder, "score": served.reranker}[reading]
    values = score(open_model(served, reading), pairs, store=EmbeddingStore(None), batch_size=5).scores.values
    expected = score(local, pairs, store=EmbeddingStore(None)).scores.values
    assert np.abs(values - expected).max() < 1e-6
    assert set(served.asked) == {{"embeddings": "/v1/embeddings", "score": "/score"}[reading]}
    assert len(served.asked) >= 24 * (reading == "embeddings")


def test_a_caption_with_a_control_token_is_never_sent(served: PoolingServer, pairs: PairSet) -> None:
    with raises(ModelError, "'<|im_end|>'"):
        open_model(served, "embeddings").encode_texts(["a cup", "a cup<|im_end|>"])
    with raises(ModelError, "'<|im_end|>'"):
        open_model(served, "score").score_pairs([pairs.pixels("0.png")], ["a cup<|im_end|>"])
    assert not served.asked


def test_a_run_that_was_cut_off_asks_for_the_rest_alone(served: PoolingServer, pairs: PairSet, tmp_path: Path) -> None:
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
def test_an_answer_without_vectors_is_refused(served: PoolingServer, wrong: Any) -> None:
    served.wrong = wrong
    with raises(ModelError, served.url):
        open_model(served, "embeddings").encode_texts(["a"])


def test_the_reading_is_part_of_the_identity(served: PoolingServer) -> None:
    encoder = open_model(served, "embeddings")
    assert isinstance(encoder, ServedEncoder)
    assert encoder.fingerprint != open_model(served, "score").fingerprint
    with raises(ModelError, "'itc'", "embeddings", "score"):
        open_model(served, "itc")


@pytest.mark.parametrize("field", ["id", "root"])
@pytest.mark.parametrize("name", ["Qwen/Qwen3-VL-Embedding-2B", "gme-Qwen2-VL-2B-Instruct", "TIGER-Lab/VLM2Vec-Full"])
def test_an_embedder_that_reads_an_instruction_is_refused(served: PoolingServer, name: str, field: str) -> None:
    served.entry = {"id": "pooled", field: name}
    with raises(ModelError, ".776", ".277", "st:PATH", "vectors:DIR"):
        open_model(served, "embeddings")
    assert served.asked == []


@pytest.mark.parametrize("name", ["Qwen3-VL-Reranker-2B", "Qwen3-VL-Embedding-2B", "Skywork-VL-Reward-7B"])
def test_a_served_model_is_no_chat_model_by_its_name_unless_a_reading_is_asked_for(
    served: PoolingServer, name: str
) -> None:
    served.entry = {"id": name}
    with raises(ModelError, "reading=score", "reading=embeddings", "reading=vqa"):
        open_model(served, None)
    assert open_model(served, "vqa").name == open_model(served, "score").name == name


def test_a_reranker_without_its_template_gives_a_note(served: PoolingServer, pairs: PairSet) -> None:
    """All of its scores lie about .5; the scores of the model in memory vary."""
    varied = tellapart.evaluate(open_model(served, "score"), pairs, cache=False)
    reranker = served.reranker

    class Flat:
        def score_pairs(self, images: Any, texts: Any) -> Any:
            return 0.5 + 0.02 * (reranker.score_pairs(images, texts) - 0.5)

    served.reranker = Flat()
    flat = tellapart.evaluate(open_model(served, "score"), pairs, cache=False)
    notes = [[note for note in run.result().benchmarks["drawn"].notes if "template" in note] for run in (varied, flat)]
    assert [len(found) for found in notes] == [0, 1]
    assert "24 scores" in notes[1][0]
