"""One run in several processes, on one machine or on several: `torchrun --nproc-per-node 4 -m tellapart run ...`.

Each rank computes its part of the images, texts and pairs into a separate file in the store's folder (a shard). Rank 0
merges the shards into the store, and then measures exactly as one process does, with everything found there. A rank
that is lost loses its current batch: the same command, with as many ranks or another number, goes on from the shards.
The processes are started by torchrun, or by deepspeed or srun with torchrun's variables, and talk by gloo.

Of models that answer in words a store keeps nothing: rank 0 runs their tasks alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import IO, Any, TypeVar

from tellapart.data.atomic import take_lock
from tellapart.data.progress import Progress
from tellapart.errors import RunError, TellapartError, first_line
from tellapart.evaluation.evaluate import plan
from tellapart.evaluation.run import Settings, prepare_for, resolve, run
from tellapart.models.find import Deferred
from tellapart.models.memory.adapter import is_stored
from tellapart.models.options import AUTO
from tellapart.models.store.embedding_store import EmbeddingStore, Shard, list_shards, shard_folder
from tellapart.models.torch.backend import import_torch
from tellapart.records.result import Result

#: The environment variables that torchrun sets, those of `Rank` first, and what to write for each under srun.
_VARIABLES = {
    "RANK": "$SLURM_PROCID",
    "WORLD_SIZE": "$SLURM_NTASKS",
    "LOCAL_RANK": "$SLURM_LOCALID",
    "GROUP_RANK": "$SLURM_NODEID",
    "MASTER_ADDR": "$SLURM_LAUNCH_NODE_IPADDR",
    "MASTER_PORT": "29500",
}

#: The variables in which deepspeed and srun number the machines, in place of `GROUP_RANK`.
_MACHINES = ("CROSS_RANK", "SLURM_NODEID")

#: How long a rank waits for the others: parts may differ by hours, and torchrun ends the group when a rank is lost.
_PATIENCE = timedelta(days=7)

#: The result of a computation that every rank gets.
Value = TypeVar("Value")

#: Bytes of a shard that are sent at once to another machine.
_CHUNK = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Rank:
    """This process, as torchrun's environment numbers it from 0: `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `GROUP_RANK`.

    `number` is its rank among all `of` them; `local`, its number on this `machine`, chooses the GPU.
    """

    number: int
    of: int
    local: int
    machine: int

    @classmethod
    def here(cls) -> Rank:
        """Read the environment; without `RANK` and `WORLD_SIZE`, or of a world of one, this is the only process."""
        return cls(*(read_ranks() or (0, 1, 0, 0)))

    @property
    def leads(self) -> bool:
        """Whether it is the first of its machine: it alone writes to the store there."""
        return self.local == 0


def read_ranks(*unused: str) -> list[int] | None:
    """Return the numbers of this process, in the order of `Rank`; None if it is not one of several.

    `unused` are variables that need not be set.
    """
    values = {name: os.environ.get(name, "").strip() for name in _VARIABLES if name not in unused}
    rank, world = values["RANK"], values["WORLD_SIZE"]
    alone = rank in ("", "0") and world in ("", "1")
    foreign = "" in (rank, world) and not (rank + world).isdecimal()  # one of the two, and a word: another program's
    if alone or foreign:
        return None
    if values.get("GROUP_RANK") == "":
        values["GROUP_RANK"] = next(filter(None, map(os.environ.get, _MACHINES)), "")
    several = f"RANK={rank!r} and WORLD_SIZE={world!r} make this process one of several"
    advice = "start them with: torchrun --nproc-per-node N -m tellapart ..."
    if absent := [name for name, value in values.items() if not value]:
        line = " ".join(f"{name}={_VARIABLES[name]}" for name in absent)
        raise RunError(
            f"{several}, and {', '.join(absent)} is not set; {advice}; or write in each task of srun: export {line}; "
            "or, for this process alone: unset RANK WORLD_SIZE"
        )
    numbers = {name: value for name, value in values.items() if not name.startswith("MASTER_")}
    for name, value in numbers.items():
        if not (value.isascii() and value.isdecimal()):
            raise RunError(f"{several}, and {name}={value!r} is no number; {advice}")
    if int(rank) >= int(world):
        raise RunError(f"{several}, and the last of them is RANK={int(world) - 1}; {advice}")
    return [int(value) for value in numbers.values()]


def run_in_ranks(
    settings: Settings, out: Path, *,
    store: EmbeddingStore, command: str = "", progress: Callable[[str], Progress] | None = None,
) -> dict[Path, Result]:  # fmt: skip
    """Measure as `run` does, with the work shared by all ranks if there are several: the numbers are the same.

    Rank 0 returns what `run` does, and raises an error of any rank. The others return nothing once their part is
    merged, and end silently. Of a store in memory the ranks' parts pass through a temporary folder.
    """
    rank = Rank.here()
    if rank.of > 1 and settings.dtype == AUTO:
        if rank.number:
            return {}
        raise RunError(f"dtype={AUTO!r} is chosen by one process; name a dtype for {rank.of} ranks, with check= items")
    if rank.of == 1:
        folder = None if store.path is None else shard_folder(store.path)
        # Shards of interrupted ranks are merged, unless they are at work.
        if folder is not None and list_shards(folder) and (lock := take_lock(folder / "lock")) is not None:
            with lock:
                merge_shards(folder, store)
    elif not _compute_together(settings, rank, store, progress):
        return {}
    return run(settings, out, store=store, command=command, progress=progress)


def _compute_together(
    settings: Settings, rank: Rank, store: EmbeddingStore, progress: Callable[[str], Progress] | None
) -> bool:
    """Compute a part, and bring all parts into the stores; return whether this rank goes on."""
    torch, leads = import_torch(), rank.number == 0
    try:
        with _join_ranks(rank) as group:
            try:
                with _hold_folder(group, rank, store) as folder:
                    if settings.device == "cuda" and torch.cuda.is_available():
                        torch.cuda.set_device(rank.local % torch.cuda.device_count())
                    _deliver_shards(group, rank, torch, folder, store)  # of an interrupted run
                    path = folder / f"rank-{rank.number}-of-{rank.of}.sqlite"
                    with group.together(), Shard(path, store) as shard:
                        _compute_part(settings, rank, shard, progress if leads else None)
                    _deliver_shards(group, rank, torch, folder, store)
            except TellapartError:
                if leads:  # which raises the error of any rank
                    raise
                return False
    except KeyboardInterrupt:
        if leads:
            raise
        return False
    return leads


class RankGroup:
    """The processes of one run, as each sees the others: `of` them, its number from 0, and whether it leads and writes.

    All that can fail in one of them runs in `together`, so that no other waits for an exchange that never comes. They
    talk by `dist`, torch.distributed, in a separate group; `advice` is the next step once a rank is lost. Errors that
    are not `shared` end their rank at once, and with it the others.
    """

    def __init__(
        self, number: int, of: int, dist: Any, advice: str, shared: tuple[type[Exception], ...] = (Exception,)
    ) -> None:
        self.number, self.of, self.leads, self.dist, self._advice = number, of, number == 0, dist, advice
        self._shared = shared
        # The default group may have another backend and time limit.
        self.members: Any = dist.new_group(backend="gloo", timeout=_PATIENCE) if dist is not None else None

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's value, by rank; that is a barrier, too."""
        if self.members is None:
            return [value]
        values: list[Any] = [None] * self.of
        try:
            self.dist.all_gather_object(values, value, group=self.members)
        except RuntimeError as error:  # gloo's, when a connection is gone
            raise RunError(f"another rank ended, and says why itself; {self._advice}") from error
        return values

    @contextmanager
    def together(self) -> Iterator[None]:
        """Leave the block when every rank has left it; an error in one of them is raised in all."""
        if self.of == 1:
            yield
            return
        raised, expected = None, True
        failure: tuple[type[TellapartError], str] | None = None
        try:
            yield
        except self._shared as error:
            raised, expected = error, isinstance(error, TellapartError | OSError)
            kind = type(error) if isinstance(error, TellapartError) else RunError
            failure = kind, str(error) if expected else f"{type(error).__name__}: {error}"
        try:
            failures = self.gather(failure)
        except RunError as lost:
            raise raised or lost from lost.__cause__
        for number, (kind, message) in ((number, failure) for number, failure in enumerate(failures) if failure):
            if raised is not None and not expected:
                raise raised  # its traceback helps
            raise kind(f"rank {number}: {message}" if number else message) from raised

    def first(self, compute: Callable[[], Value]) -> Value:
        """Return the first rank's result to every rank."""
        results: list[Any] = [None]
        with self.together():
            if self.leads:
                results = [compute()]
        if self.of > 1:
            self.dist.broadcast_object_list(results, src=0, group=self.members)
        result: Value = results[0]
        return result

    def leave(self) -> None:
        """End the exchange, once all is done."""
        if self.members is not None:
            self.dist.destroy_process_group(self.members)
            self.members = None


@contextmanager
def _hold_folder(group: RankGroup, rank: Rank, store: EmbeddingStore) -> Iterator[Path]:
    """Yield the folder of this machine's shards, locked for this run; that of a store in memory is deleted at the end.

    The lock goes with the process, however that ends.
    """
    temporary = None
    with ExitStack() as stack:
        with group.together():
            if store.path is not None:
                shard_folder(store.path).mkdir(parents=True, exist_ok=True)
            elif rank.leads:
                temporary = stack.enter_context(TemporaryDirectory(prefix="tellapart-shards-"))
        folders = dict(filter(None, group.gather((rank.machine, temporary) if temporary else None)))
        folder = Path(folders[rank.machine]) if store.path is None else shard_folder(store.path)
        with group.together():
            if rank.leads:
                stack.enter_context(_lock_shards(folder))
        yield folder


@contextmanager
def _join_ranks(rank: Rank) -> Iterator[RankGroup]:
    """Join the other ranks until the block is left.

    They talk in a separate group. The default one may outlive `destroy_process_group`: a module that is imported
    while it is there (`torch.distributed.nn`, by transformers) keeps it as the default of an argument. Its threads may
    then free a tensor while Python ends, which aborts the process ("terminate called without an active exception").
    """
    import torch.distributed as dist

    try:
        dist.init_process_group("gloo", timeout=_PATIENCE)
        advice = "what every rank has computed is kept: start the command again"
        # A part takes hours: an unforeseen error does not wait for the other ranks'.
        group = RankGroup(rank.number, rank.of, dist, advice, (TellapartError, OSError))
    except RuntimeError as error:
        raise RunError(
            f"the ranks do not reach each other: {first_line(error)}; see torchrun's --master-addr"
        ) from error
    try:
        yield group
    finally:
        group.members = None
        dist.destroy_process_group()


def _lock_shards(folder: Path) -> IO[bytes]:
    lock = take_lock(folder / "lock")
    if lock is None:
        raise RunError(f"another run in several ranks fills {folder}; wait until it has ended, or name another cache=")
    return lock


def _compute_part(settings: Settings, rank: Rank, shard: Shard, progress: Callable[[str], Progress] | None) -> None:
    """Run every model on this rank's part of every benchmark, which fills the shard."""
    benchmarks, models = resolve(settings, shard)
    for benchmark in benchmarks:
        ready = prepare_for(settings, benchmark, shard)
        for model in models:
            loaded = model.load() if isinstance(model, Deferred) else model
            part = ready.task.part_of(loaded, ready.records, rank.number, rank.of)
            if part is not None and is_stored(loaded):  # else rank 0 computes it again
                report = progress(f"{model.name} on {benchmark.name}") if progress else None
                _, run_task = plan(loaded, benchmark)
                session = replace(ready.session, batch_size=settings.batch_size, progress=report, scores=[])
                try:
                    run_task(loaded, part, session)
                except TellapartError:  # rank 0 computes it again, and names the model
                    if len(models) == 1:
                        raise


def _deliver_shards(group: RankGroup, rank: Rank, torch: ModuleType, folder: Path, store: EmbeddingStore) -> None:
    """Bring every shard into the store of its machine, and into rank 0's; then the shards are gone."""
    files: list[tuple[str, int]] = []
    with group.together():
        if rank.leads and rank.machine != 0:
            shards = list_shards(folder)
            for path in shards:  # opened and closed: SQLite merges the log that a killed process left
                EmbeddingStore(path).close()
            files = [(path.name, path.stat().st_size) for path in shards]
    for sender, sizes in enumerate(group.gather(files)):
        for name, size in sizes:
            if rank.number == sender:
                with (folder / name).open("rb") as file:
                    while data := file.read(_CHUNK):
                        group.dist.send(torch.frombuffer(bytearray(data), dtype=torch.uint8), 0, group=group.members)
            elif rank.number == 0:
                # Under a name that no shard has until it is complete.
                path = folder / f"from-{sender}-{name}"
                with (draft := path.with_suffix(".part")).open("wb") as file:
                    for start in range(0, size, _CHUNK):
                        chunk = torch.empty(min(_CHUNK, size - start), dtype=torch.uint8)
                        group.dist.recv(chunk, sender, group=group.members)
                        file.write(chunk.numpy().tobytes())
                draft.replace(path)
    with group.together():
        if rank.leads:
            merge_shards(folder, store)


def merge_shards(folder: Path, store: EmbeddingStore) -> int:
    """Merge every shard of a folder into a store, each in one transaction, then delete it; return how many there were.

    A damaged shard, or a file of its name that is no store, is set aside: its numbers are computed again.
    """
    for cut_off in folder.glob("*.part"):
        cut_off.unlink()
    shards = list_shards(folder)
    for path in shards:
        store.merge(path)
        path.unlink()
    return len(shards)
