"""Declared sets of long captions, boxes, answers in words and preferences, on a few made rows in the published form."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from declared_set_files import image, parquet, picture
from PIL import Image

from facts import raises
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.set_file import read_set_file, set_benchmark
from tellapart.benchmarks.shipped_sets import SETS
from tellapart.catalog import BENCHMARKS
from tellapart.data.scores import Scores
from tellapart.data.task_records import Preference, PreferenceSet, read_choice
from tellapart.errors import DataError
from tellapart.metrics.ratings import preference_accuracy
from tellapart.models.scoring.score import Scored
from tellapart.tasks.ratings import measure_preferences
from tellapart.tasks.words import OPEN, measure_open


def shipped(name: str, place: Path) -> Benchmark:
    """A shipped set of which a few rows are there."""
    file, _, variant = BENCHMARKS[name].partition(":")[2].partition("/")
    declared = read_set_file(SETS / f"{file}.toml", variant).model_copy(update={"items": None, "counts": {}})
    return replace(set_benchmark(declared), place=Locations(place))


def write(folder: Path, file: str, *rows: Any) -> None:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), "utf-8")


def urban1k(folder: Path) -> None:
    write(folder, "caption/2.txt", "A street with a red car.\n")
    write(folder, "caption/1.txt", "A tall house.", "a second line")


def docci(folder: Path) -> None:
    splits = ("test", "train", "test")
    rows = [{"example_id": f"{s}_{k}", "split": s, "image_file": f"{s}_{k}.jpg"} for k, s in enumerate(splits)]
    write(folder, "docci_descriptions.jsonlines", *(row | {"description": f"Long {row['split']}."} for row in rows))


def dci(folder: Path) -> None:
    for k in (10, 11):
        row = {"image": f"sa_{k}.jpg", "short_caption": f"A cup {k}", "extra_caption": "It is red.", "mask_data": {}}
        write(folder, f"annotations/{k}-data.json", row)


def words(folder: str, key: str, suffix: str) -> Callable[[Path], None]:
    def rows(place: Path) -> None:
        write(place, f"{folder}/data.jsonl", *({"IIW": f"Text {k}", key: f"sa_{k}{suffix}"} for k in (1, 2)))

    return rows


@pytest.mark.parametrize(
    ("name", "form", "images", "captions"),
    [
        ("urban1k", urban1k, ("1.jpg", "2.jpg"), ("A tall house.", "A street with a red car.")),
        ("docci", docci, ("test_0.jpg", "test_2.jpg"), ("Long test.", "Long test.")),
        ("dci", dci, ("sa_10.jpg", "sa_11.jpg"), ("A cup 10\nIt is red.", "A cup 11\nIt is red.")),
        ("iiw-400", words("datasets/IIW-400", "image/key", ""), ("sa_1.jpg", "sa_2.jpg"), ("Text 1", "Text 2")),
        ("iiw-dci", words("DCI_Test", "image", ".jpg"), ("sa_1.jpg", "sa_2.jpg"), ("Text 1", "Text 2")),
        ("iiw-docci", words("DOCCI_Test", "image", ""), ("sa_1.jpg", "sa_2.jpg"), ("Text 1", "Text 2")),
    ],
)
def test_a_long_caption_belongs_to_its_image(
    name: str, form: Callable[[Path], None], images: tuple[str, ...], captions: tuple[str, ...], tmp_path: Path
) -> None:
    form(tmp_path)
    gallery = shipped(name, tmp_path).records()
    assert (gallery.images, gallery.captions, gallery.pairs) == (images, captions, ((0, 0), (1, 1)))


def boxes(**changed: Any) -> dict[str, Any]:
    cases = [{"id": 100 + k, "name": f"a {k} cup"} for k in range(12)]
    shared = {"image_id": 7, "bbox": [1.0, 0.0, 1.0, 2.0], "category_id": 100, "needs_revision": False}
    listed = [{"id": k, "neg_category_ids": list(range(101, 101 + n))} for k, n in enumerate((10, 2))]
    annotations = [shared | one | changed for one in listed]
    return {"images": [{"id": 7, "file_name": "val2017/7.png"}], "annotations": annotations, "categories": cases}


def test_fg_ovd_shows_the_box_of_an_object_with_its_ten_false_captions(tmp_path: Path) -> None:
    write(tmp_path, "benchmarks/1_attributes.json", boxes())
    (tmp_path / "val2017").mkdir()
    (tmp_path / "val2017" / "7.png").write_bytes(picture(9))
    one = shipped("fg-ovd-hard", tmp_path)
    (item,) = one.records().items
    assert (item.id, item.images, item.cluster) == ("0", ("val2017/7.png#1,0,1,2",), "val2017/7.png")
    assert item.texts == tuple(f"a {k} cup" for k in range(11))
    shown = Image.open(io.BytesIO(one.records().read(item.images[0])))
    assert shown.size == (1, 2) and np.unique(np.asarray(shown)).tolist() == [9]
    write(tmp_path, "benchmarks/transparency.json", boxes())
    assert shipped("fg-ovd-transparency", tmp_path).records().shape == (1, 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bbox": [1, 2, 0, 4]}, "field 'bbox': expected a box, the numbers x, y, width and height, got [1, 2, 0, 4]"),
        ({"category_id": 5}, "field 'category_id': expected ids of the objects in 'categories', each with an id"),
    ],
)
def test_a_box_or_id_that_is_none_names_the_row(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    write(tmp_path, "benchmarks/1_attributes.json", boxes(**changed))
    with pytest.raises(DataError) as error:
        shipped("fg-ovd-hard", tmp_path).records()
    assert message in str(error.value) and "1_attributes.json" in str(error.value)


def measured(records: Any, answers: list[str]) -> dict[str, tuple[int, float]]:
    return {
        value.name: (len(units.units), float(value.strict.mean()))
        for units in measure_open(records, answers)
        for value in units.values
    }


def test_the_bias_of_an_answer_from_memory_is_counted(tmp_path: Path) -> None:
    row = {"image": image(1), "prompt": "How many legs? Answer in braces.", "ground_truth": "5", "expected_bias": "4"}
    rows = [row | {"image_path": f"{k}.png", "topic": "Animals"} for k in range(4)]
    parquet(rows, tmp_path / "main-00000-of-00001.parquet")
    one = shipped("vlms-are-biased", tmp_path)
    records = one.records()
    asked = records.questions[0]
    assert (asked.image, asked.answers, asked.biased, asked.cluster) == ("0/image", ("5",), "4", "0.png")
    assert asked.tags == {"topic": "Animals"} and one.read_image(records)("0/image").startswith(b"\x89PNG")
    # Digits of a sentence are not joined: "5 of 4" is neither.
    found = measured(records, ["{4}", "It has four legs.", "{5}", "5 of 4"])
    assert found == {"answer_match": (4, 0.25), "bias_rate": (4, 0.5)}


def test_visualflip_counts_pairs_that_are_right_and_pairs_answered_alike(tmp_path: Path) -> None:
    pair = {"question": "Which one?", "answer_original": "A", "answer_edited": "B", "category": "Attribute"}
    sides = ({"id": f"p{k}", "original_image": f"{k}/o.png", "edited_image": f"{k}/e.png"} for k in range(3))
    write(tmp_path, "manifest.jsonl", *(pair | one for one in sides))
    records = shipped("visualflip", tmp_path).records()
    assert [row.image for row in records.questions[:2]] == ["0/o.png", "0/e.png"]
    found = measured(records, ["A", "(B)", "b", "B", "", ""])
    assert found == {"answer_match": (6, 0.5), "group_match": (3, 1 / 3), "same_answer": (3, 1 / 3)}


def geneval2(folder: Path, **changed: Any) -> None:
    asked = [["How many cows are in the image?", "three"], ["Are the cows plastic?", "Yes"]]
    row = {"prompt": "three plastic cows", "atom_count": 3, "vqa_list": asked, "skills": ["count", "attribute"]}
    write(folder, "geneval2_data.jsonl", row | changed, row)


def test_geneval2_asks_for_every_part_of_a_prompt(tmp_path: Path) -> None:
    geneval2(tmp_path)
    records = shipped("geneval2", tmp_path).records()
    first, second = records.questions[:2]
    assert (first.id, first.image, first.answers, first.tags["skill"]) == ("0/0", "0.png", ("three",), "count")
    assert (second.tags, second.group) == ({"skill": "attribute", "atoms": "3"}, "0")
    found = measured(records, ["3", "yes", "There are two.", "Yes."])
    assert found == {"answer_match": (4, 0.75), "group_match": (2, 0.5)}
    geneval2(tmp_path, skills=["count"])
    with raises(DataError, "expected a list of 2 entries, as 'vqa_list' has"):
        shipped("geneval2", tmp_path).records()


def scored(records: PreferenceSet, scores: Any) -> Scored:
    values = np.asarray(scores, np.float32)[:, :, None]
    return Scored(Scores([row.id for row in records.preferences], values, "similarity"))


def test_editreward_bench_asks_which_edit_people_prefer(tmp_path: Path) -> None:
    shared = {"instruction": "make it red", "source_image": image(0), "candidate_1": image(1), "candidate_2": image(2)}
    rankings = (("3pair", "x_0", "A>B"), ("3pair", "x_1", "C>A"), ("3pair", "x_2", "C>B"), ("2pair", "y_0", "A=B=Good"))
    rows = [shared | {"dataset": size, "id": id_, "ranking": ranking} for size, id_, ranking in rankings]
    parquet(rows, tmp_path / "train-00000-of-00001.parquet")
    one = shipped("editreward-bench", tmp_path)
    records = one.records()
    first = records.preferences[0]
    assert (first.images, first.text, first.group) == (("0/candidate_1", "0/candidate_2"), "make it red", "3pair/x")
    assert records.people.tolist() == [1, -1, -1, 0]
    found = {
        value.name: (len(units.units), float(value.strict.mean()))
        for units in measure_preferences(records, scored(records, [(0.9, 0.5), (0.1, 0.5), (0.4, 0.5), (0.5, 0.45)]))
        for value in units.values
    }
    expected = {"preference_accuracy": (4, 1), "preference_accuracy_untied": (3, 1), "preference_group": (1, 1)}
    assert (
        found == expected and one.task == "preference" and one.official == ("preference_accuracy", "preference_group")
    )


def test_the_threshold_of_ties_is_the_best_of_all() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        above, people = rng.integers(-3, 4, 9) / 2, rng.integers(-1, 2, 9)
        found = preference_accuracy(above, people)
        by_hand = [
            np.mean(
                [
                    person == 0 if abs(own) <= size else own * person > 0
                    for own, person in zip(above, people, strict=True)
                ]
            )
            for size in {0.0, *np.abs(above)}
        ]
        assert found.values.mean() == max(by_hand)


def test_a_ranking_is_read_by_the_order_of_its_letters() -> None:
    names = [f"{one}{sign}{other}" for (one, other), sign in product(("AB", "CA"), "<>=")]
    assert [read_choice(name) for name in names] == [-1, 1, 0, 1, -1, 0]
    for wrong in ("A>A", "A>B>C", "AvsB", ""):
        with raises(ValueError, "expected a ranking such as A>B, B>A or A=B"):
            read_choice(wrong)
    with raises(DataError, "people prefer no image of 1 pairs"):
        PreferenceSet("x", (Preference("0", "a", ("0", "1"), 0),))


def test_an_open_question_is_asked_as_it_is_written() -> None:
    assert OPEN.output == "text" and {metric.name for metric in OPEN.metrics} == {
        "answer_match",
        "bias_rate",
        "group_match",
        "same_answer",
    }
