"""Models that are loaded only when something must be computed: a run that finds all in the store starts at once.

If every score is stored, a run needs only the fingerprint that the store filed them under. The store remembers it under
a key of all that makes the model: the contents of its files, the options, this package's code and its libraries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import get_args

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.find import find_model, find_prefix
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import files_below
from tellapart.models.protocols import DualEncoder, Generator, Model, NoteTaker, PairScorer, TextScorer
from tellapart.models.store.embedding_store import EmbeddingStore, library_versions

#: This package's code of all model families: a number may change with any of it.
_CODE = Path(__file__).parents[1]
_SCORERS = (TextScorer, DualEncoder, PairScorer, Generator)


@dataclass(eq=False)
class Deferred:
    """The identity of a model that is not loaded yet, and how to make it."""

    name: str
    fingerprint: str
    kind: ScoreKind
    make: Callable[[], Model]
    texts: str = ""
    provenance: str = ""
    notes: str = ""
    _loaded: Model | None = field(default=None, init=False)

    @property
    def truncated(self) -> int:
        """Texts that lost their end, as the model counts them; 0 while it has read none."""
        return int(getattr(self._loaded, "truncated", 0))

    def take_notes(self) -> tuple[str, ...]:
        """Return what a user should know of the model, a sentence each."""
        return tuple(self.notes.splitlines())

    def load(self) -> Model:
        """Load the model, once."""
        if self._loaded is None:
            model = self.make()
            if (model.name, model.fingerprint, model.kind) != (self.name, self.fingerprint, self.kind):
                raise ModelError(f"model {self.name!r} changed while it was being loaded; run it again")
            self._loaded = model
        return self._loaded


def find_deferred(name: str, options: ModelOptions, store: EmbeddingStore) -> Model | Deferred:
    """Return the model of that name: deferred if the store remembers one made of exactly the same, else loaded."""
    key = source_key(name, options)
    if key is None:
        return find_model(name, options)
    facts = store.model_of(key)
    if facts is not None and facts["kind"] in get_args(ScoreKind):
        return Deferred(make=partial(find_model, name, options), **facts)  # type: ignore[arg-type]
    model = find_model(name, options)
    # Not of a model that only answers, which is asked again each time, nor of one whose prompt every record names.
    if isinstance(model, _SCORERS) and not hasattr(model, "prompt"):
        facts = {fact: getattr(model, fact, "") for fact in ("name", "fingerprint", "kind", "texts", "provenance")}
        facts["notes"] = "\n".join(model.take_notes()) if isinstance(model, NoteTaker) else ""
        store.put_model(key, facts)
    return model


def source_key(name: str, options: ModelOptions) -> str | None:
    """Return the SHA-256 of all that a model is made of; None if some of its files may not lie here."""
    prefix = find_prefix(name)
    files = None if prefix is None else prefix.files(name)
    if files is None:
        return None
    files = [*files, *([options.regions.expanduser()] if options.regions else [])]
    files += files_below(str(options.tokenizer)) or () if options.tokenizer else ()
    facts = [name, repr(options), *library_versions()]
    facts += [f"{path.relative_to(_CODE)} {_content_hash(path)}" for path in sorted(_CODE.rglob("*.py"))]
    facts += [f"{path.name} {_content_hash(path)}" for path in files]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _content_hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
