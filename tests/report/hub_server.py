"""A server that speaks the hub's HTTP calls as `huggingface_hub` makes them, with repositories in memory.

It holds what the hub checks: a token for what is private or written, the front matter of a card, git's ids of blobs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

TOKEN = "hf_of_the_test"  # noqa: S105
COMMIT = "a" * 40


def blob_id(data: bytes) -> str:
    """The id that git gives a file, by which the hub knows that it has not changed."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Hub:
    """Repositories: `models/owner/name` -> path -> bytes; the requests that were made, and the pull requests."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.requests: list[tuple[str, str]] = []
        self.tokens: set[str | None] = set()
        self.pull_requests: list[dict[str, Any]] = []
        self.address = ""


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self, status: int, content: Any, **headers: str) -> None:
        self._answer(status, json.dumps(content).encode(), Content_Type="application/json", **headers)

    def _path(self) -> list[str]:
        parts = urlsplit(self.path)
        self.query = parse_qs(parts.query)
        self.hub.requests.append((self.command, parts.path))
        self.hub.tokens.add(self.headers.get("Authorization"))
        return [unquote(part) for part in parts.path.strip("/").split("/")]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        # /[datasets/]OWNER/NAME/resolve/REVISION/PATH
        parts = self._path()
        if parts == [""]:
            self._answer(200)
            return
        if "resolve" not in parts:
            self._json(404, {"error": "no such call"})
            return
        kind = "datasets" if parts[0] == "datasets" else "models"
        owner, name, _, _, *path = parts[1:] if kind == "datasets" else parts
        files = self.hub.repositories.get(f"{kind}/{owner}/{name}")
        if files is None:
            self._json(401, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        elif "/".join(path) not in files:
            missing = {"error": "Entry not found"}
            self._json(404, missing, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
        else:
            data = files["/".join(path)]
            self._answer(200, data, ETag=f'"{blob_id(data)}"', X_Repo_Commit=COMMIT)

    def do_POST(self) -> None:
        parts = self._path()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if parts == ["api", "validate-yaml"]:
            self._validate(json.loads(body))
            return
        _, kind, owner, name, what, revision = parts
        files = self.hub.repositories.get(f"{kind}/{owner}/{name}")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._json(403, {"error": "this token may not write"})
        elif files is None:
            self._json(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        elif what == "preupload":
            modes = [
                {
                    "path": one["path"],
                    "uploadMode": "regular",
                    "shouldIgnore": False,
                    "oid": blob_id(files[one["path"]]) if one["path"] in files else None,
                }
                for one in json.loads(body)["files"]
            ]
            self._json(200, {"files": modes})
        else:
            self._commit(f"{owner}/{name}", kind, revision, body)

    def _validate(self, sent: dict[str, str]) -> None:
        _, front, _ = sent["content"].split("---", 2)
        card = yaml.safe_load(front)
        wrong = [
            {"message": '"model-index[0].results" must be a list of results with a task and metrics'}
            for model in card.get("model-index", [])
            for result in model["results"]
            if not (result.get("task", {}).get("type") and result.get("metrics") and result.get("dataset"))
        ]
        if card.get("licence"):
            wrong.append({"message": '"licence" is spelt "license"'})
        answer = {"errors": wrong, "warnings": [{"message": "no license"}]}
        self._json(400 if wrong else 200, answer)

    def _commit(self, repo: str, kind: str, revision: str, body: bytes) -> None:
        lines = [json.loads(line) for line in body.splitlines()]
        files = {}
        for line in lines:
            if line["key"] == "file":
                assert line["value"]["encoding"] == "base64"
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"]).decode()
        prefix = "datasets/" if kind == "datasets" else ""
        number = len(self.hub.pull_requests) + 1
        assert self.query.get("create_pr") == ["1"]  # nothing is written to a branch
        about = {"repo": repo, "kind": kind, "revision": revision, "files": files}
        self.hub.pull_requests.append(about | lines[0]["value"])
        page = f"{self.hub.address}/{prefix}{repo}"
        answer = {"commitUrl": f"{page}/commit/{COMMIT}", "commitOid": COMMIT}
        self._json(200, answer | {"pullRequestUrl": f"{page}/discussions/{number}"})


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Serve on a free port of this machine."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
