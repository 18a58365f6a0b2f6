"""Checkpoints are followed: each is measured once, when it is whole, in order, whatever happens on the way."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tellapart as ta
from facts import raises
from tellapart.errors import RunError
from tellapart.evaluation import follow
from tellapart.evaluation.compare import compare
from tellapart.evaluation.follow import Follower, parse_seconds
from tellapart.report import followed, show
from tellapart.report.show import write_run_report

STRENGTHS = {2: 0.2, 9: 0.9, 10: 0.5}


@pytest.fixture
def pairs(made_set) -> ta.PairSet:
    return ta.load_pairs(made_set(n=24))


def write_checkpoint(folder: Path, pairs: ta.PairSet, step: int, right: float) -> Path:
    """Write vectors by which that share of the items is right, to a folder that gets its name when it is whole."""
    draw = np.random.default_rng(step)
    draft, to = folder / f".draft-{step}", folder / f"checkpoint-{step}"
    draft.mkdir(parents=True)
    axes = np.eye(2 * len(pairs), dtype=np.float32)
    images = {name: axes[2 * k + i] for k, item in enumerate(pairs.items) for i, name in enumerate(item.images)}
    texts = {}
    for k, item in enumerate(pairs.items):
        known = draw.random() < right
        texts |= {text: axes[2 * k + (i if known else 1 - i)] for i, text in enumerate(item.texts)}
    for side, vectors in (("images", images), ("texts", texts)):
        np.savez(draft / f"{side}.npz", ids=list(vectors), vectors=list(vectors.values()))
    return draft.rename(to)


@pytest.fixture
def landed(tmp_path, pairs) -> Path:
    for step, right in STRENGTHS.items():
        write_checkpoint(tmp_path / "training", pairs, step, right)
    return tmp_path / "training"


def measure(landed: Path, pairs: ta.PairSet, out: Path, **options) -> ta.Run:
    given = {"models": "vectors:{}", "until": 3, "every": 0.01} | options
    return ta.evaluate(benchmarks=pairs, follow=landed, out=out, cache=False, **given)


def records(out: Path) -> dict[str, bytes]:
    files = [out / "results.json", *out.glob("beside/*/results.json")]
    return {json.loads(file.read_bytes())["model"]["name"]: file.read_bytes() for file in files if file.is_file()}


def test_checkpoints_are_measured_in_order_each_once(landed, pairs, tmp_path, monkeypatch):
    out, told = tmp_path / "run", []
    run = measure(landed, pairs, out, ready=told.append)
    assert run.models == told == ["checkpoint-2", "checkpoint-9", "checkpoint-10"]
    before = records(out)
    with monkeypatch.context() as patch:
        patch.delattr(follow, "run")  # what was measured is not even loaded again
        assert measure(landed, pairs, out).models == told
    for folder in landed.iterdir():  # as a Trainer deletes old ones
        folder.rename(tmp_path / f"gone-{folder.name}")
    write_checkpoint(landed, pairs, 11, 0.4)
    assert measure(landed, pairs, out, until=4).models[-1] == "checkpoint-11"
    assert records(out).items() > before.items()


def test_forgetting_is_the_best_so_far_less_now_with_the_interval_of_a_comparison(landed, pairs, tmp_path, capsys):
    run = measure(landed, pairs, tmp_path / "run")
    rows = run.to_json()["checkpoints"]
    found = [(row["step"], row["best"], row["forgotten"] is None) for row in rows]
    assert found == [(2, "checkpoint-2", True), (9, "checkpoint-9", True), (10, "checkpoint-9", False)]
    now, best = (tmp_path / "run" / "beside" / f"checkpoint-{step}" for step in (10, 9))
    compared = next(row for row in compare(now, best).rows if row.metric == rows[-1]["metric"])
    lost = rows[-1]["forgotten"]
    assert (lost["value"], lost["low"], lost["high"]) == (compared.difference, compared.low, compared.high)
    assert compared.difference > 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("data:image/svg+xml") == 1 and "best so far from" in page
    run.show()
    assert f"{100 * compared.difference:+.2f}" in capsys.readouterr().out
    # Items are matched by their ids where a set is written in another order.
    measure(landed, pairs, tmp_path / "second", until=2)
    listed = tmp_path / "set" / "pairs.jsonl"
    listed.write_text("\n".join(reversed(listed.read_text().splitlines())) + "\n")
    again = measure(landed, ta.load_pairs(tmp_path / "set"), tmp_path / "second")
    assert again.to_json()["checkpoints"][-1]["forgotten"] == lost


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda first, *rest: rest, "content"),
        (
            lambda first, *rest: (first.model_copy(update={"cluster": "scene"}), *rest),
            "clusters, tags, captions or true captions of item-0",
        ),
    ],
)
def test_a_set_that_changes_between_checkpoints_is_refused(landed, pairs, tmp_path, change, what):
    measure(landed, pairs, tmp_path / "run", until=2)
    with raises(RunError, "checkpoint-10", what, str(tmp_path / "run")):
        measure(landed, replace(pairs, items=change(*pairs.items)), tmp_path / "run")
    assert not (tmp_path / "run" / "beside" / "checkpoint-10").exists()  # it was not measured


def embedded(out: Path):
    page = (out / "report.html").read_text()
    return json.loads(page.partition('id="report-data">')[2].partition("</script>")[0])


def test_a_page_reads_as_many_records_however_many_checkpoints_there_are(pairs, tmp_path, monkeypatch):
    landed, out = tmp_path / "training", tmp_path / "run"
    for step in range(1, 9):
        write_checkpoint(landed, pairs, step, 0.9 if step == 3 else 0.3)
    read: list[str] = []
    for module in (followed, show):
        for name in ("read_result", "read_samples"):
            known = getattr(module, name)

            def count(folder: Path, *given, known=known):
                read.append(str(folder))
                return known(folder, *given)

            monkeypatch.setattr(module, name, count)
    counts, pages = [], []

    def look(_name: str) -> None:
        counts.append(len(read))
        read.clear()
        pages.append(embedded(out))

    measure(landed, pairs, out, until=8, ready=look)
    assert len(set(counts[4:])) == 1 and counts[-1] <= 10, counts
    assert [page["reload"] for page in pages] == [5.0] * 8  # it comes again by itself
    last = embedded(out)
    assert "reload" not in last
    assert last["models"] == ["checkpoint-1", "checkpoint-3", "checkpoint-8"]  # the first, the best and the last
    assert (out / "report.html").read_text().count('<th scope="row">checkpoint-5</th>') == 1  # in the table of all


def test_points_that_are_kept_are_those_that_the_records_give(landed, pairs, tmp_path):
    out = tmp_path / "run"
    measure(landed, pairs, out)
    write_checkpoint(landed, pairs, 5, 1.0)  # late, and the best before 9 and 10
    points = measure(landed, pairs, out, until=4).to_json()["checkpoints"]
    assert [(row["step"], row["best"]) for row in points] == [
        (2, "checkpoint-2"),
        *((step, "checkpoint-5") for step in (5, 9, 10)),
    ]
    kept = out / "curve.json"
    whole = kept.read_bytes()
    for damaged in (None, whole[:-20], whole.replace(b'"value": 1.0', b'"value": 0.5', 1)):
        kept.unlink() if damaged is None else kept.write_bytes(damaged)
        assert ta.open_run(out).to_json()["checkpoints"] == points
        write_run_report(out)
        assert kept.read_bytes() == whole
    last = out / "beside" / "checkpoint-10"
    last.rename(tmp_path / "gone")
    assert ta.open_run(out).to_json()["checkpoints"] == points[:-1]


@pytest.fixture
def pass_time(monkeypatch) -> Callable[[Callable[[float], None]], None]:
    """Let a clock go on while a follower sleeps, and do something at each time."""

    def use(act: Callable[[float], None]) -> None:
        clock = [0.0]

        def sleep(seconds: float) -> None:
            clock[0] += seconds
            act(clock[0])

        monkeypatch.setattr(follow, "sleep", sleep)
        monkeypatch.setattr(follow, "monotonic", lambda: clock[0])

    return use


def test_a_damaged_checkpoint_is_named_once_and_measured_when_it_is_whole(landed, pairs, tmp_path, pass_time):
    texts = landed / "checkpoint-9" / "texts.npz"
    whole, told, left_out = texts.read_bytes(), [], []
    texts.write_bytes(whole[:-100])
    (landed / "checkpoint-5").mkdir()
    (landed / "checkpoint-5" / "notes.txt").write_text("a foreign folder")
    pass_time(lambda now: texts.write_bytes(whole) if 100 <= now < 110 else None)
    measure(landed, pairs, tmp_path / "run", every="10s", ready=told.append, left_out=left_out.append)
    assert told == ["checkpoint-2", "checkpoint-10", "checkpoint-9"]
    assert sorted(line.partition(":")[0] for line in left_out) == [str(landed / f"checkpoint-{k}") for k in (5, 9)]


def test_a_checkpoint_that_is_being_written_is_left_alone(landed, pairs, tmp_path, pass_time):
    texts, left_out = landed / "checkpoint-2" / "texts.npz", []
    whole = texts.read_bytes()
    texts.write_bytes(b"")

    def write(_now: float) -> None:
        written = texts.stat().st_size
        if written < len(whole):
            texts.write_bytes(whole[: written + len(whole) // 4 + 1])

    pass_time(write)
    run = measure(landed, pairs, tmp_path / "run", every="10s", left_out=left_out.append)
    assert not left_out
    assert set(run.models) == {f"checkpoint-{step}" for step in STRENGTHS}


def test_a_folder_of_another_run_or_of_other_settings_is_refused(landed, pairs, tmp_path):
    measure(landed, pairs, tmp_path / "run", until=1)
    with raises(RunError, "limit", "12", path=tmp_path / "run"):
        measure(landed, pairs, tmp_path / "run", limit=12)
    with raises(RunError, str(landed), str(tmp_path / "other"), path=tmp_path / "run"):
        measure(tmp_path / "other", pairs, tmp_path / "run")
    ta.evaluate("oracle", pairs, out=tmp_path / "oracle", cache=False)
    with raises(RunError, "another run", path=tmp_path / "oracle"):
        measure(landed, pairs, tmp_path / "oracle")


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"models": "open_clip:ViT-B-32"}, "{}"),
        ({"models": ["a{}", "b{}"]}, "models="),
        ({"until": 0}, "until="),
        ({"every": "10 minutes"}, ("every=", "10m")),
        ({"every": 0}, "every="),
        ({"names": ["a", "b"]}, "names="),
        ({"follow": __file__}, "pattern"),
        ({"follow": None}, "follow="),
    ],
)
def test_parameters_that_do_not_fit_are_named(options, facts, tmp_path):
    given = {"models": "vectors:{}", "follow": tmp_path, "until": 1} | options
    with raises(RunError, facts):
        ta.evaluate(benchmarks="demo", out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_checkpoints_are_named_by_their_paths_and_their_model_by_parameters_or_the_form(tmp_path):
    for name in ("epoch_10.pt", "epoch_9.pt", "epoch_latest.pt", "checkpoint-1/a.pt", "step-7/model.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"weights")
    assert list(Follower(place=str(tmp_path)).find_checkpoints()) == ["checkpoint-1", "epoch_9", "epoch_10"]
    pattern = Follower(place=f"{tmp_path}/*/*.pt", prefix="mine/")
    assert list(pattern.find_checkpoints()) == ["mine/checkpoint-1/a", "mine/step-7/model"]
    (tmp_path / "epoch_9.bin").touch()
    with raises(RunError, "epoch_9.bin", "epoch_9.pt", "would both be 'epoch_9'", "pattern"):
        Follower(place=f"{tmp_path}/epoch_9*").find_checkpoints()
    file, folder = tmp_path / "run" / "checkpoints" / "epoch_1.pt", tmp_path / "checkpoint-5"
    file.parent.mkdir(parents=True)
    folder.mkdir()
    follower = Follower(place=str(file.parent))
    with raises(RunError, "epoch_1.pt", "params.txt", "@{}"):
        follower.name_model(file)
    (tmp_path / "run" / "params.txt").write_text("lr: 0.1\nmodel: ViT-B-32\nforce_quick_gelu: True\n")
    assert follower.name_model(file) == f"open_clip:ViT-B-32-quickgelu@{file}"
    assert follower.name_model(folder) == f"hf:{folder}"
    assert Follower(place="x", form="onnx:{}").name_model(folder) == f"onnx:{folder}"
    assert (parse_seconds("2h"), parse_seconds(0.5)) == (7200, 0.5)


@pytest.mark.slow
def test_kills_lose_no_checkpoint_and_measure_none_twice(pairs, tmp_path):
    landed, out, draw = tmp_path / "training", tmp_path / "run", random.Random(0)
    command = [
        sys.executable, "-m", "tellapart", "run", "--follow", str(landed), "-m", "vectors:{}", "--every", "0.05s",
        "-b", f"folder:{pairs.root}", "--out", str(out), "--no-cache", "--quiet",
    ]  # fmt: skip
    steps = iter(range(1, 17))
    known: dict[str, bytes] = {}
    for kill in range(8):
        for _ in range(2):
            write_checkpoint(landed, pairs, next(steps), draw.random())
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wanted = len(known) + draw.randrange(2)  # at once, or when one more was measured: anywhere in the next one
        while len(records(out)) < wanted and process.poll() is None:
            time.sleep(0.02)
        time.sleep(draw.random() * (1.5 if wanted == len(known) else 0.2))
        assert process.poll() is None, kill
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = records(out)
        assert known.items() <= now.items()  # bytes and all: what was measured is not measured again
        known = now
    assert len(known) < 16
    last = subprocess.run([*command, "--until", "16", "--json"], capture_output=True, text=True, check=True)
    assert known.items() <= records(out).items()
    assert [row["step"] for row in json.loads(last.stdout)["checkpoints"]] == list(range(1, 17))
