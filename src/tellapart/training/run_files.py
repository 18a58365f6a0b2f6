"""The folder of a training run: its files, which run it belongs to, and its log, which trackers get too."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.data.atomic import sync_folder
from tellapart.data.rows import read_jsonl, read_object
from tellapart.data.strict_json import parse_json
from tellapart.data.validation import describe_changes
from tellapart.errors import DataError, RunError, first_line, require
from tellapart.records.run_folder import write_text_file
from tellapart.training.checkpoint import latest_checkpoint
from tellapart.training.config import LogConfig

if TYPE_CHECKING:
    from tellapart.training.losses.loss import LossTerm


#: Ends of the interval of a validation value, in a log.
ENDS = ("validation_low", "validation_high")
#: Fields of a log's line that are not terms of the loss.
NOT_TERMS = {"step", "gradient_norm", "learning_rate", "scale", "moved_loss", "moved_gradient", "lora_layers", *ENDS}
NOT_TERMS |= {"rows_same_caption", "rows_same_picture", "texts_cut"}

#: Steps after which a term that was always 0 is named.
IDLE_STEPS = 50


def find_idle_terms(log: Path, first: int = IDLE_STEPS) -> tuple[str, ...]:
    """Return the terms that a run's log has as exactly 0 at each of its first steps: none had a gradient."""
    lines = (line for _, line in read_jsonl(log) if "total" in line)
    steps = [{name: line[name] for name in line if name not in {*NOT_TERMS, "total"}} for line in islice(lines, first)]
    if len(steps) < first:
        return ()
    return tuple(term for term in steps[0] if all(step.get(term) == 0 for step in steps))


def describe_idle(idle: Sequence[str], terms: Sequence[LossTerm], first: int = IDLE_STEPS) -> str:
    """Name the idle terms, and the reason of their losses if one is declared."""
    # Terms of an added loss begin with its name and a dot.
    owners = {name.partition(".")[0] if "." in name else terms[0].name for name in idle if terms}
    reasons = dict.fromkeys(term.loss.idle_reason for term in terms if term.name in owners and term.loss.idle_reason)
    verb = "was" if len(idle) == 1 else "were"
    why = f": {'; '.join(reasons)}" if reasons else ""
    return f"{', '.join(idle)} {verb} 0 at each of the first {first} steps and had no gradient{why}"


#: Called with a step and its numbers.
Tracker = Callable[[int, Mapping[str, float]], None]


@contextmanager
def open_trackers(config: LogConfig, folder: Path, name: str) -> Iterator[list[Tracker]]:
    """Give a callable for each tracker of the configuration, which writes below the run's folder; close all at the end.

    Nothing is opened before the first number, so other ranks than the first, which log nothing, open nothing.
    """
    trackers, opened = list[Tracker](), dict[str, Any]()
    with ExitStack() as stack:
        if config.tensorboard:
            writer_class = require("torch.utils.tensorboard", extra="train").SummaryWriter

            def track_tensorboard(step: int, numbers: Mapping[str, float]) -> None:
                if "tensorboard" not in opened:
                    # A killed run may have written steps beyond its last checkpoint, which are taken again.
                    opened["tensorboard"] = writer_class(str(folder / "tensorboard"), purge_step=step)
                    stack.callback(opened["tensorboard"].close)
                for key, value in numbers.items():
                    opened["tensorboard"].add_scalar(key, value, step)
                opened["tensorboard"].flush()  # steps before a checkpoint are never written again

            trackers.append(track_tensorboard)
        if config.wandb is not None:
            wandb = require("wandb", extra="wandb")

            def track_wandb(step: int, numbers: Mapping[str, float]) -> None:
                if "wandb" not in opened:
                    # The run's id, so that a resumed run goes on in the same place; W&B drops steps that it has.
                    path = folder / "wandb-id.txt"
                    if not path.exists():
                        path.write_text(secrets.token_hex(8), encoding="utf-8")
                    same = {"id": path.read_text("utf-8"), "resume": "allow"}
                    opened["wandb"] = wandb.init(project=config.wandb, name=name, dir=str(folder), **same)
                    stack.callback(opened["wandb"].finish)
                opened["wandb"].log(dict(numbers), step=step)

            trackers.append(track_wandb)
        yield trackers


#: The file that names the run whose folder it is.
OWNER = "run.json"


@dataclass
class RunFiles:
    """A training run's folder, of which `run.json` names the run; trackers get each step's numbers beside the log.

    `best` is the file of the weights that did best on the validation set, `start` the folder of the start, if its
    weights were drawn for this run, `sweep` that of the weights between the start and the trained ones (WiSE-FT).
    """

    folder: Path
    trackers: list[Tracker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.checkpoints = self.folder / "checkpoints"
        self.best = self.folder / "best" / "weights.safetensors"
        self.model = self.folder / "model"
        self.start = self.folder / "start"
        self.report = self.folder / "report"
        self.sweep = self.folder / "wise"
        self.rounds = self.folder / "rounds"
        self.log_path = self.folder / "log.jsonl"

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the run that the folder holds, if it holds one."""
        owner = self._read_owner()
        return None if owner is None else str(owner["fingerprint"])

    def _read_owner(self) -> dict[str, Any] | None:
        path = self.folder / OWNER
        try:
            owner = read_object(path) if path.exists() else None
            if owner is not None and not ("fingerprint" in owner and isinstance(owner.get("values"), dict)):
                raise DataError("no fingerprint, or no table of values")
            return owner
        except DataError as error:
            raise RunError(f"{path}: is damaged ({first_line(error)}); train to a new folder with out=") from error

    def _write_owner(self, owner: Mapping[str, Any]) -> None:
        write_text_file(self.folder / OWNER, json.dumps(owner, ensure_ascii=False) + "\n")

    def fix_steps(self, measure: Callable[[], int]) -> int:
        """Return the steps that `run.json` holds, measured once: a run that goes on has the schedule that it began."""
        owner = self._read_owner() or {}
        if "steps" not in owner:
            self._write_owner(owner := {**owner, "steps": measure()})
        return int(owner["steps"])

    def claim(self, fingerprint: str, values: Mapping[str, Any] | None = None, *, resume: bool) -> bool:
        """Begin the run here, or go on with it; return whether there was one."""
        owner = self._read_owner()
        if owner is None:
            if self.folder.exists() and (not self.folder.is_dir() or {*self.folder.iterdir()} - {self.rounds}):
                raise RunError(f"{self.folder} holds something already; train to a new folder with out=")
            self._write_owner({"fingerprint": fingerprint, "values": values or {}})
            return False
        if owner["fingerprint"] != fingerprint:
            differing = describe_changes(owner["values"], values or {})
            raise RunError(
                f"{self.folder} holds another run: {differing or 'its configuration, data or start differ'}; "
                f"{self._propose_start()}train to a new folder with out="
            )
        if not resume:
            raise RunError(
                f"{self.folder} holds this run already; add resume=True to go on with it, or name a new out="
            )
        return True

    def _propose_start(self) -> str:
        """Name the trained model as the start of another run, if this one is complete."""
        record = self.folder / "record.json"
        name = read_object(record).get("model") if record.is_file() else None
        return "" if name is None else f"to train on from its weights, set model = {name!r}; in any case "

    def describe_kept(self) -> str | None:
        """Describe the state that `--resume` would go on from; None if the folder is not yet this run's."""
        if (self.folder / "record.json").is_file():
            return f"the run in {self.folder} is complete"
        checkpoint = latest_checkpoint(self.checkpoints)
        if checkpoint is None:
            if self.rounds.is_dir():
                return f"the rounds that are done are kept in {self.rounds}"
            begun = (self.folder / "run.json").is_file()
            return f"no step is kept yet, and {self.folder} is this run's" if begun else None
        step = int(checkpoint.name.removeprefix("step-"))
        return f"the checkpoint after step {step:,} is kept in {self.checkpoints}"

    def cut_log(self, step: int) -> None:
        """Drop the log's lines of steps after the last checkpoint: they are taken again."""
        if not self.log_path.exists():
            return
        lines = []
        for line in self.log_path.read_text(encoding="utf-8").splitlines():
            try:
                before = parse_json(line, self.log_path)["step"] <= step
            except (DataError, KeyError, TypeError):  # the line that was being written when the run was killed
                continue
            lines += [line + "\n"] if before else []
        write_text_file(self.log_path, "".join(lines))

    def sync_log(self) -> None:
        """Wait until the log is on the disk: a checkpoint's steps are not taken again, after a power cut either."""
        with self.log_path.open("rb") as file:
            os.fsync(file.fileno())
        sync_folder(self.folder)

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add a line to the log, and pass it to the trackers."""
        try:
            with self.log_path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **numbers}, allow_nan=False) + "\n")
        except OSError as error:
            raise RunError(
                f"{self.log_path}: cannot be written ({error}); make room for it, and go on with resume=True"
            ) from error
        for track in self.trackers:
            track(step, numbers)
