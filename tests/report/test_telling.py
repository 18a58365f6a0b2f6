"""The head of a report: the first table by a tag, items that tell a model from words alone, and items that it fails."""

from __future__ import annotations

import numpy as np

from tellapart.report.conclusions import rivals_of
from tellapart.report.page import TellingItems, render, telling_items
from tellapart.report.sections import ReportRun, sections

RIGHT, WRONG = [[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]


def chosen(*runs: ReportRun) -> tuple[TellingItems, ...]:
    (section,) = sections(runs)
    return telling_items(section, rivals_of(section))


def scores_with(right: range, n: int = 30) -> np.ndarray:
    return np.float32([RIGHT if k in right else WRONG for k in range(n)])


def test_items_that_words_alone_fail_come_first_and_then_those_that_the_model_fails(make_run) -> None:
    model = make_run(model="clip", scores=scores_with(range(20)))
    words = make_run(model="bag-of-words", scores=scores_with(range(10, 30)))
    right, wrong = chosen(model, words, make_run(model="blind", scores=scores_with(range(0))))
    assert "clip is right" in right.title and "bag-of-words is wrong" in right.title and wrong.title == "clip is wrong"
    assert len(right.positions) == len(wrong.positions) == 3
    assert set(right.positions) <= set(range(10)) and set(wrong.positions) <= set(range(20, 30))


def test_words_that_are_never_wrong_make_room_for_a_weaker_reference(make_run) -> None:
    model = make_run(model="clip", scores=scores_with(range(20)))
    perfect = make_run(model="bag-of-words", scores=scores_with(range(30)))
    assert "blind is wrong" in chosen(model, perfect, make_run(model="blind", scores=scores_with(range(0))))[0].title
    assert chosen(model, perfect)[0].title == chosen(model)[0].title == "clip is right"


def test_the_surest_and_the_worst_come_first_of_different_values_of_a_tag(make_run) -> None:
    scores = scores_with(range(15))
    scores[[3, 6, 9], 0, 0] = scores[[3, 6, 9], 1, 1] = 5.0  # the surest, all on the left
    right, wrong = chosen(make_run(scores=scores))
    assert right.positions[0] in (3, 6, 9)
    sides = [("left", "right", None)[item % 3] for item in right.positions]
    assert sorted(map(str, sides)) == ["None", "left", "right"]
    assert all(item >= 15 for item in wrong.positions)


def test_a_model_that_is_always_right_has_no_items_that_it_fails_and_a_task_has_none(make_run) -> None:
    (right,) = chosen(make_run(scores=scores_with(range(30))))
    assert right.title.endswith("is right")
    assert chosen(make_run(shape=(1, 3)))[0].positions


def test_the_page_shows_them_with_pictures_after_the_sentence_and_the_table_by_a_tag(make_run) -> None:
    html = render([make_run(model="clip", scores=scores_with(range(20)))])
    head = html.index("clip reaches"), html.index('<table class="headline">'), html.index('class="telling"')
    assert [*head, html.index("by tag</h3>")] == sorted([*head, html.index("by tag</h3>")])
    shown = html[head[2] : html.index("by tag</h3>")]
    assert shown.count('src="data:image/') == 12 and shown.count('<figcaption dir="auto">a ') == 12
    table = html[head[1] : head[2]]
    columns = ["model", "group_score", "by side", "text_score", "image_score", "left", "right"]
    assert [column for column in columns if f">{column}</th>" in table] == columns
    assert table.index(">group_score<") < table.index(">text_score<"), "the metric that ranks comes first"
