"""The gallery shows every kind of picture that there is, and no picture of the documents is older than its numbers."""

import json
import re
from pathlib import Path

import pytest

import tellapart as ta
from scripts import import_document
from tellapart.report.plots.prepare import KINDS

DOCS = Path(__file__).parent.parent / "docs"


def test_every_picture_of_the_page_is_there():
    shown = re.findall(r"\]\((gallery/.+?)\)", (DOCS / "gallery.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(f"gallery/{path.name}" for path in (DOCS / "gallery").iterdir())
    assert sum((DOCS / path).stat().st_size for path in shown) <= 1_500_000
    assert all((DOCS / path).read_bytes()[8:12] == b"WEBP" for path in shown)


def test_the_page_has_every_kind_of_plot_and_a_command_for_each_picture():
    entries = import_document("gallery").ENTRIES
    commands = [command for entry in entries for command in entry.commands]
    assert {command.split()[2] for command in commands if command.startswith("tellapart plot ")} == set(KINDS)
    assert all(entry.commands and entry.commands[-1].startswith("tellapart ") for entry in entries)
    made = " ".join(commands)
    for page in ("run", "items", "audit", "train", "build", "board export", "time"):
        assert f"tellapart {page} " in made


def test_the_numbers_in_the_pictures_are_those_of_the_demo_that_ships(tmp_path):
    kept = json.loads((DOCS / "pictures.json").read_text(encoding="utf-8"))
    now = ta.evaluate(["constant", "bag-of-words"], "demo", out=tmp_path / "r", cache=False, progress=False)
    assert kept["fingerprint"] == now.result().benchmarks["demo"].fingerprint, "run `make pictures`"
    assert float(kept["percent"]["bag-of-words"]["group_score"]) == pytest.approx(
        100 * now.value("group_score", model="bag-of-words"), abs=0.005
    )
    # A test of its own holds the documents' output to the command; the pictures are held to the documents.
    documents = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "start.md", DOCS.parent / "README.md"))
    quoted = dict(re.findall(r"^(\S+) +(\d+\.\d\d) \[[^\]]+\](?: +\d+\.\d){2,}$", documents, re.MULTILINE))
    assert quoted.keys() == kept["percent"].keys()
    assert quoted == {model: numbers["group_score"] for model, numbers in kept["percent"].items()}, (
        "run `make pictures`"
    )
