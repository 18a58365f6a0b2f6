"""The folder of a training run: its files, which run it belongs to, and its log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tellapart.data.atomic import sync_folder
from tellapart.data.rows import read_object
from tellapart.data.strict_json import parse_json
from tellapart.data.validation import describe_changes
from tellapart.errors import DataError, RunError, first_line
from tellapart.records.run_folder import write_text_file
from tellapart.training.checkpoint import latest_checkpoint
from tellapart.training.trackers import Tracker

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
