"""The cache folder: its store opened, its content listed and made smaller."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tellapart.data.arguments import PathGiven, as_names, as_path, expect_used, home_folder
from tellapart.data.atomic import take_lock
from tellapart.errors import StoreError, TellapartWarning, quote
from tellapart.models.store.embedding_store import (
    EmbeddingStore,
    kept_preparations,
    list_shards,
    prepared_path,
    shard_folder,
)
from tellapart.models.store.row_file import ENDINGS

#: The embedding store: its folder, a store that is open, False for one in memory, None for the user's.
CacheGiven: TypeAlias = PathGiven | EmbeddingStore | Literal[False] | None


def _file_in(folder: PathGiven | None) -> Path:
    return default_store_path() if folder is None else as_path(folder, "cache") / "store.sqlite"


def store_path(cache: CacheGiven = None) -> Path | None:
    """Return the file of an embedding store; None for one in memory."""
    if isinstance(cache, EmbeddingStore):
        return cache.path
    return None if cache is False else _file_in(cache)


def use_store(cache: CacheGiven = None) -> AbstractContextManager[EmbeddingStore]:
    """Return an embedding store, which its block closes; one that is open stays open."""
    return nullcontext(cache) if isinstance(cache, EmbeddingStore) else EmbeddingStore(store_path(cache))


def describe_stored(cache: CacheGiven = None) -> str | None:
    """Return the line on the embeddings that an interrupted command has left; None for a store in memory."""
    path = store_path(cache)
    return f"embeddings and scores that were computed are kept in {path}" if path else None


def cache_ls(cache: PathGiven | None = None) -> dict[str, Any]:
    """Return the content of a cache folder: the vectors and scores of each model, the pictures of each preprocessing.

    Kept audits, files that were set aside, and those of runs in several ranks, are listed with their bytes.

    Args:
        cache: the folder; the user's if not given.

    >>> import tellapart as ta
    >>> ta.cache_ls(getfixture("tmp_path"))["models"]
    []
    """
    store = _file_in(cache)
    models: list[dict[str, Any]] = []
    if store.exists():
        with EmbeddingStore(store) as opened:
            models = [asdict(model) for model in opened.models()]
    prepared = kept_preparations(prepared_path(store))
    return {"folder": str(store.parent), "bytes": _count_bytes(store), "models": models, "prepared": prepared}


def cache_prune(
    cache: PathGiven | None = None,
    *,
    models: str | Sequence[str] = (),
    prepared: bool = False,
    everything: bool = False,
) -> dict[str, Any]:
    """Delete a cache folder's content, and return how many bytes that freed: `{"folder": ..., "freed": ...}`.

    If nothing is named, leftovers alone: damaged files that were set aside, and drafts of ranks. All that it deletes
    can be computed again. Answers of servers (`api:`), which may have cost money, are left alone.

    Args:
        cache: the folder; the user's if not given.
        models: whose vectors and scores to delete: names, fingerprints or beginnings of fingerprints of 8 letters.
        prepared: delete prepared pictures.
        everything: delete both, of all models, the facts of pictures' files, kept audits, leftovers, and what
            interrupted ranks computed.

    >>> import tellapart as ta
    >>> ta.cache_prune(getfixture("tmp_path"), everything=True)["freed"]
    0
    """
    chosen = as_names(models)
    if everything:
        expect_used("prune", "with everything, which deletes them too", models=(chosen, ()), prepared=(prepared, False))
    store = _file_in(cache)
    before, leftovers = sum(_count_bytes(store).values()), everything or not (chosen or prepared)
    with ExitStack() as held:
        if leftovers and shard_folder(store).is_dir():
            if (lock := take_lock(shard_folder(store) / "lock")) is None:
                raise StoreError(f"prune: a run in several ranks fills {shard_folder(store)}; wait until it has ended")
            held.enter_context(lock)
        if (chosen or everything) and not (everything and not store.exists()):
            if not store.exists():
                raise StoreError(f"{store.parent} holds no embedding store; name the folder: cache=")
            opened = held.enter_context(EmbeddingStore(store))
            fingerprints = [fingerprint for name in chosen for fingerprint in _find_fingerprints(opened, name)]
            opened.forget(None if everything else fingerprints)
        files = [prepared_path(store)] if prepared or everything else []
        files += _list_leftovers(store, everything=everything) if leftovers else []
        try:
            for file in _parts_of(*files):
                file.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{error.filename} cannot be deleted: {error.strerror or error}") from error
    return {"folder": str(store.parent), "freed": before - sum(_count_bytes(store).values())}


def _list_leftovers(store: Path, *, everything: bool) -> list[Path]:
    """Return files that were set aside, and those of ranks that no run takes up; with everything all of ranks."""
    folder = shard_folder(store)
    shards = [] if everything else _parts_of(*list_shards(folder))
    aside = (file for path in (store, prepared_path(store)) for file in path.parent.glob(f"{path.name}.damaged-*"))
    audits = audit_folder(store).glob("*.json") if everything else ()
    of_ranks = (file for file in folder.glob("*") if file.name != "lock" and file not in shards)
    return sorted(file for file in (*aside, *of_ranks, *audits) if file.is_file())


def _find_fingerprints(store: EmbeddingStore, name: str) -> list[str]:
    models = store.models()
    found = [model.fingerprint for model in models if name in {model.name, model.fingerprint}]
    if len(name) >= 8:
        found += [model.fingerprint for model in models if model.fingerprint.startswith(name)]
    if not found:
        known = ", ".join(model.name or model.fingerprint[:12] for model in models[:10])
        raise StoreError(f"{store.where} holds nothing of model {quote(name)}; there are {known or 'none'}")
    return found


def _parts_of(*databases: Path) -> list[Path]:
    """Return SQLite's files of databases."""
    return [Path(f"{database}{ending}") for database in databases for ending in ENDINGS]


def _count_bytes(store: Path) -> dict[str, int]:
    """Return the bytes of the folder's files: of store and prepared pictures, and of each leftover that there is."""
    sizes = {}
    for path in (store, prepared_path(store)):
        sizes[path.name] = sum(file.stat().st_size for file in _parts_of(path) if file.exists())
    leftovers = _list_leftovers(store, everything=True)
    return sizes | {str(file.relative_to(store.parent)): file.stat().st_size for file in leftovers}


def default_store_path() -> Path:
    """Return the store's file: in `TELLAPART_CACHE`, or else in the user's cache folder.

    A user without a home folder gets one in the folder of temporary files, which a warning names.
    """
    for variable, below in (("TELLAPART_CACHE", ""), ("XDG_CACHE_HOME", "tellapart")):
        if folder := os.environ.get(variable):
            return as_path(folder, variable, StoreError) / below / "store.sqlite"
    home = home_folder()
    return (_temporary_folder() if home is None else home / ".cache" / "tellapart") / "store.sqlite"


def audit_folder(store: Path) -> Path:
    """Return the folder of the audits that are kept beside a store."""
    return store.parent / "audits"


def _temporary_folder() -> Path:
    """Return a folder of this user alone, the same for all of the user's processes."""
    user = os.getuid() if sys.platform != "win32" else 0
    folder = Path(tempfile.gettempdir()) / f"tellapart-{user}"
    remedy = "set TELLAPART_CACHE to a folder that lasts"
    warnings.warn(f"this user has no home folder: the cache is in {folder}; {remedy}", TellapartWarning, stacklevel=1)
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != user:
        raise StoreError(f"{folder} is another user's; {remedy}")
    return folder
