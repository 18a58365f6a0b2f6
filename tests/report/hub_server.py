"""A server that speaks the hub's HTTP calls as `huggingface_hub` makes them, with repositories in memory.

It holds what the hub checks: a token for what is private or written, the front matter of a card, git's ids of blobs.
"""

import base64
import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml

TOKEN = "hf_of_the_test"  # noqa: S105
COMMIT = "a" * 40


def blob_id(data: bytes) -> str:
    """The id that git gives a file, by which the hub knows that it has not changed."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Hub:
    """Repositories: `models/owner/name` -> path -> bytes; the requests that were made, and the pull requests.

    `gated` repositories need the token; those of `moved` have another name now. The next download of a path in `cut`
    ends after so many bytes, and the next one of a path in `changed` has other bytes than its ETag is of.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.gated: set[str] = set()
        self.moved: dict[str, str] = {}
        self.cut: dict[str, int] = {}
        self.changed: dict[str, bytes] = {}
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

    def _json(self, status: int, content, **headers: str) -> None:
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
        # /[datasets/]OWNER/NAME/resolve/REVISION/PATH, and /api/KIND/OWNER/NAME[/revision/REVISION or /tree/REVISION]
        parts = self._path()
        if parts == [""]:
            self._answer(200)
            return
        called = parts[0] == "api"
        kind = parts[called] if parts[called] in {"models", "datasets"} else "models"
        owner, name, *call = parts[called + (called or kind == "datasets") :]
        repo = f"{kind}/{owner}/{name}"
        files = self.hub.repositories.get(repo)
        if repo in self.hub.moved:
            self._answer(307, Location=urlsplit(self.path).path.replace(f"{owner}/{name}", self.hub.moved[repo]))
        elif files is None:
            self._json(401, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        elif called:
            self._describe(f"{owner}/{name}", files, call)
        elif repo in self.hub.gated and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status = 403 if self.headers.get("Authorization") else 401
            self._json(status, {"error": "Access to this repository is restricted"}, X_Error_Code="GatedRepo")
        elif call[:1] != ["resolve"]:
            self._json(404, {"error": "no such call"})
        elif "/".join(call[2:]) not in files:
            missing = {"error": "Entry not found"}
            self._json(404, missing, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
        else:
            self._send_file("/".join(call[2:]), files["/".join(call[2:])])

    def _describe(self, repo: str, files: dict[str, bytes], call: list[str]) -> None:
        """Answer what a repository holds."""
        if call[:1] == ["tree"]:
            about = {path: {"oid": blob_id(data), "size": len(data)} for path, data in files.items()}
            self._json(200, [{"type": "file", "path": path, **of} for path, of in about.items()])
            return
        siblings = [{"rfilename": path} for path in files]
        about = {"id": repo, "sha": COMMIT, "siblings": siblings, "private": False, "gated": False, "tags": []}
        self._json(200, about)

    def _send_file(self, path: str, data: bytes) -> None:
        """Send a file, from the place that is asked for; a cut one ends early, and the connection with it."""
        facts = {"ETag": f'"{blob_id(data)}"', "X_Repo_Commit": COMMIT, "Accept_Ranges": "bytes"}
        if self.command == "HEAD":
            self._answer(200, data, **facts)
            return
        if path in self.hub.changed:
            data = self.hub.changed.pop(path)
        begin = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        if begin:
            facts["Content_Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        if (end := self.hub.cut.pop(path, None)) is None:
            self._answer(206 if begin else 200, data[begin:], **facts)
            return
        self.send_response(200)
        for name, value in facts.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:end])
        self.close_connection = True

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
            ids, about = {path: blob_id(data) for path, data in files.items()}, {"uploadMode": "regular"}
            paths = [sent["path"] for sent in json.loads(body)["files"]]
            modes = [{"path": path, "shouldIgnore": False, "oid": ids.get(path), **about} for path in paths]
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


class _Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address) -> None:
        # A client may reset the connection that it kept; the thread that waits on it may end in a later test.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Serve on a free port of this machine."""
    hub = Hub()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def client_of_hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Serve, and let `huggingface_hub` in this process ask that server, with a cache of its own."""
    client = pytest.importorskip("huggingface_hub")
    constants = pytest.importorskip("huggingface_hub.constants")
    with running_hub() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        template = f"{server.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server
        client.utils.close_session()  # its connection, which the server would wait for
