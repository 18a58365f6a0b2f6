"""Damaged files at every door: one line or the same content, never a traceback, a hang, or 2 GB.

    python ci/gates.py --inputs 20000 --out bench/records/gates.json

An input is a valid file of `doors.py` and its neighbours, damaged by `damage.py` or `reshape.py`; seed and number make
it, so that `--only NUMBER` makes it again. The result of a file that is read is compared with the valid file's: `other`
where no reader could know, as of a flipped bit in a number, and `silent` where its reader can see the damage. A CSV
file that was cut inside its last field ends in a shorter field. The attacks are read first, each once: `--attacks`
reads them alone, `--no-attacks` leaves them out.
"""

import argparse
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).parent))

from attacks import ATTACKS, Attack, try_attack
from container_doors import open_container_doors
from damage import damage
from doors import Door, open_doors
from forked import Fork
from made_doors import open_made_doors
from prediction_doors import open_prediction_doors
from reshape import ALWAYS, can_reshape, reshape

from tellapart.errors import TellapartError

#: What must not happen.
BAD = ("traceback", "hang", "memory", "crash", "silent", "text")

#: Damage that a reader who knows what there must be can always see.
_SEEN = ("cut", "double", "key twice", "members")

_DOORS = (open_doors, open_prediction_doors, open_made_doors, open_container_doors)

_PATIENCE, _MOST_MEMORY, _BATCH = 10, 2 << 30, 100

#: A reader on a busy machine may wait for the processor; one that waits for something else waits for this long.
_IDLE = 30 * _PATIENCE
_HANGS = (signal.SIGXCPU, signal.SIGALRM)


def try_input(doors: dict[str, Door], seed: int, number: int) -> dict[str, Any]:
    """Damage one file and read it; return its door, the damage and what came of it."""
    door, way, data = _damage_door(doors, seed, number)
    door.path.write_bytes(data)
    tried: dict[str, Any] = {"number": number, "door": door.name, "way": way}
    try:
        content = door.read()
        json.dumps(content, default=repr, ensure_ascii=False, skipkeys=True).encode()  # as records and pages write it
        door.path.write_bytes(door.valid)
        if repr(_in_order(content)) == repr(_in_order(door.read())):
            return tried | {"outcome": "same"}
        seen = way in ALWAYS | door.knows or (door.whole and _can_be_seen(way, data, door.path))
        return tried | {"outcome": "silent" if seen else "other"}
    except TellapartError as error:
        said = str(error)
        one_line = said.isprintable() and len(said) <= 2_000
        named = any(name in said for name in (door.path.name, str(door.path.parent), *door.rows))
        outcome = "refused" if one_line and named else "text"
        return tried | {"outcome": outcome, "said": said[:300]}
    except BaseException as error:
        return tried | {"outcome": "traceback", "said": f"{type(error).__name__}: {error!s:.300}"}
    finally:
        door.path.write_bytes(door.valid)


def _in_order(content: Any) -> Any:
    """Return a content with its keys in order: no file says anything by theirs."""
    if isinstance(content, Mapping):
        return sorted((repr(key), _in_order(value)) for key, value in content.items())
    return [_in_order(value) for value in content] if isinstance(content, list | tuple) else content


def _can_be_seen(way: str, data: bytes, path: Path) -> bool:
    """Say whether a reader can tell: not of a CSV file cut in its last field, nor of a member in another's place."""
    if way == "members":
        with suppress(Exception), zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            return len(set(names)) < len(names)
    return way in _SEEN and not (way == "cut" and path.suffix == ".csv")


def _damage_door(doors: dict[str, Door], seed: int, number: int) -> tuple[Door, str, bytes]:
    """Draw a door and damage its file; return what was done to it, too."""
    drawn, names = random.Random(f"{seed}:{number}"), sorted(doors)
    door = doors[drawn.choices(names, [1 if doors[name].slow else 10 for name in names])[0]]
    if can_reshape(door.path.suffix) and drawn.random() < 0.5:
        return door, *reshape(door.path.suffix, door.valid, drawn, door.free)
    return door, *damage(door.valid, drawn)


def _run_forked(work: Iterable[Callable[[], dict[str, Any]]], patience: int = _PATIENCE) -> list[dict[str, Any]]:
    """Do pieces of work in a fork, and return what they return; the last one is how the fork ended, if it died."""

    def bounded() -> Iterator[dict[str, Any]]:
        # Far above what is allowed: only so that an input cannot take the machine down.
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + 3 * _MOST_MEMORY, used + 3 * _MOST_MEMORY))
        for piece in work:
            # Signals end what hangs.
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + patience, resource.RLIM_INFINITY))
            signal.alarm(_IDLE)
            yield piece()

    status, done = Fork(bounded).wait()
    return done if status == 0 else [*done, {"outcome": "hang" if -status in _HANGS else "crash"}]


def _run_batch(doors: dict[str, Door], seed: int, numbers: range) -> list[dict[str, Any]]:
    """Read a batch in forks of this process, a new one after each input that ended the last one."""
    done: list[dict[str, Any]] = []
    while left := numbers[len(done) :]:
        done += _run_forked(partial(_try_measured, doors, seed, number) for number in left)
        if "door" not in done[-1]:
            number = numbers[len(done) - 1]
            door, way, _ = _damage_door(doors, seed, number)
            door.path.write_bytes(door.valid)
            done[-1] |= {"number": number, "door": door.name, "way": way}
    return done


def _try_measured(doors: dict[str, Door], seed: int, number: int) -> dict[str, Any]:
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    started = time.process_time()
    tried = try_input(doors, seed, number)
    peak = 1024 * int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    tried |= {"seconds": time.process_time() - started, "peak": peak}
    return tried | ({"outcome": "memory"} if peak > _MOST_MEMORY else {})


def run_attacks() -> dict[str, dict[str, Any]]:
    """Make and read each file of `attacks.py` in a process of its own; return what came of it, by name."""

    def read(attack: Attack) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            outcome, said = try_attack(attack, Path(folder))
        return {"outcome": outcome, "said": said[:300]}

    # The file is made, too.
    return {name: _run_forked([partial(read, attack)], 6 * _PATIENCE)[0] for name, attack in ATTACKS.items()}


def _count(tried: Iterable[dict[str, Any]]) -> dict[str, int]:
    return dict(sorted(Counter(one["outcome"] for one in tried).items()))


def main() -> int:
    """Run the inputs, print the counts, and write the record; 1 where any came to something bad."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--inputs", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", type=int)
    options.add_argument("--doors", nargs="*", default=[])
    options.add_argument("--out", type=Path)
    options.add_argument("--attacks", action=argparse.BooleanOptionalAction, help="read these alone, or none of them")
    given = options.parse_args()
    kept = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    apart = given.only is not None or given.doors or given.attacks is False
    attacks = {} if apart else run_attacks()
    lost = {name: one for name, one in attacks.items() if one["outcome"] in BAD}
    counts = _count(attacks.values()) if attacks else kept.get("attacks", {})
    print(json.dumps({"attacks": counts, "lost": lost}, indent=1))
    if given.attacks:
        if given.out:
            given.out.write_text(json.dumps({**kept, "attacks": counts}, indent=1) + "\n")
        return 1 if lost else 0
    with tempfile.TemporaryDirectory() as scratch:
        doors = {door.name: door for open_some in _DOORS for door in open_some(Path(scratch))}
        doors = {name: doors[name] for name in given.doors or doors}
        for door in doors.values():
            door.read()  # also imports what it needs, once for all forks
        if given.only is not None:
            print(json.dumps(try_input(doors, given.seed, given.only), indent=1))
            return 0
        numbers = range(given.inputs)
        batches = (numbers[start : start + _BATCH] for start in numbers[::_BATCH])
        tried = [one for batch in batches for one in _run_batch(doors, given.seed, batch)]
    bad = [one for one in tried if one["outcome"] in BAD]
    for one in bad[:50]:
        print(json.dumps({**one, "said": one.get("said", "").replace(scratch, "")}))
    record = {
        "attacks": counts,
        "inputs": given.inputs,
        "seed": given.seed,
        "outcomes": dict.fromkeys(BAD, 0) | _count(tried),
        "slowest_seconds": round(max(one.get("seconds", _PATIENCE) for one in tried), 2),
        "largest_bytes": max(one.get("peak", 0) for one in tried),
        "doors": {name: _count(one for one in tried if one["door"] == name) for name in sorted(doors)},
    }
    print(json.dumps(record, indent=1))
    if given.out:
        given.out.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if bad or lost else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:  # a user's cache may hold anything
        os.environ["TELLAPART_CACHE"] = cache
        status = main()
    sys.exit(status)
