"""Each builder from video, whole: audited, and the same bytes after `kill -9` and by any number of workers."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from facts import raises
from tellapart.auditing.audit import audit
from tellapart.builders.journal import journal_of
from tellapart.builders.pipeline import build
from tellapart.catalog import load
from tellapart.data.folder import read_pair_set
from tellapart.data.validation import validate_table
from tellapart.errors import MissingDependencyError

RECIPES = Path(__file__).parents[3] / "docs" / "recipes"
BUILDERS = ("action-genome", "geb-plus", "youcook2", "timestamped-captions")

#: A build that waits after each candidate, so that it can be stopped in the middle.
SLOWLY = """
import sys, time
from pathlib import Path
from tellapart.builders.pipeline import build
def wait(stage, done, total):
    print(done, flush=True)
    time.sleep(0.3)
build(Path(sys.argv[1]), Path(sys.argv[2]), progress=wait)
"""


def annotations(builder: str) -> tuple[str, str]:
    """Return a file's name and text for 8 moments of the video `v`, 0.5 s apart, each of its own caption."""
    words = ("red", "blue", "green", "white", "black", "pink", "grey", "brown")
    times = [0.25 + 0.5 * k for k in range(8)]
    if builder == "timestamped-captions":
        rows = [{"video": "v", "time": t, "caption": f"a {word} box"} for t, word in zip(times, words, strict=True)]
        return "captions.jsonl", "".join(json.dumps(row) + "\n" for row in rows)
    if builder == "youcook2":
        steps = [
            {"id": k, "segment": [t - 0.25, t + 0.25], "sentence": f"add the {words[k]} one"}
            for k, t in enumerate(times)
        ]
        return "a.json", json.dumps({"database": {"v": {"subset": "training", "annotations": steps}}})
    if builder == "geb-plus":
        return "a.json", json.dumps({"v": [boundary(k, words) for k in range(7)]})
    ways = [(a, s) for a in ("looking_at", "not_looking_at") for s in ("above", "behind", "beneath", "in_front_of")]
    contacts = ("holding", "touching", "wiping", "eating", "carrying", "wearing", "twisting", "lying_on")
    graphs = {}
    for k, ((attention, spatial), contact) in enumerate(zip(ways, contacts, strict=True)):
        row = {"class": "box", "visible": True, "bbox": None, "attention_relationship": [attention]}
        row |= {"spatial_relationship": [spatial], "contacting_relationship": [contact]}
        graphs[f"v.mp4/{7 + 12 * k:06d}.png"] = [row]
    return "a.json", json.dumps(graphs)


def boundary(k: int, words: tuple[str, ...]) -> dict[str, object]:
    before, after = words[k], words[k + 1]
    row = {
        "boundary_id": f"v_{k}A",
        "timestamp": 0.5 * (k + 1),
        "prev_timestamp": 0.5 * k,
        "next_timestamp": 0.5 * (k + 2),
    }
    row |= {"label": "Change of Color", "subject": "box", "status_before": before, "status_after": after}
    return row | {"action_of_cause": None, "caption": f"Subject: box //Status_Before: {before} //Status_After: {after}"}


@pytest.fixture
def prepared(
    film, recipe: Callable[..., Path], magenta_model: Callable[[Path], Path], tmp_path: Path
) -> Callable[[str], Path]:
    """Write the video, the annotations and the recipe of a builder."""

    def prepare(builder: str) -> Path:
        film(tmp_path / "videos" / "v.mp4", [40 * n for n in range(102)], bf="2", g="25")
        name, text = annotations(builder)
        (tmp_path / name).write_text(text)
        key = "captions" if builder == "timestamped-captions" else "annotations"
        options = f'{key} = "{name}"\n'
        if builder == "youcook2":
            magenta_model(tmp_path / "yunet.onnx")
            options += 'face_model = "yunet.onnx"\n'
        return recipe(builder, options, '[[filters]]\nname = "same_pixels"')

    return prepare


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("builder", BUILDERS)
def test_a_build_that_was_killed_goes_on_with_other_workers_and_ends_in_the_same_bytes(
    prepared: Callable[[str], Path], tmp_path: Path, builder: str
) -> None:
    path = prepared(builder)
    whole = build(path, tmp_path / "whole")
    cut = tmp_path / "cut"
    command = [sys.executable, "-c", SLOWLY, str(path), str(cut)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 4:  # more than the half second after which outcomes are on the disk
            pass
        process.send_signal(signal.SIGKILL)
    assert not cut.exists()
    with sqlite3.connect(journal_of(cut)) as journal:
        (kept,) = journal.execute("SELECT count(*) FROM outcome").fetchone()
    assert 1 <= kept < whole.funnel.candidates
    again = build(path, cut, workers=2)
    assert again.resumed == kept
    assert again.funnel == whole.funnel
    assert contents(cut) == contents(whole.folder)
    assert not journal_of(cut).exists()


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_set_stands_its_audit_and_shares_frames(
    prepared: Callable[[str], Path], tmp_path: Path, builder: str
) -> None:
    built = build(prepared(builder), tmp_path / "set")
    pairs = read_pair_set(built.folder)
    assert len(pairs) == built.funnel.items >= 6
    assert {item.cluster for item in pairs.items} == {"v.mp4" if builder == "action-genome" else "v"}
    report = audit(pairs)
    assert report.shape == (2, 2)
    assert (
        report.images == len(list((built.folder / "images").rglob("*.png"))) <= 8
    )  # eight moments, however many pairs
    assert report.clusters == 1
    # Drawn numbers change many blocks at once, and eight captions are few; nothing else is wrong with the sets.
    warned = {finding.name.partition(":")[0] for finding in report.warnings}
    assert "change: not minimal" in {finding.name for finding in report.warnings}
    assert warned <= {"change", "tag", "blind", "length"}
    assert all(change.change.share > 0 for change in report.changes)
    card = json.loads((built.folder / "card.json").read_text())
    assert card["builder"] == builder
    assert {"title", "description", "licence", "source", "citation"} <= set(card)


def test_a_build_without_pyav_says_what_to_install(
    prepared: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = prepared("youcook2")
    for module in ("av", "cv2"):
        with monkeypatch.context() as without, raises(MissingDependencyError, module, "tellapart[video]"):
            without.setitem(sys.modules, module, None)
            build(path, tmp_path / "set")


@pytest.mark.parametrize("builder", BUILDERS)
def test_the_example_recipe_names_options_that_the_builder_has(builder: str) -> None:
    example = tomllib.loads((RECIPES / f"{builder}.toml").read_text())
    assert example["builder"] == builder
    options = validate_table(load("builder", builder).Options, example["options"], builder)
    assert options.videos == "videos"
