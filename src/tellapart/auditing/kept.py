"""Audits kept beside the store: of a set whose card alone was edited, nothing is computed again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pydantic import ValidationError

from tellapart.auditing.audit import Audit, Options, audit, title_of
from tellapart.data.pairset import PairSet
from tellapart.data.strict_json import read_whole
from tellapart.errors import DataError, RunError
from tellapart.models.store.location import audit_folder, default_store_path
from tellapart.records.machine import versions
from tellapart.records.run_folder import write_text_file


def kept_audit(pairs: PairSet, options: Options) -> Audit:
    """Return the audit of a set: one that is kept of the same items and files, or else a new one, which is kept.

    Audits by models or against another set are not kept: they depend on more than the set's files.
    """
    by_others = (options.against, options.text_model, options.detector_model, options.grammar_model, options.model)
    if any(other is not None for other in by_others):
        return audit(pairs, options)
    path = audit_folder(default_store_path()) / f"{_key(pairs, pictures=options.pictures)}.json"
    if (record := _read(path)) is None:
        record = audit(pairs, options)
        try:
            write_text_file(path, record.model_dump_json())
        except RunError:
            return record  # a cache that cannot be written costs time alone
    return record.model_copy(update={"name": pairs.name, "title": title_of(pairs), "read_as": pairs.read_as})


def _read(path: Path) -> Audit | None:
    try:
        return Audit.model_validate_json(read_whole(path))
    except (DataError, ValidationError):
        return None


def _key(pairs: PairSet, *, pictures: bool) -> str:
    """Return the SHA-256 over all that an audit reads: items, the bytes of their pictures, and the libraries."""
    digest = hashlib.sha256(json.dumps([versions(), pictures]).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(read_whole(path))  # a checkout's checks change without its version
    for item in pairs.items:
        digest.update(item.model_dump_json().encode() + b"\n")
    if pictures:
        for reference in dict.fromkeys(image for item in pairs.items for image in item.images):
            digest.update(pairs.content_key(reference, pairs.read_bytes(reference)).encode())
    return digest.hexdigest()
