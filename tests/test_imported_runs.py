"""Numbers that another tool measured: shown without a page, and never compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from foreign_results import WINOGROUND, clip_file
from typer.testing import CliRunner

from facts import raises
from tellapart.cli.main import app
from tellapart.errors import RunError
from tellapart.evaluation.compare import compare
from tellapart.report.interchange.foreign import import_results
from tellapart.report.show import write_run_report


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    file = clip_file(tmp_path, "winoground", "image_caption_selection", WINOGROUND)
    import_results([file], tmp_path / "theirs", command="")
    return tmp_path / "theirs"


def test_a_comparison_with_an_imported_run_is_refused_with_the_reason(imported) -> None:
    with raises(RunError, "winoground", "ties"):
        compare(imported, imported)


def test_an_imported_run_is_shown_without_a_page(imported) -> None:
    done = CliRunner().invoke(app, ["show", str(imported)])
    assert done.exit_code == 0, done.output
    assert "winoground: percent, measured by another tool" in done.output and "6.25" in done.output
    assert "imported from CLIP_benchmark" in done.output
    assert "report: none: numbers that another tool measured have no items to show" in done.output
    assert write_run_report(imported).path is None and not (imported / "report.html").exists()
    assert json.loads(CliRunner().invoke(app, ["show", str(imported), "--json"]).output)["report"] is None


def sugarcrepe_files(folder: Path) -> list[Path]:
    parts = (("add_att", 0.5), ("swap_obj", 0.75))
    return [clip_file(folder, f"sugar_crepe/{p}", "image_caption_selection", {"text_acc": right}) for p, right in parts]


def test_parts_of_an_imported_set_are_not_called_a_mean_over_items(tmp_path) -> None:
    files = sugarcrepe_files(tmp_path)
    import_results(files, tmp_path / "run", command="")
    printed = CliRunner().invoke(app, ["show", str(tmp_path / "run")]).output
    assert "macro: 2 values of subset" in printed and "micro" not in printed


def test_a_tag_is_offered_where_it_has_several_values_and_their_unknown_items_are_no_zero(tmp_path) -> None:
    files = sugarcrepe_files(tmp_path)
    import_results(files[:1], tmp_path / "one", command="")
    import_results(files, tmp_path / "two", command="")
    assert "--by" not in CliRunner().invoke(app, ["show", str(tmp_path / "one")]).output
    assert "--by subset" in CliRunner().invoke(app, ["show", str(tmp_path / "two")]).output
    printed = CliRunner().invoke(app, ["show", str(tmp_path / "two"), "--by", "subset"]).output
    rows = {line.split("  ")[0].strip(): line.split() for line in printed.splitlines()}
    assert rows["add_att"][1:] == ["–", "50.00"] and rows["swap_obj"][1:] == ["–", "75.00"]
    assert rows["all items"][2:] == ["–", "62.50"]


def test_the_four_commands_are_there() -> None:
    printed = CliRunner().invoke(app, ["--help"]).output
    assert all(f" {name} " in printed for name in ("plot", "table", "import", "convert"))
