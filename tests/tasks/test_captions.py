"""Captions as a task: the corpus's numbers, intervals over images, COCO's formats, and models that write."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import check_facts, raises
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.vlue import read_captions, read_coco_captions, read_karpathy_captions
from tellapart.data.task_records import CaptionSet
from tellapart.errors import DataError, MetricError
from tellapart.metrics.captions import caption_scores
from tellapart.metrics.tabulate import tabulate
from tellapart.models.generative.prompts import CAPTION
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.task import Session
from tellapart.tasks.words import CAPTIONS, measure_captions

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
METRICS = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"]
WORDS = st.lists(
    st.sampled_from(["a", "dog", "cat", "runs", "sits", "on", "the", "red", "mat", "two"]), max_size=8
).map(" ".join)


def made(references: Sequence[Sequence[str]]) -> CaptionSet:
    ids = tuple(map(str, range(len(references))))
    return CaptionSet("made", ids, tuple(f"{k}.jpg" for k in ids), tuple(map(tuple, references)))


def table(records: CaptionSet, predictions: Sequence[str]) -> dict[str, Any]:
    (units,) = measure_captions(records, predictions)
    return tabulate(units.values, [unit.cluster for unit in units.units], [unit.tags for unit in units.units]).metrics


def published(folder: str, file: str) -> Path:
    if not (SHARED / folder / file).is_file():
        pytest.skip(f"{file} is not beside this checkout")
    return SHARED / folder / file


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(WORDS, st.lists(WORDS.filter(bool), min_size=1, max_size=3)), min_size=2, max_size=6))
def test_the_task_gives_the_corpuss_numbers(rows: list[tuple[str, list[str]]]) -> None:
    said, references = [one for one, _ in rows], [given_ for _, given_ in rows]
    records = made(references)
    corpus = caption_scores(
        dict(zip(records.ids, said, strict=True)), dict(zip(records.ids, references, strict=True))
    ).corpus()
    found = table(records, said)
    assert list(found) == list(corpus) == METRICS
    for name, value in corpus.items():
        assert found[name].value == pytest.approx(value, rel=1e-12, abs=1e-15)
        assert found[name].n == len(rows)


def test_the_interval_of_bleu_is_of_sets_of_images_drawn_anew() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(30)]
    references = [[" ".join(rng.choice(words, 9)) for _ in range(3)] for _ in range(60)]
    said = [own[0] if k % 2 else " ".join(rng.choice(words, 9)) for k, own in enumerate(references)]
    records = made(references)
    found = table(records, said)["bleu_4"]
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    # The same by hand: BLEU of 2,000 draws of the images.
    scores = caption_scores(dict(zip(records.ids, said, strict=True)), dict(zip(records.ids, references, strict=True)))
    from tellapart.metrics.captions import bleu

    drawn = [bleu(scores.bleu_statistics[rng.integers(0, 60, 60)].sum(axis=0))[3] for _ in range(2000)]
    assert np.quantile(drawn, [0.025, 0.975]) == pytest.approx([found.low, found.high], abs=0.03)


def test_equal_images_are_resampled_together() -> None:
    records = CaptionSet("c", ("0", "1", "2"), ("a.jpg", "a.jpg", "b.jpg"), (("a dog",), ("a cat",), ("two men",)))
    assert table(records, ["a dog", "a cat", "men"])["cider"].clusters == 2


def test_vlues_captions_are_measured_against_their_own() -> None:
    records = read_captions(published("vlue", "itr_vlue_test.json"))
    few = CAPTIONS.select(records, range(0, 5450, 50))
    found = table(few, [own[0] for own in few.references])
    assert (found["bleu_4"].value, found["rouge_l"].value) == (pytest.approx(1.0), 1.0)
    assert 2 < found["cider"].value < 10
    # A caption of the next image is worth next to nothing.
    shifted = table(few, [own[0] for own in few.references[1:] + few.references[:1]])
    assert shifted["bleu_4"].value < 0.1
    assert shifted["cider"].value < 0.2


def test_cocos_published_results_file_is_read_by_its_image_ids(command: Callable[..., Any], tmp_path: Path) -> None:
    path = published("pycocoevalcap", "captions_val2014_fakecap_results.json")
    rows = json.loads(path.read_text())
    assert len(rows) == 1000
    gold = {
        "annotations": [{"image_id": row["image_id"], "id": k, "caption": row["caption"]} for k, row in enumerate(rows)]
    }
    gold["images"] = [{"id": row["image_id"]} for row in rows]
    (tmp_path / "coco_karpathy_test_gt.json").write_text(json.dumps(gold))
    given = ("score", "coco-captions", "--scores", path, "--data", tmp_path, "--out", tmp_path / "run", "--json")
    check_facts(command(*given).err, path, "'caption'", "gold")  # these are the gold captions
    ran = command(*given, "--columns", "prediction=caption")
    metrics = ran.json["runs"][0]["benchmarks"]["coco-captions"]["metrics"]
    assert {name: round(one["value"], 6) for name, one in metrics.items() if name != "cider"} == dict.fromkeys(
        METRICS[:5], 1.0
    )
    assert metrics["cider"]["value"] == pytest.approx(10, abs=0.1)
    assert [metrics[name]["n"] for name in ("bleu_4", "cider")] == [1000, 1000]


def test_karpathys_images_are_known_by_cocos_numbers_in_either_file(tmp_path: Path) -> None:
    name = "val2014/COCO_val2014_000000000042.jpg"
    (tmp_path / "coco_karpathy_test.json").write_text(json.dumps([{"image": name, "caption": ["a man", "one man"]}]))
    listed = find_benchmark("coco-captions", Locations(tmp_path)).records()
    rows = [{"image_id": 42, "id": 3, "caption": "a man"}, {"image_id": 42, "id": 4, "caption": "one man"}]
    (tmp_path / "coco_karpathy_test_gt.json").write_text(json.dumps({"annotations": rows, "images": [{"id": 42}]}))
    gold = find_benchmark("coco-captions", Locations(tmp_path)).records()
    assert (listed.ids, listed.images, listed.references) == (gold.ids, gold.images, gold.references)
    assert (gold.ids, gold.images, gold.references) == (("42",), (name,), (("a man", "one man"),))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"annotations": []}, ("'annotations'", "rows")),
        ({"images": []}, ("'annotations'", "rows")),
        ({"annotations": [{"image_id": "42", "caption": "a"}]}, ("0", "'image_id'")),
        ({"annotations": [{"image_id": 42, "caption": ""}]}, ("0", "'caption'")),
        ({"annotations": [["a"]]}, ("0", "object", "row")),
    ],
)
def test_a_file_in_cocos_format_that_does_not_fit_is_refused(
    tmp_path: Path, found: Any, said: str | tuple[str, ...]
) -> None:
    path = tmp_path / "gt.json"
    path.write_text(json.dumps(found))
    with raises(DataError, "gt.json", said):
        read_coco_captions(path)


@pytest.mark.parametrize("image", ["a.png", "COCO_val2014_42.png", "cat.jpg", "COCO_val2014_x42.jpg"])
def test_an_image_without_cocos_number_is_refused(tmp_path: Path, image: str) -> None:
    path = tmp_path / "k.json"
    path.write_text(json.dumps([{"image": image, "caption": ["a"]}]))
    with raises(DataError, "k.json", "0", "'image'", "COCO"):
        read_karpathy_captions(path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    captions = ["A dog runs on the mat.", "Two red cats sit.", "The mat is red.", "A cat runs on the mat."]
    rows = [{"image": f"{k}.jpg", "caption": [one], "image_id": k} for k, one in enumerate(captions)]
    (tmp_path / "caption_vlue_test.json").write_text(json.dumps(rows))
    return tmp_path


def test_a_template_is_no_prediction_and_filled_in_it_is_measured_and_compared(
    command: Callable[..., Any], data: Path
) -> None:
    template = data / "t.jsonl"
    command("export", "vlue-captions", "--to", template, "--data", data)
    ran = command("score", "vlue-captions", "--scores", template, "--data", data)
    assert ran.code == 2
    check_facts(ran.err, "t.jsonl:1")
    rows = [json.loads(line) for line in template.read_text().splitlines()]
    assert rows[0] == {"id": "0", "prediction": None, "image": "0.jpg"}
    said = {"a": ["a dog runs on the mat", "two red cats sit", "the mat is red", "a mat"], "b": ["a mat"] * 4}
    for name, captions in said.items():
        filled = data / f"{name}.jsonl"
        filled.write_text(
            "".join(json.dumps(row | {"prediction": one}) + "\n" for row, one in zip(rows, captions, strict=True))
        )
        ran = command("score", "vlue-captions", "--scores", filled, "--data", data, "--out", data / name, "--json")
        result = ran.json["runs"][0]["benchmarks"]["vlue-captions"]
        expected = measure_captions(read_captions(data / "caption_vlue_test.json"), captions)[0].values
        assert {key: one["value"] for key, one in result["metrics"].items()} == pytest.approx(
            {one.name: one.over(one.strict) for one in expected}
        )
        assert result["notes"][1:] == ([] if name == "a" else ["3 of 4 captions repeat another image's word for word"])
    compared = command("compare", data / "a", data / "b", "--json").json["rows"]
    assert [row["metric"] for row in compared] == ["rouge_l", "cider"]  # BLEU has no value of one image
    assert all(row["difference"] < 0 and row["only_b"] == 0 for row in compared)


def test_a_single_image_is_refused_for_cider_would_be_nothing(command: Callable[..., Any], data: Path) -> None:
    records = CAPTIONS.select(read_captions(data / "caption_vlue_test.json"), [2])
    assert (records.ids, records.references) == (("2",), (("The mat is red.",),))
    with raises(MetricError, "CIDEr", "0", "image"):
        measure_captions(records, ["the mat is red"])


class Painter:
    """Calls a picture by its first pixel's channels."""

    name, fingerprint, kind = "painter", "painter-1", "probability"

    def __init__(self) -> None:
        self.prompts: set[str] = set()

    def task_prompt(self, task: str) -> Any:
        assert task == "caption"
        return CAPTION

    def answer(self, images: Any, prompts: Sequence[str], *, max_new_tokens: int = 32) -> list[str]:
        self.prompts.update(prompts)
        return ["colour " + " ".join(map(str, own[0][0, 0])) for own in images]


@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_a_model_that_writes_is_asked_for_a_caption_of_every_image(batch_size: int) -> None:
    from PIL import Image

    def picture(reference: str) -> bytes:
        stream = io.BytesIO()
        Image.new("RGB", (3, 2), (int(reference[0]), 7, 9)).save(stream, "PNG")
        return stream.getvalue()

    model = Painter()
    session = Session(pictures=picture, store=EmbeddingStore(None), batch_size=batch_size)
    run = CAPTIONS.runner(model)
    assert run is not None
    assert run(model, made([["a"]] * 4), session) == [f"colour {k} 7 9" for k in range(4)]
    assert model.prompts == {CAPTION.text}
