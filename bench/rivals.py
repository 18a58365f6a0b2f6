"""The tools that are timed: their environments below `$TELLAPART_BENCH`, their commands, and what they found."""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DRIVERS = Path(__file__).resolve().parent / "drivers"

#: Tool -> what pip installs beside open_clip: itself, and what it imports and does not declare.
RIVALS = {
    "mteb": ("mteb[image]==2.26.24",),
    "clip-benchmark": ("clip-benchmark==1.6.2", "datasets", "requests"),
    "unibench": ("unibench==0.4.0", "setuptools<81"),
}

#: What runs in this environment: tellapart, and the loop that open_clip's users write, by the dtype of each.
OWN = {"tellapart": "float32", "tellapart-bfloat16": "bfloat16", "loop": "float32", "loop-bfloat16": "bfloat16"}

TOOLS = (*OWN, *RIVALS)

_TIMEOUT = 3 * 3600


class UnusableError(RuntimeError):
    """A tool cannot be timed here; says why."""


@dataclass(frozen=True)
class Job:
    """What every command is given; `model` has `architecture`, `file` and `folder`, `extra` what one driver needs."""

    sets: Path
    names: tuple[str, ...]
    model: dict[str, str]
    work: Path
    cores: int
    device: str = "cpu"
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One command: its wall time and its processor time in seconds, and set -> the accuracy it found."""

    seconds: float
    processor: float
    accuracy: dict[str, float]


def cache() -> Path:
    """Return the folder of environments, models and sets."""
    return Path(os.environ.get("TELLAPART_BENCH") or "~/.cache/tellapart-bench").expanduser()


def environment(tool: str) -> tuple[Path, str]:
    """Return the Python of a tool's environment, made if it is not there, and the tool's version."""
    home = cache() / f"venv-{tool}"
    python = home / "bin" / "python"
    if not (home / "installed").exists():
        shutil.rmtree(home, ignore_errors=True)
        constraints = ["-c", str(ROOT / "ci" / "pins.txt")]
        _expect(tool, [sys.executable, "-m", "venv", str(home)])
        _expect(tool, [str(python), "-m", "pip", "install", "-q", *constraints, *RIVALS[tool], "open_clip_torch"])
        (home / "installed").touch()
    shown = _expect(tool, [str(python), "-c", f"from importlib.metadata import version; print(version({tool!r}))"])
    return python, shown.strip()


def _expect(tool: str, command: list[str], variables: dict[str, str] | None = None, log: Path | None = None) -> str:
    """Run a command and return what it printed; its output goes to a log, if one is named."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=variables or _variables(), check=False, timeout=_TIMEOUT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UnusableError(f"{tool}: took more than {_TIMEOUT / 3600:g} hours") from None
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        source = f"all of it in {log}" if log else f"of {' '.join(command[:6])} ..."
        raise UnusableError(f"{tool}: {last} ({source})")
    return done.stdout


def _variables() -> dict[str, str]:
    home = str(cache() / "home")
    return {
        **os.environ,
        "HF_HOME": f"{home}/huggingface",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "MTEB_CACHE": f"{home}/mteb",
        "UNIBENCH_HUB": f"{home}/unibench",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONWARNINGS": "ignore",
    }


def make_model(architecture: str, seed: int = 0) -> dict[str, str]:
    """Save an architecture of open_clip with random weights: as a file of weights and as a `local-dir:` folder."""
    home = cache() / "models" / f"{architecture}-{seed}"
    file = home / "open_clip_model.safetensors"
    if not file.exists():
        from tellapart.models.torch.backend import import_torch

        torch = import_torch()
        import open_clip
        from safetensors.torch import save_file

        torch.manual_seed(seed)
        model = open_clip.create_model(architecture, pretrained=None)
        config = {"model_cfg": open_clip.get_model_config(architecture), "preprocess_cfg": model.visual.preprocess_cfg}
        home.mkdir(parents=True, exist_ok=True)
        (home / "open_clip_config.json").write_text(json.dumps(config))
        save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, file)
    return {"architecture": architecture, "file": str(file), "folder": str(home)}


def prepare(tool: str, job: Job) -> None:
    """Let a tool convert the sets to what it reads: once, and not timed, as no download would be."""
    home = job.work / tool
    stamp = home / f"prepared-{(job.sets / 'stamp.json').stat().st_mtime_ns}"
    if not stamp.exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        _drive(tool, "prepare", job)
        stamp.touch()


def run_tool(tool: str, job: Job, *, warm: bool) -> Run:
    """Time one command. Cold: nothing is kept of an earlier one; warm: the same again; a loop keeps nothing."""
    if not warm:
        shutil.rmtree(state_of(tool, job), ignore_errors=True)
    began, before = time.perf_counter(), _processor()
    if tool.startswith("tellapart"):
        found = _run_tellapart(tool, job, warm=warm)
    else:
        output = _drive(tool, "warm" if warm else "cold", job)
        said = [line.split() for line in output.splitlines() if line.startswith("RESULT ")]
        found = {name: float(value) for _, name, value in said}
    return Run(time.perf_counter() - began, _processor() - before, found)


def _processor() -> float:
    """Return the processor seconds of all commands so far, their workers included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_forward(job: Job) -> tuple[float, float, float]:
    """Return the seconds of the bare forward passes over images and over texts, and the processor seconds of both."""
    output = _drive("forward", "run", job)
    images, texts, processor = next(line.split()[1:] for line in output.splitlines() if line.startswith("FORWARD "))
    return float(images), float(texts), float(processor)


def state_of(tool: str, job: Job) -> Path:
    """Return the folder of what a tool keeps; tellapart's runs are in it."""
    return job.work / tool / f"state-{job.model['architecture']}-{'+'.join(job.names)}"


def _drive(tool: str, action: str, job: Job) -> str:
    python = environment(tool)[0] if tool in RIVALS else Path(sys.executable)
    home = job.work / tool
    home.mkdir(parents=True, exist_ok=True)
    state = state_of(tool, job)
    state.mkdir(parents=True, exist_ok=True)
    told = vars(job) | job.extra | {"home": home, "state": state, "dtype": OWN.get(tool)}
    file = home / "job.json"
    file.write_text(json.dumps(told, default=str))
    driver = DRIVERS / f"{'loop' if tool in OWN else tool.replace('-', '_')}_driver.py"
    return _finish(tool, [str(python), str(driver), action, str(file)], job)


def _run_tellapart(tool: str, job: Job, *, warm: bool) -> dict[str, float]:
    # Warm: with the store that the cold run filled, into a new run folder: measured again, unlike in the others.
    state = state_of(tool, job)
    out = state / ("warm" if warm else "cold")
    shutil.rmtree(out, ignore_errors=True)
    sets = [argument for name in job.names for argument in ("-b", f"folder:{job.sets / name}")]
    command = [
        sys.executable, "-m", "tellapart", "run", "-m", f"local-dir:{job.model['folder']}", *sets,
        "--device", job.device, "--dtype", OWN[tool],
        "--cache", str(state / "store"), "--out", str(out), "--json",
    ]  # fmt: skip
    _finish(tool, command, job)
    found = json.loads((out / "results.json").read_text())["benchmarks"]
    wanted = {name: "group_score" if name == "winoground" else "choice_score" for name in job.names}
    return {name: found[f"folder:{name}"]["metrics"][metric]["value"] for name, metric in wanted.items()}


def _finish(tool: str, command: list[str], job: Job) -> str:
    variables = _variables() | ({"CUDA_VISIBLE_DEVICES": ""} if job.device == "cpu" else {})
    return _expect(tool, command, variables, job.work / tool / "last.log")
