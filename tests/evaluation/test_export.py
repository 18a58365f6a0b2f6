"""Exports of every kind of benchmark come back filled in, and in no other way; files not as long as published ones."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import check_facts, raises
from sets import write_file
from tellapart import Benchmark, EmbeddingStore, Item, PairSet, export, find_benchmark, read_scores
from tellapart.benchmarks.locations import Locations
from tellapart.errors import DataError, ScoreError
from tellapart.evaluation.evaluate import prepare


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


ALONE = PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path())
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12)


@settings(max_examples=30)
@given(
    ids=st.lists(TEXT, min_size=1, max_size=4, unique=True),
    captions=st.lists(TEXT, min_size=3, max_size=3),
    shape=st.sampled_from([(2, 2), (1, 2), (1, 3), (2, 1)]),
    suffix=st.sampled_from([".csv", ".jsonl"]),
)
def test_a_filled_template_gives_every_score_to_its_pair(tmp_path_factory, ids, captions, shape, suffix):
    images, texts = tuple(f"{k}.png" for k in range(shape[0])), tuple(captions[: shape[1]])
    pairs = PairSet("s", tuple(Item(id=name, images=images, texts=texts) for name in ids), Path())
    path = tmp_path_factory.mktemp("template") / f"t{suffix}"
    assert write_template(pairs, path) == len(ids) * shape[0] * shape[1]
    values = np.random.default_rng(0).random((len(ids), *shape)).astype(np.float32)
    filled(path, values)
    assert (read_scores(path, ids=ids, shape=shape).values == values).all()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_template_that_was_not_filled_in_is_refused(tmp_path, suffix):
    write_template(ALONE, tmp_path / f"t{suffix}")
    with raises(ScoreError, "'score'"):
        read_scores(tmp_path / f"t{suffix}", ids=["a"], shape=(1, 2))


def test_a_file_that_may_hold_scores_is_not_written_over(tmp_path):
    write_template(ALONE, tmp_path / "t.csv")
    before = (tmp_path / "t.csv").read_bytes()
    with raises(DataError, "scores", "exists"):
        write_template(ALONE, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == before
    with raises(DataError, "no/t.csv"):
        write_template(ALONE, tmp_path / "no" / "t.csv")


def wrong(change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    return lambda path: path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (wrong(lambda lines: lines[:-12]), ("12", "48", "missing", "2 more")),
        (wrong(lambda lines: [*lines, *lines[:11]]), ("11", "twice", "1 more")),
        (wrong(lambda lines: [line.replace('"label": "', '"label": "x') for line in lines]), ("48", "benchmark")),
        (wrong(lambda lines: [line.replace("1.0", "NaN") for line in lines]), ("t.jsonl:1", "JSON", "NaN")),
    ],
)
def test_a_file_with_wrong_rows_is_refused_with_the_first_ten(command, made_set, spoil, said):
    name = f"folder:{made_set('mine')}"
    command("export", name, "--to", "t.jsonl")
    filled(Path("t.jsonl"), np.tile(np.eye(2), (12, 1, 1)))
    spoil(Path("t.jsonl"))
    check_facts(command("score", name, "--scores", "t.jsonl", "--out", "r", code=2).err, said)
    assert not Path("r").exists()


def test_pairs_and_tasks_are_written_alike_and_another_suffix_is_refused(command, shorter):
    ran = command("export", "demo", "--to", "pairs.csv")
    assert "1,600 pairs in pairs.csv; fill in `score`, then: tellapart score demo --scores pairs.csv" in ran.out
    ran = command("export", "nlvr2", "--to", "s.csv", "--data", shorter)
    assert "1 statements in s.csv; fill in `prediction`, then: tellapart score nlvr2 --scores s.csv" in ran.out
    assert Path("s.csv").read_text().splitlines()[0] == "id,prediction,sentence,left,right"
    with raises(DataError, "'.npz'"):
        export(find_benchmark("vlue-nlvr2"), Path("a.npz"))


@pytest.fixture
def shorter(tmp_path) -> Path:
    """A folder with one row of NLVR2; its prediction is `p.json`."""
    row = {"sentence": "Both show a dog.", "images": ["a.png", "b.png"], "label": "True"}
    write_file(tmp_path / "nlvr2_test.json", [row])
    return write_file(tmp_path / "p.json", [{"id": 0, "prediction": True}]).parent


def test_a_shorter_file_is_an_error_if_asked_for_or_said_not_to_compare(command, shorter):
    facts = ("1", "nlvr2", "6,967", "--strict")
    given = ("--data", str(shorter), "--out", "run", "--strict")
    check_facts(command("score", "nlvr2", "--scores", shorter / "p.json", *given, code=2).err, facts)
    with raises(DataError, (*facts[:-1], "strict=True")):
        prepare(find_benchmark("nlvr2", Locations(shorter)), store=EmbeddingStore(None), strict=True)
    assert not Path("run").exists()
    ran = command("score", "nlvr2", "--scores", shorter / "p.json", "--data", shorter, "--out", "run")
    assert "these files hold 1 records; nlvr2 as published holds 6,967" in ran.out
    assert json.loads(Path("run/results.json").read_text())["benchmarks"]["nlvr2"]["published_items"] == 6_967
    assert "not the published files of nlvr2, which hold 6,967 records: p (does not compare)" in (
        " ".join(command("table", "run").out.split())
    )
    assert "these files hold 1 records; nlvr2 as published holds 6,967" in Path("run/report.html").read_text()
