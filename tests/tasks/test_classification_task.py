"""Zero-shot classification through the command line: ensembles of prompts, ties, files, and models of every kind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from facts import check_facts, raises
from pictures import encoded
from sets import write_file
from tellapart.benchmarks.find import find_benchmark
from tellapart.data.images import decode
from tellapart.data.task_records import ClassificationSet, Record
from tellapart.errors import ModelError
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.metrics.classification import rank_labels
from tellapart.models.find import find_model
from tellapart.models.protocols import PairScorer
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.classification import CLASSIFICATION, Classified, class_vectors, measure_classes, read_classes
from tellapart.tasks.task import Session

COLOURS = {"red cup": (200, 20, 20), "blue cup": (20, 20, 200), "two bowl": (20, 200, 20), "left": (9, 9, 9)}
TEMPLATES = ("one {}", "{} left right", "red {} two")


@pytest.fixture
def folders(tmp_path) -> Path:
    """Noise in one colour a class: 5, 4, 3 and 2 pictures."""
    rng = np.random.default_rng(0)
    for row, (name, colour) in enumerate(COLOURS.items()):
        for number in range(5 - row):
            noise = np.clip(rng.integers(-20, 60, (24, 20, 3)) + colour, 0, 255).astype(np.uint8)
            write_file(tmp_path / "colours" / name / f"{number}.png", encoded(noise))
    write_file(tmp_path / "colours" / "templates.txt", "\n".join(TEMPLATES))
    return tmp_path / "colours"


@pytest.fixture
def session(folders) -> Session:
    pictures = find_benchmark(f"classes:{folders}").read_image()
    return Session(pictures=pictures, store=EmbeddingStore(None), batch_size=3)


@pytest.fixture
def records(folders) -> ClassificationSet:
    return find_benchmark(f"classes:{folders}").records()


@pytest.fixture
def pixels(records, session) -> list[NDArray[np.uint8]]:
    return [decode(session.pictures(each.images[0]), each.images[0]) for each in records.rows]


@pytest.fixture
def dual(tiny_encoder) -> Any:
    return find_model(f"onnx:{tiny_encoder.folder}")


def classify(model, records: ClassificationSet, session: Session) -> Classified:
    """Run a model as the task does."""
    classified: Classified = CLASSIFICATION.runner(model)(model, records, session)
    return classified


def values(records: ClassificationSet, scores) -> dict[str, Any]:
    return tabulate_units(measure_classes(records, Classified(rank_labels(scores, records.gold)))).metrics


def test_classes_are_open_clips_own_zero_shot_classifier(torch, records, session, pixels, tmp_path):
    import open_clip
    import tiny_openclip

    name = f"local-dir:{tiny_openclip.save_drawn(tmp_path)}"
    theirs, _, transform = open_clip.create_model_and_transforms(name)
    with torch.inference_mode():
        classifier = open_clip.build_zero_shot_classifier(
            theirs.eval(), open_clip.get_tokenizer(name), records.classes, list(TEMPLATES)
        )
        images = [theirs.encode_image(transform(Image.fromarray(each))[None]) for each in pixels]
        logits = (torch.nn.functional.normalize(torch.cat(images), dim=-1) @ classifier).numpy()
    model = find_model(name)
    own = class_vectors([model.encode_texts(prompts) for prompts in records.prompts])
    assert np.abs(own.T - classifier.numpy()).max() < 2e-6
    ordered = np.sort(logits, axis=1)
    assert (ordered[:, 1:] - ordered[:, :-1]).min() > 1e-6  # so rounding decides nowhere
    found, expected = classify(model, records, session).placed, rank_labels(logits, records.gold)
    assert found.first.tolist() == expected.first.tolist() == logits.argmax(axis=1).tolist()
    assert found.ranks.rank.tolist() == expected.ranks.rank.tolist()


@pytest.mark.parametrize(("family", "reading"), [("blip", "itm"), ("blip", "itc"), ("blip_2", "itc")])
def test_a_fusion_encoder_scores_every_prompt_and_its_dual_encoder_every_class(
    tiny, family, reading, records, session, pixels, tmp_path
):
    from tellapart.models.options import ModelOptions

    model: Any = find_model(f"hf:{getattr(tiny, family)(tmp_path / family)}", ModelOptions(reading=reading))
    if reading == "itm":
        assert isinstance(model, PairScorer)
        rows = [[model.score_pairs([image] * len(row), row) for image in pixels] for row in records.prompts]
        total = np.mean(rows, axis=0, dtype=np.float64)
    else:
        vectors = class_vectors([model.encode_texts(prompts) for prompts in records.prompts])
        total = model.similarity(model.encode_images(pixels), vectors)
    found = classify(model, records, session).placed.first
    assert found.tolist() == rank_labels(total, records.gold).first.tolist()


def test_the_batch_the_order_and_the_store_change_nothing_and_nothing_is_encoded_twice(dual, records, session):
    encoded: list[int] = []
    plain = type(dual).encode_images
    dual.encode_images = lambda images: encoded.append(len(images)) or plain(dual, images)
    found, again = (classify(dual, records, session) for _ in range(2))
    assert sum(encoded) == len(records.rows)  # the second time all from the store
    order = [3, 0, 13, 7]
    alone = Session(pictures=session.pictures, store=EmbeddingStore(None), batch_size=1)
    some = classify(dual, CLASSIFICATION.select(records, order), alone)
    assert again.placed.ranks.rank.tolist() == found.placed.ranks.rank.tolist()
    assert some.placed.ranks.rank.tolist() == found.placed.ranks.rank[order].tolist()


def test_a_dual_encoder_without_cosines_is_asked_for_every_prompt(dual, records, session, pixels):
    dual.ranks_by_cosine = False
    images, prompts = dual.encode_images(pixels), [dual.encode_texts(row) for row in records.prompts]
    mean = np.mean([dual.similarity(images, row).astype(np.float64) for row in prompts], axis=0)
    assert classify(dual, records, session).placed.first.tolist() == mean.argmax(axis=1).tolist()


@pytest.mark.slow
def test_every_reference_gets_what_it_must(command):
    ran = command("run", "-b", "demo-objects", "--limit", "60", "--json", code=0)
    found = {run["model"]["name"]: run["benchmarks"]["demo-objects"] for run in ran.json["runs"]}
    top = {name: one["metrics"]["top1_accuracy"] for name, one in found.items()}
    assert top["oracle"]["value"] == top["bag-of-words"]["value"] == 1
    assert (top["constant"]["value"], top["constant"]["tie_neutral"]) == (0, pytest.approx(1 / 23))
    assert {one["chance"] for one in top.values()} == {1 / 23}
    assert top["random"]["low"] < 1 / 23 < top["random"]["high"]
    assert top["demo-encoder"]["low"] > 1 / 23  # it has seen such things
    five = found["constant"]["metrics"]["top5_accuracy"]
    assert (five["value"], five["tie_neutral"], five["chance"]) == (0, pytest.approx(5 / 23), 5 / 23)
    macro = found["demo-encoder"]["macro"]["class"]["metrics"]["top1_accuracy"]
    recall = found["demo-encoder"]["metrics"]["mean_class_recall"]
    assert recall["value"] == pytest.approx(macro["value"])
    assert (recall["low"], recall["high"]) == pytest.approx((macro["low"], macro["high"]), abs=0.02)


def pets(labels: list[int], classes: int = 2) -> ClassificationSet:
    rows = (Record(str(k), (f"{k}.png",), (), label) for k, label in enumerate(labels))
    return ClassificationSet("pets", tuple(rows), tuple(f"class {k}" for k in range(classes)), ("{}",))


def test_recall_over_classes_stands_only_beside_classes_of_unequal_size():
    first = [[1, 0]] * 4
    assert set(values(pets([0, 0, 1, 1]), first)) == {"top1_accuracy"}
    found = values(pets([0, 0, 0, 1]), first)
    assert (found["top1_accuracy"].value, found["mean_class_recall"].value) == (0.75, 0.5)
    assert found["mean_class_recall"].chance == 0.5


def test_five_are_counted_of_six_classes_and_what_naming_the_largest_gets_is_said():
    found = values(pets(list(range(6)), 6), np.arange(6.0)[None].repeat(6, 0))
    assert found["top5_accuracy"].value == pytest.approx(5 / 6)
    assert found["top5_accuracy"].chance == pytest.approx(5 / 6)
    assert "top5_accuracy" not in values(pets(list(range(5)), 5), np.eye(5))
    first = Classified(rank_labels([[1, 0]] * 4, [0, 0, 0, 1]))
    notes = CLASSIFICATION.notes(pets([0, 0, 0, 1]), first)
    assert "always naming 'class 0' would be right for 75.0% of the images" in notes
    assert CLASSIFICATION.notes(pets([0, 1, 0, 1]), first) == ("prompts averaged for each class: {}",)


def test_prompts_that_cancel_out_and_a_model_that_does_not_score_are_refused():
    with raises(ModelError, "1", "1", "vectors"):
        class_vectors([np.array([[1.0, 0.0]], np.float32), np.array([[-2.0, 0.0]], np.float32)])
    assert CLASSIFICATION.runner(object()) is None


def test_a_template_filled_in_and_a_runs_own_samples_are_read_again(command, tiny_encoder, folders):
    name, filed = f"classes:{folders}", f"classes:{folders.name}"

    def record(*arguments: object) -> dict[str, Any]:
        return command(*arguments, "--json", code=0).json["runs"][0]["benchmarks"][filed]

    own = record("run", "-b", name, "-m", f"onnx:{tiny_encoder.folder}", "--out", "own")["metrics"]
    samples = next(Path("own").rglob("*.jsonl"))
    again = record("score", name, "--scores", samples, "--out", "again")["metrics"]
    for metric in ("top1_accuracy", "mean_class_recall"):
        one, other = ([of[metric][key] for key in ("value", "low", "high", "n")] for of in (own, again))
        assert one == other
    command("export", name, "--to", "t.jsonl", code=0)
    rows = [json.loads(line) for line in Path("t.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows if row["unit"] == "class"] == ["blue cup", "left", "red cup", "two bowl"]
    filled = [row | {"prediction": "Red cup."} if row["unit"] == "image" else row for row in rows]
    filled[-1]["prediction"] = "a bowl, I think"
    found = record("score", name, "--scores", write_file(Path("t.jsonl"), filled), "--out", "filled")
    assert found["metrics"]["top1_accuracy"]["value"] == pytest.approx(5 / 14)
    (note,) = (line for line in found["notes"] if "name no class" in line)
    check_facts(note, ("1 of 14", "'a bowl, I think'", "expected", "blue cup, left, red cup and 1 more"))
    assert "top5_accuracy" not in found["metrics"]


def test_scores_are_put_in_the_sets_order(tmp_path):
    scores = [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]
    np.savez(tmp_path / "s.npz", image_ids=["2", "0", "1"], classes=["class 1", "class 0"], scores=scores)
    found = read_classes(tmp_path / "s.npz", pets([0, 0, 1]))
    assert (found.placed.first.tolist(), found.placed.ranks.recall(1).tolist()) == ([0, -1, 1], [1, 0, 1])
