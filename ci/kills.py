"""SIGKILL in the midst of run, build, train, submit and report: begun again, each ends in the same bytes.

    python ci/kills.py --out bench/records/kills.json

Half of the kills come just before a step that leaves a trace on the disk, half at a random moment. What the same
command then leaves is compared with what it leaves undisturbed, but for times and how much came from the store.
"""

import asyncio
import json
import os
import random
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
sys.path.append(str(Path(__file__).parent))

import numpy as np
from forked import run_all, run_command, run_forked, run_whole

from tellapart.board.submissions.hidden import read_hidden
from tellapart.board.submissions.prepared import read_truth
from tellapart.board.submissions.routes import write_upload
from tellapart.board.submissions.service import Submissions
from tellapart.errors import require
from tellapart.models.openclip import dual_encoder  # noqa: F401  (once, for all forks)
from tellapart.models.torch.backend import import_torch
from tellapart.training import encoders, training_run  # noqa: F401

HERE = Path(__file__).resolve().parent

#: Fields of records that tell of the process and not of what it computed.
_OF_THE_PROCESS = {"started", "seconds", "resumed", "images_encoded", "texts_encoded", "pairs_scored", "command"}

_SAID_IN_PAGES = re.compile(
    r"What this process computed: .*? s; the rest|\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?(?:\+00:00)?(?:, resumed)?"
    r"|\b[\d.,]+ s\b(?: since it was resumed| since then)?"
)


@dataclass(frozen=True, slots=True)
class Job:
    """A command that is killed: what is done first and after a kill, what is compared, and how often it is killed."""

    first: Callable[[], object]
    again: Callable[[], object]
    outcome: Callable[[Path], dict[str, bytes]]
    prepare: Callable[[Path], object] = lambda _folder: None
    kills: int = 20


def read_output(home: Path) -> dict[str, bytes]:
    """Return the files of `out` by name without what tells of the process alone; hidden files are not of it."""
    folder, found = home / "out", {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_dir() or any(part.startswith(".") for part in name.parts):
            continue
        data = path.read_bytes()
        if path.suffix == ".json":
            content = json.loads(data, object_hook=lambda row: {key: row[key] for key in row.keys() - _OF_THE_PROCESS})
            if path.name == "results.json":
                content.pop("sha256", None)  # of all of it, with the times
            data = json.dumps(content, sort_keys=True).encode()
        elif path.suffix in {".html", ".md"}:
            data = _SAID_IN_PAGES.sub("-", data.decode()).encode()
        found[str(name)] = data
    return found


def _board_file(folder: Path) -> None:
    shutil.copy(HERE / "settings" / "board.toml", folder)
    service = Submissions(read_hidden(folder / "board.toml"))
    service.accounts.add("ann", "submitter", by="kills.py")
    _, token = service.accounts.issue("ann", days=1, by="kills.py")
    (folder / "token.txt").write_text(token)
    truth = read_truth(service.prepared["few"].truth)
    right = np.broadcast_to(np.eye(2), (len(truth.records), 2, 2))
    rows = np.arange(len(right))[:, None, None]
    values = right[rows, np.array(truth.images)[:, :, None], np.array(truth.texts)[:, None, :]]
    np.savez(folder / "scores.npz", ids=np.array([item.id for item in truth.bare()]), scores=values)


def _submit() -> None:
    """Send a file unless it was taken already, and measure what waits, as the server does after a start."""

    async def pieces() -> Any:
        yield Path("scores.npz").read_bytes()

    service = Submissions(read_hidden(Path("board.toml")))
    with service.queue.lock() as mine:
        assert mine
        service.queue.sweep()
        if not service.database.all("SELECT id FROM submission"):
            draft = service.queue.folder / "sent.part"
            upload = asyncio.run(write_upload(pieces(), draft, 1 << 20))
            account = service.accounts.of_token(Path("token.txt").read_text())
            service.queue.take(account, "few", "mine", "scores.npz", upload)
        while service.queue.work_one():
            pass


def _submissions(folder: Path) -> dict[str, bytes]:
    service = Submissions(read_hidden(folder / "board.toml"))
    rows = service.database.all("SELECT state, model, file, public, private FROM submission")
    return {str(number): json.dumps([*map(str, dict(row).values())]).encode() for number, row in enumerate(rows)}


def run_models(*options: str) -> Callable[[], object]:
    """Return the command that measures two models on two sets."""
    models = ("-m", "demo-encoder", "-m", "random", "-b", "folder:../few", "-b", "folder:../more")
    return partial(run_command, "run", *models, *options)


def _finished_run(folder: Path) -> None:
    run_whole(_RUN, folder)
    for page in (folder / "out").rglob("report.html"):
        page.unlink()


_RUN = run_models("--out", "out", "--cache", "cache")
_BUILD = partial(run_command, "build", "../scenes.toml", "--out", "out", "--card")
_TRAIN = partial(run_command, "train", "../train.toml", "--out", "out")
_SHOW = partial(run_command, "show", "out")

#: By name; "train" and "train's report" are one command, killed anywhere and killed while it measures.
JOBS = {
    "run": Job(_RUN, _RUN, read_output),
    "build": Job(_BUILD, _BUILD, read_output),
    "train": Job(_TRAIN, partial(_TRAIN, "--resume"), read_output, kills=40),
    "submit": Job(_submit, _submit, _submissions, _board_file),
    "report": Job(_SHOW, _SHOW, read_output, _finished_run),
}


def kill_job(name: str, home: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill a job so often, go on each time, and return how many ended otherwise than undisturbed, with the reasons."""
    job, folder, drawn = JOBS[name], home / name, random.Random(f"{seed}:{name}")
    _begin(job, folder)
    whole = run_whole(job.first, folder)
    expected, bad, killed, drafts, at = job.outcome(folder), [], 0, 0, []
    tries = 0
    while killed < kills and tries < 3 * kills:
        tries += 1
        _begin(job, folder)
        moment: dict[str, Any] = (
            {"at_write": drawn.randrange(whole.writes)} if tries % 2 else {"after": drawn.random() * whole.seconds}
        )
        ended = run_forked(job.first, folder, **moment)
        if ended.status == 0:
            continue  # it was faster this time
        killed += 1
        at.append(ended.writes)
        again = run_forked(job.again, folder)
        got = job.outcome(folder) if again.status == 0 else {}
        drafts += sum(path.suffix == ".part" for path in (folder / "out").rglob(".*"))
        other = sorted(each for each in expected.keys() | got.keys() if expected.get(each) != got.get(each))
        if ended.status != -9 or other:
            bad.append(
                {**moment, "first": ended.status, "again": again.status, "other": other, "said": again.said[-600:]}
            )
    return {"kills": killed, "writes": whole.writes, "killed after": sorted(at), "drafts left": drafts, "bad": bad}


def _begin(job: Job, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    job.prepare(folder)


if __name__ == "__main__":
    import_torch()
    require("open_clip", extra="train")  # slow to import, and once here is once for all forks
    sys.exit(run_all(__doc__, "kills of jobs", {name: job.kills for name, job in JOBS.items()}, kill_job))
