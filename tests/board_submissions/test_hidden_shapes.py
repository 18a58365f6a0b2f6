"""Hidden pairs of every shape: two true texts, a true one at any place, squares; films are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import raises
from tellapart.board.submissions.forms import read_published, read_sent
from tellapart.board.submissions.hidden import HiddenBenchmark
from tellapart.board.submissions.hidden_items import HiddenPairs, hide, measure_sent
from tellapart.board.submissions.prepared import prepare, read_truth, write_task
from tellapart.data.folder import read_pair_set
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError

MadeSet = Callable[..., Path]
#: Shape, places of what is true, metrics that are published first.
SHAPES: dict[str, tuple[tuple[int, int], list[int], tuple[str, ...]]] = {
    "two true texts": ((1, 3), [0, 2], ("itt",)),
    "the answer at another place": ((1, 4), [2], ("choice_score",)),
    "an image at another place": ((3, 1), [1], ("choice_score",)),
    "a square": ((4, 4), [], ("set_score",)),
}


def with_truth(folder: Path, true: list[int]) -> Path:
    """Say in a set's file which places are true."""
    rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row | {"true": true}) + "\n" for row in rows))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_is_hidden_and_measured(name: str, made_set: MadeSet, tmp_path: Path) -> None:
    shape, true, first = SHAPES[name]
    folder = made_set("set", n=24, shape=shape)
    if true:
        with_truth(folder, true)
    benchmark = HiddenBenchmark(name="mine", pairs=folder, largest_share=1000.0)
    ready = prepare(benchmark, tmp_path / "hidden", b"key")
    assert (ready.shape, ready.true, ready.metrics[-1]) == (shape, max(1, len(true)), first[-1])
    assert ready.what.endswith(", of which 2 are true") is (len(true) == 2)
    hidden = read_truth(ready.truth)
    assert isinstance(hidden, HiddenPairs)
    published = read_published(ready.published, "pairs")
    assert tuple(published.items) == hidden.bare() and {item.true for item in published.items} == {()}
    own = {item.texts: item for item in read_pair_set(folder).items}  # found again by its texts, in any order
    right = []
    for shown, item in zip(published.items, hidden.items, strict=True):
        (source,) = (one for texts, one in own.items() if sorted(texts) == sorted(shown.texts))
        told = np.zeros(shape)
        if shape[0] == 1:
            told[0] = [text in [source.texts[k] for k in source.truths] for text in shown.texts]
        else:  # images have other names, which only the truth knows
            names = [hidden.sources[image] for image in shown.images]
            places = [source.images.index(image) for image in names]
            texts = [source.texts.index(text) for text in shown.texts]
            for row, image in enumerate(places):
                told[row] = [image == text if shape[1] > 1 else image in source.truths for text in texts]
        right.append(told)
        assert item.truths == tuple(range(max(1, len(true))))
    for values, expected in ((np.array(right), 1.0), (1 - np.array(right), 0.0), (np.zeros((24, *shape)), 0.0)):
        np.savez(tmp_path / "sent.npz", ids=list(published.outline.ids), scores=values, kind="similarity")
        sent = read_sent(tmp_path / "sent.npz", published, "pairs")
        assert [one.values[first[-1]] for one in measure_sent(sent, hidden, first, 0.01)] == [expected] * 2


def test_the_order_of_the_texts_tells_nothing_of_which_two_are_true() -> None:
    items = [
        Item(id=str(k), images=("0.png",), texts=(f"a {k}", f"no {k}", f"one {k}"), true=(0, 2)) for k in range(300)
    ]
    hidden = hide(PairSet("cups", tuple(items), Path()), b"key", 0.5)
    false = [order.index(2) for order in hidden.texts]
    assert all(70 < false.count(place) < 130 for place in range(3))  # 100 +- 3.7 standard deviations
    assert all(item.texts[2].startswith("no ") and item.true == (0, 1) for item in hidden.items)


def test_the_readme_says_how_many_texts_are_true(made_set: MadeSet, tmp_path: Path) -> None:
    from zipfile import ZipFile

    pairs = read_pair_set(with_truth(made_set("set", n=8, shape=(1, 3)), [0, 2]))
    benchmark = HiddenBenchmark(name="mine", pairs=Path("set"))
    write_task(tmp_path / "task.zip", benchmark, hide(pairs, b"key", 0.5), pairs.pixels)
    readme = ZipFile(tmp_path / "task.zip").read("README.txt").decode()
    assert "2 of the texts are true;\nwhich of them is not told" in readme and "belong together" not in readme


def test_true_texts_that_no_metric_is_defined_for_are_refused(made_set: MadeSet, tmp_path: Path) -> None:
    folder = with_truth(made_set("set", n=8, shape=(1, 4)), [0, 2])
    with raises(DataError, "'mine'", "metric", "1", "4", "2"):
        prepare(HiddenBenchmark(name="mine", pairs=folder), tmp_path / "hidden", b"key")


def test_a_truth_with_items_of_another_number_of_true_texts_is_refused(made_set: MadeSet, tmp_path: Path) -> None:
    folder = with_truth(made_set("set", n=24, shape=(1, 3)), [0, 2])
    path = prepare(HiddenBenchmark(name="mine", pairs=folder, largest_share=1000.0), tmp_path / "h", b"key").truth
    content: Any = json.loads(path.read_text())
    del content["items"][3]["true"]
    path.write_text(json.dumps(content))
    with raises(DataError, "shape", "texts"):
        read_truth(path)


def test_films_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    rows = [{"id": str(k), "images": ["a.mp4", "b.mp4"], "texts": ["up", f"down {k}"]} for k in range(4)]
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / "set" / name).write_bytes(b"film")
    with raises(DataError, "'mine'", "'a.mp4'"):
        prepare(HiddenBenchmark(name="mine", pairs=tmp_path / "set"), tmp_path / "hidden", b"key")
    assert not (tmp_path / "hidden").exists()


def test_texts_alone_are_no_hidden_benchmark() -> None:
    with raises(ValueError, "'texts:sugarcrepe-pp'"):
        HiddenBenchmark(name="mine", benchmark="texts:sugarcrepe-pp")
