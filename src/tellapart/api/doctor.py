"""What this installation can do: Python, extras, device, cache, and whether the hub answers."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tellapart.data.arguments import PathGiven
from tellapart.errors import MissingDependencyError, require
from tellapart.models.hub import reach_hub
from tellapart.models.store.cache import cache_ls
from tellapart.report.tables import text_table
from tellapart.report.terminal import print_tables

#: What each extra adds, for users; `docs` and `dev` are for work on tellapart itself.
EXTRAS = {
    "models": "models of open_clip and transformers",
    "st": "models of sentence-transformers",
    "hub": "benchmarks of the hub, parquet files, push",
    "train": "train, mine, merge",
    "board": "serve, board",
    "plot": "figures for papers",
    "logs": "logs of Inspect and VLMEvalKit",
    "build": "all builders: the next four",
    "render": "the builder of rendered scenes",
    "video": "pairs from films, and films as media",
    "diffusion": "builders with diffusion models",
    "captions": "builders of captions and false captions",
    "regions": "models that read a detector's regions",
    "ray": "runs on a Ray cluster",
    "wandb": "curves of a training in Weights & Biases",
}
#: A requirement of the package's metadata, such as `torch>=2.1; extra == "models"`: the package, and the extra.
_NEED = re.compile(r"""([\w.-]+).*;.*\bextra == ['"]([\w-]+)['"].*""")


@dataclass(frozen=True, slots=True)
class Installation:
    """What `doctor` sees; `show()` prints it on one screen.

    Attributes:
        version: of tellapart.
        folder: of the package.
        python: its version and program.
        system: operating system, processor, and number of cores.
        device: what torch computes on by default, or a line on how to install torch.
        cache: the folder of vectors and scores that runs keep.
        cache_bytes: of its files.
        hub: the address of the Hugging Face hub, and whether it answers.
        extras: `name`, what it `adds`, and packages that are `missing`, of all but those for work on tellapart itself.
    """

    version: str
    folder: str
    python: str
    system: str
    device: str
    cache: str
    cache_bytes: int
    hub: str
    extras: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the attributes as JSON has them."""
        return asdict(self)

    def show(self) -> None:
        """Print it as `tellapart doctor` does."""
        facts = [("tellapart", f"{self.version} in {self.folder}")]
        facts += [(name, getattr(self, name.lower())) for name in ("Python", "system", "device", "hub")]
        facts += [("cache", f"{self.cache}, {self.cache_bytes / 1e6:.1f} MB")]
        rows = [(extra["name"], extra["adds"], _write_missing(**extra)) for extra in self.extras]
        print_tables(text_table("", "", rows=facts, folds=True))
        print_tables(text_table("extra", "adds", "here", rows=rows, folds=True))


def _write_missing(name: str, missing: Sequence[str], **_: str) -> str:
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f'missing: {", ".join(missing[:3])}{more}; pip install "tellapart[{name}]"' if missing else "installed"


def doctor(cache: PathGiven | None = None) -> Installation:
    """Look at this installation, and ask the Hugging Face hub once whether it answers.

    Args:
        cache: folder of the embedding store; the user's if not given.

    Raises:
        StoreError: the cache was written by a newer version, or cannot be read.

    >>> getfixture("monkeypatch").setenv("HF_HUB_OFFLINE", "1")
    >>> doctor(getfixture("tmp_path")).extras[0]["adds"]
    'models of open_clip and transformers'
    """
    package = importlib.metadata.distribution("tellapart")
    listed, needs = cache_ls(cache), package.requires or []
    return Installation(
        version=package.version,
        folder=str(Path(__file__).parents[1]),
        python=f"{platform.python_version()} in {sys.executable}",
        system=f"{platform.platform(terse=True)}, {platform.machine()}, {os.cpu_count()} cores",
        device=_ask("torch", "models", _describe_device),
        cache=listed["folder"],
        cache_bytes=sum(listed["bytes"].values()),
        hub=_ask("huggingface_hub", "hub", _describe_hub),
        extras=tuple({"name": name, "adds": EXTRAS[name], "missing": _find_missing(needs, name)} for name in EXTRAS),
    )


def _find_missing(needs: Iterable[str], extra: str) -> tuple[str, ...]:
    packages = (parts[1] for parts in map(_NEED.fullmatch, needs) if parts and parts[2] == extra)
    return tuple(package for package in packages if not _is_installed(package))


def _is_installed(package: str) -> bool:
    return next(iter(importlib.metadata.Distribution.discover(name=package)), None) is not None


def _ask(package: str, extra: str, describe: Callable[[Any], str]) -> str:
    try:
        return describe(require(package, extra=extra))
    except MissingDependencyError:
        return f"{package} is not installed; it comes with tellapart[{extra}]"


def _describe_device(torch: Any) -> str:
    if torch.cuda.is_available():
        return f"cuda, {torch.cuda.get_device_name()}; torch {torch.__version__}"
    return f"{'mps' if torch.backends.mps.is_available() else 'cpu'}; torch {torch.__version__}"


def _describe_hub(hub: Any) -> str:
    token = "a token is set" if hub.get_token() else "no token"
    if hub.constants.HF_HUB_OFFLINE:
        return f"offline: HF_HUB_OFFLINE is set; {token}"
    with reach_hub(hub) as why:
        return f"{why.rstrip(';')}; {token}" if why else f"{hub.constants.ENDPOINT} answers; {token}"
