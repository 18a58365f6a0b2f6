"""A real server: llama.cpp with a tiny model that sees, in a process of its own."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pictures import encoded, noise
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.models.api import connection

HERE = Path(__file__).parent


@dataclass
class LlamaServer:
    """llama.cpp's server; it can be killed, and started again at the same port."""

    files: tuple[Path, Path]
    url: str = ""
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        port = self.url.rpartition(":")[2].removesuffix("/v1") or "0"
        command = [sys.executable, str(HERE / "serve_gguf.py"), *map(str, self.files), port]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = f"{self.process.stdout.readline().strip()}/v1"
        assert self.url.startswith("http://127.0.0.1:"), "the server did not start"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in (connection.KEY, connection.HOST):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def gguf_files(tmp_path_factory):
    pytest.importorskip("xllamacpp")
    pytest.importorskip("gguf")
    from tiny_gguf import write_language_model, write_picture_encoder

    folder = tmp_path_factory.mktemp("gguf")
    language, pictures = folder / "language.gguf", folder / "pictures.gguf"
    write_language_model(language)
    write_picture_encoder(pictures)
    return language, pictures


def run_llama(gguf_files):
    running = LlamaServer(gguf_files)
    running.start()
    yield running
    running.kill()


llama = pytest.fixture(run_llama, scope="module", name="llama")
mortal_llama = pytest.fixture(run_llama, name="mortal_llama")


@pytest.fixture(scope="module")
def pairs():
    """Six items of two random pictures and two captions, held in memory."""
    pictures = {f"{k}.png": encoded(noise(20, 24, seed=k)) for k in range(12)}
    items = tuple(
        Item(id=str(k), images=(f"{2 * k}.png", f"{2 * k + 1}.png"), texts=(f"{k} dogs", f"{k} cats")) for k in range(6)
    )
    return PairSet("drawn", items, Path(), read=pictures.__getitem__)
