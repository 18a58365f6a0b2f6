"""Fetch files of the Hugging Face hub, from its local cache if possible; a hub that does not answer is asked once."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from tellapart.errors import ModelError, first_sentence, require

__all__ = ["fetch_file", "reach_hub"]

#: Seconds to wait for the hub's answer; on a slower network, set HF_HUB_ETAG_TIMEOUT, a variable of the hub's library.
_PATIENCE = 4.0

#: Status codes of a proxy in front of the hub, or of a hub that is down.
_DOWN = frozenset({500, 502, 503, 504})


@contextmanager
def reach_hub(hub: ModuleType) -> Iterator[str]:
    """Ask the hub once; if it does not answer, its library uses only its cache until the block ends.

    The library alone would ask twelve times, with pauses. Yield why the network is not used; "" if it is used.
    """
    if hub.constants.HF_HUB_OFFLINE:
        yield "HF_HUB_OFFLINE is set; unset it, or"
        return
    try:
        _ask_server(hub, hub.constants.ENDPOINT, int(time.monotonic() // 60))
    except Exception as error:  # the HTTP library, and so the type, differs between versions of the hub's library
        hub.constants.HF_HUB_OFFLINE = True
        try:
            yield f"{hub.constants.ENDPOINT} cannot be reached ({first_sentence(error)});"
        finally:
            hub.constants.HF_HUB_OFFLINE = False
    else:
        yield ""


@lru_cache(maxsize=4)
def _ask_server(hub: ModuleType, address: str, _minute: int) -> None:
    """Raise if a server does not answer. The hub's library asks: it knows the proxies. Answers hold a `_minute`."""
    seconds = float(os.environ.get("HF_HUB_ETAG_TIMEOUT") or _PATIENCE)
    status = hub.utils.get_session().head(address, timeout=seconds).status_code
    if status in _DOWN:
        raise ConnectionError(f"it answers with status {status}")


def fetch_file(subject: str, repository: str, files: Iterable[str], *, library: str, instead: str) -> Path:
    """Return the path of the first of `files` that a repository has, downloaded if the cache does not have it.

    Messages name the `subject` (the model), its `library`, and what to name `instead` of OWNER/NAME.
    """
    hub = require("huggingface_hub", extra="models")
    files, page = list(dict.fromkeys(files)), f"https://huggingface.co/{repository}"
    # In this order: the import behind `hf_hub_download` sets the logger's level.
    fetch, log = hub.hf_hub_download, logging.getLogger("huggingface_hub")
    level = log.level
    log.setLevel(logging.ERROR)  # no warning for each retry; failures are raised
    why = ""
    try:
        with reach_hub(hub) as why:
            for file in files[:-1]:
                # Also its subclass LocalEntryNotFoundError: not in the cache, and no network.
                with suppress(hub.errors.EntryNotFoundError):
                    return Path(fetch(repository, file))
            return Path(fetch(repository, files[-1]))
    except hub.errors.HFValidationError as error:
        raise ModelError(f"{subject} is not an id of the hub; expected OWNER/NAME, or {instead}") from error
    except hub.errors.GatedRepoError as error:
        advice = f"accept its conditions on {page}, then log in with `hf auth login` or set HF_TOKEN"
        raise ModelError(f"{subject} is gated: {advice}") from error
    except hub.errors.RepositoryNotFoundError as error:
        advice = f"check the id ({page}), and log in with `hf auth login` if it is private"
        raise ModelError(f"{subject} is not on the hub, or you may not read it; {advice}") from error
    except hub.errors.LocalEntryNotFoundError as error:
        why = why or "the hub cannot be reached;"
        cached = Path(hub.constants.HF_HUB_CACHE, f"models--{repository.replace('/', '--')}", "snapshots")
        if snapshots := sorted(snapshot for file in files for snapshot in cached.glob(f"*/{file}")):
            raise ModelError(
                f"{subject}: the hub's cache has its {snapshots[0].name}, but no refs/main, and {why} name the folder, "
                f"local-dir:{snapshots[0].parent}, or fetch main where there is a network (hf download {repository})"
            ) from error
        raise ModelError(
            f"{subject}: its {files[0]} is not in the hub's cache, and {why} fetch it where there is a network "
            f"(hf download {repository}), set HF_HOME to a cache that has it, or name {instead}"
        ) from error
    except hub.errors.EntryNotFoundError as error:
        missing = f"{subject} has no {' or '.join(files)} on the hub ({page})"
        raise ModelError(f"{missing}; is it a model of {library}?") from error
    except (hub.errors.HfHubHTTPError, OSError) as error:
        raise ModelError(f"{subject} cannot be fetched from the hub: {first_sentence(error)}") from error
    finally:
        log.setLevel(level)
