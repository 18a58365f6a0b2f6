"""The folder of a training run: `run.json`, which names the run, its checkpoints, and its log, for trackers, too."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from tellapart.data.atomic import sync_folder
from tellapart.data.rows import read_jsonl, read_object
from tellapart.data.scores import join_names
from tellapart.data.strict_json import parse_json, read_whole
from tellapart.data.validation import describe_changes
from tellapart.errors import DataError, ModelError, RunError, first_line, require
from tellapart.records.run_folder import write_text_file
from tellapart.training.config import LogConfig
from tellapart.training.lazy_torch import torch
from tellapart.training.losses.loss import LossTerm

#: Tensors of a module by name: trained parameters, and buffers.
Weights = dict[str, "torch.Tensor"]

#: The name of a checkpoint's folder, by the steps done; sorted names are in the order of steps.
_FOLDER = "step-{:08d}"

#: The files of a checkpoint, and the file of their SHA-256, as `sha256sum --check` reads it.
_FILES, _SUMS = ("weights.safetensors", "optimiser.safetensors", "state.json"), "SHA256SUMS"


@dataclass
class TrainingState:
    """The progress of a run: steps done, the best value of the validation set, and the step after which it was reached.

    `history` has the values of the validation set by step. `right` has each item's outcome, 1 or 0, at the last
    measurement that was better beyond doubt, and `unmoved` counts the measurements since then. `stopped` is true once
    `validation.patience` is over. `best_sha256` is of the file of the best weights, `run` the fingerprint of the run.
    """

    step: int = 0
    best: float | None = None
    best_step: int | None = None
    history: list[tuple[int, float]] = field(default_factory=list)
    right: list[float] = field(default_factory=list)
    unmoved: int = 0
    stopped: bool = False
    best_sha256: str | None = None
    run: str | None = None


def weights_of(module: torch.nn.Module) -> Weights:
    """Return copies of the trained parameters and of the buffers that are saved, on the CPU; a shared tensor once."""
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    saved = set(module.state_dict())
    buffers = {name: value for name, value in module.named_buffers() if name in saved}
    return {name: value.detach().cpu().contiguous().clone() for name, value in (trained | buffers).items()}


def copy_weights(weights: Weights, module: torch.nn.Module) -> None:
    """Copy weights into a module that has the same names, shapes and types."""
    expected = {(name, value.shape, value.dtype) for name, value in weights_of(module).items()}
    stated = {(name, value.shape, value.dtype) for name, value in weights.items()}
    if odd := sorted({name for name, *_ in stated ^ expected}):
        raise ModelError(f"other weights than the model's: {join_names(odd)} in one alone, or of another shape or type")
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    with torch.no_grad():
        for name, value in weights.items():
            tensors[name].copy_(value)


def read_weights(path: Path, module: torch.nn.Module, sha256: str | None) -> None:
    """Copy weights of a file, of this SHA-256, into a module that has the same names, shapes and types."""
    if _digest(path) != sha256:
        raise RunError(f"{path}: has another SHA-256 than this run's best weights; train to a new folder")
    copy_weights(require("safetensors.torch", extra="train").load_file(path), module)


def write_folder(folder: Path, files: Mapping[str, Weights | dict[str, Any]]) -> dict[str, str]:
    """Write safetensors and JSON files, and return their SHA-256; the folder exists only once all are on the disk."""
    with replace_folder(folder) as draft:
        draft.mkdir()
        for name, content in files.items():
            if name.endswith(".json"):
                (draft / name).write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
            else:
                require("safetensors.torch", extra="train").save_file(content, draft / name)
        sums = {name: _digest(draft / name) for name in files}
        (draft / _SUMS).write_text("".join(f"{sha256}  {name}\n" for name, sha256 in sums.items()), encoding="utf-8")
    return sums


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Give the path of a draft to create and fill, which takes the name of `folder` in the end."""
    broken = require("safetensors", extra="train").SafetensorError
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for old in folder.parent.glob(f".{folder.name}-????????"):  # drafts of killed processes; tempfile adds 8 signs
            shutil.rmtree(old)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            draft = Path(scratch) / folder.name
            yield draft
            sync_folder(draft, deep=True)
            if folder.exists():  # written by a run that was killed before its next checkpoint, and resumed
                shutil.rmtree(folder)
            draft.rename(folder)
            sync_folder(folder.parent)
    except (OSError, broken) as error:
        raise RunError(f"{folder}: cannot be written ({error}); make room, and go on with resume=True") from error


def write_checkpoint(
    folder: Path, module: torch.nn.Module, optimiser: torch.optim.Optimizer, state: TrainingState, *, keep: int
) -> None:
    """Write `step-N` below the folder of the checkpoints, and delete all but the last `keep`."""
    moments = {
        f"{name}:{key}": value.detach().cpu().contiguous().clone()
        for name, parameter in module.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }
    contents = weights_of(module), moments, asdict(state)
    write_folder(folder / _FOLDER.format(state.step), dict(zip(_FILES, contents, strict=True)))
    delete_older(folder, keep)


def delete_older(folder: Path, keep: int) -> None:
    """Delete all checkpoints before the last `keep`, partly deleted ones among them."""
    checkpoints = _complete_checkpoints(folder)[-keep:]
    for old in folder.glob("step-*"):
        if checkpoints and old < checkpoints[0]:
            shutil.rmtree(old)


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the last complete checkpoint of a folder; None if there is none."""
    return max(_complete_checkpoints(folder), default=None)


def read_checkpoint(checkpoint: Path, module: torch.nn.Module, optimiser: torch.optim.Optimizer) -> TrainingState:
    """Restore weights and moments, and return the state; files that are not as they were written are refused."""
    sums = checkpoint / _SUMS
    lines = read_whole(sums).decode("utf-8", "replace").splitlines() if sums.is_file() else []
    if changed := [name for name in _FILES if f"{_digest(checkpoint / name)}  {name}" not in lines]:
        raise RunError(f"{checkpoint}: {join_names(changed)} are not those of {_SUMS}; delete {checkpoint}, and go on")
    values = read_object(checkpoint / "state.json")
    if odd := sorted(values.keys() ^ asdict(TrainingState()).keys()):
        raise RunError(f"{checkpoint}: state.json is of another version ({join_names(odd)}); train to a new folder")
    state = TrainingState(**values | {"history": [(step, value) for step, value in values["history"]]})
    if checkpoint.name != _FOLDER.format(state.step):
        raise RunError(f"{checkpoint}: state.json is of step {state.step}; delete {checkpoint} and go on")
    parameters = {name: value for name, value in module.named_parameters() if value.requires_grad}
    load = require("safetensors.torch", extra="train").load_file
    weights, moments = (load(checkpoint / name) for name in _FILES[:2])
    try:
        copy_weights(weights, module)
        if odd := sorted({name.rpartition(":")[0] for name in moments} - parameters.keys()):
            raise ModelError(f"moments of {join_names(odd)}, not trained here")
    except ModelError as error:
        raise RunError(f"{checkpoint}: holds {error}; it is another run's: train to a new folder") from error
    for name, value in moments.items():
        parameter, key = parameters[name.rpartition(":")[0]], name.rpartition(":")[2]
        # AdamW counts steps on the CPU; moments lie on the device of their parameter.
        optimiser.state[parameter][key] = value if key == "step" else value.to(parameter.device)
    return state


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; an empty text, which no file has, if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _complete_checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if (path / "state.json").is_file())


#: Ends of the interval of a validation value, in a log.
ENDS = ("validation_low", "validation_high")
#: Fields of a log's line that are not terms of the loss.
NOT_TERMS = {"step", "gradient_norm", "learning_rate", "scale", "moved_loss", "moved_gradient", "lora_layers", *ENDS}
NOT_TERMS |= {"rows_same_caption", "rows_same_picture", "texts_cut"}

#: Steps after which a term that was always 0 is named.
IDLE_STEPS = 50


def describe_idle(log: Path, terms: Sequence[LossTerm], first: int = IDLE_STEPS) -> str:
    """Name the terms that a log has as exactly 0 at each of its first steps, and why if their loss declares a reason.

    A term that stays exactly 0 is taken to have no gradient. Empty if no term does, or if the log has fewer steps.
    """
    steps = [*islice((line for _, line in read_jsonl(log) if "total" in line), first)]
    if len(steps) < first:
        return ""
    names = [name for name in steps[0] if name not in {*NOT_TERMS, "total"}]
    idle = [name for name in names if all(step.get(name) == 0 for step in steps)]
    if not idle:
        return ""
    # A term of an added loss is named `LOSS.TERM`; a term of the first loss has no dot.
    owners = {name.partition(".")[0] if "." in name else terms[0].name for name in idle if terms}
    reasons = dict.fromkeys(term.loss.idle_reason for term in terms if term.name in owners and term.loss.idle_reason)
    verb = "was" if len(idle) == 1 else "were"
    why = f": {'; '.join(reasons)}" if reasons else ""
    return f"{', '.join(idle)} {verb} 0 at each of the first {first} steps and had no gradient{why}"


#: A function that records a step and its numbers elsewhere.
Tracker = Callable[[int, Mapping[str, float]], None]


@contextmanager
def open_trackers(config: LogConfig, folder: Path, name: str) -> Iterator[list[Tracker]]:
    """Yield a function for each tracker, which opens the tracker at its first numbers; close all in the end."""
    trackers, opened = list[Tracker](), dict[str, Any]()
    with ExitStack() as stack:
        if config.tensorboard:
            writer_class = require("torch.utils.tensorboard", extra="train").SummaryWriter

            def track_tensorboard(step: int, numbers: Mapping[str, float]) -> None:
                if "board" not in opened:
                    # A killed run may have written steps beyond its last checkpoint, which are taken again.
                    opened["board"] = stack.enter_context(writer_class(str(folder / "tensorboard"), purge_step=step))
                for key, value in numbers.items():
                    opened["board"].add_scalar(key, value, step)
                opened["board"].flush()  # steps before a checkpoint are never written again

            trackers.append(track_tensorboard)
        if config.wandb is not None:
            wandb, path = require("wandb", extra="wandb"), folder / "wandb-id.txt"

            def track_wandb(step: int, numbers: Mapping[str, float]) -> None:
                if "wandb" not in opened:
                    # The run's id, so that a resumed run goes on in the same place; W&B drops steps that it has.
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
    """A training run's folder; `log` writes each step's numbers to its log, and passes them to the trackers."""

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

    def read_owner(self) -> dict[str, Any] | None:
        """Return the content of `run.json`: the run's `fingerprint`, and the `values` behind it; None without a run."""
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
        owner = self.read_owner() or {}
        if "steps" not in owner:
            self._write_owner(owner := {**owner, "steps": measure()})
        return int(owner["steps"])

    def claim(self, fingerprint: str, values: Mapping[str, Any] | None = None, *, resume: bool) -> bool:
        """Write `run.json` for a run that begins, or check it; return whether the folder held the run already."""
        owner = self.read_owner()
        if owner is None:
            if self.folder.exists() and (not self.folder.is_dir() or {*self.folder.iterdir()} - {self.rounds}):
                raise RunError(f"{self.folder} holds something already; train to a new folder with out=")
            self._write_owner({"fingerprint": fingerprint, "values": values or {}})
            return False
        if owner["fingerprint"] != fingerprint:
            differing = describe_changes(owner["values"], values or {}) or "its configuration, data or start differ"
            record = self.folder / "record.json"
            model = read_object(record).get("model") if record.is_file() else None
            further = f"to train on from its weights, set model = {model!r}; in any case " if model else ""
            raise RunError(f"{self.folder} holds another run: {differing}; {further}train to a new folder with out=")
        if not resume:
            raise RunError(f"{self.folder} holds this run already; add resume=True to go on, or name a new out=")
        return True

    def describe_kept(self) -> str | None:
        """Describe the state that `--resume` would go on from; None if the run has not claimed the folder yet."""
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
            with suppress(DataError, KeyError, TypeError):  # the line that was being written when the run was killed
                lines += [line + "\n"] if parse_json(line, self.log_path)["step"] <= step else []
        write_text_file(self.log_path, "".join(lines))

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add a line to the log, and pass it to the trackers."""
        try:
            with self.log_path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **numbers}, allow_nan=False) + "\n")
        except OSError as error:
            fault = f"{self.log_path}: cannot be written ({error})"
            raise RunError(f"{fault}; make room, and go on with resume=True") from error
        for track in self.trackers:
            track(step, numbers)
