"""Per-item numbers as bytes: little-endian float32 in the benchmark's order of items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlmodel import Session

from tellapart.board.tables import Entry, Vector
from tellapart.records.result import Sample


def pack(values: NDArray[np.float32]) -> bytes:
    """Return an array's bytes.

    >>> unpack(pack(np.float32([0.5, 1.0]))).tolist()
    [0.5, 1.0]
    """
    return np.ascontiguousarray(values, dtype="<f4").tobytes()


def unpack(data: bytes) -> NDArray[np.float32]:
    """Return the numbers of some bytes, float32 (n,)."""
    return np.frombuffer(data, dtype="<f4").astype(np.float32)


def read_vector(session: Session, entry: Entry, metric: str) -> NDArray[np.float32] | None:
    """Return an entry's value of every item by a metric, float32 (item,); None if it has none (imported numbers)."""
    vector = session.get(Vector, (entry.id, metric))
    return None if vector is None else unpack(vector.data)


def outcome_vectors(samples: Sequence[Sample]) -> dict[str, tuple[NDArray[np.float32], bytes]]:
    """Return metric -> the value of every sample, NaN if it has none, and a byte each, 1 if a tie affected it.

    >>> sample = Sample(id="a", cluster="a", outcomes={"choice_score": 1.0})
    >>> {name: (values.tolist(), tied) for name, (values, tied) in outcome_vectors([sample]).items()}
    {'choice_score': ([1.0], b'')}
    """
    vectors = {}
    for name in dict.fromkeys(name for sample in samples for name in sample.outcomes):
        values = np.array([sample.outcomes.get(name, np.nan) for sample in samples], dtype=np.float32)
        tied = bytes(name in sample.tied for sample in samples)
        vectors[name] = (values, tied if any(tied) else b"")
    return vectors


def score_vector(samples: Sequence[Sample]) -> NDArray[np.float32] | None:
    """Return raw scores, float32 (item * image * text,); None if samples have none, as for tasks.

    >>> score_vector([Sample(id="a", cluster="a", scores=((0.5, 0.25),), outcomes={})]).tolist()
    [0.5, 0.25]
    """
    if not samples or not all(sample.scores for sample in samples):
        return None
    return np.array([sample.scores for sample in samples], dtype=np.float32).reshape(-1)
