"""Tables on the terminal and in a pipe."""

from __future__ import annotations

import io

import numpy as np
import pytest
from aro_rule import original_choice
from rich.console import Console
from rich.table import Table

from facts import raises
from tellapart.errors import RunError, plain
from tellapart.metrics.choice import choice_score
from tellapart.report.numbers import deviation, score
from tellapart.report.tables import breakdown_table, equivariance_table, first_table, result_table
from tellapart.tasks.registry import headline


def printed(table: Table | None, width: int = 100) -> str:
    assert table is not None
    target = io.StringIO()
    Console(file=target, width=width).print(table)
    return target.getvalue()


def row(text: str, start: str) -> str:
    found = [line for line in text.splitlines() if line.startswith(start)]
    assert len(found) == 1, text
    return found[0]


def test_each_column_names_the_number_that_it_is_of(make_run) -> None:
    result = make_run(n=30).result
    record = result.benchmarks["shapes"]
    assert "percent of 30 items" in printed(result_table([result], "shapes"))
    groups = record.metrics["group_score"].model_copy(update={"n": 10, "clusters": 10})
    record = record.model_copy(update={"metrics": {**record.metrics, "group_score": groups}})
    result = result.model_copy(update={"benchmarks": {"shapes": record}})
    text = printed(result_table([result], "shapes", names=["group_score", "text_score"]))
    assert "30 items, percent of n" in text and row(text, "n").split() == ["n", "10", "30"]
    assert "of 10" in printed(breakdown_table(result, "shapes"), 160)
    first = printed(first_table([result], "shapes", width=200), 200)
    assert "30 items, percent of n" in first and row(first, "n").split()[1] == "10"


def test_first_look_has_a_row_for_each_model_and_chance_last(make_run) -> None:
    runs = [make_run(model="strong", skill=3.0, seed=1), make_run(model="weak", skill=0.1, seed=2)]
    text = printed(result_table([run.result for run in runs], "shapes"))
    for run in runs:
        metrics = run.result.benchmarks["shapes"].metrics
        line = row(text, run.result.model.name)
        for name in ("text_score", "image_score", "group_score"):
            assert score(metrics[name]) in line
    assert text.rstrip().splitlines()[-1].split() == ["chance", "25.00", "25.00", "16.67", "50.00"]
    assert "text_score" in text and "ipos_2t" not in text


def test_tables_fit_100_columns_and_hold_no_escape_when_piped(make_run) -> None:
    run = make_run(model="open_clip:ViT-B-32/laion2b_s34b_b79k", skill=9.0)
    results = [run.result, make_run(model="constant", scores=np.full((30, 2, 2), 0.5, np.float32)).result]
    tables = [
        result_table(results, "shapes"),
        breakdown_table(results[0], "shapes"),
        equivariance_table(results, "shapes"),
    ]
    for table in tables:
        text = printed(table)
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= 100
        assert "…" not in text  # nothing is cut
    assert "100.00 [88.4, 100.0]" in printed(tables[0])


def test_ties_show_only_where_a_tie_occurred(make_run) -> None:
    scores = np.tile(np.float32([[0.9, 0.1], [0.2, 0.95]]), (30, 1, 1))
    clean = make_run(scores=scores).result
    scores[:6, 0, 1] = 0.9  # six items tie image 0 with both texts
    tied = make_run(scores=scores, model="tied").result
    assert "ties broken at random" not in printed(result_table([clean], "shapes"))
    # The image score has no tie: its cell stays empty, between the two others.
    assert row(
        printed(result_table([clean, tied], "shapes", names=("text_score", "image_score", "group_score"))), "  ties"
    ).split("random")[1].split() == [
        *("90.00", "(6", "tied)"),
        *("90.00", "(6", "tied)"),
    ]


def orders(n: int = 50, equal: int = 2) -> np.ndarray:
    """Scores of captions and four permutations, some of which equal their caption, and so have its score."""
    scores = np.random.default_rng(0).permuted(np.tile(np.float32(range(5)), (n, 1)), axis=1)[:, None, :]
    scores[:equal, 0, 3], scores[:equal, 0, 0] = 9, 9
    return scores


def test_aros_own_rule_stands_under_the_strict_one(make_run) -> None:
    scores = orders()
    original = 100 * original_choice(scores).mean()
    strict = 100 * choice_score(scores).mean()
    assert original == strict + 4
    run = make_run(benchmark="aro-coco-order", shape=(1, 5), n=50, tags=(), scores=scores)
    text = printed(result_table([run.result], "aro-coco-order"))
    assert f"{strict:.2f}" in row(text, "plain")
    assert row(text, "  ties as its authors count").split("count")[1].split() == [f"{original:.2f}"]
    other = make_run(benchmark="mine", shape=(1, 5), n=50, tags=(), scores=scores)
    assert "authors" not in printed(result_table([other.result], "mine"))


def test_aros_own_rule_is_not_shown_without_ties_nor_where_it_is_the_strict_one(make_run) -> None:
    clean = make_run(benchmark="aro-coco-order", shape=(1, 5), n=50, tags=(), scores=orders(equal=0))
    assert "authors" not in printed(result_table([clean.result], "aro-coco-order"))
    relation = make_run(benchmark="aro-relation", shape=(1, 2), n=50, tags=(), scores=np.zeros((50, 1, 2), np.float32))
    assert "authors" not in printed(result_table([relation.result], "aro-relation"))


def test_breakdown_labels_macro_and_micro(make_run) -> None:
    run = make_run(n=30)
    record = run.result.benchmarks["shapes"]
    text = printed(breakdown_table(run.result, "shapes"), 140)
    assert score(record.by["type"]["colour"].metrics["group_score"]) in row(text, "type = colour")
    assert score(record.macro["type"].metrics["group_score"]) in row(text, "macro: mean of type's 2 values")
    assert score(record.metrics["group_score"]) in row(text, "micro: all items")


def test_macro_and_micro_of_values_of_one_size_are_one_number_and_one_row(make_run) -> None:
    tags = (
        {"type": "colour", "side": "left"},
        {"type": "place", "side": "right"},
        {"type": "colour"},
        {"type": "place"},
    )
    text = printed(breakdown_table(make_run(n=40, tags=tags).result, "shapes"), 140)
    assert "macro: mean of type's" not in text and "macro: mean of side's" in text  # half of the items have a side
    assert "micro: all items (= macro of" in text and "type)" in text


def test_a_tag_of_many_values_is_left_to_the_report(make_run) -> None:
    run = make_run(n=30)
    record = run.result.benchmarks["shapes"]
    colour = record.by["type"]["colour"]
    many = record.model_copy(update={"by": {"type": {f"value {k}": colour for k in range(13)}}})
    result = run.result.model_copy(update={"benchmarks": {"shapes": many}})
    text = printed(breakdown_table(result, "shapes"), 140)
    assert "type = " not in text
    assert "macro: mean of type's 13 values" in text


def test_a_set_without_tags_has_no_breakdown_and_one_without_2x2_items_no_equivariance(make_run) -> None:
    assert breakdown_table(make_run(tags=()).result, "shapes") is None
    assert equivariance_table([make_run(shape=(1, 3)).result], "shapes") is None


def test_equivariance_is_shown_as_mean_spread_and_size(make_run) -> None:
    run = make_run()
    value = run.result.benchmarks["shapes"].metrics["v2_text"]
    line = next(line for line in printed(equivariance_table([run.result], "shapes")).splitlines() if "v2_text" in line)
    assert line.split() == ["v2_text", *map(deviation, (value.value, value.sd, value.mean_absolute)), "30"]


@pytest.mark.parametrize(
    ("shape", "kind", "names"),
    [
        ((2, 2), "logit", ("text_score", "image_score", "group_score", "match_score")),
        ((1, 2), "probability", ("pairwise", "acc", "min_pc_pf")),
        ((1, 2), "similarity", ("choice_score",)),
        ((1, 5), "similarity", ("choice_score",)),
        ((3, 1), "probability", ("choice_score",)),
    ],
)
def test_headline_follows_shape_and_kind(make_run, shape, kind, names) -> None:
    record = make_run(shape=shape, kind=kind).result.benchmarks["shapes"]
    assert headline(record.metrics) == names


def test_a_name_is_neither_markup_nor_a_terminal_escape(make_run) -> None:
    text = printed(result_table([make_run(model="[bold red]x[/] \x1b[2J").result], "shapes"), 140)
    assert "[bold red]x[/] \\x1b[2J" in text
    assert plain("a\u202eb\n") == "a\\u202eb\\n"


def test_a_limited_run_says_of_how_many(make_run) -> None:
    result = make_run().result
    record = result.benchmarks["shapes"].model_copy(update={"limited_from": 3000})
    text = printed(result_table([result.model_copy(update={"benchmarks": {"shapes": record}})], "shapes"))
    assert "30 of 3,000 items" in text


def test_an_unknown_benchmark_is_refused_with_those_there_are(make_run) -> None:
    with raises(RunError, "benchmark", "'x'"):
        result_table([make_run().result], "x")
