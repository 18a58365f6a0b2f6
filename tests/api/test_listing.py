"""What `ls benchmarks` lists, its filters, and what `doctor` finds of extras and of the hub."""

import importlib.metadata
import socket

import pytest

import tellapart as ta
from facts import check_facts, raises
from tellapart.api import doctor as module
from tellapart.api.doctor import EXTRAS, doctor
from tellapart.errors import UnknownNameError


def names(**wanted: str) -> set[str]:
    return {row["name"] for row in ta.ls("benchmarks", **wanted)}


def test_each_filter_keeps_its_benchmarks_and_a_row_has_what_a_reader_chooses_by():
    assert names(task="ratings") == {"tifa", "genai-bench", "seetrue"}
    assert (names(task="ratings", year="2023"), names(language="sw")) == ({"tifa", "seetrue"}, {"marvl-sw"})
    films = names(media="videos")
    assert {"vinoground", "camerabench", "gebc-val"} < films and not films & {"demo", "winoground"}
    assert names(language="unknown") < names()
    (row,) = ta.ls("benchmarks", language="ta")
    assert (row["media"], row["languages"], row["year"], row["items"]) == ("images", ("ta",), 2021, 1242)
    assert (row["tie_rule"], row["licence"]) == ("wrong", "CC BY 4.0") and "iglue" in row["source"]


def test_the_command_has_the_same_and_shows_what_nobody_stated(command):
    films = command("ls", "benchmarks", "--media", "videos", "--json").json
    assert {row["name"] for row in films} == names(media="videos")
    shown = command("ls", "benchmarks", "--task", "ratings")
    assert "genai-bench" in shown.out and "unknown" in shown.out and "winoground" not in shown.out


@pytest.mark.parametrize(
    ("wanted", "facts"),
    [
        ({"media": "sounds"}, ("media='sounds'", "images, videos")),
        ({"year": "1999"}, ("year='1999'", "2023")),
        ({"task": "rating"}, ("task='rating'", "ratings", "pairs")),
        ({"language": "ar"}, ("language='ar'", "sw", "unknown")),
    ],
)
def test_a_value_that_none_has_is_refused_with_those_there_are(wanted, facts):
    with raises(UnknownNameError, *facts):
        ta.ls("benchmarks", **wanted)


# `doctor`: every extra of the package, what is missing, and a hub that answers or does not.


@pytest.fixture(autouse=True)
def _offline(monkeypatch) -> None:
    monkeypatch.setattr(pytest.importorskip("huggingface_hub.constants"), "HF_HUB_OFFLINE", True)


def test_every_extra_has_a_line_and_a_missing_package_the_line_that_installs_it(tmp_path, monkeypatch, capsys):
    extras = importlib.metadata.metadata("tellapart").get_all("Provides-Extra") or []
    assert {*EXTRAS} == {*extras} - {"docs", "dev"}
    monkeypatch.setattr(module, "_is_installed", lambda package: package != "ray")
    found = doctor(tmp_path)
    assert {extra["name"]: extra["missing"] for extra in found.extras if extra["missing"]} == {"ray": ("ray",)}
    found.show()
    check_facts(capsys.readouterr().out, "missing: ray", "tellapart[ray]", str(tmp_path), "HF_HUB_OFFLINE", "installed")


def test_a_hub_that_does_not_answer_is_named(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{port}")
    check_facts(doctor(tmp_path).hub, f"http://127.0.0.1:{port}", "reached", "token")
