"""Boundary grounding as a task: files of similarities, ties, chance, limits, and models over folders of frames."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from facts import raises
from film_annotations import films
from pictures import encoded
from published import published
from sets import write_file
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.published_tasks import read_moments
from tellapart.data.task_records import MomentSet, make_moment
from tellapart.errors import DataError, ScoreError
from tellapart.evaluation.evaluate import evaluate, prepare
from tellapart.metrics.moments import COUNT_PROBABILITIES, TOLERANCES, frame_times, random_accuracy
from tellapart.metrics.tabulate import tabulate
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.vectors import dot_products, normalise
from tellapart.tasks.moments import MOMENTS, FrameScores, measure_moments, read_frame_scores

LIMITS = [f"{limit:.1f}" for limit in TOLERANCES]


def gebplus(split: str) -> MomentSet:
    return read_moments(published("gebplus", f"{split}.json"))


def made(*times: float, video: str = "v0123456789", end: float = 4.0) -> MomentSet:
    rows = [
        make_moment(f"{video}_{k}A", video, time, (f"man {k}", "stands", "sits"), "Change of Action", end)
        for k, time in enumerate(times)
    ]
    return MomentSet("made", tuple(rows))


def scores_at(records: MomentSet, moments: Sequence[float]) -> list[FrameScores]:
    """Similarities whose best boundary is the candidate nearest to each moment."""
    found = []
    for moment, at in zip(records.rows, moments, strict=True):
        times = frame_times(records.duration(moment.cluster))
        place = int(np.abs(times[:-1] + 0.1 - at).argmin())
        before, after = np.zeros(len(times)), np.zeros(len(times))
        before[place], after[place + 1] = 1, 1
        found.append(FrameScores(times, before, after))
    return found


def table(records: MomentSet, found: Sequence[FrameScores]):
    (units,) = measure_moments(records, found)
    return tabulate(units.values, [unit.cluster for unit in units.units], [unit.tags for unit in units.units])


def test_the_metrics_are_named_after_their_tolerances():
    names = [metric.name for metric in MOMENTS.metrics]
    accuracy = [f"boundary_accuracy@{limit}" for limit in ("0.1", "0.2", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0")]
    assert names[:9] == ["boundary_accuracy", *accuracy]
    assert names[9:18] == [name.replace("accuracy", "accuracy_unmerged") for name in names[:9]]
    assert names[18:] == [name.replace("accuracy", "f1") for name in names[:18]]


def test_chance_is_the_mean_over_queries_of_a_moment_drawn_evenly():
    few = MOMENTS.select(gebplus("test"), range(0, 7199, 100))
    found = table(few, scores_at(few, [0.0] * 72)).metrics
    each = np.array([random_accuracy(g, few.duration(m.cluster)) for m, g in zip(few.rows, few.gold, strict=True)])
    assert [found[f"boundary_accuracy@{limit}"].chance for limit in LIMITS] == pytest.approx(each.mean(axis=0).tolist())
    assert found["boundary_accuracy"].chance == pytest.approx(each.mean())
    assert found["boundary_f1"].chance is None


def test_a_model_that_sees_no_difference_is_never_right_and_ties_everywhere():
    same = [FrameScores(frame_times(4.0), np.ones(20), np.ones(20))] * 2
    found = table(made(0.7, 2.0), same).metrics
    assert [found[f"boundary_accuracy@{limit}"].value for limit in LIMITS[:5]] == [0.0] * 5
    assert found["boundary_accuracy@3.0"].value == 0.5  # of 2.0 s every candidate is nearer than 3 s; of 0.7 s not
    assert found["boundary_accuracy"].ties == 2
    # Of 19 candidates (0.1, 0.3, ..., 3.7) those nearer than 0.5 s: 0.3 to 1.1 and 1.7 to 2.3 (1.5 and 2.5 are not).
    neutral = found["boundary_accuracy@0.5"].tie_neutral
    assert neutral == pytest.approx((5 + 4) / 2 / 19, abs=1 / 19) and neutral > 0


def test_a_change_that_happens_twice_is_true_at_both_times_and_unmerged_at_its_own():
    rows = [
        make_moment(f"v_{k}", "v", time, ("a man", "stands", "sits"), "Change", 4.0)
        for k, time in enumerate((0.7, 2.9))
    ]
    records = MomentSet("twice", (*rows, make_moment("v_2", "v", 1.7, ("a man", "sits", "stands"), "Change", 4.0)))
    found = scores_at(records, [2.9, 2.9, 1.7])
    metrics = table(records, found).metrics
    assert metrics["boundary_accuracy@0.5"].value == 1
    assert metrics["boundary_accuracy_unmerged@0.5"].value == pytest.approx(2 / 3)
    chances = [random_accuracy(gold, 4.0, (0.5,))[0] for gold in ((0.7,), (2.9,), (1.7,))]
    assert metrics["boundary_accuracy_unmerged@0.5"].chance == pytest.approx(np.mean(chances))
    # One prediction of one true moment is right, of two it has a recall of one half.
    only = [metrics[f"boundary_f1{suffix}@0.1"].value for suffix in ("", "_unmerged")]
    assert only == pytest.approx([(2 * f1_of_first(2) + f1_of_first(1)) / 3, 2 * f1_of_first(1) / 3])
    (note,) = MOMENTS.notes(records, found)
    assert note.startswith("2 of 3 queries have several true moments") and "boundary_accuracy_unmerged" in note
    assert MOMENTS.notes(made(0.7, 2.0), found[:2]) == ()


def f1_of_first(gold: int) -> float:
    """F1 where only the best prediction hits, and so one of the gold moments; the expectation of GEB+'s draw."""
    return sum(odds * 2 / (count + gold) for count, odds in enumerate(COUNT_PROBABILITIES, start=1))


def test_results_are_broken_down_by_the_kind_of_change():
    rows = made(1.1, 2.3).rows
    other = make_moment(rows[1].id, rows[1].cluster, 2.3, ("man 1", "stands", "sits"), "Change of Color", 4.0)
    records = MomentSet("two", (rows[0], other))
    found = table(records, scores_at(records, [1.1, 0.1]))
    parts = {label: one.metrics for label, one in found.by["label"].items()}
    values = {label: metrics["boundary_accuracy@0.5"].value for label, metrics in parts.items()}
    assert values == {"Change of Action": 1.0, "Change of Color": 0.0}
    alone = table(MomentSet("one", rows[:1]), scores_at(made(1.1), [1.1])).metrics
    part, whole, one = (of["boundary_accuracy@2.5"].chance for of in (parts["Change of Action"], found.metrics, alone))
    assert part == pytest.approx(one) != whole


def test_a_limit_changes_neither_lengths_nor_true_times():
    rows = made(1.0, 2.0).rows
    same = make_moment("v0123456789_9B", "v0123456789", 3.0, ("man 0", "stands", "sits"), "Change of Action", 9.0)
    one = MOMENTS.select(MomentSet("three", (*rows, same)), [0])
    assert (MOMENTS.size(one), one.duration("v0123456789"), one.gold) == (1, 9.0, ((1.0, 3.0),))
    assert ([row["frames"] for row in MOMENTS.template(one)], MOMENTS.select(one, [0]).gold) == ([45], one.gold)


@pytest.fixture
def data(tmp_path) -> Path:
    """GEB+'s form: two videos, three moments."""
    write_file(tmp_path / "val.json", films(v0123456789=(1.1, 2.5), w0123456789=(0.7,)))
    return tmp_path


def test_a_line_with_times_may_be_about_any_frames(tmp_path):
    records = made(1.1)
    row = {"boundary_id": records.rows[0].id, "before": [1, 0, 0], "after": [0, 1, 0], "times": [0.5, 1.5, 3.5]}
    (found,) = read_frame_scores(write_file(tmp_path / "s.jsonl", [row]), records)
    assert (found.times.tolist(), found.moment) == ([0.5, 1.5, 3.5], 1.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"before": [0.5] * 19}, ("s.jsonl:1", "v0123456789_0A", "'before'", "'after'")),
        ({"after": [0.5] * 21}, "numbers"),
        ({"times": [0, 1]}, ("'before'", "'after'", "times")),
        ({"times": [0] * 20}, ("rising", "seconds")),
        ({"times": [0, None] * 10}, ("'times'", "finite")),
        ({"before": None}, ("'before'", "finite")),
        ({"before": ["x"] * 20}, ("'before'", "finite")),
        ({"after": [True] * 20}, ("'after'", "finite")),
        ({"after": [3e38] * 20}, ("'after'", "finite")),
        ({"id": ""}, ("s.jsonl:1", "id", "'id'", "'boundary_id'")),
    ],
)
def test_a_line_that_does_not_fit_is_refused(tmp_path, changes, said):
    records = made(0.2)
    row = {"id": records.rows[0].id, "before": [1] * 20, "after": [0] * 20}
    path = write_file(tmp_path / "s.jsonl", [row | changes])
    with raises(ScoreError, said):
        read_frame_scores(path, records)


class Hue:
    """A dual encoder: an image is its mean colour; a caption with `stands` is red, one with `sits` blue."""

    name, fingerprint, kind = "hue", "hue-1", "similarity"

    def __init__(self) -> None:
        self.images = self.texts = 0

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        self.images += len(images)
        return normalise(np.array([image.reshape(-1, 3).mean(axis=0) + 1 for image in images], np.float32))

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        return np.array([[1, 0, 0] if "stands" in text else [0, 0, 1] for text in texts], np.float32)

    def similarity(self, images: NDArray[np.float32], texts: NDArray[np.float32]) -> NDArray[np.float32]:
        return dot_products(images, texts)


@pytest.fixture
def frames(data) -> Path:
    """Videos that turn from red to blue: `v` at 1.2 s, `w` at 0.6 s; no two frames are equal."""
    for video, turn in (("v0123456789", 6), ("w0123456789", 3)):
        for k in range(20):
            colour = (250, k, 0) if k < turn else (0, k, 250)
            frame = encoded(Image.new("RGB", (4, 4), colour), "JPEG", quality=95)
            write_file(data / "frames" / video / f"{k}.jpg", frame)
    return data


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_a_dual_encoder_finds_the_moment_in_a_folder_of_frames(frames, batch_size):
    ready = prepare(find_benchmark("gebc-val", Locations(frames)), store=EmbeddingStore(None))
    model = Hue()
    told: list[tuple[str, int, int]] = []
    found = evaluate(model, ready, batch_size=batch_size, progress=lambda *now: told.append(now))
    # The turn lies between the frames at 1.0 and 1.2 s, and at 0.4 and 0.6 s.
    assert [sample.output for sample in found.samples] == pytest.approx([1.1, 1.1, 0.5])
    assert [sample.outcomes["boundary_accuracy@0.1"] for sample in found.samples] == [1.0, 0.0, 0.0]
    assert [now for now in told if now[0] == "moments"][-1] == ("moments", 3, 3)
    # Each distinct frame and caption once, and never again; some frames of JPEG come out equal.
    assert 20 < model.images <= 40
    assert model.texts == 4
    again = Hue()
    assert evaluate(again, ready).samples == found.samples
    assert (again.images, again.texts) == (0, 0)


def test_what_the_model_scores_is_what_a_file_of_the_same_numbers_gives(frames, tmp_path):
    records = read_moments(frames / "val.json")
    found = evaluate(Hue(), prepare(find_benchmark("gebc-val", Locations(frames)), store=EmbeddingStore(None)))
    rows = []
    for moment in records.rows:
        images = [np.asarray(Image.open(frames / "frames" / f"{moment.cluster}/{k}.jpg")) for k in range(20)]
        model = Hue()
        similar = model.similarity(model.encode_images(images), model.encode_texts(moment.texts))
        before, after = similar.T.tolist()
        rows.append({"id": moment.id, "before": before, "after": after})
    (units,) = measure_moments(records, read_frame_scores(write_file(tmp_path / "s.jsonl", rows), records))
    of = {one.name: one.strict.tolist() for one in units.values}
    assert {name: [sample.outcomes[name] for sample in found.samples] for name in of} == of


def test_the_last_frame_may_be_missing_and_no_other(frames):
    ready = prepare(find_benchmark("gebc-val", Locations(frames)), store=EmbeddingStore(None))
    whole = evaluate(Hue(), ready)
    (frames / "frames" / "v0123456789" / "19.jpg").unlink()
    assert [one.output for one in evaluate(Hue(), ready).samples] == [one.output for one in whole.samples]
    (frames / "frames" / "v0123456789" / "18.jpg").unlink()
    with raises(DataError, "'v0123456789/18.jpg'", "image"):
        evaluate(Hue(), ready)
    write_file(frames / "frames" / "v0123456789" / "18.jpg", b"no picture")
    with raises(DataError, "v0123456789/18.jpg", "decoded"):
        evaluate(Hue(), ready)


@pytest.mark.parametrize("model", ["constant", "blind"])
def test_a_model_that_does_not_look_ties_everywhere_and_gets_chance_where_ties_are_broken(command, frames, model):
    ran = command("run", "-m", model, "-b", "gebc-val", "--data", frames, "--out", frames / "run", "--json")
    (run,) = ran.json["runs"]
    found = run["benchmarks"]["gebc-val"]["metrics"]["boundary_accuracy@0.5"]
    assert (found["value"], found["ties"]) == (0.0, 3)
    assert found["tie_neutral"] == pytest.approx(found["chance"], abs=0.05)
