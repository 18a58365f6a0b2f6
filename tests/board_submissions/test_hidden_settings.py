"""The board file's hidden benchmarks: read, checked, and prepared once."""

import io
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import tellapart as ta
from facts import check_facts, raises
from pictures import encoded, plain
from sets import put, record
from tellapart.board.submissions.accounts import RefusedError
from tellapart.board.submissions.hidden import (
    HiddenBenchmark,
    HiddenSettings,
    SubmissionSettings,
    check_limits,
    fit_limits,
    read_hidden,
)
from tellapart.board.submissions.prepared import hide, measure_sent, prepare, published_metrics, read_truth, write_task
from tellapart.board.submissions.service import MeasuredSubmission, Submissions, as_result, open_submissions
from tellapart.board.submissions.worker import read_published, read_sent, round_to
from tellapart.cli.main import app
from tellapart.data.folder import read_pair_set, write_pair_set
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, RunError
from tellapart.metrics.registry import METRICS
from tellapart.tasks.pairs import PAIRS

GOOD = '[[hidden]]\nname = "clocks"\npairs = "clocks"\n'
NAMED = '[[hidden]]\nname = "clocks"\nbenchmark = "{}"\n'


def board_file(folder: Path, text: str) -> Path:
    file = folder / "board.toml"
    file.write_text(text)
    return file


def test_folders_are_relative_to_the_board_file(tmp_path):
    found = read_hidden(board_file(tmp_path, GOOD))
    assert (found.hidden[0].pairs, found.submissions.state) == (tmp_path / "clocks", tmp_path / "state")
    found = read_hidden(board_file(tmp_path, NAMED.format("vlue-nlvr2") + 'data = "vlue"\nimages = "/srv/marvl"\n'))
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
        ('[[hidden]]\nname = "clocks"\n', ("'hidden[0]'", "pair")),
        (GOOD + 'benchmark = "demo"\n', "'hidden[0]'"),
        (GOOD + 'images = "photos"\n', "data"),
        (GOOD + 'protocol = "predictions"\n', ("'predictions'", "benchmark")),
        (NAMED.format("vlue-nlvr2") + 'protocol = "scores"\n', ("benchmark", "predictions")),
        (NAMED.format("vlue-nlvr3"), ("benchmark", "'vlue-nlvr3'", "'vlue-nlvr2'")),
        (NAMED.format("v" * 5_000), "'hidden[0]'"),  # longer than any path
        (NAMED.format("pairing:demo"), "'pairing:demo'"),
        (NAMED.format("texts:sugarcrepe-pp"), "'texts:sugarcrepe-pp'"),
        (NAMED.format("coco-captions"), ("task", "'captions'", "coco-captions")),
        (GOOD + GOOD, ("'clocks'", "benchmarks")),
        ("[submissions]\nstat = 's'\n" + GOOD, ("'submissions.state'", "missing")),
    ],
)
def test_a_board_file_that_is_not_right_is_refused_by_its_field(tmp_path, text, why):
    with raises(DataError, why):
        read_hidden(board_file(tmp_path, text))


def test_limits_that_would_tell_too_much_are_refused_with_what_would_do():
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
def test_metrics_that_cannot_be_told_are_refused(settings, shape, why):
    with raises(DataError, why):
        published_metrics(HiddenBenchmark(name="clocks", pairs=Path("clocks"), **settings), shape)


def add_users(board: Path, *names: str, role: str, more: Sequence[str] = ()) -> None:
    """Run `tellapart board user` in this process, which raises what it refuses."""
    words = ["board", "user", *names, "--board", str(board), "--role", role, "--days", "1", *more]
    app(words, standalone_mode=False)


def test_the_command_line_makes_the_first_admin_and_further_tokens(tmp_path, made_set, capsys):
    made_set("clocks", n=60)
    board, tokens = board_file(tmp_path, GOOD + 'metrics = ["group_score"]\ntotal = 1\n'), []
    for _ in range(2):
        add_users(board, "root", role="admin")
        tokens.append(capsys.readouterr().out.split(": ")[1].strip())
    accounts = Submissions(read_hidden(board)).accounts
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


def test_a_board_without_hidden_benchmarks_opens_none_and_one_with_them_measures(tmp_path, made_set):
    made_set("clocks", n=60)
    with open_submissions(board_file(tmp_path, '[board]\ntitle = "ours"\n')) as none:
        assert none is None
    with open_submissions(board_file(tmp_path, GOOD + 'metrics = ["group_score"]\ntotal = 1\n')) as submissions:
        assert submissions is not None
        assert "submissions" in {thread.name for thread in threading.enumerate()}
    assert "submissions" not in {thread.name for thread in threading.enumerate()}


def test_two_processes_that_prepare_at_once_take_the_files_of_the_first(tmp_path, made_set, monkeypatch):
    benchmark = HiddenBenchmark(name="clocks", pairs=made_set("set", n=24), largest_share=1000.0)
    both = threading.Barrier(2, timeout=60)

    def write_and_wait(*arguments) -> dict[str, str]:
        hashes = write_task(*arguments)
        both.wait()
        return hashes

    monkeypatch.setattr("tellapart.board.submissions.prepared.write_task", write_and_wait)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: prepare(benchmark, tmp_path / "hidden", b"key"), range(2))
    assert (first, [path.name for path in (tmp_path / "hidden").iterdir()]) == (second, ["clocks"])


def settings(folder: Path, *hidden: dict[str, Any]) -> HiddenSettings:
    return HiddenSettings(
        submissions=SubmissionSettings(state=folder / "state", spare_bytes=0),
        hidden=tuple(HiddenBenchmark(**{"largest_share": 1000.0, **one}) for one in hidden),
    )


def again(source: Path, target: Path, *, kept: int) -> Path:
    """Write the last items of a set under other names, in another order and as other files of the same pixels."""
    found, images, items = read_pair_set(source), {}, []
    for k, item in reversed([*enumerate(found.items)][-kept:]):
        names = tuple(f"images/shot{k}{side}.webp" for side in range(len(item.images)))
        for name, reference in zip(names, item.images, strict=True):
            images[name] = encoded(Image.open(io.BytesIO(found.read_bytes(reference))), "WEBP")
        items.append(Item(id=f"x{k}", images=names, texts=tuple(f"{text.upper()} !" for text in item.texts)))
    write_pair_set(target, items, images, {"title": "Other", "licence": "CC0"})
    return target


@pytest.mark.parametrize("protocol", ["scores", "answers"])
def test_a_second_benchmark_of_one_set_is_refused(tmp_path, made_set, protocol):
    pairs = made_set("clocks", n=24)
    first, second = {"name": "clocks", "pairs": pairs}, {"name": "watches", "pairs": pairs, "protocol": protocol}
    with raises(DataError, "'watches'", "24 of its 24", "'clocks'", str(tmp_path / "state" / "hidden" / "clocks")):
        Submissions(settings(tmp_path, first, second))
    assert [path.name for path in (tmp_path / "state" / "hidden").iterdir()] == ["clocks"]  # no draft is left
    assert Submissions(settings(tmp_path, first)).prepared.keys() == {"clocks"}
    with raises(DataError, "'watches'", "'clocks'"):  # renamed: files of the old name gave numbers of another split
        Submissions(settings(tmp_path, second))


def test_a_system_that_cannot_confine_a_process_is_refused(tmp_path, made_set, monkeypatch):
    read = settings(tmp_path, {"name": "clocks", "pairs": made_set("clocks", n=24)})
    with monkeypatch.context() as patch, raises(RunError, "Linux", "hidden"):
        patch.setattr("os.name", "nt")
        Submissions(read)
    assert not (tmp_path / "state").exists()


def test_some_items_under_other_names_are_refused_too(tmp_path, made_set):
    pairs = made_set("clocks", n=24)
    other = again(pairs, tmp_path / "other", kept=9)
    with raises(DataError, "'other'", "9 of its 9"):
        Submissions(settings(tmp_path, {"name": "clocks", "pairs": pairs}, {"name": "other", "pairs": other}))


def test_sets_that_share_captions_or_pictures_alone_are_taken(tmp_path, made_set):
    pairs = made_set("clocks", n=24)
    found = read_pair_set(pairs)
    items = [item.model_copy(update={"texts": tuple(f"no {text}" for text in item.texts)}) for item in found.items]
    images = {reference: found.read_bytes(reference) for item in items for reference in item.images}
    write_pair_set(tmp_path / "other", items, images, {"title": "Other", "licence": "CC0"})
    hidden = [{"name": name, "pairs": folder} for name, folder in (("clocks", pairs), ("other", tmp_path / "other"))]
    assert len(Submissions(settings(tmp_path, *hidden)).prepared) == 2


def test_rows_of_one_picture_with_one_text_share_a_split(tmp_path, made_set):
    """Each item again, in a cluster of its own, its pictures under other names."""
    found = read_pair_set(made_set("clocks", n=24))
    items, images = [*found.items], {name: found.read_bytes(name) for item in found.items for name in item.images}
    for item in found.items:
        copies = {name.replace("images/", "images/copy-"): images[name] for name in item.images}
        items.append(Item(id=f"copy-{item.id}", images=tuple(copies), texts=item.texts))
        images |= copies
    write_pair_set(tmp_path / "twice", items, images, {"title": "Twice", "licence": "CC0"})
    prepared = Submissions(settings(tmp_path, {"name": "twice", "pairs": tmp_path / "twice"})).prepared["twice"]
    hidden = read_truth(prepared.folder / "truth.json")
    shown = [frozenset(hidden.pixels[image] for image in item.images) for item in hidden.records]
    assert len(set(shown)) == len(set(zip(shown, hidden.public, strict=True))) == 24
    assert 0 < sum(hidden.public) < 48


#: Shape, places of what is true, metrics that are published first.
SHAPES: dict[str, tuple[tuple[int, int], list[int], tuple[str, ...]]] = {
    "two true texts": ((1, 3), [0, 2], ("itt",)),
    "the answer at another place": ((1, 4), [2], ("choice_score",)),
    "an image at another place": ((3, 1), [1], ("choice_score",)),
    "a square": ((4, 4), [], ("set_score",)),
}


def with_truth(folder: Path, true: list[int]) -> Path:
    """Say in a set's file which places are true."""
    rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row | {"true": true}) + "\n" for row in rows))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_is_hidden_and_measured(name, made_set, tmp_path):
    shape, true, first = SHAPES[name]
    folder = made_set("set", n=24, shape=shape)
    if true:
        with_truth(folder, true)
    benchmark = HiddenBenchmark(name="mine", pairs=folder, largest_share=1000.0)
    ready = prepare(benchmark, tmp_path / "hidden", b"key")
    assert (ready.shape, ready.true, ready.metrics[-1]) == (shape, max(1, len(true)), first[-1])
    assert ready.what.endswith(", of which 2 are true") is (len(true) == 2)
    hidden = read_truth(ready.truth)
    assert not hidden.task
    published = read_published(ready.published, "pairs")
    assert tuple(published.items) == hidden.bare() and {item.true for item in published.items} == {()}
    own = {item.texts: item for item in read_pair_set(folder).items}  # found again by its texts, in any order
    right = []
    for shown, item in zip(published.items, hidden.records, strict=True):
        (source,) = (one for texts, one in own.items() if sorted(texts) == sorted(shown.texts))
        told = np.zeros(shape)
        if shape[0] == 1:
            told[0] = [text in [source.texts[k] for k in source.truths] for text in shown.texts]
        else:  # images have other names, which only the truth knows
            names = [hidden.sources[image] for image in shown.images]
            places = [source.images.index(image) for image in names]
            texts = [source.texts.index(text) for text in shown.texts]
            for row, image in enumerate(places):
                told[row] = [image == text if shape[1] > 1 else image in source.truths for text in texts]
        right.append(told)
        assert item.truths == tuple(range(max(1, len(true))))
    for values, expected in ((np.array(right), 1.0), (1 - np.array(right), 0.0), (np.zeros((24, *shape)), 0.0)):
        np.savez(tmp_path / "sent.npz", ids=list(published.outline.ids), scores=values, kind="similarity")
        splits = measure_sent(read_sent(tmp_path / "sent.npz", published, "pairs"), hidden, first, 0.01)
        assert [one.values[first[-1]] for one in splits] == [expected] * 2
    result = as_result(MeasuredSubmission("1", "ann", "mine", 0.0, *splits), ready).benchmarks["mine"]
    assert (result.true, result.metrics[first[-1]].chance) == (ready.true, METRICS[first[-1]].chance(shape, ready.true))


def test_the_order_of_the_texts_tells_nothing_of_which_two_are_true():
    texts = [(f"a {k}", f"no {k}", f"one {k}") for k in range(300)]
    items = [Item(id=str(k), images=("0.png",), texts=each, true=(0, 2)) for k, each in enumerate(texts)]
    hidden = hide(PAIRS, PairSet("cups", tuple(items), Path()), b"key", 0.5)
    false = [order.index(2) for order in hidden.texts]
    assert all(70 < false.count(place) < 130 for place in range(3))  # 100 +- 3.7 standard deviations
    assert all(item.texts[2].startswith("no ") and item.true == (0, 1) for item in hidden.records)


def test_the_readme_says_how_many_texts_are_true(made_set, tmp_path):
    pairs = read_pair_set(with_truth(made_set("set", n=8, shape=(1, 3)), [0, 2]))
    benchmark = HiddenBenchmark(name="mine", pairs=Path("set"))
    write_task(tmp_path / "task.zip", benchmark, hide(PAIRS, pairs, b"key", 0.5), pairs.pixels)
    readme = ZipFile(tmp_path / "task.zip").read("README.txt").decode()
    assert "2 of the texts are true;\nwhich of them is not told" in readme and "belong together" not in readme


def test_a_truth_with_items_of_another_number_of_true_texts_is_refused(made_set, tmp_path):
    folder = with_truth(made_set("set", n=24, shape=(1, 3)), [0, 2])
    path = prepare(HiddenBenchmark(name="mine", pairs=folder, largest_share=1000.0), tmp_path / "h", b"key").truth
    content: Any = json.loads(path.read_text())
    del content["items"][3]["true"]
    path.write_text(json.dumps(content))
    with raises(DataError, "shape", "texts"):
        read_truth(path)


def spoilt(made_set) -> Path:
    folder = made_set("set", n=6)
    (folder / "images" / "3_0.png").write_bytes(b"no image")
    return folder


def films(made_set) -> Path:
    rows = [record(id=str(k), images=["a.mp4", "b.mp4"], texts=["up", f"down {k}"]) for k in range(4)]
    return put(made_set("set").with_name("films"), rows, images={"a.mp4": b"film", "b.mp4": b"film"})


#: What makes a set, and the refusal.
UNFIT: dict[str, tuple[Callable[..., Path], Any]] = {
    "too small for two splits": (lambda made_set: made_set("set", n=6, clusters=1), ("6", "items")),
    "an image that cannot be decoded": (spoilt, "3_0.png"),
    "films": (films, ("'mine'", "'a.mp4'")),
    "true texts that no metric is defined for": (
        lambda made_set: with_truth(made_set("set", n=8, shape=(1, 4)), [0, 2]), ("'mine'", "metric", "1", "4", "2"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_a_set_that_cannot_be_hidden_is_refused_and_leaves_nothing(name, tmp_path, made_set):
    make, facts = UNFIT[name]
    with raises(DataError, facts):
        prepare(HiddenBenchmark(name="mine", pairs=make(made_set), largest_share=100), tmp_path / "hidden", b"key")
    assert (tmp_path / "hidden").exists() == (make is spoilt) and [*(tmp_path / "hidden").glob("*")] == []


@pytest.mark.parametrize("n", [40, 300])
def test_a_new_board_opens_as_it_stands(n, made_set, command, tmp_path):
    pairs = made_set(n=n)
    named = ("--name", "clocks", "--title", 'Ours: "two"')
    ran = command("board", "new", tmp_path / "board", "--pairs", pairs, *named, code=0)
    file = tmp_path / "board" / "board.toml"
    assert f"tellapart board user NAME... --board {file}" in ran.out and f"serve --board {file}" in ran.out
    limits = fit_limits(n, (2, 2))
    assert limits is not None and limits["step"] <= 0.05
    assert f" {100 * limits['step']:g} point" in ran.out and f"count: {limits['total']}\n" in ran.out
    assert read_hidden(file).hidden[0].name == "clocks"
    # It makes the hidden files, and refuses limits that do not fit.
    assert ta.board_user("ann", file).role == "submitter"
    with raises(DataError, "board.toml", "there"):
        ta.board_new(tmp_path / "board", pairs)


def write_plain_set(folder: Path, shape: tuple[int, int]) -> Path:
    names = [tuple(f"{k}_{i}.png" for i in range(shape[0])) for k in range(120)]
    texts = [tuple(f"{k} cups of {t}" for t in range(shape[1])) for k in range(120)]
    items = [ta.Item(id=str(k), images=names[k], texts=texts[k]) for k in range(120)]
    images = {name: plain((k, i, 0)) for k, each in enumerate(names) for i, name in enumerate(each)}
    ta.write_pair_set(folder, items, images, {})
    return folder


# Of three images with three texts `individual_score` comes first, which a board cannot publish.
@pytest.mark.parametrize(("shape", "metric"), [((1, 2), "choice_score"), ((3, 3), "set_score")])
def test_a_new_board_of_another_shape_opens_as_it_stands(tmp_path, shape, metric):
    file = ta.board_new(tmp_path / "board", write_plain_set(tmp_path / "set", shape))
    assert f'metrics = ["{metric}"]' in file.read_text()
    assert ta.board_user("ann", file).role == "submitter"


def test_a_set_of_which_no_metric_can_be_published_makes_no_board(tmp_path):
    with raises(DataError, "'mine'", "no metric", "2 images and 3 texts"):
        ta.board_new(tmp_path / "board", write_plain_set(tmp_path / "set", (2, 3)), name="mine")
    assert not (tmp_path / "board").exists()


def test_a_set_near_its_board_is_named_relative_to_it_and_both_can_be_moved(made_set, command, tmp_path, monkeypatch):
    pairs = made_set("lab/my_pairs", n=40)
    monkeypatch.chdir(tmp_path)
    assert "`closes`" in command("board", "new", "lab/board", "--pairs", "lab/my_pairs", code=0).out
    (tmp_path / "lab").rename(tmp_path / "moved")
    file = tmp_path / "moved" / "board" / "board.toml"
    (hidden,) = read_hidden(file).hidden
    assert (hidden.closes, hidden.pairs.resolve()) == (None, tmp_path / "moved" / "my_pairs")
    assert ta.board_user("ann", file).role == "submitter"
    file.write_text(file.read_text().replace("# closes", "closes"))
    assert read_hidden(file).hidden[0].closes is not None
    assert "/admin/hidden/my-pairs/close" in file.read_text()
    (tmp_path / "moved").rename(tmp_path / "lab")
    for given_pairs in (pairs, Path("lab/my_pairs")):  # an absolute path, and one to a folder that is not near
        file = ta.board_new(tmp_path / "far" / str(given_pairs.is_absolute()), given_pairs)
        assert f'pairs = "{pairs}"' in file.read_text()


def test_what_cannot_be_a_board_is_refused(made_set, tmp_path):
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


def test_a_folder_and_a_file_that_is_not_there_are_no_board_file(tmp_path):
    file = tmp_path / "board.toml"
    for open_board in (partial(ta.board_user, "ann"), lambda file: ta.board_export(tmp_path / "a", board=file)):
        with raises(DataError, "folder", file):
            open_board(tmp_path)
        with raises(DataError, file, "tellapart board new DIR --pairs"):
            open_board(file)


def test_sixty_pairs_get_numbers_that_tell_models_apart():
    """Rounded to a half, a file with a fifth of its items wrong had the number of a perfect one."""
    limits = fit_limits(60, (2, 2))
    assert limits is not None and limits["total"] >= 2
    assert len({round_to(right / 30, limits["step"]) for right in range(31)}) == 21
    assert round_to(24 / 30, limits["step"]) == 0.8


@given(st.integers(1, 20_000), st.sampled_from([(2, 2), (1, 2), (2, 1), (1, 5), (4, 4)]))
def test_limits_that_fit_are_never_refused(items, shape):
    limits = fit_limits(items, shape)
    if limits is None:
        assert items < 60
        return
    assert 1 <= limits["daily"] <= limits["total"] <= 20 and limits["step"] <= 0.1
    assert limits["step"] <= 0.05 or items < 30  # fewer files, before numbers too coarse to rank by
    check_limits(HiddenBenchmark(name="a", pairs=Path("a"), **limits), int(0.9 * 0.5 * items), shape, 1)
