"""One flipped bit in a store, a build's journal, samples or a record: it is found, or nothing comes out otherwise.

    python ci/flips.py --flips 100 --out bench/records/flips.json

`found`: the command names the file in one line, or computes again and ends in the same numbers. `harmless`: it says
nothing, and ends in the same bytes (times excepted). Anything else is bad.
"""

import random
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))

from forked import Command, run_all, run_command, run_forked, run_whole
from kills import read_output, run_models


@dataclass(frozen=True, slots=True)
class Flipped:
    """A file whose bits are flipped: where it lies, what fills the folder, what reads it, and whether that prints."""

    file: str
    prepare: Callable[[Path], object]
    read: Callable[[], object]
    prints: bool = False


_BUILD = partial(run_command, "build", "../scenes.toml", "--out", "out", "-q")


def _fill_store(folder: Path) -> None:
    run_whole(run_models("--out", "first", "--cache", "cache", "-q"), folder)
    with closing(sqlite3.connect(folder / "cache" / "store.sqlite")) as store:  # all of it into one file
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _stop_build(folder: Path) -> None:
    """Stop a build when all is decided and before its set has its name."""
    steps = run_forked(_BUILD, folder).writes
    for step in range(steps - 1, 0, -1):
        shutil.rmtree(folder / "out", ignore_errors=True)
        (folder / ".out.journal").unlink(missing_ok=True)
        run_forked(_BUILD, folder, at_write=step)
        if (folder / ".out.journal").is_file() and not (folder / "out").exists():
            for draft in folder.glob(".out-*"):
                shutil.rmtree(draft)
            return
    raise SystemExit("no moment at which the build has decided all and written nothing")


_MAKE_RUN = partial(run_whole, run_models("--out", "out", "--no-cache", "-q"))
_SHOW = partial(run_command, "show", "out", "--json")

#: By what users call them.
FILES = {
    "store": Flipped("cache/store.sqlite", _fill_store, run_models("--out", "out", "--cache", "cache", "-q")),
    "journal": Flipped(".out.journal", _stop_build, _BUILD),
    "samples": Flipped("out/samples/*", _MAKE_RUN, _SHOW, prints=True),
    "records": Flipped("out/results.json", _MAKE_RUN, _SHOW, prints=True),
}


def flip_file(name: str, home: Path, flips: int, seed: int) -> dict[str, Any]:
    """Flip a bit so often, and return how many were found, harmless and bad."""
    flipped, drawn = FILES[name], random.Random(f"{seed}:{name}")
    folder, kept = home / name, home / f"{name}.kept"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    flipped.prepare(folder)
    folder.rename(kept)
    shutil.copytree(kept, folder)
    whole = run_whole(flipped.read, folder)
    expected, tally, bad = read_output(folder), Counter[str](), []
    for _ in range(flips):
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        path = next(folder.glob(flipped.file))
        data = bytearray(path.read_bytes())
        bit = drawn.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        ended = run_forked(flipped.read, folder)
        same_bytes = ended.status == 0 and read_output(folder) == expected
        what = _judge(path, ended, same_bytes, not flipped.prints or ended.said == whole.said)
        tally[what] += 1
        if what == "bad":
            bad.append({"bit": bit, "status": ended.status, "said": ended.said[-500:]})
    return {"found": tally["found"], "harmless": tally["harmless"], "bad": bad}


def _judge(path: Path, ended: Command, same_bytes: bool, same_text: bool) -> str:
    errors = [line for line in ended.said.splitlines() if line.startswith("error: ")]
    if ended.status:
        one_line = ended.status == 2 and len(errors) == 1 and "Traceback" not in ended.said
        return "found" if one_line and path.name in errors[0] else "bad"
    if same_bytes and path.name in ended.said and "damaged" in ended.said:
        return "found"
    return "harmless" if same_bytes and same_text else "bad"


if __name__ == "__main__":
    sys.exit(run_all(__doc__, "flips of files", dict.fromkeys(FILES, 100), flip_file))
