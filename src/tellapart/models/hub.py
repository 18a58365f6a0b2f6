"""Files of models on the Hugging Face hub, from its cache if they are there."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tellapart.errors import ModelError, first_sentence, require

__all__ = ["fetch_file"]


def fetch_file(subject: str, repository: str, files: Iterable[str], *, library: str, instead: str) -> Path:
    """Return the first of some files that a repository has; the network is used only for what is not in the cache.

    Args:
        subject: the model, as messages name it.
        repository: OWNER/NAME.
        files: names, in order of preference.
        library: of the model, for messages.
        instead: what else to name if the hub does not give the file, for messages.

    Raises:
        ModelError: none of the files is available; the message says why and what to do.
        MissingDependencyError: huggingface_hub is not installed.
    """
    hub = require("huggingface_hub", extra="models")
    files, page = list(dict.fromkeys(files)), f"https://huggingface.co/{repository}"
    fetch, log = hub.hf_hub_download, logging.getLogger("huggingface_hub")  # in this order: the first sets the level
    level = log.level
    log.setLevel(logging.ERROR)  # it reports every retry; what matters is raised
    try:
        for file in files[:-1]:
            # Also raised if it is not in the cache and there is no network.
            with suppress(hub.errors.EntryNotFoundError):
                return Path(fetch(repository, file))
        return Path(fetch(repository, files[-1]))
    except hub.errors.HFValidationError as error:
        raise ModelError(f"{subject} is no id of the hub; expected OWNER/NAME, or {instead}") from error
    except hub.errors.GatedRepoError as error:
        raise ModelError(
            f"{subject} is gated: accept its conditions on {page}, then log in with `hf auth login` or set HF_TOKEN"
        ) from error
    except hub.errors.RepositoryNotFoundError as error:
        raise ModelError(
            f"{subject} is not on the hub, or you may not read it; check the id ({page}), and log in with "
            "`hf auth login` if it is private"
        ) from error
    except hub.errors.LocalEntryNotFoundError as error:
        why = "HF_HUB_OFFLINE is set; unset it, or" if hub.constants.HF_HUB_OFFLINE else "the hub cannot be reached;"
        raise ModelError(
            f"{subject}: its {files[0]} is not in the hub's cache, and {why} fetch it where there is a network "
            f"(hf download {repository}), or name {instead}"
        ) from error
    except hub.errors.EntryNotFoundError as error:
        raise ModelError(
            f"{subject} has no {' or '.join(files)} on the hub ({page}); is it a model of {library}?"
        ) from error
    except (hub.errors.HfHubHTTPError, OSError) as error:
        raise ModelError(f"{subject} cannot be fetched from the hub: {first_sentence(error)}") from error
    finally:
        log.setLevel(level)
