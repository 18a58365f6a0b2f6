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
from tellapart.data.task_records import MomentSet, Record, make_moment
from tellapart.errors import DataError, ScoreError
from tellapart.evaluation.evaluate import Prepared, evaluate, prepare, tabulate_units
from tellapart.metrics.moments import COUNT_PROBABILITIES, TOLERANCES, frame_times, random_accuracy
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.vectors import dot_products, normalise
from tellapart.tasks.moments import MOMENTS, FrameScores, measure_moments, read_frame_scores

FILM = "v0123456789"
LIMITS = [f"{limit:.1f}" for limit in TOLERANCES]


def gebplus(split: str) -> MomentSet:
    return read_moments(published("gebplus", f"{split}.json"))


def moment(id_: str, time: float, man: str = "a man", label: str = "Change of Action", *, turned: bool = False,
           end: float = 4.0) -> Record:  # fmt: skip
    """A man who sits down in the first film, or stands up."""
    states = ("sits", "stands") if turned else ("stands", "sits")
    return make_moment(f"{FILM}_{id_}", FILM, time, (man, *states), label, end)


def made(*times: float) -> MomentSet:
    return MomentSet("made", tuple(moment(f"{k}A", time, f"man {k}") for k, time in enumerate(times)))


def scores_at(records: MomentSet, moments: Sequence[float]) -> list[FrameScores]:
    """Similarities whose best boundary is the candidate nearest to each moment."""
    found = []
    for one, at in zip(records.rows, moments, strict=True):
        times = frame_times(records.duration(one.cluster))
        place = int(np.abs(times[:-1] + 0.1 - at).argmin())
        before, after = np.zeros(len(times)), np.zeros(len(times))
        before[place], after[place + 1] = 1, 1
        found.append(FrameScores(times, before, after))
    return found


def table(records: MomentSet, found: Sequence[FrameScores]):
    return tabulate_units(measure_moments(records, found))


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
    records = MomentSet("twice", (moment("0", 0.7), moment("1", 2.9), moment("2", 1.7, turned=True)))
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
    first = moment("0A", 1.1, "man 0")
    records = MomentSet("two", (first, moment("1A", 2.3, "man 1", "Change of Color")))
    found = table(records, scores_at(records, [1.1, 0.1]))
    parts = {label: one.metrics for label, one in found.by["label"].items()}
    values = {label: metrics["boundary_accuracy@0.5"].value for label, metrics in parts.items()}
    assert values == {"Change of Action": 1.0, "Change of Color": 0.0}
    alone = table(MomentSet("one", (first,)), scores_at(made(1.1), [1.1])).metrics
    part, whole, one = (of["boundary_accuracy@2.5"].chance for of in (parts["Change of Action"], found.metrics, alone))
    assert part == pytest.approx(one) != whole


def test_a_limit_changes_neither_lengths_nor_true_times():
    three = MomentSet("three", (*made(1.0, 2.0).rows, moment("9B", 3.0, "man 0", end=9.0)))
    one = MOMENTS.select(three, [0])
    assert (MOMENTS.size(one), one.duration(FILM), one.gold) == (1, 9.0, ((1.0, 3.0),))
    assert ([row["frames"] for row in MOMENTS.template(one)], MOMENTS.select(one, [0]).gold) == ([45], one.gold)


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
def test_a_line_that_does_not_fit_is_refused_and_one_with_times_may_be_about_any_frames(tmp_path, changes, said):
    records = made(0.2)
    row = {"id": records.rows[0].id, "before": [1] * 20, "after": [0] * 20}
    with raises(ScoreError, said):
        read_frame_scores(write_file(tmp_path / "s.jsonl", [row | changes]), records)
    row = {"boundary_id": row["id"], "before": [1, 0, 0], "after": [0, 1, 0], "times": [0.5, 1.5, 3.5]}
    (found,) = read_frame_scores(write_file(tmp_path / "s.jsonl", [row]), records)
    assert (found.times.tolist(), found.moment) == ([0.5, 1.5, 3.5], 1.0)


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
def frames(tmp_path) -> Path:
    """GEB+'s form, of three moments in videos that turn from red to blue: `v` at 1.2 s, `w` at 0.6 s.

    No two frames are equal.
    """
    write_file(tmp_path / "val.json", films(v0123456789=(1.1, 2.5), w0123456789=(0.7,)))
    for video, turn in (("v0123456789", 6), ("w0123456789", 3)):
        for k in range(20):
            frame = encoded(Image.new("RGB", (4, 4), (250, k, 0) if k < turn else (0, k, 250)), "JPEG", quality=95)
            write_file(tmp_path / "frames" / video / f"{k}.jpg", frame)
    return tmp_path


@pytest.fixture
def ready(frames) -> Prepared:
    return prepare(find_benchmark("gebc-val", Locations(frames)), store=EmbeddingStore(None))


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_a_dual_encoder_finds_the_moment_in_a_folder_of_frames(ready, batch_size):
    model, again = Hue(), Hue()
    told: list[tuple[str, int, int]] = []
    found = evaluate(model, ready, batch_size=batch_size, progress=lambda *now: told.append(now))
    # The turn lies between the frames at 1.0 and 1.2 s, and at 0.4 and 0.6 s.
    assert [sample.output for sample in found.samples] == pytest.approx([1.1, 1.1, 0.5])
    assert [sample.outcomes["boundary_accuracy@0.1"] for sample in found.samples] == [1.0, 0.0, 0.0]
    assert [now for now in told if now[0] == "moments"][-1] == ("moments", 3, 3)
    # Each distinct frame and caption once, and never again; some frames of JPEG come out equal.
    assert 20 < model.images <= 40
    assert model.texts == 4
    assert evaluate(again, ready).samples == found.samples
    assert (again.images, again.texts) == (0, 0)


def test_what_the_model_scores_is_what_a_file_of_the_same_numbers_gives(ready, frames, tmp_path):
    records, model, rows = read_moments(frames / "val.json"), Hue(), []
    for one in records.rows:
        images = [np.asarray(Image.open(frames / "frames" / f"{one.cluster}/{k}.jpg")) for k in range(20)]
        before, after = model.similarity(model.encode_images(images), model.encode_texts(one.texts)).T.tolist()
        rows.append({"id": one.id, "before": before, "after": after})
    (units,) = measure_moments(records, read_frame_scores(write_file(tmp_path / "s.jsonl", rows), records))
    of, found = {one.name: one.strict.tolist() for one in units.values}, evaluate(Hue(), ready)
    assert {name: [sample.outcomes[name] for sample in found.samples] for name in of} == of


def test_the_last_frame_may_be_missing_and_no_other(ready, frames):
    whole, folder = evaluate(Hue(), ready), frames / "frames" / "v0123456789"
    (folder / "19.jpg").unlink()
    assert [one.output for one in evaluate(Hue(), ready).samples] == [one.output for one in whole.samples]
    (folder / "18.jpg").unlink()
    with raises(DataError, "'v0123456789/18.jpg'", "image"):
        evaluate(Hue(), ready)
    write_file(folder / "18.jpg", b"no picture")
    with raises(DataError, "v0123456789/18.jpg", "decoded"):
        evaluate(Hue(), ready)


@pytest.mark.parametrize("model", ["constant", "blind"])
def test_a_model_that_does_not_look_ties_everywhere_and_gets_chance_where_ties_are_broken(command, frames, model):
    ran = command("run", "-m", model, "-b", "gebc-val", "--data", frames, "--out", frames / "run", "--json")
    (run,) = ran.json["runs"]
    found = run["benchmarks"]["gebc-val"]["metrics"]["boundary_accuracy@0.5"]
    assert (found["value"], found["ties"]) == (0.0, 3)
    assert found["tie_neutral"] == pytest.approx(found["chance"], abs=0.05)
