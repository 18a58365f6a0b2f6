"""What is exported to be scored elsewhere comes back filled in, and in no other way."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import check_facts, raises
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, ScoreError
from tellapart.evaluation.export import export
from tellapart.models.memory.external import read_scores

Command = Callable[..., Any]


def write_template(pairs: PairSet, path: Path) -> int:
    """Export a pair set, and return the number of rows."""
    about = dict.fromkeys(("title", "source", "licence", "citation"), "")
    mine = Benchmark(name="mine", items=len(pairs), shape=pairs.shape, load=lambda _place: pairs, **about)
    return export(mine, path).rows


def filled(path: Path, values: np.ndarray) -> None:
    """Fill in a template's scores, in its order of rows, and leave all else as it is."""
    numbers = iter(values.ravel().tolist())
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as stream:
            header, *rows = csv.reader(stream)
        for row in rows:
            row[header.index("score")] = repr(next(numbers))
        with path.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([header, *rows])
    else:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        lines = [json.dumps(record | {"score": next(numbers)}) for record in records]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12)


@settings(max_examples=30, deadline=None)
@given(
    ids=st.lists(TEXT, min_size=1, max_size=4, unique=True),
    captions=st.lists(TEXT, min_size=3, max_size=3),
    shape=st.sampled_from([(2, 2), (1, 2), (1, 3), (2, 1)]),
    suffix=st.sampled_from([".csv", ".jsonl"]),
)
def test_a_filled_template_gives_every_score_to_its_pair(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], captions: list[str], shape: tuple[int, int], suffix: str
) -> None:
    images, texts = tuple(f"{k}.png" for k in range(shape[0])), tuple(captions[: shape[1]])
    pairs = PairSet("s", tuple(Item(id=name, images=images, texts=texts) for name in ids), Path())
    path = tmp_path_factory.mktemp("template") / f"t{suffix}"
    assert write_template(pairs, path) == len(ids) * shape[0] * shape[1]
    values = np.random.default_rng(0).random((len(ids), *shape)).astype(np.float32)
    filled(path, values)
    assert (read_scores(path, ids=ids, shape=shape).values == values).all()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_template_that_was_not_filled_in_is_refused(tmp_path: Path, suffix: str) -> None:
    pairs = PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path())
    write_template(pairs, tmp_path / f"t{suffix}")
    with raises(ScoreError, "'score'"):
        read_scores(tmp_path / f"t{suffix}", ids=["a"], shape=(1, 2))


def test_a_file_that_may_hold_scores_is_not_written_over(tmp_path: Path) -> None:
    pairs = PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path())
    write_template(pairs, tmp_path / "t.csv")
    with raises(DataError, "scores", "exists"):
        write_template(pairs, tmp_path / "t.csv")
    with raises(DataError, "no/t.csv"):
        write_template(pairs, tmp_path / "no" / "t.csv")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_export_and_score_close_the_circle(command: Command, made_set: Callable[..., Path], suffix: str) -> None:
    name = f"folder:{made_set('mine', n=6)}"
    assert command("export", name, "--to", f"t{suffix}", "--json").json == {"to": f"t{suffix}", "pairs": 24}
    filled(Path(f"t{suffix}"), np.tile(np.eye(2), (6, 1, 1)))
    found = command("score", name, "--scores", f"t{suffix}", "--out", "r", "--json").json["runs"][0]
    assert found["benchmarks"]["folder:mine"]["metrics"]["group_score"]["value"] == 1.0
    ran = command("export", name, "--to", f"t{suffix}")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "exists already" in ran.err


def wrong(change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    return lambda path: path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (wrong(lambda lines: lines[:-12]), ("12", "48", "missing", "2 more")),
        (wrong(lambda lines: [*lines, *lines[:11]]), ("11", "twice", "1 more")),
        (
            wrong(lambda lines: [line.replace('"label": "', '"label": "x') for line in lines]),
            ("48", "benchmark"),
        ),
        (
            wrong(lambda lines: [line.replace("1.0", "NaN") for line in lines]),
            ("t.jsonl:1", "JSON", "NaN"),
        ),
    ],
)
def test_a_file_with_wrong_rows_is_refused_with_the_first_ten(
    command: Command, made_set: Callable[..., Path], spoil: Callable[[Path], None], said: str | tuple[str, ...]
) -> None:
    name = f"folder:{made_set('mine')}"
    command("export", name, "--to", "t.jsonl")
    filled(Path("t.jsonl"), np.tile(np.eye(2), (12, 1, 1)))
    spoil(Path("t.jsonl"))
    ran = command("score", name, "--scores", "t.jsonl", "--out", "r")
    assert ran.code == 2
    check_facts(ran.err, said)
    assert not Path("r").exists()
