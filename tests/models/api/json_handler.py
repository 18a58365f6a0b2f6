"""What real servers of these tests share: a JSON body is read, and JSON is answered, quietly."""

import json
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler
from typing import Any


class JsonHandler(ABC, BaseHTTPRequestHandler):
    """A server's `answer_get` and `answer_post` reply to requests."""

    def do_GET(self) -> None:
        self.answer_get()

    def do_POST(self) -> None:
        self.answer_post(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    @abstractmethod
    def answer_get(self) -> None: ...

    @abstractmethod
    def answer_post(self, body: dict[str, Any]) -> None: ...

    def reply(self, status: int, answer) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Keep quiet."""
