"""A benchmark by its name: built in, a folder of the user's own, or from another package."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from facts import raises
from tellapart.benchmarks.find import find_benchmark, load_pairs, set_name
from tellapart.catalog import BENCHMARKS
from tellapart.errors import DataError, UnknownNameError

FIRST = [name for name in BENCHMARKS if find_benchmark(name).task == "pairs"]


@pytest.mark.parametrize("name", FIRST)
def test_a_built_in_benchmark_declares_itself(name: str) -> None:
    benchmark = find_benchmark(name)
    assert benchmark.name == name
    for said in (benchmark.title, benchmark.source, benchmark.licence, benchmark.citation):
        assert len(said) > 5


@pytest.mark.parametrize("name", FIRST)
def test_what_is_known_without_files_agrees_with_the_declaration(name: str) -> None:
    benchmark = find_benchmark(name)
    if benchmark.files and benchmark.known is None:
        with raises(DataError, name, "data="):
            benchmark.outline()
        return
    outline = benchmark.outline()
    assert (outline.shape, len(outline.ids)) == (benchmark.shape, benchmark.items)
    assert len(outline.clusters) == len(outline.tags) == len(set(outline.ids)) == benchmark.items
    if not benchmark.files:
        assert benchmark.records().outline == outline


def test_winoground_carries_no_pairs_and_says_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tellapart.benchmarks.hub._find_token", lambda: None)
    with raises(DataError, "https://huggingface.co/datasets/facebook/winoground", "--scores", "FILE"):
        load_pairs("winoground")


def test_winogrounds_items_are_numbered_as_in_its_score_files() -> None:
    assert find_benchmark("winoground").outline().ids == tuple(str(k) for k in range(400))


def test_a_folder_says_of_itself_what_its_card_says(made_set: Callable[..., Path]) -> None:
    folder = made_set("mine", n=5, shape=(1, 3))
    benchmark = find_benchmark(f"folder:{folder}")
    assert (benchmark.name, benchmark.title, benchmark.licence) == ("folder:mine", "Set mine", "CC0")
    assert (benchmark.items, benchmark.shape, benchmark.citation) == (5, (1, 3), "not stated")
    assert benchmark.records().name == "folder:mine"


def test_a_folder_without_a_card_is_called_by_its_name(made_set: Callable[..., Path]) -> None:
    folder = made_set("mine")
    (folder / "card.json").unlink()
    assert find_benchmark(f"folder:{folder}").title == "mine"


def test_a_home_folder_is_found(made_set: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_set("mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_benchmark("folder:~/mine").items == 12


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("folder:", DataError, ("folder:PATH", "folder")),
        ("folder:no such", DataError, ("'no such'", "folder")),
        ("Winoground", UnknownNameError, ("benchmark", "'Winoground'", "'winoground'")),
        ("v" * 5_000, UnknownNameError, "benchmark"),  # longer than any path
    ],
)
def test_a_name_that_is_none_is_refused(name: str, error: type[Exception], said: str | tuple[str, ...]) -> None:
    with raises(error, said):
        find_benchmark(name)


def test_a_folder_with_a_wrong_line_names_it(made_set: Callable[..., Path]) -> None:
    folder = made_set("mine", n=2)
    lines = (folder / "pairs.jsonl").read_text().splitlines()
    item = json.loads(lines[1]) | {"text": ["x"]}
    (folder / "pairs.jsonl").write_text("\n".join([lines[0], json.dumps(item)]) + "\n")
    with raises(DataError, "pairs.jsonl:2", "'text'", "'texts'"):
        find_benchmark(f"folder:{folder}")


def test_a_set_is_named_after_its_folder_however_that_is_written(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mine" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "mine" / "inner")
    assert set_name("folder:.") == "folder:inner"
    assert set_name("pairing:folder:..") == "pairing:folder:mine"
    assert set_name("folder:inner#1f0c9a2e") == "folder:inner#1f0c9a2e"
