"""The place of the user's store."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path

from tellapart.data.arguments import as_path, home_folder
from tellapart.errors import StoreError, TellapartWarning


def default_store_path() -> Path:
    """Return the store's file: in `TELLAPART_CACHE`, or else in the user's cache folder.

    A user without a home folder gets one in the folder of temporary files, which a warning names.
    """
    if folder := os.environ.get("TELLAPART_CACHE"):
        return as_path(folder, "TELLAPART_CACHE", StoreError) / "store.sqlite"
    if base := os.environ.get("XDG_CACHE_HOME"):
        return as_path(base, "XDG_CACHE_HOME", StoreError) / "tellapart" / "store.sqlite"
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
