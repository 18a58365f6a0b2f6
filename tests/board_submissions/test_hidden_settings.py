"""The board file's hidden benchmarks: read, checked, and prepared once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from facts import check_facts, raises
from tellapart.board.submissions.accounts import RefusedError
from tellapart.board.submissions.hidden import HiddenBenchmark, check_limits, read_hidden
from tellapart.board.submissions.prepared import prepare, published_metrics, read_truth, write_task
from tellapart.board.submissions.service import Submissions, open_submissions
from tellapart.cli.main import app
from tellapart.errors import DataError, StoreError

GOOD = '[[hidden]]\nname = "clocks"\npairs = "clocks"\n'


NAMED = '[[hidden]]\nname = "clocks"\nbenchmark = "{}"\n'


def board_file(folder: Path, text: str) -> Path:
    file = folder / "board.toml"
    file.write_text(text)
    return file


def test_a_board_without_hidden_benchmarks_has_none(tmp_path: Path) -> None:
    assert read_hidden(board_file(tmp_path, '[board]\ntitle = "ours"\n')) is None


def test_folders_are_relative_to_the_board_file(tmp_path: Path) -> None:
    found = read_hidden(board_file(tmp_path, GOOD))
    assert found is not None
    assert (found.hidden[0].pairs, found.submissions.state) == (tmp_path / "clocks", tmp_path / "state")
    found = read_hidden(board_file(tmp_path, NAMED.format("vlue-nlvr2") + 'data = "vlue"\nimages = "/srv/marvl"\n'))
    assert found is not None
    (task,) = found.hidden
    assert (task.data, task.images, task.protocol) == (tmp_path / "vlue", Path("/srv/marvl"), "predictions")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[hidden", "TOML"),
        (GOOD + "dayly = 3\n", "'hidden[0].dayly'"),
        (GOOD.replace("clocks", "Big Clocks", 1), "'hidden[0].name'"),
        (GOOD + "step = 0.03\n", ("0.03", "1")),
        (GOOD + "public_share = 1.0\n", "'hidden[0].public_share'"),
        (GOOD + "closes = 2027-01-01T00:00:00\n", ("'hidden[0].closes'", "input")),
        (GOOD.replace("pairs", "source"), "'hidden[0].source'"),
        (
            '[[hidden]]\nname = "clocks"\n',
            ("'hidden[0]'", "pair"),
        ),
        (GOOD + 'benchmark = "demo"\n', "'hidden[0]'"),
        (GOOD + 'images = "photos"\n', "data"),
        (GOOD + 'protocol = "predictions"\n', ("'predictions'", "benchmark")),
        (NAMED.format("vlue-nlvr2") + 'protocol = "scores"\n', ("benchmark", "predictions")),
        (NAMED.format("vlue-nlvr3"), ("benchmark", "'vlue-nlvr3'", "'vlue-nlvr2'")),
        (NAMED.format("v" * 5_000), "'hidden[0]'"),  # longer than any path
        (NAMED.format("pairing:demo"), "'pairing:demo'"),
        (NAMED.format("coco-captions"), ("task", "'captions'", "coco-captions")),
        (GOOD + GOOD, ("'clocks'", "benchmarks")),
        ("[submissions]\nstat = 's'\n" + GOOD, ("'submissions.state'", "missing")),
    ],
)
def test_a_board_file_that_is_not_right_is_refused_by_its_field(
    tmp_path: Path, text: str, why: str | tuple[str, ...]
) -> None:
    with raises(DataError, why):
        read_hidden(board_file(tmp_path, text))


def test_limits_that_would_tell_too_much_are_refused_with_what_would_do() -> None:
    benchmark = HiddenBenchmark(name="clocks", pairs=Path("clocks"), total=100)
    with raises(DataError, "75", "total") as caught:
        check_limits(benchmark, 3000, (2, 2), 3)
    check_facts(str(caught.value), "100", "3", "0.01", "1997")
    check_limits(benchmark.model_copy(update={"total": 75}), 3000, (2, 2), 3)


@pytest.mark.parametrize(
    ("settings", "shape", "why"),
    [
        ({"metrics": ("v1",)}, (2, 2), ("'v1'", "group_score")),
        ({"metrics": ("p_c",)}, (1, 2), "'p_c'"),
        ({}, (3, 2), ("metric", "3", "images")),
        ({"protocol": "answers"}, (1, 2), ("2x2", "answers", "items")),
    ],
)
def test_metrics_that_cannot_be_told_are_refused(
    settings: dict[str, Any], shape: tuple[int, int], why: str | tuple[str, ...]
) -> None:
    with raises(DataError, why):
        published_metrics(HiddenBenchmark(name="clocks", pairs=Path("clocks"), **settings), shape)


def test_a_set_too_small_for_two_splits_is_refused_and_leaves_nothing(
    tmp_path: Path, made_set: Callable[..., Path]
) -> None:
    benchmark = HiddenBenchmark(name="clocks", pairs=made_set(n=6, clusters=1))
    with raises(DataError, "6", "items"):
        prepare(benchmark, tmp_path / "hidden", b"key")
    assert not (tmp_path / "hidden").exists() or not list((tmp_path / "hidden").iterdir())


def test_an_image_that_cannot_be_decoded_leaves_no_task_file(tmp_path: Path, made_set: Callable[..., Path]) -> None:
    pairs = made_set(n=6)
    (pairs / "images" / "3_0.png").write_bytes(b"no image")
    with raises(DataError, "3_0.png"):
        prepare(HiddenBenchmark(name="clocks", pairs=pairs, largest_share=100), tmp_path / "hidden", b"key")
    assert list((tmp_path / "hidden").iterdir()) == []


@pytest.mark.parametrize(
    "found",
    ['{"items": []}', '{"task": "nlvr3"}', '{"task": "nlvr2", "records": {"name": "n", "statements": [{"id": 1}]}}'],
)
def test_a_truth_that_was_damaged_is_no_truth(tmp_path: Path, found: str) -> None:
    (tmp_path / "truth.json").write_text(found)
    with raises(DataError, "benchmark", "truth"):
        read_truth(tmp_path / "truth.json")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("texts", [[0, 2], [1, 0]], ("'a'", "texts")),
        ("images", [[0], [0]], ("'a'", "texts")),
        ("public", [True], ("2", "items")),
        ("pixels", {"0.png": 5}, "pixels"),
        ("public", [True, 1], ("2", "items")),
        ("items", [{"id": "a", "images": ["0.png"], "texts": ["x"], "extra": 1}], "'extra'"),
    ],
)
def test_a_truth_that_does_not_fit_together_is_one_line(
    tmp_path: Path, name: str, value: object, said: str | tuple[str, ...]
) -> None:
    items = [{"id": id_, "images": ["0.png", "1.png"], "texts": ["x", "y"]} for id_ in "ab"]
    orders = [[0, 1], [1, 0]]
    truth = {"items": items, "texts": orders, "images": orders, "public": [True, False], "sources": {}}
    truth["pixels"] = {}
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(truth))
    assert len(read_truth(path).public) == 2
    path.write_text(json.dumps({key: value for key, value in truth.items() if key != "pixels"}))
    with raises(DataError, "pixels", "backup", str(tmp_path)):
        read_truth(path)
    path.write_text(json.dumps(truth | {name: value}))
    with raises(DataError, "truth.json", "benchmark") as raised:
        read_truth(path)
    check_facts(str(raised.value), said)
    assert "\n" not in str(raised.value)


def test_a_secret_that_was_damaged_stops_the_server(tmp_path: Path) -> None:
    settings = read_hidden(board_file(tmp_path, GOOD))
    assert settings is not None
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "secret").write_bytes(b"short")
    with raises(StoreError, "secret", "server"):
        Submissions(settings)


def add_users(board: Path, *names: str, role: str, more: Sequence[str] = ()) -> None:
    """Run `tellapart board user` in this process, which raises what it refuses."""
    words = ["board", "user", *names, "--board", str(board), "--role", role, "--days", "1", *more]
    app(words, standalone_mode=False)


def test_the_command_line_makes_the_first_admin_and_further_tokens(
    tmp_path: Path, made_set: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    made_set("clocks", n=60)
    board = board_file(tmp_path, GOOD + 'metrics = ["group_score"]\ntotal = 1\n')
    tokens = []
    for _ in range(2):
        add_users(board, "root", role="admin")
        tokens.append(capsys.readouterr().out.split(": ")[1].strip())
    settings = read_hidden(board)
    assert settings is not None
    accounts = Submissions(settings).accounts
    assert [accounts.of_token(token).role for token in tokens] == ["admin", "admin"]
    add_users(board, "ann", "bob", role="submitter")
    both = [line.split(": ")[1].strip() for line in capsys.readouterr().out.splitlines()]
    assert [accounts.of_token(token).user for token in both] == ["ann", "bob"]
    with raises(DataError, "ann", "submitter"):
        add_users(board, "cat", "ann", role="reader", more=["--json"])
    (shown,) = [json.loads(capsys.readouterr().out)]
    assert accounts.of_token(shown[0]["token"]).user == "cat"  # issued before the refusal, so it is shown
    with raises(RefusedError, "'king'"):
        add_users(board, "eve", role="king")
    with raises(DataError, "[[hidden]]", "benchmarks"):
        add_users(board_file(tmp_path, ""), "eve", role="admin")


def test_a_board_without_hidden_benchmarks_opens_none_and_one_with_them_measures(
    tmp_path: Path, made_set: Callable[..., Path]
) -> None:
    made_set("clocks", n=60)
    with open_submissions(board_file(tmp_path, "")) as none:
        assert none is None
    with open_submissions(board_file(tmp_path, GOOD + 'metrics = ["group_score"]\ntotal = 1\n')) as submissions:
        assert submissions is not None
        assert "submissions" in {thread.name for thread in threading.enumerate()}
    assert "submissions" not in {thread.name for thread in threading.enumerate()}


def test_two_processes_that_prepare_at_once_take_the_files_of_the_first(
    tmp_path: Path, made_set: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = HiddenBenchmark(name="clocks", pairs=made_set("set", n=24), largest_share=1000.0)
    both = threading.Barrier(2, timeout=60)

    def write_and_wait(*arguments: Any) -> dict[str, str]:
        hashes = write_task(*arguments)
        both.wait()
        return hashes

    monkeypatch.setattr("tellapart.board.submissions.prepared.write_task", write_and_wait)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: prepare(benchmark, tmp_path / "hidden", b"key"), range(2))
    assert first == second
    assert [path.name for path in (tmp_path / "hidden").iterdir()] == ["clocks"]
