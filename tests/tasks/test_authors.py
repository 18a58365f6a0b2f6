"""The numbers of benchmarks' authors: as their code counts, on scores with ties and on answers, and beside ours."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from runs import remeasure

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.set_file import read_set_file
from tellapart.benchmarks.shipped_sets import SETS
from tellapart.catalog import BENCHMARKS
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.data.task_records import BinaryQuestionSet, Record
from tellapart.evaluation.evaluate import Prepared, evaluate_predictions, tabulate_units
from tellapart.models.scoring.score import Scored
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import ModelRecord, Result, RunRecord
from tellapart.records.run_folder import write_result
from tellapart.records.samples import write_samples
from tellapart.tasks.authors import AUTHORS, add_authors_numbers, rank_accuracy
from tellapart.tasks.pairs import PAIRS, measure_pairs
from tellapart.tasks.task import Session
from tellapart.tasks.words import measure_yes_no

N = 400


def tied_scores(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Scores of a few levels, so that most items hold ties."""
    return np.random.default_rng(seed).integers(0, 3, (N, *shape)).astype(np.float32) / 4


def pairs(shape: tuple[int, int], truths=None, ids=None, **fields) -> PairSet:
    """Items of a shape; `truths` are the places of what is true."""
    fields |= {"id": ids or [str(k) for k in range(N)], "true": truths or [()] * N}
    fields["images"] = [tuple(f"{k}_{i}.png" for i in range(shape[0])) for k in range(N)]
    fields["texts"] = [tuple(f"text {t} of {k}" for t in range(shape[1])) for k in range(N)]
    return PairSet("p", tuple(Item(**{name: fields[name][k] for name in fields}) for k in range(N)), Path())


def table_of(name: str, records: PairSet, scores: np.ndarray, kind="similarity"):
    predictions = Scored(Scores([item.id for item in records.items], scores, kind))
    return tabulate_units(add_authors_numbers(find_benchmark(name), measure_pairs(records, predictions), kind))


def measured(name: str, records: PairSet, scores: np.ndarray, kind="similarity"):
    return table_of(name, records, scores, kind).metrics


@pytest.mark.parametrize("name", ["negbench-coco", "spec-count-i2t", "spec-count-t2i"])
def test_argmax_takes_the_first_of_the_tied_in_the_order_of_the_file(name):
    shape = find_benchmark(name).shape
    scores, size = tied_scores(shape), shape[0] * shape[1]
    labels = np.random.default_rng(1).integers(0, size, N)
    found = measured(name, pairs(shape, [(int(label),) for label in labels]), scores)["choice_score"]
    assert found.official == (scores.reshape(N, -1).argmax(axis=1) == labels).mean()
    assert found.value < found.official < found.value + found.ties / N and found.ties > 100


@pytest.mark.parametrize(("name", "first"), [("crepe-atom", True), ("whatsup-vg-one", True), ("aro-relation", False)])
def test_a_true_caption_that_comes_first_wins_a_tie_and_one_that_comes_second_loses_it(name, first):
    shape = find_benchmark(name).shape
    scores = tied_scores(shape)
    found = measured(name, pairs(shape), scores)["choice_score"]
    assert found.official == ((scores[:, 0].argmax(axis=1) == 0).mean() if first else None)
    assert find_benchmark(name).tie_rule == ("right" if first else "wrong")


def test_whatsups_three_numbers_count_a_tie_as_right():
    scores = tied_scores((4, 4))
    found = measured("whatsup-a", pairs((4, 4)), scores)
    right = np.diagonal(scores, axis1=1, axis2=2) >= scores.max(axis=2)
    assert found["individual_score"].official == pytest.approx(right.mean())
    pairs_right = np.stack([right[:, :2].all(axis=1), right[:, 2:].all(axis=1)])
    assert found["pair_score"].official == pytest.approx(pairs_right.mean())
    assert found["set_score"].official == right.all(axis=1).mean() > found["set_score"].value


def test_mmvps_tie_is_wrong_for_the_first_statement_and_right_for_the_second():
    scores = tied_scores((2, 2))
    # As the original: image 1 where its share of the two is above one half, else image 2.
    share = np.exp(scores[:, 0]) / np.exp(scores).sum(axis=1)
    chosen = np.where(share > 0.5, 0, 1)
    found = measured("mmvp-vlm", pairs((2, 2)), scores)
    assert found["image_score"].official == ((chosen[:, 0] == 0) & (chosen[:, 1] == 1)).mean()
    assert found["image_score"].official > found["image_score"].value
    assert found["v1"].official is None  # it compares nothing


def test_no_tie_no_official_number():
    scores = np.random.default_rng(0).permuted(np.tile(np.float32(range(4)), (N, 1)), axis=1)[:, None, :]
    assert measured("negbench-coco", pairs((1, 4), [(0,)] * N), scores)["choice_score"].official is None


def test_every_benchmark_of_pairs_states_its_rule_and_sets_their_authors_metrics():
    declared = [find_benchmark(name) for name in BENCHMARKS]
    assert [one.name for one in declared if one.shape and "not stated" in one.ties] == []
    assert {one.authors for one in declared if one.authors} == {*AUTHORS}
    official = {one.name: {*one.official} for one in declared}
    assert official["timeblind"] == {"a_acc", "q_acc", "i_acc", "g_acc"}
    marvl = [official[f"marvl-{language}"] for language in ("id", "sw", "ta", "tr", "zh")]
    assert marvl == [{"accuracy", "consistency"}] * 5


def test_an_official_number_is_measured_again_from_the_run_folder(tmp_path):
    one = replace(find_benchmark("negbench-coco"), items=0)
    records = pairs((1, 4), [(k % 4,) for k in range(N)])
    scored = Scored(Scores([item.id for item in records.items], tied_scores((1, 4)), "similarity"))
    session = Session(
        pictures=lambda reference: b"", store=EmbeddingStore(None), hashes={f"{k}_0.png": str(k) for k in range(N)}
    )
    done = evaluate_predictions(Prepared(one, PAIRS, records, N, session, ""), scored, origin="")
    file = write_samples(tmp_path, one.name, done.samples)
    run = RunRecord(started="2026-11-25T07:00:00+00:00", seed=0, versions={}, command="run")
    result = done.result.model_copy(update={"samples": file})
    write_result(tmp_path, Result(run=run, model=ModelRecord(name="m"), benchmarks={one.name: result}))
    again = remeasure(tmp_path, one.name).metrics["choice_score"]
    assert again == done.result.metrics["choice_score"] and again.official is not None


def test_velocitis_strict_accuracy_judges_each_text_at_one_half():
    scores = np.random.default_rng(3).random((N, 1, 2), np.float32)
    scores[:2, 0] = [[0.5, 0.1], [0.9, 0.5]]  # at one half: neither accepted nor rejected
    right = ((scores[:, 0, 0] > 0.5) & (scores[:, 0, 1] < 0.5)).mean()
    found = measured("velociti", pairs((1, 2)), scores, "probability")
    strict = found["strict_accuracy"]
    assert (strict.value, strict.ties, strict.chance) == (right, 2, 0.25)
    assert strict.value < found["choice_score"].value
    assert strict.tie_neutral == pytest.approx(right + 1 / N)
    assert "strict_accuracy" not in measured("velociti", pairs((1, 2)), scores)


def test_aros_averages_leave_out_symmetric_relations_and_rare_pairs_of_attributes():
    relations = ["near", "on", "wearing", "holding"]
    tags = [{"relation": relations[min(k // 50, 3)]} for k in range(N)]
    scores = tied_scores((1, 2))
    found = measured("aro-relation", pairs((1, 2), tags=tags), scores)["macro_choice_score"]
    right = scores[:, 0, 0] > scores[:, 0, 1]
    assert found.value == pytest.approx(np.mean([right[50:100].mean(), right[100:150].mean(), right[150:].mean()]))
    assert (found.n, found.chance) == (N - 50, 0.5) and found.average.startswith("macro: 3 values")
    tags = [{"attributes": "red_blue" if k < 24 else "wet_dry" if k < 49 else "old_new"} for k in range(N)]
    found = measured("aro-attribution", pairs((1, 2), tags=tags), scores)["macro_choice_score"]
    assert found.value == pytest.approx((right[24:49].mean() + right[49:].mean()) / 2) and found.n == N - 24


def test_blas_rank_is_of_four_captions_and_not_of_two_pairs_and_a_constant_one_is_at_chance():
    records = pairs((1, 2), ids=[f"{k // 2}/0/{k % 2 + 1}" for k in range(N)])
    scores = tied_scores((1, 2), 3) + np.random.default_rng(4).random((N, 1, 2)).astype(np.float32)
    found = measured("bla-coordination", records, scores)["rank_acc"]
    expected = []
    for first, second in zip(scores[0::2, 0], scores[1::2, 0], strict=True):
        four = [first[0], second[0], first[1], second[1]]  # the true ones, then the false ones
        top = sorted(range(4), key=lambda place, of=four: -of[place])[:2]
        expected.append(sum((place < 2) == (place in top) for place in range(4)) / 4)
    assert (found.value, found.n, found.chance) == (pytest.approx(np.mean(expected)), N // 2, 0.5)
    constant = measured("bla-coordination", records, np.ones((N, 1, 2), np.float32))["rank_acc"]
    assert (constant.value, constant.tie_neutral, constant.ties) == (0, 0.5, N // 2)
    assert rank_accuracy(np.float32([[[3, 1, 1, 0]]])).tolist() == [0.5]


def notebooks_accuracy(rows: list[tuple[str, int, int, float, float]]) -> tuple[float, float, float, int]:
    """What SVO-Probes' notebook counts of rows (sentence, image, other image, scores), and of how many decisions."""
    shown = dict.fromkeys((sentence, image, score > 0.5) for sentence, image, _, score, _ in rows)
    other = dict.fromkeys((sentence, image, score < 0.5) for sentence, _, image, _, score in rows)
    accepted, rejected = (np.mean([right for *_, right in decided]) for decided in (shown, other))
    return (accepted + rejected) / 2, accepted, rejected, len(shown) + len(other)


def test_svos_decisions_are_those_of_its_notebook_over_all_rows_and_by_part():
    rng = np.random.default_rng(0)
    sentences = ["a man runs", "A man runs", "a  man runs", "a dog sits", "a cat sits"]
    parts = ("subject", "verb", "object")
    score_of: dict[tuple[str, int], float] = {}
    rows, items, flags = [], [], []
    for k in range(N):
        sentence, *images = str(rng.choice(sentences)), *(int(image) for image in rng.choice(30, 2, replace=False))
        keys = [(" ".join(sentence.lower().split()), image) for image in images]
        pair = [score_of.setdefault(key, float(np.float32(rng.random()))) for key in keys]
        rows.append((sentence, *images, *pair))
        names = tuple(f"{image}.jpg" for image in images)
        flags.append(set(parts) if k % 17 == 0 else {str(rng.choice(parts))})  # of several the notebook leaves out
        tags = {part: str(part in flags[k]) for part in parts}
        items.append(Item(id=str(k), images=names, texts=(sentence,), cluster=sentence, tags=tags))
    scores = np.float32([row[3:] for row in rows])[..., None]
    table = table_of("svo-probes", PairSet("p", tuple(items), Path()), scores, "probability")
    names = ("decision_acc", "accepted_images", "rejected_images")
    kept = [k for k in range(N) if len(flags[k]) == 1]
    for part, counted in ((None, kept), *((part, [k for k in kept if flags[k] == {part}]) for part in parts)):
        metrics = table.by[part]["True"].metrics if part else table.metrics
        *expected, number = notebooks_accuracy([rows[k] for k in counted])
        assert [metrics[name].value for name in names] == pytest.approx(expected), part
        found = metrics["decision_acc"]
        # A sentence in another case is no sentence of its own.
        assert (found.n, found.chance, found.clusters, found.low is None) == (number, 0.5, 3, False), part
    # The whole is of fewer decisions than its parts: a sentence with an image may stand in rows of two.
    assert table.metrics["decision_acc"].n < sum(table.by[part]["True"].metrics["decision_acc"].n for part in parts)


def test_a_decision_at_one_half_is_a_tie_and_a_similarity_decides_nothing():
    records = pairs((2, 1), tags=[{"subject": "True", "verb": "False", "object": "False"}] * N)
    scores = np.random.default_rng(0).random((N, 2, 1)).astype(np.float32)
    scores[5, 0] = 0.5
    found = measured("svo-probes", records, scores, "probability")["decision_acc"]
    assert (found.ties, found.value) == (1, ((scores[:, 0] > 0.5).mean() + (scores[:, 1] < 0.5).mean()) / 2)
    assert "decision_acc" not in measured("svo-probes", records, scores)


# The sets of 2023 to 2026: their authors' rules, written out as loops, on random scores with ties and on answers.

SPLITS = [f"split {k * k % 7}" for k in range(N)]


def camerabench(scores: np.ndarray) -> dict[str, float]:
    """Rows are films, columns questions; a film's question, a question's film, and both must win outright."""
    text = [s[0][0] > s[0][1] and s[1][1] > s[1][0] for s in scores]
    film = [s[0][0] > s[1][0] and s[1][1] > s[0][1] for s in scores]
    group = [a and b for a, b in zip(text, film, strict=True)]
    return {"text_score": np.mean(text), "image_score": np.mean(film), "group_score": np.mean(group)}


SCORERS: dict[str, Callable[[np.ndarray], dict[str, float]]] = {
    "camerabench": camerabench,
    # VITATECS, VELOCITI (classic): the caption scores above the other one.
    **dict.fromkeys(
        ("vitatecs", "velociti"),
        lambda scores: {"choice_score": np.mean([true > false for [[true, false]] in scores])},
    ),
    # The caption's score first, and the first of the highest.
    **dict.fromkeys(
        ("vilma-counting", "vilma-actors"),
        lambda scores: {"choice_score": np.mean([np.argmax(row[0]) == 0 for row in scores])},
    ),
    # The false caption scores below both true ones; a tie is counted apart, as wrong.
    "hard-positives": lambda scores: {"itt": np.mean([false < min(true, other) for [[true, other, false]] in scores])},
}


@pytest.mark.parametrize("name", SCORERS)
def test_random_scores_with_ties_get_the_authors_number(name):
    one = find_benchmark(name)
    assert one.shape is not None
    scores = np.random.default_rng(4).integers(0, 3, (N, *one.shape)).astype(np.float32) / 4
    true = tuple(range(one.true)) if one.true > 1 else ()
    table = table_of(name, pairs(one.shape, [true] * N, tags=[{"split": split} for split in SPLITS]), scores)
    expected = SCORERS[name](scores)
    for metric, number in expected.items():
        found = table.metrics[metric]
        assert found.ties > N / 10
        assert (found.value if found.official is None else found.official) == pytest.approx(number, abs=1e-12)
    assert {*one.official} <= {*expected}
    # By split, whose unweighted mean CameraBench's authors report.
    of_splits = [table.by["split"][split].metrics for split in sorted({*SPLITS})]
    for metric in expected:
        own = [found[metric].value if found[metric].official is None else found[metric].official for found in of_splits]
        rows = [[k for k in range(N) if SPLITS[k] == split] for split in sorted({*SPLITS})]
        theirs = [SCORERS[name](scores[kept])[metric] for kept in rows]
        assert np.mean(own) == pytest.approx(np.mean(theirs), abs=1e-12)


def test_tempcompass_counts_answers_that_begin_with_yes_or_no():
    golds = [("yes", "no")[k % 3 == 0] for k in range(N)]
    rows = tuple(Record(f"{k}", (f"{k // 5}.mp4",), (f"Does {k} fall?",), golds[k]) for k in range(N))
    answers = np.random.default_rng(2).choice(["yes.", "no", "yes, it does", "no: it does not"], N).tolist()
    right = [answer.startswith("yes") == (gold == "yes") for answer, gold in zip(answers, golds, strict=True)]
    answers[:3] = ["The answer is yes.", "Nothing does: yes", "It does not; no"]  # theirs: neither, no, neither
    theirs = [False, golds[1] == "no", False, *right[3:]]
    ours = [golds[0] == "yes", golds[1] == "yes", golds[2] == "no", *right[3:]]
    declared = read_set_file(SETS / "tempcompass.toml", "tempcompass")
    measured = tabulate_units(measure_yes_no(BinaryQuestionSet("tempcompass", rows, declared.reader), answers)).metrics
    assert measured["a_acc"].value == pytest.approx(np.mean(ours))
    assert measured["a_acc_official"].value == pytest.approx(np.mean(theirs))
    assert find_benchmark("tempcompass").official == ("a_acc",)
