"""What real servers of these tests share: a JSON body is read, and JSON is answered, quietly."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class JsonHandler(BaseHTTPRequestHandler):
    """A server's `answer_get` and `answer_post`, of a body, reply to requests."""

    def do_GET(self) -> None:
        self.answer_get()

    def do_POST(self) -> None:
        self.answer_post(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def reply(self, status: int, answer) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Keep quiet."""


@contextmanager
def run_server(server: ThreadingHTTPServer) -> Iterator[str]:
    """Run a server in a thread, and yield its address."""
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def serve(handler: type[JsonHandler]):
    """Run a server of a handler at any port of this machine."""
    return run_server(ThreadingHTTPServer(("127.0.0.1", 0), handler))
