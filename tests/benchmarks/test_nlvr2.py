"""NLVR2 in its authors' own form: lines with identifiers, predictions without a header, their script's consistency."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import raises
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.vlue import read_nlvr2
from tellapart.data.task_records import StatementSet
from tellapart.errors import DataError, ScoreError
from tellapart.tasks.registry import TASKS
from tellapart.tasks.statements import measure_statements

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "nlvr2"
GROUPS, ROWS, REPEATED = 1_995, 6_967, 8


def line(identifier: str, sentence: str = "Both show a dog.", label: str = "True") -> dict[str, Any]:
    """One line of `test1.json`, with the fields that are not measured."""
    return {
        "validation": {"77": label},
        "sentence": sentence,
        "left_url": "https://example.org/l.jpg",
        "writer": "103",
        "label": label,
        "right_url": "https://example.org/r.jpg",
        "synset": "dog",
        "query": "two dogs2",
        "identifier": identifier,
        "extra_validations": {"56": "True", "43": "False"},
    }


def written(folder: Path, rows: list[dict[str, Any]], name: str = "test1.json") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """A file of the published size: 1,995 sentences of sets, of which 8 were written about two sets."""
    rng = np.random.default_rng(0)
    found = []
    for group in range(GROUPS):
        # Four pairs a set, of which one may be missing; two sentences a set; the first eight sentences come twice.
        set_, sentence = divmod(group, 2)
        number = group - 2 * REPEATED if 2 * REPEATED <= group < 3 * REPEATED else group
        for pair in range(4 if group < ROWS - 3 * GROUPS else 3):
            label = str(bool(rng.integers(2)))
            found.append(line(f"test1-{set_}-{pair}-{sentence}", f"Sentence {number}.", label))
    return [found[k] for k in rng.permutation(len(found))]


def official(rows: list[dict[str, Any]], predictions: dict[str, str]) -> tuple[float, float]:
    """Accuracy and consistency as the authors define them: a sentence of a set is all rows but for the third part."""
    right = {row["identifier"]: predictions[row["identifier"]].lower() == row["label"].lower() for row in rows}
    groups: dict[tuple[str, str, str], bool] = {}
    for identifier, one in right.items():
        split, set_, _, sentence = identifier.split("-")
        groups[split, set_, sentence] = groups.get((split, set_, sentence), True) and one
    return sum(right.values()) / len(right), sum(groups.values()) / len(groups)


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", [0.5, 0.8, 0.95])
def test_the_authors_two_files_give_the_numbers_of_their_script(
    command: Callable[..., Any], tmp_path: Path, rows: list[dict[str, Any]], accuracy: float
) -> None:
    rng = np.random.default_rng(1)
    (tmp_path / "nlvr" / "data").mkdir(parents=True)  # a clone's folder nlvr2
    written(tmp_path / "nlvr" / "data", rows)
    said = {row["identifier"]: str((row["label"] == "True") == (rng.random() < accuracy)) for row in rows}
    (tmp_path / "p.csv").write_text("".join(f"{identifier},{label}\n" for identifier, label in said.items()))
    ran = command("score", "nlvr2", "--scores", "p.csv", "--data", tmp_path / "nlvr", "--out", "run", "--json")
    assert ran.code == 0, ran.err
    metrics = ran.json["runs"][0]["benchmarks"]["nlvr2"]["metrics"]
    right, consistent = official(rows, said)
    assert (metrics["accuracy"]["value"], metrics["accuracy"]["n"]) == (pytest.approx(right, abs=1e-12), ROWS)
    assert (metrics["consistency"]["value"], metrics["consistency"]["n"]) == (
        pytest.approx(consistent, abs=1e-12),
        GROUPS,
    )


def test_the_list_that_others_made_of_it_gives_the_same_groups(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    own = read_nlvr2(written(tmp_path, rows))
    listed = [
        {"sentence": row.sentence, "images": [row.left, row.right], "label": str(row.label)} for row in own.statements
    ]
    (tmp_path / "nlvr_test.json").write_text(json.dumps(listed))
    found = read_nlvr2(tmp_path / "nlvr_test.json")
    assert found.sentence_groups() == own.sentence_groups()
    assert len(own.sentence_groups()) == GROUPS
    assert len({row.sentence for row in own.statements}) == GROUPS - REPEATED
    said = [bool(k % 3) for k in range(ROWS)]
    assert [units.values[0].strict.tolist() for units in measure_statements(found, said)] == [
        units.values[0].strict.tolist() for units in measure_statements(own, said)
    ]


def test_a_line_is_read_with_its_images_and_its_group(tmp_path: Path) -> None:
    lines = [line("dev-12-3-1", "Two dogs.", "False"), line("dev-12-0-1", "Two dogs."), line("dev-12-0-0")]
    found = read_nlvr2(written(tmp_path, lines, "dev.json"))
    first = found.statements[0]
    assert (first.id, first.sentence, first.label) == ("dev-12-3-1", "Two dogs.", False)
    assert (first.left, first.right) == ("dev/dev-12-3-img0.png", "dev/dev-12-3-img1.png")
    assert found.sentence_groups() == ((0, 1), (2,))


def test_images_that_tell_no_set_leave_their_statement_in_the_group_of_its_sentence(tmp_path: Path) -> None:
    images = (["a.jpg", "b.jpg"], ["test1-0-0-img0.png", "test1-1-0-img1.png"], ["x/test1-0-0-img0.png"] * 2)
    listed = [{"sentence": "Two dogs.", "images": list(own), "label": "True"} for own in images]
    (tmp_path / "nlvr_test.json").write_text(json.dumps(listed))
    assert read_nlvr2(tmp_path / "nlvr_test.json").sentence_groups() == ((0, 1), (2,))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"identifier": "test1-0-1"}, ("test1.json:2", "'identifier'")),
        ({"identifier": 7}, ("test1.json:2", "'identifier'", "7")),
        ({"label": "maybe"}, ("test1.json:2", "'label'")),
        ({"sentence": " "}, ("test1.json:2", "'sentence'")),
        ({"identifier": "test1-0-0-0"}, ("id", "'test1-0-0-0'")),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, change: dict[str, Any], said: str | tuple[str, ...]) -> None:
    path = written(tmp_path, [line("test1-0-0-0"), line("test1-0-1-0") | change])
    with raises(DataError, said):
        read_nlvr2(path)


def test_a_line_without_an_identifier_is_named(tmp_path: Path) -> None:
    bare = {key: value for key, value in line("test1-0-0-0").items() if key != "identifier"}
    with raises(DataError, "test1.json:1", "'identifier'"):
        read_nlvr2(written(tmp_path, [bare]))


def test_a_file_that_was_cut_between_two_lines_is_refused(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    written(tmp_path, rows[:-1])
    with raises(DataError, "test1.json", "6,966", "benchmark", "6,967"):
        find_benchmark("nlvr2", Locations(tmp_path)).records()


@pytest.mark.parametrize(("name", "file"), [("nlvr2", "test1.json"), ("nlvr2-dev", "dev.json")])
def test_what_is_missing_is_named_with_where_to_get_it(tmp_path: Path, name: str, file: str) -> None:
    with raises(DataError, name, file, "https://github.com/lil-lab/nlvr/tree/master/nlvr2"):
        find_benchmark(name, Locations(tmp_path)).records()


def test_predictions_by_identifier_for_a_list_without_identifiers_say_which_file_has_them(tmp_path: Path) -> None:
    (tmp_path / "nlvr_test.json").write_text(
        json.dumps([{"sentence": "Two dogs.", "images": ["a", "b"], "label": "True"}])
    )
    (tmp_path / "p.csv").write_text("test1-0-0-0,True\n")
    with raises(ScoreError, "test1-0-0-0", "test1.json", "dev.json"):
        TASKS["nlvr2"].read(tmp_path / "p.csv", read_nlvr2(tmp_path / "nlvr_test.json"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("test1-0-0-0,True\ntest1-0-0-0,False\n", ("p.csv:2", "id", "test1-0-0-0")),
        ("test1-0-0-0,yes or no\n", ("p.csv:1", "'prediction'", "'yes or no'")),
        ("test1-0-0-0,True,0.9\n", ("p.csv", "1", "1")),
        ("name,answer\ntest1-0-0-0,True\n", ("p.csv:2", "id")),
    ],
)
def test_predictions_without_a_header_are_refused_by_line(
    tmp_path: Path, text: str, said: str | tuple[str, ...]
) -> None:
    (tmp_path / "p.csv").write_text(text)
    records = read_nlvr2(written(tmp_path, [line("test1-0-0-0")]))
    with raises(ScoreError, said):
        TASKS["nlvr2"].read(tmp_path / "p.csv", records)


@pytest.mark.parametrize(
    ("name", "file", "groups", "sentences"),
    [("nlvr2", "test1.json", 1_995, 1_987), ("nlvr2-dev", "dev.json", 2_018, 2_004)],
)
def test_the_published_files_have_their_groups(name: str, file: str, groups: int, sentences: int) -> None:
    if not (FOLDER / file).is_file():
        pytest.skip(f"needs ../shared/data/nlvr2/{file}, from https://github.com/lil-lab/nlvr/tree/master/nlvr2/data")
    records: StatementSet = find_benchmark(name, Locations(FOLDER)).records()
    assert len(records.sentence_groups()) == groups
    assert len({row.sentence for row in records.statements}) == sentences
