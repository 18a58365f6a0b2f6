"""The folder of a training run: what is in it, whose run it is, and its log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tellapart.errors import RunError
from tellapart.records.run_folder import write_whole

__all__ = ["RunFiles"]


@dataclass
class RunFiles:
    """A training run's folder.

    `run.json` names the run; `log.jsonl` has a line for each step; `checkpoints/` holds the last ones, `best/` the weights that
    did best; `model/` is the trained model when all is done.

    Attributes:
        folder: of the run.
        told: called with the step and its numbers, beside the log (TensorBoard).

    >>> RunFiles(Path("runs/a")).best
    PosixPath('runs/a/best/weights.safetensors')
    """

    folder: Path
    told: list[Callable[[int, Mapping[str, float]], None]] = field(default_factory=list)

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def best(self) -> Path:
        """File of the weights that did best on the validation set."""
        return self.folder / "best" / "weights.safetensors"

    @property
    def model(self) -> Path:
        """Folder of the trained model."""
        return self.folder / "model"

    @property
    def start(self) -> Path:
        """Folder of the start, where its weights were drawn for this run."""
        return self.folder / "start"

    @property
    def report(self) -> Path:
        """Run folder of the trained model, the start's beside it."""
        return self.folder / "report"

    @property
    def wise(self) -> Path:
        """Folder of the sweep between the start and the trained weights."""
        return self.folder / "wise"

    @property
    def log_path(self) -> Path:
        """One JSON object a line: the step and its numbers."""
        return self.folder / "log.jsonl"

    def claim(self, fingerprint: str, *, resume: bool) -> bool:
        """Begin the run here, or go on with it; return whether there was one.

        Args:
            fingerprint: of all that decides its weights.
            resume: whether the user asked to go on.

        Raises:
            RunError: the folder holds another run, or this one and `resume` is not set, or something else.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as scratch:
        ...     files = RunFiles(Path(scratch) / "run")
        ...     files.claim("0123", resume=False), files.claim("0123", resume=True)
        (False, True)
        """
        path = self.folder / "run.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))["fingerprint"]
        except FileNotFoundError:
            found = None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path}: is damaged ({error}); train to a new folder with --out") from error
        if found is None:
            if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
                raise RunError(f"{self.folder} holds something already; train to a new folder with --out")
            write_whole(path, json.dumps({"fingerprint": fingerprint}) + "\n")
            return False
        if found != fingerprint:
            raise RunError(
                f"{self.folder} holds another run: its configuration, data or start differ from these; train to a new folder "
                "with --out"
            )
        if not resume:
            raise RunError(f"{self.folder} holds this run already; add --resume to go on with it, or name a new --out")
        return True

    def cut_log(self, step: int) -> None:
        """Drop what the log says of steps after the last checkpoint: they are taken again.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as scratch:
        ...     files = RunFiles(Path(scratch))
        ...     files.log(1, {"total": 2.0}); files.log(2, {"total": 1.5}); files.cut_log(1)
        ...     files.log_path.read_text()
        '{"step": 1, "total": 2.0}\\n'
        """
        if not self.log_path.exists():
            return
        kept = []
        for line in self.log_path.read_text(encoding="utf-8").splitlines():
            try:
                fits = json.loads(line)["step"] <= step
            except (ValueError, KeyError, TypeError):  # the line that was being written when the run was killed
                continue
            kept += [line + "\n"] if fits else []
        write_whole(self.log_path, "".join(kept))

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add a line to the log, and tell whoever else is told.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as scratch:
        ...     RunFiles(Path(scratch)).log(1, {"total": 2.0})
        """
        with self.log_path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **numbers}, allow_nan=False) + "\n")
        for tell in self.told:
            tell(step, numbers)
