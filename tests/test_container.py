"""The container of a board, and the folder of a static Space: read, and their steps run without an engine."""

import csv
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from examples.clip_zoo_board.build import build

ROOT = Path(__file__).parents[1]
ZOO = ROOT / "examples" / "clip_zoo_board"


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with its text."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def test_the_container_copies_files_that_are_there_and_runs_as_a_user_with_a_health_check(steps):
    names, found = [name for name, _ in steps], dict(steps)
    assert names[0] == "FROM"
    assert re.fullmatch(r"[a-z]+:\d+\.\d+\S*@sha256:[0-9a-f]{64}", found["FROM"])  # what was tried, whoever moves a tag
    assert "ADD" not in names
    assert found["USER"] not in {"root", "0"}
    assert names.index("USER") > max(k for k, name in enumerate(names) if name in {"RUN", "COPY"})
    assert {"HEALTHCHECK", "VOLUME", "EXPOSE", "CMD"} <= set(names)
    assert found["CMD"].startswith("[")  # no shell between the engine's signal and the server
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    for name, text in steps:
        if name == "COPY":
            for source in shlex.split(text)[:-1]:
                assert (ROOT / source).exists() and source in kept


def test_the_copied_files_are_all_that_the_package_is_built_from(steps):
    copied = {source for name, text in steps if name == "COPY" for source in shlex.split(text)[:-1]}
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hatch = content["tool"]["hatch"]
    needed = {"pyproject.toml", hatch["version"]["path"], *content["project"]["license-files"]}
    needed |= {part["path"] for part in hatch["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]}
    needed |= {*hatch["build"]["targets"]["wheel"]["packages"]}
    assert {name for name in needed if name.partition("/")[0] not in copied} == set()
    [install] = [text for name, text in steps if name == "RUN"]
    extra = re.search(r"tellapart\[(\w+)\]", install)
    assert extra and extra[1] in content["project"]["optional-dependencies"]


@pytest.fixture
def served(steps, tmp_path) -> Iterator[str]:
    """The address of a board that the container's command serves, at another port and folder."""
    shutil.copy(ZOO / "board.toml", tmp_path)
    shutil.copy(ZOO / "records.toml", tmp_path)
    command = json.loads(dict(steps)["CMD"])
    command[command.index("--port") + 1] = "0"
    line = [part.replace("/srv/board", str(tmp_path)) for part in command[1:]]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server = subprocess.Popen([sys.executable, "-m", "tellapart", *line], cwd=tmp_path, **streams)
    found = re.search(r"http://\S+?:(\d+)", server.stdout.readline())
    assert found
    yield f"http://127.0.0.1:{found[1]}"
    server.send_signal(signal.SIGINT)
    server.wait(timeout=30)
    server.stdout.close()


@pytest.mark.slow
def test_its_command_serves_a_board_that_its_health_check_finds(steps, served):
    check = json.loads(dict(steps)["HEALTHCHECK"].partition("CMD ")[2])
    code = check[2].replace("http://127.0.0.1:8421", served)
    for _ in range(20):
        done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
        if done.returncode == 0:
            break
        time.sleep(0.5)
    assert done.returncode == 0, done.stderr


def test_the_spaces_page_has_the_front_matter_of_a_static_space():
    _, front, text = (ZOO / "space" / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    matter = yaml.safe_load(front)
    assert (matter["sdk"], matter["app_file"]) == ("static", "index.html")
    assert {"title", "emoji", "colorFrom", "colorTo"} <= matter.keys()
    assert "vl_compo" in text


@pytest.mark.slow
def test_the_board_of_all_checkpoints_has_the_size_that_the_document_gives(command, tmp_path):
    results = ROOT.parent / "shared" / "data" / "vl_compo" / "individual_results.csv"
    if not results.is_file():
        pytest.skip("vl_compo's results are not beside this checkout")
    with results.open(encoding="utf-8") as file:
        (tmp_path / "records.toml").write_text(build(list(csv.DictReader(file)), without="elevater-"), encoding="utf-8")
    shutil.copy(ZOO / "board.toml", tmp_path)
    board = ("--board", tmp_path / "board.toml", "--out", tmp_path / "zoo", "--small", "--json")
    done = command("board", "export", *board)
    size = sum(path.stat().st_size for path in (tmp_path / "zoo").rglob("*") if path.is_file())
    stated = re.search(r"has (\d+) pages in ([\d.]+) MB", (ROOT / "docs" / "board_site.md").read_text(encoding="utf-8"))
    assert done.json["pages"] == int(stated[1]) and size <= 10_000_000
    assert size / 1e6 == pytest.approx(float(stated[2]), abs=0.1)
