"""The files that tests read come from their repositories byte for byte, and nothing else is written."""

import functools
import hashlib
import http.server
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import published_files
import pytest

from facts import raises

SHARED = Path(__file__).parents[2] / "shared" / "data"
ROWS = b'{"a": 1}\n{"a": 2}\n'


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def mirror(tmp_path) -> Iterator[tuple[Path, str]]:
    """A folder that a server on this machine serves, and the server's address."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    handler = functools.partial(QuietHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def fetch(mirror, tmp_path, monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Fetch from the mirror into `tmp_path / "data"`: exit status, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        line = ["published_files.py", str(tmp_path / "data"), "--from", mirror[1], *arguments]
        monkeypatch.setattr(sys, "argv", line)
        return published_files.main(), *capsys.readouterr()

    return run


@pytest.fixture
def pairs(mirror, monkeypatch) -> Path:
    """A table of one source with two files, whose second has a path of its own; return the mirror's first file."""
    sha256 = hashlib.sha256(ROWS).hexdigest()
    files = {"a.jsonl": sha256, "nested/b.jsonl": {"path": "with space/b.jsonl", "commit": "c2", "sha256": sha256}}
    source = {"repository": "team/pairs", "commit": "c1", "licence": "MIT", "folder": "data/", "files": files}
    monkeypatch.setattr(published_files, "SOURCES", {"pairs": source})
    for path in ("team/pairs/c1/data/a.jsonl", "team/pairs/c2/with space/b.jsonl"):
        (mirror[0] / path).parent.mkdir(parents=True)
        (mirror[0] / path).write_bytes(ROWS)
    return mirror[0] / "team/pairs/c1/data/a.jsonl"


def test_files_are_fetched_once(pairs, fetch, tmp_path):
    """A second call needs no server's answer for what is there."""
    status, out, _ = fetch()
    assert status == 0 and "2 of 2" in out and "team/pairs" in out and "MIT" in out
    assert sorted(path.name for path in (tmp_path / "data").rglob("*") if path.is_file()) == ["a.jsonl", "b.jsonl"]
    assert (tmp_path / "data/pairs/nested/b.jsonl").read_bytes() == ROWS
    pairs.unlink()
    assert fetch("--only", "pairs")[0] == 0


@pytest.mark.parametrize("content", [ROWS + b"\n", b"", None], ids=["other bytes", "nothing", "no such file"])
def test_other_bytes_are_not_written(content, pairs, fetch, tmp_path):
    """What is not the table's file is told with its address; the other file arrives."""
    pairs.unlink() if content is None else pairs.write_bytes(content)
    status, out, error = fetch()
    assert status == 1 and "1 of 2" in out and "team/pairs/c1/data/a.jsonl" in error
    assert [path.name for path in (tmp_path / "data").rglob("*") if path.is_file()] == ["b.jsonl"]


def test_a_file_that_is_there_is_not_written_over(pairs, fetch, tmp_path):
    kept = tmp_path / "data/pairs/a.jsonl"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"mine")
    status, _, error = fetch()
    assert (status, kept.read_bytes()) == (1, b"mine") and str(kept) in error


def test_an_unknown_source_is_refused_with_the_sources(pairs, fetch):
    with raises(SystemExit, "2"):  # before anything is fetched
        fetch("--only", "pair")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published files are not here (shared/data)")
def test_the_table_names_the_files_that_tests_read(mirror, fetch, tmp_path):
    """Every file of the table is fetched from a mirror of its address, byte for byte."""
    for source in published_files.SOURCES:
        for file in published_files.files_of(source):
            place = mirror[0] / file.address
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(SHARED / source / file.name, place)
    status, _, error = fetch()
    assert (status, error) == (0, "")
    fetched = [path.relative_to(tmp_path / "data") for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert len(fetched) == sum(len(table["files"]) for table in published_files.SOURCES.values())
    assert all((tmp_path / "data" / name).read_bytes() == (SHARED / name).read_bytes() for name in fetched)
