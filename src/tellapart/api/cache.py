"""The content of the cache folder, and how to make it smaller: the functions of `tellapart cache`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tellapart.api.arguments import PathGiven, as_names, as_path, expect_used
from tellapart.errors import StoreError, quote
from tellapart.models.store.embedding_store import EmbeddingStore, default_store_path
from tellapart.models.store.prepared import kept_preparations, prepared_path

__all__ = ["cache_ls", "cache_prune"]

#: SQLite's files next to a database while it is in use.
_BESIDE = ("", "-wal", "-shm")


def cache_ls(cache: PathGiven | None = None) -> dict[str, Any]:
    """Return the content of a cache folder: the vectors and scores of each model, the pictures of each preprocessing.

    Args:
        cache: the folder; the user's if not given.

    Raises:
        StoreError: a file in it is not a store, or is damaged.

    >>> import numpy as np
    >>> folder = getfixture("tmp_path")
    >>> with EmbeddingStore(folder / "store.sqlite") as store:
    ...     store.put_vectors("a fingerprint", {"00" * 32: np.ones(3, np.float32)})
    >>> cache_ls(folder)["models"]
    [{'fingerprint': 'a fingerprint', 'name': '', 'vectors': 1, 'scores': 0}]
    """
    store = _store_path(cache)
    models: list[dict[str, Any]] = []
    if store.exists():
        with EmbeddingStore(store) as opened:
            models = [asdict(model) for model in opened.models()]
    prepared = prepared_path(store)
    return {
        "folder": str(store.parent),
        "bytes": {store.name: _count_bytes(store), prepared.name: _count_bytes(prepared)},
        "models": models,
        "prepared": [asdict(each) for each in kept_preparations(prepared)],
    }


def cache_prune(
    cache: PathGiven | None = None,
    *,
    models: str | Sequence[str] = (),
    prepared: bool = False,
    everything: bool = False,
) -> dict[str, Any]:
    """Delete a cache folder's content, and return how many bytes that freed: `{"folder": ..., "freed": ...}`.

    All of it can be computed again. Answers of servers (`api:`), which may have cost money, are left alone.

    Args:
        cache: the folder; the user's if not given.
        models: whose vectors and scores to delete: names, fingerprints or beginnings of fingerprints of 8 letters.
        prepared: delete prepared pictures.
        everything: delete both, of all models, and the facts of pictures' files.

    Raises:
        StoreError: nothing was named, no model is called so, or a file is not a store or cannot be written.

    >>> import tellapart as ta
    >>> ta.cache_prune(getfixture("tmp_path"), everything=True)["freed"]
    0
    """
    chosen = as_names(models)
    if not (chosen or prepared or everything):
        raise StoreError("prune: nothing to delete is named: give models, prepared pictures, or everything")
    if everything:
        expect_used("prune", "with everything, which deletes them too", models=(chosen, ()), prepared=(prepared, False))
    store = _store_path(cache)
    before = _count_bytes(store) + _count_bytes(prepared_path(store))
    with ExitStack() as held:
        if (chosen or everything) and not (everything and not store.exists()):
            opened = held.enter_context(_require_store(store))
            opened.forget(
                None if everything else [each for name in chosen for each in _find_fingerprints(opened, name)]
            )
    if prepared or everything:
        try:
            for ending in _BESIDE:
                Path(f"{prepared_path(store)}{ending}").unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{prepared_path(store)} cannot be deleted: {error.strerror or error}") from error
    return {"folder": str(store.parent), "freed": before - _count_bytes(store) - _count_bytes(prepared_path(store))}


def _require_store(store: Path) -> EmbeddingStore:
    if not store.exists():
        raise StoreError(f"{store.parent} holds no embedding store; name the folder: cache=")
    return EmbeddingStore(store)


def _find_fingerprints(store: EmbeddingStore, name: str) -> list[str]:
    models = store.models()
    found = [
        each.fingerprint
        for each in models
        if name in {each.name, each.fingerprint} or (len(name) >= 8 and each.fingerprint.startswith(name))
    ]
    if not found:
        known = ", ".join(each.name or each.fingerprint[:12] for each in models[:10])
        raise StoreError(f"{store.where} holds nothing of model {quote(name)}; there are {known or 'none'}")
    return found


def _store_path(cache: PathGiven | None) -> Path:
    return default_store_path() if cache is None else as_path(cache, "cache").expanduser() / default_store_path().name


def _count_bytes(path: Path) -> int:
    return sum(file.stat().st_size for ending in _BESIDE if (file := Path(f"{path}{ending}")).exists())
