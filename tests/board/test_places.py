"""Places of models: equal values share one, and a place says how many are better."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Benchmark, Entry, Model, Tables
from tellapart.board.views.leaderboard import all_benchmarks
from tellapart.board.views.ranks import ranks_page
from tellapart.records.result import BenchmarkResult, Value

VALUES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=12)


def filled(values: list[float]) -> Tables:
    tables = Tables(BoardSettings())
    tables.benchmarks["b"] = Benchmark("b", "b", "f", "B", "pairs", n=9, headline=("accuracy",))
    for k, value in enumerate(values):
        number = Value(value=value, method="", n=9, clusters=9, average="")
        record = BenchmarkResult(title="B", fingerprint="f", metrics={"accuracy": number}, origin="")
        tables.models[f"m{k}"] = Model(f"m{k}", f"m{k}", f"m{k}", "model", f"m{k}")
        tables.entries["b", f"m{k}"] = Entry("b", record, benchmark="b", model=f"m{k}")
    return tables


@settings(max_examples=25)
@given(VALUES)
def test_a_place_is_one_more_than_how_many_are_better(values: list[float]) -> None:
    tables = filled(values)
    places = {f"m{k}": 1 + int((np.array(values) > value).sum()) for k, value in enumerate(values)}
    assert {line["title"]: line["ranks"][0] for line in ranks_page(tables).lines} == places
    assert {row.model.label: row.rank for row in all_benchmarks(tables).rows} == places
