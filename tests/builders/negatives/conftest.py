"""Captions with their pictures, and a server that speaks OpenAI's chat completions on this machine."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from PIL import Image

from sets import file_bytes
from tellapart.builders.negatives.language_negatives import NONE, TASKS, write_answer
from tellapart.builders.negatives.negatives import Rewrite, rewrites


@dataclass
class Server:
    """A chat model behind HTTP: it makes the changes that the rules know, in the form that it is asked for.

    `statuses` are answered first, one request each; what `write` returns stands in for the model's answer. A `newer`
    model knows the limit of tokens by its other name alone.
    """

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    finish: str = "stop"
    body: bytes | None = None
    newer: bool = False
    write: Callable[[dict[str, Any]], Any] = lambda body: edited(body["messages"])


def edited(messages: list[dict[str, str]]) -> str:
    """Answer as a model that follows the instructions to the letter, with the first change that the rules know."""
    assert [messages[0]["role"], messages[-1]["role"]] == ["system", "user"]
    kind = next(name for name, task in TASKS.items() if task["what"] in messages[0]["content"])
    found = rewrites(messages[-1]["content"], kind)
    return answer(kind, found[0]) if found else NONE


def answer(kind: str, rewrite: Rewrite) -> str:
    """Write a rule's change in the form of an answer; the rule for attributes notes the noun, too."""
    change = " ".join(rewrite.change.split()[:2]) if kind == "add_att" else rewrite.change
    return write_answer(change, rewrite.text) + "\n"


@pytest.fixture
def server():
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            time.sleep(state.seconds)
            state.asked.append({"path": self.path, **body})
            state.keys.append(self.headers.get("Authorization"))
            status = state.statuses.pop(0) if state.statuses else 200
            data = state.body or b'{"error": {"message": "not now"}}'
            if state.newer and "max_tokens" in body:
                status = 400
                data = b'{"error": {"message": "max_tokens is not supported. Use max_completion_tokens instead."}}'
            if status == 200 and state.body is None:
                choice = {"message": {"role": "assistant", "content": state.write(body)}, "finish_reason": state.finish}
                data = json.dumps({"object": "chat.completion", "choices": [choice]}).encode()
            self.send_response(status)
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        state.url = f"http://127.0.0.1:{running.server_address[1]}/v1"
        yield state
        running.shutdown()
        thread.join()


@pytest.fixture
def captions(tmp_path):
    """Write captions and a picture for each image; return the folder."""

    def write(rows):
        for k, image in enumerate(dict.fromkeys(image for image, _ in rows)):
            path = tmp_path / "photos" / image
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4, 4), (k, 0, 0)).save(path)
        lines = [{"image": image, "caption": caption} for image, caption in rows]
        (tmp_path / "captions.jsonl").write_bytes(file_bytes("captions.jsonl", lines))
        return tmp_path

    return write
