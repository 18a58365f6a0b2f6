"""Models that are loaded when something must be computed: a run that finds all in the store starts at once.

Importing torch and a model's library takes seconds, and so does building the model. What a run needs of it, if every score
is stored, is what the store filed them under. That is remembered under a key of all that the model is made of: its files'
contents, the options, this package's code and its libraries' versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import get_args

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import DualEncoder, Generator, Model, PairScorer, TextScorer
from tellapart.models.store import EmbeddingStore

__all__ = ["Deferred", "find_deferred", "source_key"]

#: Names whose model is made of files that lie here: a prefix, and what follows it.
_FOLDERS, _FILES = ("local-dir:", "hf:"), ("open_clip:",)
#: This package's code of all model families: a number may change with any of it.
_CODE = Path(__file__).parent
_SCORERS = (TextScorer, DualEncoder, PairScorer, Generator)
_LIBRARIES = ("numpy", "pillow", "torch", "torchvision", "open_clip_torch", "transformers", "tokenizers", "timm")


class Deferred:
    """What a model is called and filed under, and how to load it.

    Args:
        name: its own.
        fingerprint: what the store files its numbers under.
        kind: of its scores.
        load: makes the model.

    >>> from tellapart.models.reference import Oracle
    >>> model = Deferred("oracle", Oracle().fingerprint, "probability", Oracle)
    >>> type(model.load()).__name__
    'Oracle'
    """

    def __init__(self, name: str, fingerprint: str, kind: ScoreKind, load: Callable[[], Model]) -> None:
        self.name, self.fingerprint, self.kind = name, fingerprint, kind
        self._load = load
        self._loaded: Model | None = None

    @property
    def truncated(self) -> int:
        """Texts that lost their end, as the model counts them; none while it has read none."""
        return int(getattr(self._loaded, "truncated", 0))

    def load(self) -> Model:
        """Load the model, once.

        Raises:
            ModelError: its files changed since they were looked at, or it cannot be loaded.

        >>> from tellapart.models.reference import Constant, Oracle
        >>> Deferred("oracle", Oracle().fingerprint, "probability", Constant).load()
        Traceback (most recent call last):
        tellapart.errors.ModelError: model 'oracle' changed while it was being loaded; run it again
        """
        if self._loaded is None:
            model = self._load()
            if (model.name, model.fingerprint, model.kind) != (self.name, self.fingerprint, self.kind):
                raise ModelError(f"model {self.name!r} changed while it was being loaded; run it again")
            self._loaded = model
        return self._loaded


def find_deferred(name: str, options: ModelOptions, store: EmbeddingStore) -> Model | Deferred:
    """Return the model of that name: deferred, if the store remembers one made of the very same; else loaded.

    Raises:
        TellapartError: as `find_model`; or the store is damaged or cannot be written.

    >>> find_deferred("constant", ModelOptions(), EmbeddingStore(None)).kind
    'probability'
    """
    key = source_key(name, options)
    if key is None:
        return find_model(name, options)
    facts = store.model_of(key)
    if facts is not None and facts["kind"] in get_args(ScoreKind):
        kind: ScoreKind = facts["kind"]  # type: ignore[assignment]
        return Deferred(facts["name"], facts["fingerprint"], kind, partial(find_model, name, options))
    model = find_model(name, options)
    # One that only answers is asked anew each time; one with a prompt says which in every record.
    if isinstance(model, _SCORERS) and not hasattr(model, "prompt"):
        store.put_model(key, {"name": model.name, "fingerprint": model.fingerprint, "kind": model.kind})
    return model


def source_key(name: str, options: ModelOptions) -> str | None:
    """Return the SHA-256 of all that a model is made of; None where its files are not all known to lie here.

    >>> source_key("constant", ModelOptions()) is None
    True
    """
    files = _files_of(name)
    if files is None:
        return None
    files += [] if options.regions is None else [options.regions.expanduser()]
    facts = [name, repr(options), *(f"{library} {_version(library)}" for library in _LIBRARIES)]
    facts += [f"{path.relative_to(_CODE)} {_content(path)}" for path in sorted(_CODE.rglob("*.py"))]
    facts += [f"{path.name} {_content(path)}" for path in files]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _files_of(name: str) -> list[Path] | None:
    for prefix in _FOLDERS:
        if name.startswith(prefix):
            return _below(Path(name.removeprefix(prefix)).expanduser())
    for prefix in _FILES:
        if name.startswith(prefix) and "@" in name:
            file = Path(name.partition("@")[2]).expanduser()
            # What lies beside a checkpoint tells how it was trained.
            beside = [path for path in _below(file.parent, deep=False) or [] if path.suffix in {".json", ".txt"}]
            return [file, *beside] if file.is_file() else None
    return _below(Path(name).expanduser()) if (Path(name).expanduser() / "config.json").is_file() else None


def _below(folder: Path, *, deep: bool = True) -> list[Path] | None:
    if not folder.is_dir():
        return None
    return sorted(path for path in (folder.rglob("*") if deep else folder.glob("*")) if path.is_file())


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"
