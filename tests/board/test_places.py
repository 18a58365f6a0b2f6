"""Places of models: equal values share one, and a place says how many are better."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlmodel import Session

from tellapart.board.settings import BoardSettings
from tellapart.board.store import Benchmark, Entry, Model, Score, Source, Store
from tellapart.board.views.leaderboard import all_benchmarks
from tellapart.board.views.ranks import ranks_page

VALUES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=12)


def filled(session: Session, values: list[float]) -> None:
    source = Source(path="here", digest="", kind="run")
    benchmark = Benchmark(slug="b", name="b", fingerprint="f", title="B", task="pairs", n=9, headline=["accuracy"])
    session.add_all([source, benchmark])
    session.flush()
    for k, value in enumerate(values):
        model = Model(slug=f"m{k}", name=f"m{k}", label=f"m{k}", kind="model", identity=f"m{k}")
        session.add(model)
        session.flush()
        entry = Entry(model_id=model.id, benchmark_id=benchmark.id, source_id=source.id, started="")
        session.add(entry)
        session.flush()
        session.add(Score(entry_id=entry.id, benchmark_id=benchmark.id, metric="accuracy", value=value, n=9))
    session.flush()


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store("sqlite://") as opened:
        yield opened


@settings(max_examples=25)
@given(VALUES)
def test_a_place_is_one_more_than_how_many_are_better(store: Store, values: list[float]) -> None:
    with Session(store._engine) as session:  # rolled back
        filled(session, values)
        lines = ranks_page(session, BoardSettings()).lines
        rows = all_benchmarks(session, BoardSettings()).rows
    places = {f"m{k}": 1 + int((np.array(values) > value).sum()) for k, value in enumerate(values)}
    assert {line.model.label: line.ranks[0] for line in lines} == places
    assert {row.model.label: row.rank for row in rows} == places
