"""`tellapart serve` and `tellapart board export`, and the site that it writes."""

import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

import tellapart as ta
from boards import addresses_of, files_of, write_run
from facts import raises
from sets import contents
from tellapart.board.rendering import StaticSite
from tellapart.board.serve import _bind_address
from tellapart.board.views.leaderboard import all_benchmarks
from tellapart.errors import RunError


def test_what_cannot_be_served_or_read_is_an_error_that_says_what_to_do(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with raises(RunError, f"127.0.0.1:{port}", "host=", "port="):
            ta.serve(tmp_path, port=port)
    with raises(RunError, "--out", "folder"):
        ta.board_export(tmp_path, runs=tmp_path / "gone")


def test_answers_wait_for_no_acknowledgement_of_the_reader():
    with _bind_address("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_export_writes_a_site_and_says_where(command, tmp_path):
    write_run(tmp_path / "runs" / "a", "some-model", skill=1.0)
    done = command("board", "export", "--runs", "runs", "--out", tmp_path / "site", "--items", 2, code=0)
    assert f"open {tmp_path / 'site' / 'index.html'}" in done.out
    assert "some-model" in (tmp_path / "site" / "index.html").read_text()


@pytest.mark.slow
def test_a_board_file_names_runs_and_numbers(command, tmp_path):
    write_run(tmp_path / "mine" / "a", "some-model", skill=1.0)
    paper = 'source = "s"\n[[models]]\nname = "paper"\n[models.scores.shapes]\ngroup_score = 0.5'
    (tmp_path / "records.toml").write_text(paper)
    (tmp_path / "board.toml").write_text('[board]\ntitle = "Our <board>"\nruns = ["mine"]\nimported = ["records.toml"]')
    command("board", "export", "--board", "board.toml", "--out", "site", code=0)
    text = (tmp_path / "site" / "index.html").read_text()
    assert "<h1>Our &lt;board&gt;</h1>" in text and "some-model" in text and "paper" in text
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["a"]  # nothing is written beside the runs


NAMED = ("--name", "board.example.org")


@pytest.fixture
def served(request, tmp_path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server's address and process; it goes by another name, too, unless a test asks for no configuration."""
    write_run(tmp_path / "runs" / "a", "some-model", skill=1.0)
    command = [sys.executable, "-m", "tellapart", "serve", "--port", "0", *getattr(request, "param", NAMED)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server = subprocess.Popen(command, cwd=tmp_path, **streams)
    found = re.search(r"http://\S+", server.stdout.readline())
    assert found
    yield found[0], server
    server.kill()
    server.wait()
    server.stdout.close()


@pytest.mark.slow
def test_a_served_board_answers_for_its_own_names_and_prints_no_secret(served):
    at, server = served
    secret = {"Authorization": "Bearer tap_aa_secret", "Cookie": "tellapart_session=secret"}
    with httpx.Client(transport=httpx.HTTPTransport(retries=6), timeout=30, base_url=at) as client:
        page = client.get("/", params={"token": "tap_aa_secret"}, headers=secret)
        assert "some-model" in page.text and page.headers["x-content-type-options"] == "nosniff"
        assert "server" not in page.headers
        assert client.get("/", headers={"Host": "board.example.org"}).status_code == 200
        for host in ("evil.example", "board.example.org.evil.example", "127.0.0.1.nip.example:80"):
            answer = client.get("/", headers={"Host": host, **secret})
            assert (answer.status_code, "some-model" in answer.text) == (400, False)
        # A connection that is open still, and another that sends nothing, keep it from nothing.
        with socket.create_connection((client.base_url.host, client.base_url.port)):
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=30) in {0, 130}
    assert "secret" not in server.stdout.read()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="Linux alone limits another process")
@pytest.mark.parametrize("served", [()], indirect=True)
def test_more_idle_connections_than_the_server_has_files_keep_no_reader_out(served):
    at, server = served
    address = (httpx.URL(at).host, httpx.URL(at).port)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (1024, 1024))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("this process may not open as many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    with ExitStack() as idle:
        for _ in range(1500):
            one = idle.enter_context(socket.create_connection(address, timeout=20))
            with suppress(ConnectionError):  # it made room for others
                one.sendall(b"GET / HT")
        for _ in range(3):
            assert httpx.get(at, timeout=3).status_code == 200
    assert httpx.get(at, timeout=9, headers={"Host": "evil.example"}).status_code == 400  # without a name, too


@pytest.fixture(scope="module")
def site(shown, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert StaticSite(shown.tables, folder, most_items=5).write() == len(list(folder.rglob("index.html")))
    return folder


@pytest.mark.slow
def test_every_address_is_a_file_of_the_site(site):
    seen = 0
    for page in site.rglob("index.html"):
        assert not [address for address in addresses_of(page) if address.startswith(("/", "http", "?"))], page
        targets = files_of(page)
        assert all(target.is_relative_to(site.resolve()) for target in targets), page
        seen += len(targets)
    assert seen > 100


def test_its_data_is_what_the_server_sends_of_the_items_that_most_models_fail_without_a_script(site, client):
    for path in ("", "benchmarks/shapes", "models/good", "compare/good/near", "ranks"):
        for kind, name in (("json", "data.json"), ("csv", "data.csv"), ("latex", "data.tex")):
            sent = client.get(f"/{path}", params={"format": kind}).content.decode()
            assert (site / path / name).read_bytes().decode().rstrip("\n") == sent.rstrip("\n")
    shown = {int(path.name) for path in (site / "benchmarks/shapes/items").iterdir() if path.name.isdigit()}
    worst = client.get("/benchmarks/shapes/items/pages/1?format=json").json()["items"][:5]
    assert shown == {item["position"] for item in worst}
    for page in site.rglob("index.html"):
        assert "<script" not in page.read_text(encoding="utf-8")
    assert not list(site.rglob("*.js"))


@pytest.mark.parametrize("most", [1, 2])
def test_the_models_that_the_first_page_begins_with_are_compared_and_no_others(shown, tmp_path, most):
    StaticSite(shown.tables, tmp_path, most_items=0, most_compared=most).write()
    first = {row.model.slug for row in all_benchmarks(shown.tables).rows[:most]}
    found = {frozenset(page.parts[-3:-1]) for page in tmp_path.glob("compare/*/*/index.html")}
    assert found == ({frozenset(first)} if most == 2 else set())
    for page in tmp_path.glob("models/*/index.html"):
        linked = {"/".join(a.split("/")[-3:-1]) for a in addresses_of(page) if "/compare/" in a}
        assert all(set(each.split("/")) <= first for each in linked - {"../compare"})


def test_a_small_site_has_no_data_no_pages_of_parts_and_no_address_of_them(shown, site: Path, tmp_path: Path) -> None:
    StaticSite(shown.tables, tmp_path, most_items=5, small=True).write()
    kept = {path.relative_to(tmp_path) for path in tmp_path.rglob("index.html")}
    every = {path.relative_to(site) for path in site.rglob("index.html")}
    ranks = {path for path in every if path.parts[-2:-1] == ("ranks",) and path.parts[0] != "ranks"}
    left = ranks | {path for path in every if {"by", "map"} & set(path.parts)}
    assert left and kept == every - left
    assert not list(tmp_path.rglob("data.*"))
    for page in tmp_path.rglob("index.html"):
        assert files_of(page)
        assert 'class="bar"' not in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_writing_it_again_changes_no_byte(shown, site: Path, tmp_path: Path) -> None:
    StaticSite(shown.tables, tmp_path, most_items=5).write()
    assert contents(tmp_path) == contents(site)


def test_a_folder_that_cannot_be_written_is_an_error(shown, tmp_path):
    (tmp_path / "file").write_text("")
    with raises(RunError, path=tmp_path / "file"):
        StaticSite(shown.tables, tmp_path / "file").write()
