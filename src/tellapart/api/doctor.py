"""What this installation can do: Python, extras, device, cache, and whether the hub answers."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tellapart.data.arguments import PathGiven
from tellapart.errors import MissingDependencyError, require
from tellapart.models.hub import reach_hub
from tellapart.models.store.cache import cache_ls
from tellapart.report.terminal import print_tables, table

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
_NEED = re.compile(r"""([\w.-]+).*;.*\bextra == ['"]([\w-]+)['"].*""")


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra, what it adds, and its packages that are missing.

    >>> Extra("ray", "runs on a Ray cluster", ("ray",)).missing
    ('ray',)
    """

    name: str
    adds: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Installation:
    """What `doctor` sees; `show()` prints it on one screen.

    Attributes:
        version: of tellapart.
        folder: of the package.
        python: its version and program.
        system: operating system, processor, and number of cores.
        device: what torch computes on by default; without torch it says so.
        cache: the folder of vectors and scores that runs keep.
        cache_bytes: of its files.
        hub: the address of the Hugging Face hub, and whether it answers.
        extras: all but those for work on tellapart itself.
    """

    version: str
    folder: str
    python: str
    system: str
    device: str
    cache: str
    cache_bytes: int
    hub: str
    extras: tuple[Extra, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the attributes as JSON has them."""
        return asdict(self)

    def show(self) -> None:
        """Print the facts, then each extra with what is missing."""
        facts = [
            ("tellapart", f"{self.version} in {self.folder}"),
            ("Python", self.python),
            ("system", self.system),
            ("device", self.device),
            ("cache", f"{self.cache}, {self.cache_bytes / 1e6:.1f} MB"),
            ("hub", self.hub),
        ]
        rows = [(extra.name, extra.adds, _state(extra)) for extra in self.extras]
        print_tables(table("", "", rows=facts, folds=True), table("extra", "adds", "here", rows=rows, folds=True))


def _state(extra: Extra) -> str:
    if not extra.missing:
        return "installed"
    names, more = ", ".join(extra.missing[:3]), len(extra.missing) - 3
    return f'missing: {names}{f" and {more} more" if more > 0 else ""}; pip install "tellapart[{extra.name}]"'


def doctor(cache: PathGiven | None = None) -> Installation:
    """Look at this installation, and ask the Hugging Face hub once whether it answers.

    Args:
        cache: folder of the embedding store; the user's if not given.

    Raises:
        StoreError: the cache was written by a newer version, or cannot be read.

    >>> getfixture("monkeypatch").setenv("HF_HUB_OFFLINE", "1")
    >>> doctor(getfixture("tmp_path")).extras[0].adds
    'models of open_clip and transformers'
    """
    package = importlib.metadata.distribution("tellapart")
    listed = cache_ls(cache)
    return Installation(
        version=package.version,
        folder=str(Path(__file__).parents[1]),
        python=f"{platform.python_version()} in {sys.executable}",
        system=f"{platform.platform(terse=True)}, {platform.machine()}, {os.cpu_count()} cores",
        device=_device(),
        cache=listed["folder"],
        cache_bytes=sum(listed["bytes"].values()),
        hub=_ask_hub(),
        extras=tuple(_find_extras(package.requires or [])),
    )


def _find_extras(requirements: list[str]) -> list[Extra]:
    needs: dict[str, list[str]] = {name: [] for name in EXTRAS}
    for requirement in requirements:
        if (parts := _NEED.fullmatch(requirement)) and parts[2] in needs:
            needs[parts[2]].append(parts[1])
    return [Extra(name, EXTRAS[name], tuple(filter(_is_missing, names))) for name, names in needs.items()]


def _is_missing(package: str) -> bool:
    with suppress(importlib.metadata.PackageNotFoundError):
        return not importlib.metadata.version(package)
    return True


def _device() -> str:
    try:
        torch: Any = require("torch", extra="models")
    except MissingDependencyError:
        return "torch is not installed; models that need it come with tellapart[models]"
    if torch.cuda.is_available():
        return f"cuda, {torch.cuda.get_device_name()}; torch {torch.__version__}"
    return f"{'mps' if torch.backends.mps.is_available() else 'cpu'}; torch {torch.__version__}"


def _ask_hub() -> str:
    try:
        hub: Any = require("huggingface_hub", extra="hub")
    except MissingDependencyError:
        return "huggingface_hub is not installed; it comes with tellapart[hub]"
    token = "a token is set" if hub.get_token() else "no token"
    if hub.constants.HF_HUB_OFFLINE:
        return f"offline: HF_HUB_OFFLINE is set; {token}"
    with reach_hub(hub) as why:
        return f"{why.rstrip(';')}; {token}" if why else f"{hub.constants.ENDPOINT} answers; {token}"
