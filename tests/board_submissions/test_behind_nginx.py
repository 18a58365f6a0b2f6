"""A real nginx before a real server, configured as in docs/board_server.md: https, uploads, smuggling."""

import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from boards import until

NAME = "board.example.org"
DOCUMENT = Path(__file__).parents[2] / "docs" / "board_server.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None or shutil.which("openssl") is None, reason="no nginx, or no openssl, here"),
]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return not tried.connect_ex(("127.0.0.1", port))


@dataclass
class Site:
    """A board behind nginx: how to reach it, and the board's users and files."""

    board: Any
    port: int
    plain: int
    direct: int
    certificate: Path

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    def client(self, **more) -> httpx.Client:
        """A client that takes this machine for the one of that name."""
        at = f"https://127.0.0.1:{self.port}"
        headers = {"Host": NAME, **more.pop("headers", {})}
        return httpx.Client(base_url=at, headers=headers, verify=self.context(), timeout=60, **more)

    def say(self, data: bytes) -> bytes:
        """Send bytes as they are, and return all that comes back."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=10) as line,
            self.context().wrap_socket(line, server_hostname=NAME) as secret,
        ):
            secret.sendall(data)
            secret.settimeout(3)
            said = b""
            try:
                while piece := secret.recv(1 << 16):
                    said += piece
                    secret.settimeout(0.3)  # an answer has begun; a connection that is kept says nothing more
            except (TimeoutError, ssl.SSLError):
                pass
            return said


def configuration(folder: Path, board: int, plain: int, port: int, path: str, *, strips: bool) -> str:
    """The document's, with this test's ports and files, and below a path as the document has it."""
    shown = re.search(r"```nginx\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert shown
    text = shown[1].replace("location / {", f"location {path}/ {{")
    if strips:
        text = text.replace("proxy_pass http://board;", "proxy_pass http://board/;")
    for old, new in {
        "127.0.0.1:8421": f"127.0.0.1:{board}",
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/board.example.org.pem": f"{folder / 'c.pem'}",
        "/etc/ssl/board.example.org.key": f"{folder / 'c.key'}",
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder / kind};\n" for kind in kinds)
    return (
        f"daemon off; master_process off; pid {folder / 'pid'}; error_log {folder / 'error.log'};\nevents {{}}\n"
        f"http {{\naccess_log {folder / 'access.log'};\n{temporary}{text}\n}}\n"
    )


@pytest.fixture
def site(board, tmp_path, request) -> Iterator[Site]:
    made = board(8)
    made.clock.now = time.time()  # the server has no other
    for name in made.tokens:
        made.tokens[name] = made.service.accounts.issue(name, days=1, by="test")[1]
    file = made.file(server="spare_bytes = 0\nsign_ins_a_minute = 5\nrequests_a_minute = 6000\n")
    folder, direct, plain, port = tmp_path / "nginx", free_port(), free_port(), free_port()
    folder.mkdir()
    subject = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME},IP:127.0.0.1"]
    files = ["-keyout", folder / "c.key", "-out", folder / "c.pem"]
    certify = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files]
    subprocess.run(certify, check=True, capture_output=True)
    how = getattr(request, "param", {})
    path, strips = how.get("path", ""), how.get("strips", False)
    (folder / "nginx.conf").write_text(configuration(folder, direct, plain, port, path, strips=strips))
    words = ["--board", file, "--port", direct, "--name", NAME, "--proxy", how.get("trusted", "127.0.0.1")]
    words += ["--root-path", f"{path}/"] if path else []
    served = [
        subprocess.Popen([sys.executable, "-m", "tellapart", "serve", *map(str, words)], cwd=tmp_path),
        subprocess.Popen([NGINX, "-p", folder, "-c", folder / "nginx.conf"]),
    ]
    try:
        until(lambda: is_open(direct) and is_open(port), every=0.05)
        yield Site(made, port, plain, direct, folder / "c.pem")
    finally:
        for each in served:
            each.kill()
            each.wait()


def signed_in(client: httpx.Client, token: str, root: str = "") -> httpx.Response:
    return client.post(f"{root}/sign-in", data={"token": token})


def test_pages_uploads_and_sessions_go_through_https(site):
    told = httpx.get(f"http://127.0.0.1:{site.plain}/hidden?x=1", headers={"Host": NAME})
    assert (told.status_code, told.headers["location"]) == (301, f"https://{NAME}/hidden?x=1")
    with site.client() as client:
        first = client.get("/")
        assert first.status_code == 200 and "content-security-policy" in first.headers
        assert "http://" not in re.sub(r'xmlns="[^"]*"', "", first.text)  # no link leads out of https
        assert not re.search(r'(?:href|src|action)="(?![/#?"]|https://)', first.text)
        assert client.get("/", headers={"Host": "evil.example"}).status_code in (301, 400, 421)
        come = signed_in(client, site.board.tokens["ann"])
        cookie = come.headers["set-cookie"]
        assert (come.status_code, come.headers["location"]) == (303, "/submissions")
        assert {"HttpOnly", "Secure", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
        client.cookies.clear()
        data, ann = site.board.npz(site.board.right()), site.board.of("ann")
        address = "/hidden/clocks/submissions?model=mine&file=s.npz"
        sent = client.post(address, content=data, headers=ann)
        assert sent.status_code == 202, sent.text
        at = sent.json()["at"]
        assert sent.headers["location"] == at and at.startswith("/submissions/")
        end = time.monotonic() + 60
        while (seen := client.get(at, headers=ann).json()["submission"])["state"] != "done":
            assert time.monotonic() < end and seen["state"] in ("received", "validated", "measuring"), seen
            time.sleep(0.2)
        assert seen["public"]["values"]["group_score"] == 1.0
        task = client.get("/hidden/clocks/task.zip", headers=site.board.of("rita"))
        assert task.content[:2] == b"PK" and len(task.content) == int(task.headers["content-length"])
        # Of a body without a length (chunks) the proxy makes one with a length.
        again = client.post(address, content=iter([data[:100], data[100:]]), headers=ann)
        assert (again.status_code, again.json()["again"]) == (200, True)


@pytest.mark.parametrize("site", [{"path": "/lab/board"}, {"path": "/lab/board", "strips": True}], indirect=True)
def test_below_a_path_every_address_stays_below_it(site):
    root, reader = "/lab/board", {"Accept": "text/html"}
    with site.client() as client:
        come = signed_in(client, site.board.tokens["ann"], root)
        assert (come.status_code, come.headers["location"]) == (303, f"{root}/submissions")
        assert f"Path={root}/;" in come.headers["set-cookie"]
        # Follow every link of every page; a cookie of that path goes along.
        seen, todo = set[str](), [f"{root}/"]
        while todo:
            at = todo.pop()
            answer = client.get(at, headers=reader)
            expected = 303 if at.endswith("/sign-in") else 200  # who is signed in sees what was sent
            assert answer.status_code == expected, (at, answer.status_code)
            seen.add(at)
            pages = answer.text if "html" in answer.headers.get("content-type", "") else ""
            for found in re.findall(r'(?:href|src|action|hx-get)="([^"#]*)"', pages):
                assert found.startswith(("?", f"{root}/", "https://")), (at, found)
                address = found if found.startswith("/") else ""
                if address and not address.endswith(("/sign-out", "/submissions")) and address not in {*seen, *todo}:
                    todo.append(address)
        assert {f"{root}/hidden/clocks", f"{root}/static/board.css", f"{root}/hidden/clocks/task.zip"} <= seen
        assert client.get(f"{root}/compare?a=x&b=y", headers=reader).headers["location"] == f"{root}/compare/x/y"
        assert client.get(f"{root}/submissions", headers=reader).status_code == 200  # signed in still
        listed = client.get(f"{root}/hidden?format=json").json()["benchmarks"]
        assert listed[0]["task_file"] == f"{root}/hidden/clocks/task.zip"
        assert client.get(f"{root}/openapi.json").json()["servers"][0]["url"] == root
        key = re.search(r'name="key" value="([^"]+)"', client.get(f"{root}/hidden/clocks", headers=reader).text)
        assert key
        files = {"file": ("s.npz", site.board.npz(site.board.right()), "application/octet-stream")}
        sent = client.post(f"{root}/hidden/clocks/submissions", data={"key": key[1], "model": "mine"}, files=files)
        at = sent.headers["location"]
        assert (sent.status_code, at.rpartition("/")[0]) == (303, f"{root}/submissions"), sent.text
        assert f'hx-get="{at}"' in client.get(at, headers=reader).text
        gone = client.post(f"{root}/sign-out", data={"key": key[1]})
        assert (gone.headers["location"], f"Path={root}/;" in gone.headers["set-cookie"]) == (f"{root}/hidden", True)
        assert client.get(f"{root}/submissions", headers=reader).status_code == 401


def test_what_a_client_says_of_its_address_and_scheme_counts_for_nothing(site):
    with site.client() as client:
        claims = [(f"203.0.113.{k}", f"for=203.0.113.{k};proto=http") for k in range(8)]
        heads = ({"X-Forwarded-For": address, "Forwarded": forwarded} for address, forwarded in claims)
        said = [client.post("/sign-in", data={"token": "tap_no_such"}, headers=head).status_code for head in heads]
    assert said[:4] == [401] * 4 and 429 in said, said


@pytest.mark.parametrize("site", [{"trusted": "192.0.2.1"}], indirect=True)
def test_a_proxy_that_is_not_named_is_not_believed(site):
    with site.client() as client:
        come = signed_in(client, site.board.tokens["ann"])
        assert come.status_code == 303 and "Secure" not in come.headers["set-cookie"]


def smuggled(inner: str) -> dict[str, bytes]:
    """Requests of which two readers may find different ends; `inner` would be the second one."""
    head = f"POST /sign-in HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    body = f"0\r\n\r\n{inner}"
    forms = {
        "both lengths": f"{head}Content-Length: {len(body)}\r\nTransfer-Encoding: chunked\r\n\r\n{body}",
        "two lengths": f"{head}Content-Length: 5\r\nContent-Length: {len(body)}\r\n\r\n{body}",
        "a list of lengths": f"{head}Content-Length: 5, {len(body)}\r\n\r\n{body}",
        "unknown coding": f"{head}Content-Length: {len(body)}\r\nTransfer-Encoding: xchunked\r\n\r\n{body}",
        "folded": f"{head}Content-Length: {len(body)}\r\nTransfer-Encoding:\r\n chunked\r\n\r\n{body}",
        "tab": f"{head}Content-Length: {len(body)}\r\nTransfer-Encoding:\tchunked\r\n\r\n{body}",
        "blank before colon": f"{head}Content-Length: {len(body)}\r\nTransfer-Encoding : chunked\r\n\r\n{body}",
        "underscore": f"{head}Content-Length: {len(body)}\r\nTransfer_Encoding: chunked\r\n\r\n{body}",
        "bare line feeds": f"{head}Content-Length: {len(body)}\nTransfer-Encoding: chunked\n\n{body}",
        "plus": f"{head}Content-Length: +{len(body)}\r\n\r\n{body}",
        "chunk extension": f"{head}Transfer-Encoding: chunked\r\n\r\n0;a=\n\r\n\r\n{inner}",
        "chunk size": f"{head}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n{inner}",
        "GET with a body": f"GET / HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: {len(inner)}\r\n\r\n{inner}",
    }
    return {name: form.encode() for name, form in forms.items()}


def test_no_request_is_smuggled_into_anothers_connection(site):
    inner = f"GET /models/smuggled HTTP/1.1\r\nHost: {NAME}\r\nX-Rest: "
    with site.client() as client:
        before = client.get("/hidden?format=json").json()
        for name, data in smuggled(inner).items():
            for _ in range(3):
                said = site.say(data)
                time.sleep(0.2)  # nginx takes 20 requests a second, after the first hundred
                for _ in range(4):  # the next on the proxy's open connections get what they asked for
                    answer = client.get("/hidden?format=json")
                    assert (answer.status_code, answer.json()) == (200, before), (name, said[:300])
            # At most the answer to the first one, and to what nginx itself took for a second.
            assert said.count(b"HTTP/1.1 ") <= 2, (name, said)
