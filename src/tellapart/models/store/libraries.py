"""The libraries that models compute with, as part of the key of stored numbers: another version may give others."""

from __future__ import annotations

import hashlib
from functools import cache

from tellapart.records.machine import versions

_MARK = "@libraries-"


@cache
def library_versions() -> tuple[str, ...]:
    """Return each installed library that may change a number, with its version."""
    return tuple(f"{name} {version}" for name, version in versions().items() if name not in {"python", "tellapart"})


@cache
def _digest() -> str:
    return hashlib.sha256("\n".join(library_versions()).encode()).hexdigest()


def decoded_as(file: str) -> str:
    """Return the key of a picture's pixels: of the SHA-256 of its file's bytes, and of the libraries that decode it.

    >>> len(decoded_as("00" * 32))
    64
    """
    return hashlib.sha256(f"{file}\n{_digest()}".encode()).hexdigest()


def filed_as(fingerprint: str) -> str:
    """Return the key of a model's stored numbers: its fingerprint, and a digest of the libraries' versions.

    >>> split_filed(filed_as("albef:0a1b"))
    'albef:0a1b'
    """
    return f"{fingerprint}{_MARK}{_digest()[:8]}"


def split_filed(key: str) -> str:
    """Return the fingerprint of a key that `filed_as` made, or the key."""
    return key.partition(_MARK)[0]
