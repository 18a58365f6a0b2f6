"""One run in several processes: the same numbers, nothing lost with a rank that is killed, one line for an error."""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import rankings

from facts import check_facts, raises
from scripts import run_python
from stored import count_rows
from tellapart.errors import DataError, RunError, TellapartError
from tellapart.evaluation import distributed
from tellapart.evaluation.distributed import (
    Rank,
    RankGroup,
    _compute_part,
    _lock_shards,
    merge_shards,
    run_in_ranks,
)
from tellapart.evaluation.run import Settings, run
from tellapart.evaluation.verified import read_result
from tellapart.models.store.embedding_store import EmbeddingStore, Shard, kept_preparations, shard_folder
from tellapart.models.torch.backend import import_torch
from tellapart.records.run_folder import find_runs

#: Models of every kind that is shared, and one that is not.
MODELS = ("colours", "probable", "blind", "random", "oracle")

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torchrun is part of torch, of the extra 'models'")


@pytest.fixture
def torchrun(installed, tmp_path) -> Callable[..., subprocess.Popen[str]]:
    """Start `torchrun ... -m tellapart run ...` in ranks of one thread each; torchrun deletes no logs."""
    logs = tmp_path / "logs"
    logs.mkdir()

    def start(
        *arguments: object, ranks: int = 2, launch: tuple[str, ...] = ("--standalone",), **environment: str
    ) -> subprocess.Popen[str]:
        launcher = [sys.executable, "-m", "torch.distributed.run", *launch, "--nproc-per-node", str(ranks)]
        return subprocess.Popen(
            [*launcher, "-m", "tellapart", "run", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
            | {"TMPDIR": str(logs)}
            | environment,
        )

    return start


def measured(folder: Path) -> list[Any]:
    """All that a run folder says of the models, but what it cost."""
    found: list[Any] = []
    for each in find_runs(folder):
        result = read_result(each)
        for name, record in result.benchmarks.items():
            cost = {"seconds": 0, "images_encoded": 0, "texts_encoded": 0, "texts_shared": 0, "pairs_scored": 0}
            found.append((result.model, name, record.model_copy(update=cost)))
        found += [(path.name, path.read_text()) for path in sorted((each / "samples").iterdir())]
    return found


def computed(folder: Path) -> int:
    """How many images, texts and pairs the process that wrote the run folder computed."""
    records = [record for each in find_runs(folder) for record in read_result(each).benchmarks.values()]
    return sum(record.images_encoded + record.texts_encoded + record.pairs_scored for record in records)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def free_port() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return str(listening.getsockname()[1])


def compute_parts(folder: Path, settings: Settings, ranks: int, store: EmbeddingStore) -> list[Counter[str]]:
    """Compute the parts of all ranks here, each into a shard of its own; return the rows of each."""
    rows = []
    for number in range(ranks):
        with Shard(folder / f"rank-{number}-of-9.sqlite", store) as shard:
            _compute_part(settings, Rank(number, ranks, number, 0), shard, None)
            rows.append(count_rows(shard))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "ranks"), [((2, 2), 5), ((1, 3), 2), ((2, 1), 2)])
def test_the_parts_of_all_ranks_are_all_there_is_to_compute(made_set, installed, tmp_path, shape, ranks):
    folder = made_set(shape=shape)
    models = MODELS if shape != (2, 1) else ("colours", "random")
    settings = Settings(models=models, benchmarks=(f"folder:{folder}",), batch_size=3)
    run(settings, tmp_path / "one", store=EmbeddingStore(None))
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        sizes = compute_parts(tmp_path / "shards", settings, ranks, store)
        assert count_rows(store)["vectors"] == count_rows(store)["scores"] == 0, "ranks write their own shard alone"
        assert all(size["scores"] for size in sizes)
        assert merge_shards(tmp_path / "shards", store) == ranks
        # Of dual encoders and of those that read texts alone, each image and each text is one rank's.
        assert count_rows(store)["vectors"] == sum(size["vectors"] for size in sizes)
        run(settings, tmp_path / "ranks", store=store)
    assert measured(tmp_path / "ranks") == measured(tmp_path / "one")
    assert computed(tmp_path / "ranks") == 0
    assert list((tmp_path / "shards").iterdir()) == []


def test_a_task_that_scores_pairs_is_shared_too(made_set, installed, tmp_path):
    settings = Settings(models=("colours", "probable"), benchmarks=(rankings(made_set(), "0123456", (1, 2, 3, 4)),))
    run(settings, tmp_path / "one", store=EmbeddingStore(None))
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        compute_parts(tmp_path / "shards", settings, 9, store)  # more ranks than records
        merge_shards(tmp_path / "shards", store)
        before = count_rows(store)
        run(settings, tmp_path / "ranks", store=store)
        assert count_rows(store) == before
        assert (before["vectors"], before["scores"]) >= (1, 1)
    assert measured(tmp_path / "ranks") == measured(tmp_path / "one")


def test_an_image_that_cannot_be_read_is_named_as_one_process_names_it(made_set, installed, tmp_path):
    folder = made_set()
    (folder / "images" / "7_1.png").write_bytes(b"no image")
    settings = Settings(models=("colours",), benchmarks=(f"folder:{folder}",))
    said = []
    for number in range(2):
        try:
            with EmbeddingStore(None) as held, Shard(None, held) as shard:
                _compute_part(settings, Rank(number, 2, number, 0), shard, None)
        except DataError as error:
            said.append(str(error))
    with raises(DataError, "7_1.png") as alone:
        run(settings, tmp_path / "one", store=EmbeddingStore(None))
    assert said == [str(alone.value)]


def test_merging_twice_changes_nothing_and_keeps_what_was_there(tmp_path):
    key, other = "00" * 32, "11" * 32
    with EmbeddingStore(tmp_path / "a.sqlite") as store, EmbeddingStore(tmp_path / "b.sqlite") as shard:
        # The files number their models in another order.
        store.put_numbers("model-a", {key: np.ones(2, np.float32)})
        for model in ("model-b", "model-a"):
            shard.put_numbers(model, {key: np.zeros(2, np.float32), other: np.full(2, 5, np.float32)})
        shard.put_numbers("model-b", {key + other: np.float32(0.1)})
        shard.put_pixel_hash(key, other)
        shard.put_model("source", {"name": "b"})
        for _ in range(2):
            store.merge(tmp_path / "b.sqlite")
            held = store.numbers("model-a", [key, other])
            assert {k: v.tolist() for k, v in held.items()} == {key: [1, 1], other: [5, 5]}
            assert store.numbers("model-b", [key])[key].tolist() == [0, 0]
            assert store.numbers("model-b", [key + other]) == {key + other: np.float32(0.1)}
            assert (store.pixel_hash(key), store.model_of("source")) == (other, {"name": "b"})
            assert count_rows(store)["vectors"] == 4


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_damaged_shard_and_a_file_of_its_name_cost_their_numbers_alone(tmp_path, share, caplog):
    folder, vectors = tmp_path / "store-shards", {f"{k:064x}": np.full(256, k, np.float32) for k in range(99)}
    for rank in range(2):
        with EmbeddingStore(folder / f"rank-{rank}-of-2.sqlite") as shard:
            shard.put_numbers(f"model-{rank}", vectors)
    damaged = folder / "rank-1-of-2.sqlite"
    data = damaged.read_bytes()
    damaged.write_bytes(data[: int(share * len(data))] + b"no store" * 9)
    (folder / "prepared.sqlite").write_bytes(b"of an earlier version")
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        assert merge_shards(folder, store) == 2
        assert [len(store.numbers(f"model-{rank}", vectors)) for rank in range(2)] == [99, 0]
    assert len(caplog.messages) == 1
    check_facts(caplog.text, str(damaged), f"{damaged}.damaged-1")
    assert {path.name for path in folder.iterdir()} == {"prepared.sqlite", f"{damaged.name}.damaged-1"}


def test_one_process_takes_up_what_ranks_left_unless_they_are_at_work(installed, tmp_path):
    settings = Settings(models=("random",), limit="4")
    path = tmp_path / "store.sqlite"
    with EmbeddingStore(path) as store:
        with Shard(shard_folder(path) / "rank-1-of-2.sqlite", store) as shard:
            shard.put_numbers("model-a", {"00" * 32: np.ones(2, np.float32)})
        (shard_folder(path) / "from-1-rank-1-of-2.part").write_bytes(b"half of a shard")
        with _lock_shards(shard_folder(path)):
            with raises(RunError, "run", "ranks"):
                _lock_shards(shard_folder(path))
            run_in_ranks(settings, tmp_path / "a", store=store)
            assert count_rows(store)["vectors"] == 0
        run_in_ranks(settings, tmp_path / "b", store=store)
        assert count_rows(store)["vectors"] == 1
        assert [left.name for left in shard_folder(path).iterdir()] == ["lock"]


SAID = {"RANK": 5, "WORLD_SIZE": 8, "LOCAL_RANK": 1, "GROUP_RANK": 1, "MASTER_ADDR": "a", "MASTER_PORT": 1}


@pytest.fixture
def tell(monkeypatch) -> Callable[[dict[str, Any]], None]:
    """Set variables of the environment, and take away those that are None."""

    def say(said: dict[str, Any]) -> None:
        for name, value in said.items():
            monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, str(value))

    return say


@pytest.mark.parametrize("machine", ["GROUP_RANK", "CROSS_RANK", "SLURM_NODEID"])
def test_ranks_of_torchrun_deepspeed_and_srun_are_ranks(tell, machine):
    tell({machine if name == "GROUP_RANK" else name: value for name, value in SAID.items()})
    assert Rank.here() == Rank(number=5, of=8, local=1, machine=1)


@pytest.mark.parametrize(
    ("name", "value", "facts"),
    [
        *((name, value, ("torchrun", f"export {name}=")) for name in SAID for value in (None, "")),
        *(
            (name, value, f"{name}={value!r}")
            for name, value in (("RANK", "x"), ("WORLD_SIZE", "-2"), ("LOCAL_RANK", "1.5"), ("RANK", "8"))
        ),
    ],
)
def test_a_rank_that_is_told_less_or_no_number_of_the_world_is_refused(tell, name, value, facts):
    tell(SAID)
    tell({name: value})
    with raises(RunError, facts):
        Rank.here()


@pytest.mark.parametrize(
    "alone",
    [
        *({}, {"RANK": "", "WORLD_SIZE": ""}, {"RANK": "0", "WORLD_SIZE": "1"}, {"LOCAL_RANK": ""}),
        *({"RANK": "captain"}, {"WORLD_SIZE": "large", "RANK": ""}),  # another program's
    ],
)
def test_without_other_ranks_a_process_is_the_only_one(tell, alone):
    tell(alone)
    assert Rank.here() == Rank(0, 1, 0, 0)


class Said:
    """A torch.distributed that says for every rank what it is told to, or whose connections are gone."""

    def __init__(self, *said: object) -> None:
        self.said = said

    def new_group(self, **_: object) -> str:
        return "group"

    def all_gather_object(self, into: list[object], _own: object, group: object) -> None:
        if not self.said:
            raise RuntimeError("Connection closed by peer")
        into[:] = self.said


@pytest.mark.parametrize("number", [0, 1])
def test_every_rank_says_that_another_one_is_lost_or_raises_its_error(number):
    with raises(RunError, "rank", "ended", "start again"):
        RankGroup(number, 2, Said(), "start again").gather(None)
    group = RankGroup(number, 2, Said(None, (DataError, "a.png: truncated")), "")
    with raises(DataError, "rank 1", "a.png", "truncated"), group.together():
        pass


class Threads(Said):
    """A torch.distributed of ranks that are threads of this process."""

    def __init__(self, of: int) -> None:
        self.barrier, self.sent = threading.Barrier(of, timeout=60), queue.Queue[Any]()
        self.values: list[Any] = [None] * of

    def all_gather_object(self, into: list[object], own: object, group: object) -> None:
        self.values[self.here().number] = own
        self.barrier.wait()
        into[:] = self.values
        self.barrier.wait()

    def send(self, tensor: Any, _to: int, group: object) -> None:
        self.sent.put(tensor)

    def recv(self, into: Any, _sender: int, group: object) -> None:
        into.copy_(self.sent.get(timeout=60))

    def here(self) -> Rank:
        return Rank(*map(int, threading.current_thread().name.split()))

    @contextmanager
    def join(self, rank: Rank) -> Iterator[RankGroup]:
        yield RankGroup(rank.number, rank.of, self, "start again", (TellapartError, OSError))


@needs_torch
@pytest.mark.parametrize("machines", [1, 2])
@pytest.mark.parametrize("fault", ["", "image", "dtype"])
def test_ranks_measure_what_one_process_does_and_the_first_alone_raises(
    made_set, installed, monkeypatch, tmp_path, machines, fault
):
    """On one machine with a store in memory, and on two without a common folder."""
    folder, ranks, returned = made_set(), Threads(2), dict[int, Any]()
    models = ("colours",) if fault else ("colours", "probable")
    settings = Settings(
        models=models, benchmarks=(f"folder:{folder}",), dtype="auto" if fault == "dtype" else "float32"
    )
    for path in (folder / "images").iterdir() if fault == "image" else ():
        path.write_bytes(b"no image")
    import_torch()  # once, before the threads
    monkeypatch.setattr(Rank, "here", ranks.here)
    monkeypatch.setattr(distributed, "_join_ranks", ranks.join)

    def measure(number: int) -> None:
        with EmbeddingStore(tmp_path / str(number) / "store.sqlite" if machines > 1 else None) as store:
            try:
                returned[number] = run_in_ranks(settings, tmp_path / "ranks", store=store)
            except Exception as error:
                returned[number] = error

    names = {1: ("0 2 0 0", "1 2 1 0"), 2: ("0 2 0 0", "1 2 0 1")}[machines]
    threads = [threading.Thread(target=measure, args=(k,), name=name) for k, name in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert returned[1] == {}
    if fault:
        assert isinstance(returned[0], {"image": DataError, "dtype": RunError}[fault])
        check_facts(str(returned[0]), {"image": "images/", "dtype": "'auto'"}[fault])
        return
    run(settings, tmp_path / "one", store=EmbeddingStore(None))
    assert len(returned[0]) == len(models)
    assert measured(tmp_path / "ranks") == measured(tmp_path / "one")
    assert computed(tmp_path / "ranks") == 0


#: A rank alone, which imports what keeps torch's default group: how many threads it has at work, and afterwards.
KEPT = """
import os

from tellapart.evaluation.distributed import Rank, _join_ranks

def threads():
    return len(os.listdir("/proc/self/task"))

with _join_ranks(Rank(0, 1, 0, 0)) as group:
    import torch.distributed.nn

    assert group.gather("mine") == ["mine"]
    working = threads()
print(working, threads())
"""


@pytest.mark.slow
@needs_torch
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts the threads in /proc")
def test_the_threads_that_worked_are_gone_when_the_ranks_part():
    made = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    working, after = map(int, run_python("-c", KEPT, env={**os.environ, **made}).stdout.split())
    assert after < working, "those of the default group are left, which never had work"


def ranks_of(launcher: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    return [pid for pid in map(int, children) if b"tellapart" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.slow
@needs_torch
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks to kill in /proc")
def test_a_run_that_lost_a_rank_goes_on_where_it_was(made_set, torchrun, tmp_path):
    images = 48
    name = f"folder:{made_set(n=images // 2)}"
    options = ("-m", "slow", "-b", name, "--batch-size", 1, "--out", "ranks", "--cache", "cache")
    first = torchrun(*options, TEST_SECONDS_PER_BATCH="0.2")
    begun = 0
    while begun < 12:
        line = first.stderr.readline()
        assert line, "the run ended by itself"
        begun += line == "encoding\n"
    os.kill(ranks_of(first)[1], signal.SIGKILL)
    code, out, err = ended(first)
    assert (code, out) == (1, "")
    check_facts(err, "Signal", "9", "SIGKILL")
    begun += err.count("encoding\n")
    assert not (tmp_path / "ranks").exists()
    left = sorted((tmp_path / "cache" / "store-shards").glob("*.sqlite"))
    assert [path.name for path in left] == ["rank-0-of-2.sqlite", "rank-1-of-2.sqlite"]
    counts = []
    for path in left:
        with EmbeddingStore(path) as shard:
            counts.append(count_rows(shard))
    assert all(count["pictures"] for count in counts), "both ranks were at work"

    one = EmbeddingStore(None)
    run(Settings(models=("slow",), benchmarks=(name,)), tmp_path / "one", store=one)
    kept = sum(count["vectors"] for count in counts) - (
        count_rows(one)["vectors"] - images
    )  # without the texts, done before
    assert begun - 4 <= kept < images, "of each rank at most the image at hand and the one being written are lost"

    code, _, err = ended(torchrun(*options, ranks=3))
    assert code == 0, err
    assert err.count("encoding\n") == images - kept, "those that are kept are not computed again, all others once"
    assert measured(tmp_path / "ranks") == measured(tmp_path / "one")
    with EmbeddingStore(tmp_path / "cache" / "store.sqlite") as store:
        assert count_rows(store)["vectors"] == count_rows(one)["vectors"]


@pytest.mark.slow
@needs_torch
def test_two_machines_need_no_common_folder(made_set, torchrun, tmp_path):
    name = f"folder:{made_set()}"
    address = ("--master-addr", "127.0.0.1", "--master-port", free_port())
    machines = [
        torchrun(
            *("-m", "colours", "-m", "probable", "-b", name, "--out", f"run-{machine}"),
            ranks=1,
            launch=("--nnodes", "2", "--node-rank", str(machine), *address),
            TELLAPART_CACHE=str(tmp_path / f"cache-{machine}"),
        )
        for machine in range(2)
    ]  # fmt: skip
    (code, out, err), (other, silent, also) = map(ended, machines)
    assert (code, other) == (0, 0), err + also
    assert out.rstrip().endswith("report: run-0/report.html")
    assert silent == ""
    run(Settings(models=("colours", "probable"), benchmarks=(name,)), tmp_path / "one", store=EmbeddingStore(None))
    assert measured(tmp_path / "run-0") == measured(tmp_path / "one")
    assert computed(tmp_path / "run-0") == 0
    assert not (tmp_path / "run-1").exists()


def save_open_clip(folder: Path) -> str:
    """A folder of open_clip, whose preprocessing keeps pictures beside the store."""
    import_torch()  # first: it makes the torchvision beside it importable
    pytest.importorskip("open_clip", reason="the model is of the extra 'models'")
    import tiny_openclip

    return f"local-dir:{tiny_openclip.save_drawn(folder)}"


@pytest.fixture(scope="module")
def sentence_transformers():
    """The library, whose import changes the environment."""
    import_torch()
    return pytest.importorskip("sentence_transformers", reason="a model is of the extra 'st'")


def save_families(folder: Path, encoder: Path, library) -> list[str]:
    """A tiny model of each family that is measured, but for servers': their numbers are kept in another way."""
    import tiny_files
    import tiny_fusion_encoders
    import tiny_generative
    import tiny_models

    clip = tiny_models.clip(folder / "clip")
    parts = [library.base.modules.Transformer(str(clip))]
    library.SentenceTransformer(modules=parts).save(str(folder / "st"), create_model_card=False)
    tiny_generative.save_qwen(folder / "qwen")
    for name in ("vilt", "blip"):
        tiny_fusion_encoders.save(folder / name, tiny_fusion_encoders.MAKERS[name])
    return [
        *(f"hf:{clip}", f"st:{folder / 'st'}", f"hf:{folder / 'qwen'}", f"hf:{folder / 'vilt'}"),
        *(f"hf:{folder / 'blip'}", f"onnx:{encoder}", tiny_files.save_family(folder / "albef", "albef"), "blind"),
    ]


def expect_numbers_of_one_process(models: list[str], pairs: str, folder: Path) -> None:
    """The run folder `ranks` has what one process measures, and rank 0 computed none of it."""
    torch = import_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        run(Settings(models=tuple(models), benchmarks=(pairs,)), folder / "one", store=EmbeddingStore(None))
    finally:
        torch.set_num_threads(before)
    assert measured(folder / "ranks") == measured(folder / "one")
    assert computed(folder / "ranks") == 0


@pytest.mark.slow
@needs_torch
def test_ranks_share_a_model_that_keeps_pictures_in_a_cache_with_other_files_in_it(made_set, torchrun, tmp_path):
    model, pairs, cache = save_open_clip(tmp_path), f"folder:{made_set(n=3)}", tmp_path / "cache"
    (cache / "store-shards").mkdir(parents=True)
    for name in ("store.sqlite", "prepared.sqlite", "store-shards/prepared.sqlite", "store-shards/rank-1-of-2.sqlite"):
        (cache / name).write_bytes(b"of another program")
    code, _, err = ended(torchrun("-m", model, "-b", pairs, "--out", "ranks", "--cache", cache))
    assert code == 0, err
    for name in ("store.sqlite", "prepared.sqlite", "rank-1-of-2.sqlite"):
        assert err.count(f"{name}.damaged-1") == 1
    expect_numbers_of_one_process([model], pairs, tmp_path)
    # The next run, of one process, finds all that it needs in the cache.
    with EmbeddingStore(cache / "store.sqlite") as store:
        run_in_ranks(Settings(models=(model,), benchmarks=(pairs,)), tmp_path / "again", store=store)
    assert computed(tmp_path / "again") == 0
    assert [kept["pictures"] for kept in kept_preparations(cache / "prepared.sqlite")] == [6]


@pytest.mark.slow
@needs_torch
def test_ranks_give_the_numbers_of_one_process_with_every_family(
    made_set, tiny_encoder, sentence_transformers, torchrun, tmp_path
):
    models = [save_open_clip(tmp_path), *save_families(tmp_path, tiny_encoder.folder, sentence_transformers)]
    pairs = f"folder:{made_set(n=3)}"
    named = [argument for model in (*models, "random", "oracle") for argument in ("-m", model)]
    code, out, err = ended(torchrun(*named, "-b", pairs, "--out", "ranks", "--cache", "cache", "--json"))
    assert code == 0, err
    assert Path(json.loads(out)["out"]) == Path("ranks"), "one object: the other rank prints nothing"
    assert not list((tmp_path / "cache").glob("store-shards/*.sqlite"))
    models += ["random", "oracle"]
    expect_numbers_of_one_process(models, pairs, tmp_path)
    assert not list((tmp_path / "logs").glob("tellapart-*")), "the ranks' temporary folder is gone"
