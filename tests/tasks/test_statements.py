"""NLVR2 as a task: labels from a file to accuracy and consistency, through the commands, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import check_facts
from tellapart.data.task_records import Statement, StatementSet
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.registry import TASKS
from tellapart.tasks.statements import measure_statements
from tellapart.tasks.task import Session

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "vlue"


def made(labels: Sequence[bool], sentences: Sequence[int]) -> StatementSet:
    rows = [
        Statement(str(k), f"Sentence {sentence}.", f"{k}a.png", f"{k}b.png", label)
        for k, (label, sentence) in enumerate(zip(labels, sentences, strict=True))
    ]
    return StatementSet("made", tuple(rows))


def values(records: StatementSet, predictions: Sequence[Any]) -> dict[str, float]:
    return {
        one.name: float(one.strict.mean()) for units in measure_statements(records, predictions) for one in units.values
    }


def test_an_answer_that_is_no_verdict_is_shown_with_what_was_expected() -> None:
    records, answers = made([True, False, True], [0, 0, 1]), [True, "Perhaps, it is dark.", None]
    (note,) = TASKS["nlvr2"].notes(records, answers)
    check_facts(note, ("2 of 3", "'Perhaps, it is dark.'", "true or false"))
    assert values(records, answers)["accuracy"] == pytest.approx(1 / 3)
    assert TASKS["nlvr2"].notes(records, [True] * 3) == ()


@pytest.mark.slow
def test_the_published_file_gives_a_constant_answer_no_sentence_of_both_labels() -> None:
    if not (FOLDER / "nlvr2_vlue_test.json").is_file():
        pytest.skip("VLUE's annotation files are not beside this checkout")
    from tellapart.benchmarks.published_tasks import read_statements

    records = read_statements(FOLDER / "nlvr2_vlue_test.json")
    units = {units.noun: units for units in measure_statements(records, [True] * 5662)}
    assert {noun: len(one.units) for noun, one in units.items()} == {
        "statement": 5662,
        "sentence": 3023,
        "sentence of both labels": 1274,
    }
    assert units["statement"].values[0].strict.sum() == 2817  # and 2,845 are false
    assert not units["sentence of both labels"].values[0].strict.any()


def test_the_fingerprint_of_statements_without_sets_is_that_of_earlier_runs() -> None:
    session = Session(pictures=lambda reference: b"", store=EmbeddingStore(None))
    two = made([True, False], [0, 1])
    assert TASKS["nlvr2"].fingerprint_for(two, session) == (
        "records-b538b8f42f75c51e4793f1e86577e542c748792c4caf1eed2fc34d31153e45ba"
    )
    grouped = replace(two, statements=tuple(replace(row, group="0") for row in two.statements))
    assert TASKS["nlvr2"].fingerprint_for(grouped, session) != TASKS["nlvr2"].fingerprint_for(two, session)


def test_a_hidden_statement_does_not_show_the_set_it_was_written_about() -> None:
    hiding = TASKS["nlvr2"].hiding
    assert hiding is not None
    row = Statement("test1-0-1-0", "Two dogs.", "a.png", "b.png", True, group="test1-0--0")
    assert hiding.bare(row) == Statement("test1-0-1-0", "Two dogs.", "a.png", "b.png", False)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), min_size=1, max_size=12))
def test_consistency_is_never_above_accuracy_of_equally_long_sentences_and_right_answers_win_all(
    rows: list[tuple[bool, bool, int]],
) -> None:
    labels, said, sentences = (list(column) for column in zip(*rows, strict=True))
    records = made(labels, sentences)
    assert set(values(records, labels).values()) == {1.0}
    assert set(values(records, [not label for label in labels]).values()) == {0.0}
    found = values(records, said)
    each = [np.mean([labels[k] == said[k] for k in group]) for group in records.sentence_groups()]
    assert found["consistency"] <= np.mean(each) + 1e-12


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), min_size=1, max_size=12), st.randoms())
def test_the_order_of_the_rows_changes_nothing(rows: list[tuple[bool, bool, int]], random: Any) -> None:
    mixed = random.sample(rows, len(rows))
    there, back = ([list(column) for column in zip(*one, strict=True)] for one in (rows, mixed))
    assert values(made(there[0], there[2]), there[1]) == values(made(back[0], back[2]), back[1])
