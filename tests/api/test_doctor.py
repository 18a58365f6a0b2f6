"""`doctor`: every extra of the package, what is missing, and a hub that answers or does not."""

import importlib.metadata
import socket

import pytest

from facts import check_facts
from tellapart.api import doctor as module
from tellapart.api.doctor import EXTRAS, doctor


@pytest.fixture(autouse=True)
def _offline(monkeypatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_every_extra_for_users_has_a_line():
    extras = importlib.metadata.metadata("tellapart").get_all("Provides-Extra") or []
    assert {*EXTRAS} == {*extras} - {"docs", "dev"}


def test_a_missing_package_is_named_with_the_line_that_installs_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "_is_installed", lambda package: package != "ray")
    found = doctor(tmp_path)
    assert {extra["name"]: extra["missing"] for extra in found.extras if extra["missing"]} == {"ray": ("ray",)}
    found.show()
    check_facts(capsys.readouterr().out, "missing: ray", "tellapart[ray]", str(tmp_path), "HF_HUB_OFFLINE", "installed")


def test_a_hub_that_does_not_answer_is_named(tmp_path, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    check_facts(doctor(tmp_path).hub, f"http://127.0.0.1:{port}", "reached", "token")
