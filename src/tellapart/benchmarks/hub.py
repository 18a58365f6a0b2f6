"""Benchmarks on the Hugging Face hub: fetched once, at one revision, into the hub's cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated

from pydantic import ConfigDict, Field

from tellapart.benchmarks.locations import find_files
from tellapart.errors import DataError, MissingDependencyError, first_line, require
from tellapart.models.hub import reach_hub


@dataclass(frozen=True, slots=True)
class Hub:
    """A dataset on the hub, at the revision that results are comparable at.

    Attributes:
        repo: owner and name.
        revision: the commit; a branch would change under a result.
        files: the patterns of the files to fetch.
        gated: its conditions must be accepted on its page, and a token be there.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    repo: str
    revision: Annotated[str, Field(min_length=7)]
    files: tuple[str, ...]
    gated: bool = False

    @property
    def page(self) -> str:
        """The address of its page."""
        return f"https://huggingface.co/datasets/{self.repo}"

    def cached_folder(self) -> Path | None:
        """Return the folder of its files in the hub's cache, or None if they are not all there; no network is used."""
        try:
            hub = require("huggingface_hub", extra="hub")
            folder = Path(self._fetch_snapshot(hub, local_files_only=True))
        except Exception:  # not installed, not there, or a cache that is damaged: all mean that it must be fetched
            return None
        return folder if all(find_files(folder, pattern) for pattern in self.files) else None

    def expect(self) -> None:
        """Check, without the network, that fetching can begin."""
        if self.cached_folder() is None:
            if self.gated and not _find_token():
                raise DataError(self._explain_gate("and the token is missing"))
            require("huggingface_hub", extra="hub")

    def fetch(self) -> Path:
        """Return the folder of its files, fetching those that the hub's cache lacks."""
        self.expect()
        if (folder := self.cached_folder()) is not None:
            return folder
        hub = require("huggingface_hub", extra="hub")
        why = ""
        try:
            with reach_hub(hub) as why:
                return Path(self._fetch_snapshot(hub, local_files_only=False))
        except hub.errors.GatedRepoError as error:
            raise DataError(self._explain_gate("and your token gives no access to it")) from error
        except (hub.errors.HfHubHTTPError, hub.errors.LocalEntryNotFoundError, OSError, ValueError) as error:
            raise DataError(
                f"{self.repo} at {self.revision[:12]} is not in the hub's cache, and "
                f"{why or f'cannot be fetched ({first_line(error):.200});'} fetch it with a network, set "
                f"HF_HOME to a cache that has it, or get its files from {self.page} and name their folder with data="
            ) from error

    def _explain_gate(self, why: str) -> str:
        return (
            f"{self.repo} is gated (see {self.page}), {why}: accept its conditions there, then log in with "
            "`hf auth login` or set HF_TOKEN"
        )

    def _fetch_snapshot(self, hub: ModuleType, *, local_files_only: bool) -> str:
        return str(
            hub.snapshot_download(
                self.repo,
                repo_type="dataset",
                revision=self.revision,
                allow_patterns=[*self.files, *(f"*/{pattern}" for pattern in self.files)],
                local_files_only=local_files_only,
            )
        )


def _find_token() -> str | None:
    """Return the hub's token, as its package finds it, or the environment's if that is not installed."""
    try:
        token: str | None = require("huggingface_hub", extra="hub").get_token()
    except MissingDependencyError:
        return os.environ.get("HF_TOKEN")
    return token
