"""Pictures of several sets, headings that a paper keeps, and names in scripts that the usual font lacks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from facts import raises
from tellapart.errors import RunError, TellapartWarning
from tellapart.report.measured import gather
from tellapart.report.paper_tables.layouts import lay_out
from tellapart.report.paper_tables.table import write_latex
from tellapart.report.plots import style
from tellapart.report.plots.prepare import prepare_plot
from tellapart.report.plots.style import write_picture

pytest.importorskip("matplotlib")
SETS = tuple(f"folder:set_{letter}" for letter in "abcd")


@pytest.fixture
def runs(save: Callable[..., Path]) -> list[Path]:
    return [
        save(f"m{model}", benchmark=name, skill=model, seed=model, n=20)
        for model in range(5)
        for name in (SETS if model else SETS[:3])
    ]


def test_five_models_on_four_sets_are_panels_with_shared_axes(runs: list[Path]) -> None:
    labels = {"folder:set_a": "Set A", "m1": "Mine"}
    figure = prepare_plot("bars", runs, benchmarks=SETS, labels=labels)()
    titles = [" ".join(axes.get_title().split()) for axes in figure.axes]
    assert [title.partition(":")[0] for title in titles] == ["Set A", "set b", "set c", "set d"]
    assert all("group score" in title for title in titles)
    first = figure.axes[0]
    assert all(first.get_shared_x_axes().joined(first, axes) for axes in figure.axes)
    assert [label.get_text() for label in first.get_yticklabels()] == ["m0", "Mine", "m2", "m3", "m4"]
    bars = [[bar.get_y() + bar.get_height() / 2 for bar in axes.containers[0]] for axes in figure.axes]
    assert list(map(len, bars)) == [5, 5, 5, 4]  # m0 did not measure the last: its line is empty there
    assert round(bars[3][0]) == 1
    with raises(RunError, "one metric", "folder:set_a", "text_score", "group_score"):
        prepare_plot("bars", runs, benchmarks=SETS, metrics=("text_score", "group_score"))()
    with raises(RunError, "no model", "acuracy", "folder:set_d"):
        prepare_plot("bars", runs, benchmarks=SETS, metrics=("group_score", "acuracy"))()
    with raises(RunError, "tiers", "folder:set_a", "folder:set_b"):
        prepare_plot("tiers", runs, benchmarks=SETS[:2])


def test_headings_have_no_prefix_and_take_labels(runs: list[Path]) -> None:
    table = lay_out(runs, labels={"folder:set_a": "Set A"}, with_tiers=False)
    assert [column.group for column in table.columns][:2] == ["Set A", "set b"]
    assert "folder:" not in write_latex(table)
    assert lay_out(runs, benchmarks=("folder:set_a",), labels={"folder:set_a": "Set A"}).title.startswith("Set A")
    with raises(RunError, "'folder:set_e'", "m0", "folder:set_d"):
        gather(runs, {"folder:set_e": "E"})


def test_a_dagger_that_every_model_has_becomes_a_note(save: Callable[..., Path]) -> None:
    alike = [save(f"m{seed}", skill=1.0, seed=seed, n=12) for seed in range(4)]
    table = lay_out(alike)
    assert not any(cell.near for row in table.rows for cell in row.cells)
    assert any("distinguished from the best" in note for note in table.notes)
    assert "dagger" not in write_latex(table)


def test_a_reference_model_of_two_runs_is_one_system(save: Callable[..., Path]) -> None:
    paths = [save(name, seed=seed, n=12) for seed, name in enumerate(("random", "mine", "random", "mine"))]
    assert [system.label for system in gather(paths)] == ["random", "mine (run 1)", "mine (run 2)"]


def test_a_reference_model_beside_others_is_never_the_best_nor_near_it(save: Callable[..., Path]) -> None:
    runs = [save("oracle", skill=9.0, n=40), save("good", skill=4.0, seed=1, n=40), save("bad", skill=-4.0, n=40)]
    for names in ((), ("one", "two")):
        paths = runs if not names else [
            save(model, skill=skill, n=40, benchmark=name)
            for name in names for model, skill in (("oracle", 9.0), ("good", 4.0), ("bad", -4.0))
        ]  # fmt: skip
        table = lay_out(paths)
        marked = {row.label for row in table.rows for cell in row.cells if cell.best or cell.near}
        assert marked == {"good"} and any("reference models" in note for note in table.notes)
    assert any(cell.best for row in lay_out([runs[0], save("random", n=40)]).rows for cell in row.cells)


def test_names_that_the_font_lacks_take_another_one_or_are_one_sentence(
    save: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(label: str, name: str) -> bytes:
        write_picture(tmp_path / name, prepare_plot("bars", [run], labels={"m": label}))
        return (tmp_path / name).read_bytes()

    run = save("m", n=12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_stix = draw("\U0001d49c and Ä", "a.svg")  # a letter that STIXGeneral has, which comes with matplotlib
        assert in_stix == draw("\U0001d49c and Ä", "b.svg") != draw("A and Ä", "c.svg")
    monkeypatch.setattr(style, "_find_fonts", lambda characters: [])
    with pytest.warns(TellapartWarning) as caught:
        draw("中文模型", "d.svg")
    (only,) = caught
    assert "中" in str(only.message) and "labels=" in str(only.message) and "\n" not in str(only.message)
