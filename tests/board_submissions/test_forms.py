"""Forms pass everything that was read to the process that measures, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from facts import raises
from tellapart.board.submissions.forms import form_bytes, pack, unpack
from tellapart.data.scores import Scores
from tellapart.errors import ScoreError
from tellapart.models.generative.choice import BothOrders
from tellapart.tasks.choice import Chosen
from tellapart.tasks.registry import HIDEABLE

SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SIDES = st.floats(-1e9, 1e9)
PLACES = st.sampled_from([-1, 0, 1])
#: Task -> one row of what its reader gives.
ROWS: dict[str, st.SearchStrategy[Any]] = {
    "pairing": st.tuples(TEXTS, TEXTS),
    "nlvr2": st.booleans(),
    "vqa": TEXTS,
    "vqa2": TEXTS,
    "grounding": st.tuples(SIDES, SIDES, SIDES, SIDES),
    "choice": st.tuples(PLACES, PLACES),
    "yes-no": TEXTS,
}


def test_every_task_that_can_be_hidden_has_a_form() -> None:
    assert set(ROWS) == {"pairing", *HIDEABLE}


@given(
    SHAPES.flatmap(lambda shape: arrays(np.float32, shape, elements=st.floats(0, 1, width=32))),
    st.sampled_from(["similarity", "logit", "probability"]),
)
def test_scores_come_out_as_they_went_in_and_are_as_long_as_is_known_before(values: Any, kind: Any) -> None:
    form = pack(Scores([f"id {k}" for k in range(len(values))], values, kind), "pairs")
    shape = values.shape[1:]
    assert len(form) <= form_bytes("pairs", len(values), shape, 0) < len(form) + 64
    found = unpack(form, "pairs", len(values), shape)
    assert (found.kind, found.values.tobytes()) == (kind, values.tobytes())
    for items, other in ((len(values) + 1, shape), (len(values), (shape[0], shape[1] + 1)), (len(values), None)):
        with raises(ScoreError, "'pairs'", "rows"):
            unpack(form, "pairs", items, other)


@pytest.mark.few(2)
@pytest.mark.parametrize("task", list(ROWS))
@given(data=st.data())
def test_predictions_come_out_as_they_went_in(task: str, data: st.DataObject) -> None:
    rows = data.draw(st.lists(ROWS[task], min_size=1, max_size=5))
    first, second = (tuple[Any, ...](row[k] if isinstance(row, tuple) else None for row in rows) for k in (0, 1))
    sent: Any = rows
    if task == "pairing":
        sent = BothOrders(tuple(map(str, range(len(rows)))), first, second)
    elif task == "choice":
        sent = Chosen(first, second)
    shape = (2, 2) if task == "pairing" else None
    form = pack(sent, task)
    found = unpack(form, task, len(rows), shape)
    assert type(found) is type(sent)
    if task == "pairing":
        found = list(zip(found.in_order, found.swapped, strict=True))
    elif task == "choice":
        found = list(zip(found.true_first, found.true_second, strict=True))
    assert found == rows
    # A file cannot be shorter than its texts; a reader's form is at most in proportion to it.
    texts = "".join(
        text for row in rows for text in (row if isinstance(row, tuple) else [row]) if isinstance(text, str)
    )
    if texts.isprintable():
        assert len(form) <= form_bytes(task, len(rows), shape, len(texts.encode()))
    with raises(ScoreError, "form"):
        unpack(form, task, len(rows) + 1, shape)


WRONG = {
    "nlvr2": ["1", "null", '"true"', "[true]"],
    "vqa": ["1", "null", "true", '["two"]', r'"\ud800"', "{}"],
    "grounding": [f"[0,0,1{end}]" for end in ("", ",1,1", ",NaN", ",1e400", ",2e9", ',"1"', ",true")],
    "choice": ["[1]", "[1,2]", "[1,0.5]", '["1","1"]', "[1,1,1]", "[1,null]"],
    "pairing": ['["1;2"]', '["1;2", 1]', '"12"', '["1;2", ["2;1"]]'],
}  # fmt: skip


@pytest.mark.parametrize(("task", "row"), [(task, row) for task, rows in WRONG.items() for row in rows])
def test_a_row_that_no_reader_gives_is_refused_in_words_that_do_not_repeat_it(task: str, row: str) -> None:
    good = {"nlvr2": "true", "vqa": '"a"', "grounding": "[0,0,1,1]", "choice": "[1,-1]", "pairing": '["1;2","2;1"]'}
    assert unpack(f"[{good[task]}]".encode(), task, 1, None)
    with raises(ScoreError, repr(task), "1") as caught:
        unpack(f"[{row}]".encode(), task, 1, None)
    assert len(row) < 3 or row not in str(caught.value)


def test_half_a_character_is_refused_where_it_is_read() -> None:
    with raises(ScoreError, "Unicode", "texts"):
        pack([json.loads(r'"\ud800"')], "vqa")
