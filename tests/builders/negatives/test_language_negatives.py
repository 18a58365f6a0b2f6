"""A language model's false captions become a pair set: the same however often the build was killed, and audited."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from facts import check_facts, raises
from tellapart.auditing.audit import Options, audit
from tellapart.builders.journal import journal_of
from tellapart.builders.pipeline import build
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError, RunError
from tellapart.models.api import connection

RECIPES = Path(__file__).parents[3] / "docs/recipes"
ROWS = [
    ("a.png", "A man riding a horse"),
    ("a.png", "a man is on a horse in front of a house."),
    ("b.png", "a red cup and a blue bowl on a table"),
    ("c.png", "nothing that is known"),
]
Write = Callable[[list[tuple[str, str]]], Path]


def written(home: Path, server: Any, options: str = "", model: str = "", rest: str = "") -> Path:
    path = home / "recipe.toml"
    path.write_text(
        'name = "few"\nbuilder = "language-negatives"\nseed = 5\n'
        f'[options]\ncaptions = "captions.jsonl"\nimages = "photos"\n{options}\n'
        f'[options.model]\nsource = "{server.url}"\nname = "small"\n{model}\n{rest}\n'
    )
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_captions_become_pairs_in_one_form_and_the_audit_reads_them(server: Any, captions: Write) -> None:
    home = captions(ROWS)
    built = build(written(home, server), home / "set")
    pairs = read_pair_set(built.folder)
    by_id = {item.id: item for item in pairs.items}
    assert pairs.shape == (1, 2)
    assert (built.funnel.candidates, len(server.asked)) == (28, 28)
    assert by_id["1-swap_obj"].texts == ("A man riding a horse.", "A horse riding a man.")
    assert by_id["3-swap_att"].texts[1] == "A blue cup and a red bowl on a table."
    assert by_id["1-swap_obj"].provenance["change"] == "man <-> horse"
    assert by_id["1-swap_obj"].provenance["models"] == {"small": f"as served by {server.url}"}
    assert by_id["1-swap_obj"].tags["bag_of_words"] == "same"
    assert by_id["1-swap_obj"].cluster == by_id["2-swap_obj"].cluster == "a.png"
    assert all(text[0].isupper() and text[-1] == "." for item in pairs.items for text in item.texts)
    assert built.funnel.rejected["model", "no such change, it says"] == 28 - len(pairs)
    found = audit(pairs, Options())
    assert (found.items, found.tags["subset"]["swap_obj"]) == (len(pairs), 3)
    identity = next(finding for finding in found.findings if "bag" in finding.name or "words" in finding.title)
    assert identity.n == len(pairs)


def test_answers_that_will_not_do_are_counted_by_why(server: Any, captions: Write) -> None:
    home = captions([*ROWS[:1], ("a.png", "A man on a zebra"), ("b.png", "A dog on a bed")])
    answers = {
        ROWS[0][1]: "CHANGE: horse -> zebra\nCAPTION: A man riding a zebra",
        "A man on a zebra": "Of course! A man on a bus.",
        "A dog on a bed": "CHANGE: dog -> cat\nCAPTION: A cat on a rug",
    }
    server.write = lambda body: answers[body["messages"][-1]["content"]]
    recipe = written(home, server, 'kinds = ["replace_obj"]')
    with raises(DataError, "3", "candidates", "'Of course! A man on a bus.'"):
        build(recipe, home / "none")
    answers["A dog on a bed"] = "CHANGE: dog -> cat\nCAPTION: A cat on a bed"
    built = build(written(home, server, 'kinds = ["replace_obj"]\nuniform = false'), home / "set")
    assert built.funnel.rejected == Counter(
        {("other-captions", "names what another caption names"): 1, ("parse", "not of the form"): 1}
    )
    assert read_pair_set(built.folder).items[0].texts == ("A dog on a bed", "A cat on a bed")
    server.finish = "length"
    with raises(DataError, "3", "max_tokens"):
        build(recipe, home / "other")


def test_more_answers_are_drawn_each_with_a_seed_of_its_own(server: Any, captions: Write) -> None:
    home = captions(ROWS[:1])
    right = server.write
    server.write = lambda body: "Hm." if len(server.asked) < 3 else right(body)
    options = 'kinds = ["swap_obj"]\nattempts = 4'
    built = build(written(home, server, options, "temperature = 0.7"), home / "set")
    assert built.funnel.redrawn == {"parse: not of the form": 2}
    assert len({asked["seed"] for asked in server.asked}) == len(server.asked) == 3
    assert read_pair_set(built.folder).items[0].provenance["attempts"] == 3
    with raises(DataError, "1", "model.temperature", "0"):
        build(written(home, server, options), home / "other")


def test_a_server_that_fails_leaves_what_it_answered(
    server: Any, captions: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_PAUSE", 0.01)
    home = captions(ROWS)
    recipe = written(home, server, 'kinds = ["swap_obj"]', "tries = 1")
    server.statuses = [200, 500, 500, 500]
    path = home / "recipe.toml"
    path.write_text("retries = 0\n" + path.read_text())
    with raises(RunError, "3", "4", "HTTP", "500"):
        build(recipe, home / "set")
    assert len(server.asked) == 4
    build(recipe, home / "set")
    assert len(server.asked) == 7  # the one that was answered is not asked again


@pytest.mark.slow
def test_a_build_that_was_killed_asks_for_the_rest_and_ends_in_the_same_bytes(server: Any, captions: Write) -> None:
    home = captions(ROWS)
    recipe = written(home, server)
    build(recipe, home / "whole")
    whole, server.seconds = len(server.asked), 0.1
    process = subprocess.Popen(
        [sys.executable, "-m", "tellapart", "build", str(recipe), "--out", str(home / "cut")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1"},
    )
    until = time.monotonic() + 60
    while len(server.asked) < whole + 12 and time.monotonic() < until and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL, said
    assert journal_of(home / "cut").exists()
    server.seconds = 0.0
    time.sleep(0.3)  # the request that was under way ends
    asked = len(server.asked)
    again = build(recipe, home / "cut", workers=2)
    assert again.resumed >= 5
    assert len(server.asked) - asked == 28 - again.resumed
    assert contents(home / "cut") == contents(home / "whole")


@pytest.mark.parametrize("name", ["negatives", "language-negatives"])
def test_the_recipe_of_the_manual_can_be_read(name: str) -> None:
    recipe = read_recipe_file(RECIPES / f"{name}.toml")
    assert recipe.builder == name
    assert json.loads(recipe.model_dump_json())["options"]["captions"] == "captions.csv"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_another_machine_is_asked_over_plain_http_only_where_the_command_line_says_so(
    server: Any, captions: Write, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))  # stands in for the way to that machine
    home = captions(ROWS[:1])
    recipe = written(home, server, 'kinds = ["swap_obj"]')
    recipe.write_text(recipe.read_text().replace(server.url, "http://models.example/v1"))
    refused = command("build", recipe, "--out", home / "set", "--workers", workers)
    assert (refused.code, server.asked) == (2, [])
    check_facts(refused.err, "models.example")
    assert not (home / "set").exists()
    assert command("build", recipe, "--out", home / "set", "--workers", workers, "--insecure").code == 0
    assert len(server.asked) == 1
