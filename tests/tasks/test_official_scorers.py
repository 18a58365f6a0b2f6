"""The sets of 2023 to 2026: their authors' rules, written out as loops, on random scores with ties and on answers.

TIFA's and GenAI-Bench's numbers are in `tests/metrics/test_ratings.py`, SeeTRUE's in `test_ratings_task.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.set_file import read_set_file
from tellapart.benchmarks.shipped_sets import SETS
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.data.task_records import BinaryQuestion, BinaryQuestionSet, Statement, StatementSet
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.models.scoring.score import Scored
from tellapart.tasks.authors import add_authors_numbers
from tellapart.tasks.pairs import measure_pairs
from tellapart.tasks.statements import measure_statements
from tellapart.tasks.words import measure_yes_no

N = 500
SPLITS = [f"split {k * k % 7}" for k in range(N)]


def camerabench(scores: np.ndarray) -> dict[str, float]:
    """Rows are films, columns questions; a film's question, a question's film, and both must win outright."""
    text = [s[0][0] > s[0][1] and s[1][1] > s[1][0] for s in scores]
    film = [s[0][0] > s[1][0] and s[1][1] > s[0][1] for s in scores]
    group = [a and b for a, b in zip(text, film, strict=True)]
    return {"text_score": np.mean(text), "image_score": np.mean(film), "group_score": np.mean(group)}


def beats(scores: np.ndarray) -> dict[str, float]:
    """VITATECS, VELOCITI (classic): the caption scores above the other one."""
    return {"choice_score": sum(true > false for [[true, false]] in scores) / len(scores)}


def vilma(scores: np.ndarray) -> dict[str, float]:
    """The caption's score first, and the first of the highest."""
    return {"choice_score": sum(row[0].index(max(row[0])) == 0 for row in scores.tolist()) / len(scores)}


def hard_positives(scores: np.ndarray) -> dict[str, float]:
    """The false caption scores below both true ones; a tie is counted apart, as wrong."""
    return {"itt": sum(false < true and false < other for [[true, other, false]] in scores) / len(scores)}


SCORERS: dict[str, Callable[[np.ndarray], dict[str, float]]] = {
    "camerabench": camerabench,
    "vitatecs": beats,
    "velociti": beats,
    "vilma-counting": vilma,
    "vilma-actors": vilma,
    "hard-positives": hard_positives,
}


@pytest.mark.parametrize("name", SCORERS)
def test_random_scores_with_ties_get_the_authors_number(name: str) -> None:
    one = find_benchmark(name)
    assert one.shape is not None
    images, texts = one.shape
    scores = np.random.default_rng(4).integers(0, 3, (N, images, texts)).astype(np.float32) / 4
    true = tuple(range(one.true)) if one.true > 1 else ()
    items = tuple(
        Item(
            id=str(k),
            images=tuple(f"{k}_{side}.mp4" for side in range(images)),
            texts=tuple(map(str, range(texts))),
            true=true,
            tags={"split": SPLITS[k]},
        )
        for k in range(N)
    )
    pairs = PairSet(name, items, Path())
    predictions = Scored(Scores([item.id for item in items], scores, "similarity"))
    table = tabulate_units(add_authors_numbers(one, measure_pairs(pairs, predictions), "similarity"))
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


def answers_of(n: int, seed: int = 2) -> list[str]:
    return [("Yes.", "no", "Yes, it does", "No: it does not")[k] for k in np.random.default_rng(seed).integers(0, 4, n)]


def test_timeblinds_four_accuracies_are_by_place() -> None:
    right = ("yes", "no", "no", "yes")
    rows = tuple(
        BinaryQuestion(f"{g}/{k}", (f"{g}_{k % 2}.mp4",), f"question {k // 2} of {g}", right[k], f"{g}")
        for g in range(N)
        for k in range(4)
    )
    answers = answers_of(4 * N)
    answers[8] = "it depends"  # unreadable: wrong
    plain = [answer.lower().strip(".").partition(",")[0].partition(":")[0] for answer in answers]
    groups = [[plain[4 * g + k] == right[k] for k in range(4)] for g in range(N)]
    theirs = {
        "a_acc": np.mean(groups),
        "q_acc": np.mean([[row[0] and row[1], row[2] and row[3]] for row in groups]),
        "i_acc": np.mean([[row[0] and row[2], row[1] and row[3]] for row in groups]),
        "g_acc": np.mean([all(row) for row in groups]),
    }
    measured = tabulate_units(measure_yes_no(BinaryQuestionSet("timeblind", rows), answers)).metrics
    assert {name: measured[name].value for name in theirs} == pytest.approx(theirs)
    assert {*find_benchmark("timeblind").official} == {*theirs}


def test_tempcompass_counts_answers_that_begin_with_yes_or_no() -> None:
    golds = [("yes", "no")[k % 3 == 0] for k in range(N)]
    rows = tuple(BinaryQuestion(f"{k}", (f"{k // 5}.mp4",), f"Does {k} fall?", golds[k]) for k in range(N))
    answers = [answer.lower() for answer in answers_of(N)]
    right = [answer.startswith("yes") == (gold == "yes") for answer, gold in zip(answers, golds, strict=True)]
    answers[:3] = ["The answer is yes.", "Nothing does: yes", "It does not; no"]  # theirs: neither, no, neither
    theirs = [False, golds[1] == "no", False, *right[3:]]
    ours = [golds[0] == "yes", golds[1] == "yes", golds[2] == "no", *right[3:]]
    declared = read_set_file(SETS / "tempcompass.toml", "tempcompass")
    measured = tabulate_units(measure_yes_no(BinaryQuestionSet("tempcompass", rows, declared.reader), answers)).metrics
    assert measured["a_acc"].value == pytest.approx(np.mean(ours))
    assert measured["a_acc_official"].value == pytest.approx(np.mean(theirs))
    assert find_benchmark("tempcompass").official == ("a_acc",)


@pytest.mark.parametrize("name", [f"marvl-{language}" for language in ("id", "sw", "ta", "tr", "zh")])
def test_marvls_accuracy_is_of_statements_and_its_consistency_of_sentences(name: str) -> None:
    rng = np.random.default_rng(6)
    rows = tuple(
        Statement(f"{k}", f"sentence {k // 4}", f"{k}l.jpg", f"{k}r.jpg", bool(label))
        for k, label in enumerate(rng.integers(0, 2, N))
    )
    labels = [bool(label) if rng.random() < 0.8 else None for label in rng.integers(0, 2, N)]
    right = [label is not None and label == row.label for label, row in zip(labels, rows, strict=True)]
    measured = tabulate_units(measure_statements(StatementSet(name, rows), labels)).metrics
    assert measured["accuracy"].value == pytest.approx(np.mean(right))
    assert measured["consistency"].value == np.mean([all(right[k : k + 4]) for k in range(0, N, 4)])
    assert {*find_benchmark(name).official} == {"accuracy", "consistency"}
