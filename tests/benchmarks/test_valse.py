"""VALSE as published: counts by instrument, the annotators' filter, and the forms that its fields take."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from facts import raises
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.minimal_pairs import INSTRUMENTS
from tellapart.data.scores import Scores
from tellapart.errors import DataError
from tellapart.evaluation.evaluate import measure

At = Callable[..., Benchmark]
Published = Callable[[str], Path]


def test_8782_items_7702_pass_the_annotators_and_6759_without_foil_it(at: At, published: Published) -> None:
    folder = published("valse")
    outline = at("valse", folder).outline()
    assert sum(len(json.loads((folder / f"{name}.json").read_text())) for name in INSTRUMENTS) == 8782
    assert len(outline.ids) == 7702
    assert Counter(tags["pool"] for tags in outline.tags) == {"without foil-it": 6759, "foil-it": 943}
    counts = Counter(tags["instrument"] for tags in outline.tags)
    assert counts == {name: passing for name, (_, passing) in INSTRUMENTS.items()}


@pytest.mark.slow
def test_every_metric_is_measured_by_instrument_and_pooled(at: At, published: Published) -> None:
    outline = at("valse", published("valse")).outline()
    # Caption accepted everywhere; the foil rejected in coreference-hard alone.
    hard = [tags["instrument"] == "coreference-hard" for tags in outline.tags]
    scores = Scores(outline.ids, [[[0.9, 0.1 if one else 0.8]] for one in hard], "probability")
    found = measure(scores, outline)
    values = {name: group.metrics["acc"].value for name, group in found.by["instrument"].items()}
    assert values == {name: 1.0 if name == "coreference-hard" else 0.5 for name in INSTRUMENTS}
    assert found.metrics["min_pc_pf"].value == 104 / 7702
    assert found.metrics["pairwise"].value == 1.0
    assert found.by["pool"]["without foil-it"].metrics["acc"].n == 6759


@pytest.fixture
def changed(published: Published, tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], None]], Path]:
    """Copy the files, and change the rows of one."""

    def change(how: Callable[[dict[str, Any]], None]) -> Path:
        shutil.copytree(published("valse"), tmp_path / "valse")
        path = tmp_path / "valse" / "coreference-hard.json"
        rows = json.loads(path.read_text())
        how(rows)
        path.write_text(json.dumps(rows))
        return tmp_path

    return change


def test_a_list_of_foils_counts_by_its_first(at: At, changed: Callable[..., Path]) -> None:
    def listed(rows: dict[str, Any]) -> None:
        for row in rows.values():
            row["foils"] = [row.pop("foil"), "another"]

    folder = changed(listed)
    items = {item.id: item for item in at("valse", folder).records().items}
    row = next(iter(json.loads((folder / "valse" / "coreference-hard.json").read_text()).items()))
    assert items[f"coreference-hard/{row[0]}"].texts[1] == row[1]["foils"][0]


def test_another_number_of_agreeing_annotators_is_another_version(at: At, changed: Callable[..., Path]) -> None:
    folder = changed(lambda rows: [row["mturk"].update(caption=3) for row in rows.values()])
    with raises(DataError, "141", "104", "items"):
        at("valse", folder).records()


def test_images_may_lie_in_a_folder_for_each_source(
    at: At, published: Published, tmp_path: Path, draw: Callable[..., bytes]
) -> None:
    pairs = at("valse", published("valse"), tmp_path).records()
    reference = pairs.items[0].images[0]
    (tmp_path / "visual7w").mkdir()
    (tmp_path / "visual7w" / reference).write_bytes(draw(0, kind="JPEG"))
    assert pairs.pixels(reference).shape == (4, 4, 3)
