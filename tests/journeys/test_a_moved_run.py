"""The journey of a user who moves a run, zips it and sends it: its report keeps its pictures, or says why not."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boards import open_board
from facts import check_facts
from tellapart.evaluation.verified import read_result

Command = Callable[..., Any]
PICTURE = "data:image/"


def pictures(report: str) -> int:
    return Path(report).read_text("utf-8").count(PICTURE)


@pytest.fixture
def ran(command, made_set, installed, tmp_path, monkeypatch) -> Command:
    """A run of `folder:my_pairs` in the folder `A`, named as one types it there."""
    made_set("A/my_pairs", n=4)
    monkeypatch.chdir(tmp_path / "A")
    command("run", "-m", "colours", "-b", "folder:my_pairs", "--out", "runs/hf", code=0)
    monkeypatch.chdir(tmp_path)
    return command


def test_a_run_shown_from_elsewhere_or_moved_with_its_pairs_keeps_its_pictures(ran, tmp_path):
    before, shown = (tmp_path / "A/runs/hf/report.html").read_bytes(), ran("show", "A/runs/hf")
    assert (shown.code, shown.err) == (0, "")
    assert (tmp_path / "A/runs/hf/report.html").read_bytes() == before and pictures("A/runs/hf/report.html")
    before = (tmp_path / "A/runs/hf/report.html").read_bytes()
    shutil.move("A", "B")
    Path("B/runs/hf/report.html").unlink()
    assert ran("show", "B/runs/hf").err == ""
    assert Path("B/runs/hf/report.html").read_bytes() == before


def test_a_report_with_pictures_is_not_replaced_by_one_without_and_one_that_never_had_them_says_so(ran):
    report = Path("A/runs/hf/report.html")
    before = report.read_bytes()
    shutil.rmtree("A/my_pairs")
    shown = ran("show", "A/runs/hf", "--json", code=0)
    check_facts(shown.err, "A/my_pairs", "images")
    assert (len(shown.json["warnings"]), report.read_bytes()) == (2, before)
    report.unlink()
    assert ran("show", "A/runs/hf", code=0).err.startswith("warning: ")
    assert not pictures("A/runs/hf/report.html")


def test_a_bundled_run_is_sent_whole(ran, tmp_path):
    before = Path("A/runs/hf/report.html").read_bytes()
    ran("show", "A/runs/hf", "--bundle", code=0)
    archive = shutil.make_archive(str(tmp_path / "sent"), "zip", "A/runs/hf")
    shutil.rmtree("A")
    shutil.unpack_archive(archive, tmp_path / "other")
    Path("other/report.html").unlink()
    shown = ran("show", "other")
    assert (shown.code, shown.err, Path("other/report.html").read_bytes()) == (0, "", before)


@pytest.mark.slow
@pytest.mark.parametrize("bundled", [False, True])
def test_a_board_that_is_started_elsewhere_shows_the_pictures(ran, tmp_path, bundled):
    if bundled:
        assert ran("show", "A/runs/hf", "--bundle").code == 0
        shutil.rmtree("A/my_pairs")
    shutil.move("A", "B")
    board, _ = open_board(tmp_path / "B" / "runs")
    (column,) = board.get("/?format=json").json()["columns"]
    slug = column["link"]["args"]["slug"]
    places = [f"/benchmarks/{slug}/items/{item}/pictures/{image}" for item in range(4) for image in range(2)]
    answers = {(answer.status_code, answer.headers["content-type"]) for answer in map(board.get, places)}
    assert answers == {(200, "image/png")}


def test_two_paths_to_one_set_are_one_benchmark(ran, tmp_path, monkeypatch):
    assert ran("run", "-m", "random", "-b", f"folder:{tmp_path}/A/my_pairs", "--out", "b").code == 0
    assert [*read_result(tmp_path / "b").benchmarks] == [*read_result(tmp_path / "A/runs/hf").benchmarks]
    ran("compare", "A/runs/hf", "b", code=0)
    table = ran("table", "A/runs/hf", "b")
    assert "| colours |" in table.out and "| random |" in table.out
    twice = ("-b", "folder:A/my_pairs", "-b", f"folder:{tmp_path}/A/my_pairs")
    assert "once" in ran("run", "-m", "random", *twice, "--out", "c", code=2).err


@pytest.mark.slow
def test_two_sets_of_one_name_are_told_apart_by_their_content(ran, made_set):
    made_set("B/my_pairs", n=4, seed=1)
    ran("run", "-m", "random", "-b", "folder:A/my_pairs", "-b", "folder:B/my_pairs", "--out", "both", code=0)
    record = read_result(Path("both"))
    first, second = (part.fingerprint[:8] for part in record.benchmarks.values())
    assert [*record.benchmarks] == [f"folder:my_pairs#{first}", f"folder:my_pairs#{second}"] and first != second
    assert pictures("both/report.html")
    ran("run", "-m", "random", "-b", "folder:B/my_pairs", "--out", "b", code=0)
    check_facts(ran("compare", "A/runs/hf", "b", code=2).err, "folder:my_pairs", "runs")


def test_a_model_gets_the_name_that_its_user_gives_it(ran):
    named = ("run", "-m", "colours", "-b", "folder:A/my_pairs", "--out", "named", "--name")
    assert (ran(*named, "Our CLIP").code, read_result(Path("named")).model.name) == (0, "Our CLIP")
    assert "| Our CLIP |" in ran("table", "named").out
    assert ran(*named, "Our CLIP", "--name", "b").code == 2
