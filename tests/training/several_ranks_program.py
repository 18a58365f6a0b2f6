"""What each of several ranks goes through and says.

`several_ranks_program.py FOLDER`, under torchrun, with the files of
`test_several_ranks`. Every rank writes `said-N.json`: scenario -> what it ended in.
"""

import contextlib
import io
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tellapart.cli import main as cli
from tellapart.training.config import read_config
from tellapart.training.loop import TrainingRanks
from tellapart.training.training_run import run_training

RANK = int(os.environ.get("RANK", "0"))


def command(*arguments: object) -> dict[str, Any]:
    """Run the command line in this process."""
    out, err, sys.argv = io.StringIO(), io.StringIO(), ["tellapart", *map(str, arguments)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as end:
            return {"code": end.code, "out": out.getvalue(), "err": err.getvalue()}


def ended(act: Callable[[], object]) -> str:
    """How something ends: the error's class and message, or nothing."""
    try:
        act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def trained(folder: Path, name: str, **options) -> object:
    home = options.pop("home", folder)
    return run_training(read_config(folder / f"{name}.toml"), home, options.pop("out", folder / name), **options)


@contextlib.contextmanager
def little_room():
    """The first rank can write no file of more than 64 KiB."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most if RANK else 2**16, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def full(folder: Path) -> None:
    with little_room():
        trained(folder, "full")


def fails(stage: str, done: int, total: int, _note: str = "") -> None:
    if stage == "steps":
        raise ValueError(f"{stage} {done}/{total}")


def patience(folder: Path) -> list[float]:
    """Seconds after which a rank stops waiting: for the first one's work, and for a gradient."""
    ranks = TrainingRanks(read_config(folder / "dual.toml").device)
    groups = (ranks.members, dist.group.WORLD)
    return [group._get_backend(torch.device("cpu")).options._timeout.total_seconds() for group in groups]


def exchanging() -> int:
    """How many threads of this process exchange with the other ranks, where the system lists them."""
    return sum(name.read_text() == "pt_gloo_runloop\n" for name in Path("/proc/self/task").glob("*/comm"))


def lost(folder: Path) -> None:
    """The second rank is gone before the first one has left the block."""
    ranks = TrainingRanks(read_config(folder / "dual.toml").device)
    if RANK == 0:
        with ranks.together():
            pass


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    said = {"dual": command("train", folder / "dual.toml", "--out", folder / "dual")}
    for name in ("lora", "frozen", "bias", "blip", "meter", "fiber", "meter-eqsim", "fiber-eqsim"):
        said[name] = ended(lambda name=name: trained(folder, name))
    seeds = ("train", folder / "seeds.toml", "--out", folder / "seeds", "--allow-leak", "--json", "--seeds")
    said["seeds"] = [command(*seeds, 2), command(*seeds, 2, "--resume")]
    if RANK == 0:
        with (folder / "seeded" / "images" / "0_0.png").open("ab") as image:
            image.write(b"\0")  # other bytes, the same picture
    said["exchanging"] = exchanging()
    said["odd"] = command(*seeds, 3, "--resume")
    said["leak"] = command("train", folder / "leak.toml", "--out", folder / "leak")
    said["norms"] = ended(lambda: trained(folder, "norms"))
    said["image"] = ended(lambda: trained(folder, "image", home=folder / "second" if RANK else folder))
    said["elsewhere"] = ended(lambda: trained(folder, "dual", home=folder / "nowhere" if RANK else folder))
    said["full"] = ended(lambda: full(folder))
    said["claimed"] = ended(lambda: trained(folder, "dual"))
    unseen = folder / ("unseen" if RANK else "dual")
    said["unseen"] = ended(lambda: trained(folder, "dual", out=unseen, resume=True))
    said["unforeseen"] = ended(lambda: trained(folder, "unforeseen", progress=fails))
    said["diverged"] = ended(lambda: trained(folder, "diverged"))
    said["patience"] = patience(folder)
    said["lost"] = ended(lambda: lost(folder))
    (folder / f"said-{RANK}.json").write_text(json.dumps(said), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # there is nobody left to say good-bye to


if __name__ == "__main__":
    main(Path(sys.argv[1]))
