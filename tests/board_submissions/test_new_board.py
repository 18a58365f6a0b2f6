"""A board file that the command writes opens as it stands, with limits that fit the set."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import tellapart as ta
from facts import raises
from tellapart.board.submissions.administer import fit_limits
from tellapart.board.submissions.hidden import HiddenBenchmark, check_limits, read_hidden, round_to
from tellapart.errors import DataError


@pytest.mark.parametrize("n", [40, 300])
def test_a_new_board_opens_as_it_stands(n: int, made_set: Any, command: Callable[..., Any], tmp_path: Path) -> None:
    pairs = made_set(n=n)
    ran = command("board", "new", tmp_path / "board", "--pairs", pairs, "--name", "clocks", "--title", 'Ours: "two"')
    assert ran.code == 0, ran.err
    file = tmp_path / "board" / "board.toml"
    assert f"tellapart board user NAME... --board {file}" in ran.out and f"serve --board {file}" in ran.out
    limits = fit_limits(n, (2, 2))
    assert limits is not None and limits.step <= 0.05
    assert f" {100 * limits.step:g} point" in ran.out and f"count: {limits.total}\n" in ran.out
    settings = read_hidden(file)
    assert settings is not None and settings.hidden[0].name == "clocks"
    assert (
        ta.board_user("ann", file).role == "submitter"
    )  # it makes the hidden files, and refuses limits that do not fit
    with raises(DataError, "board.toml", "there"):
        ta.board_new(tmp_path / "board", pairs)


def test_a_new_board_of_choices_opens_as_it_stands(tmp_path: Path) -> None:
    items = [ta.Item(id=str(k), images=(f"{k}.png",), texts=(f"{k} cups", f"{k} bowls")) for k in range(120)]
    images = {}
    for k in range(120):
        Image.new("RGB", (8, 8), (k, 0, 0)).save(stream := io.BytesIO(), "PNG")
        images[f"{k}.png"] = stream.getvalue()
    ta.write_pair_set(tmp_path / "choices", items, images, {})
    file = ta.board_new(tmp_path / "board", tmp_path / "choices")
    assert 'metrics = ["choice_score"]' in file.read_text()
    assert ta.board_user("ann", file).role == "submitter"


def test_a_set_near_its_board_is_named_relative_to_it_and_both_can_be_moved(
    made_set: Any, command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = made_set("lab/my_pairs", n=40)
    monkeypatch.chdir(tmp_path)
    ran = command("board", "new", "lab/board", "--pairs", "lab/my_pairs")
    assert ran.code == 0 and "`closes`" in ran.out, ran.err
    (tmp_path / "lab").rename(tmp_path / "moved")
    file = tmp_path / "moved" / "board" / "board.toml"
    settings = read_hidden(file)
    assert settings is not None and settings.hidden[0].closes is None
    assert settings.hidden[0].pairs is not None
    assert settings.hidden[0].pairs.resolve() == tmp_path / "moved" / "my_pairs"
    assert ta.board_user("ann", file).role == "submitter"
    file.write_text(file.read_text().replace("# closes", "closes"))
    assert (opened := read_hidden(file)) is not None and opened.hidden[0].closes is not None
    assert "/admin/hidden/my-pairs/close" in file.read_text()
    (tmp_path / "moved").rename(tmp_path / "lab")
    for given_pairs in (pairs, Path("lab/my_pairs")):  # an absolute path, and one to a folder that is not near
        file = ta.board_new(tmp_path / "far" / str(given_pairs.is_absolute()), given_pairs)
        assert f'pairs = "{pairs}"' in file.read_text()


def test_what_cannot_be_a_board_is_refused(made_set: Any, tmp_path: Path) -> None:
    pairs = made_set(n=3)
    with raises(DataError, "3 pairs", "too few", "from 16 pairs"):
        ta.board_new(tmp_path / "board", pairs, name="few")
    with raises(DataError, "'Big Clocks'", "name="):
        ta.board_new(tmp_path / "board", pairs, name="Big Clocks")
    assert not (tmp_path / "board").exists()
    table = tmp_path / "pairs.csv"
    table.write_text("id,image_0\n")
    with raises(DataError, str(table), "folder", "write_pair_set", "docs/my_pairs.md"):
        ta.board_new(tmp_path / "board", table)
    with raises(DataError, str(pairs / "pairs.jsonl"), "file", f"its folder, {pairs}"):
        ta.board_new(tmp_path / "board", pairs / "pairs.jsonl")


def test_a_boards_folder_is_no_board_file_and_the_error_names_the_file(tmp_path: Path) -> None:
    with raises(DataError, "folder", str(tmp_path / "board.toml")):
        ta.board_user("ann", tmp_path)
    with raises(DataError, "folder", str(tmp_path / "board.toml")):
        ta.board_export(tmp_path / "site", board=tmp_path)


def test_a_board_file_that_is_not_there_is_an_error_that_names_the_command_which_writes_one(tmp_path: Path) -> None:
    for open_board in (lambda file: ta.board_user("ann", file), lambda file: ta.board_export(tmp_path, board=file)):
        with raises(DataError, str(tmp_path / "board.toml"), "tellapart board new DIR --pairs"):
            open_board(tmp_path / "board.toml")


def test_sixty_pairs_get_numbers_that_tell_models_apart() -> None:
    """Rounded to a half, a file with a fifth of its items wrong had the number of a perfect one."""
    limits = fit_limits(60, (2, 2))
    assert limits is not None and limits.total >= 2
    assert len({round_to(right / 30, limits.step) for right in range(31)}) == 21
    assert round_to(24 / 30, limits.step) == 0.8


@given(st.integers(1, 20_000), st.sampled_from([(2, 2), (1, 2), (2, 1), (1, 5), (4, 4)]))
def test_limits_that_fit_are_never_refused(items: int, shape: tuple[int, int]) -> None:
    limits = fit_limits(items, shape)
    if limits is None:
        assert items < 60
        return
    assert 1 <= limits.total <= 20 and limits.step <= 0.1
    assert limits.step <= 0.05 or items < 30  # fewer files, before numbers too coarse to rank by
    hidden = HiddenBenchmark(name="a", pairs=Path("a"), step=limits.step, total=limits.total)
    check_limits(hidden, int(0.9 * 0.5 * items), shape, 1)
