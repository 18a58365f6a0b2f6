"""Log-probabilities of given tokens under a causal model, in batches of fixed shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tellapart.models.torch.backend import bucket, fixed_batches, positions_by_key
from tellapart.models.torch.network import Tensor

#: Texts in one forward pass. Part of a model's identity: every pass has this many rows.
_ROWS = 4
#: Text lengths are rounded up to a multiple of this.
_STEP = 16


class LogProbability(NamedTuple):
    """The log-probability of an answer, in nats, and the number of tokens that it sums over."""

    total: float
    tokens: int


def log_probability_of(logits: Tensor, tokens: Sequence[int]) -> LogProbability:
    """Sum the log-probabilities of tokens by their logits, `(token, vocabulary)`: in float32, the sum in float64."""
    logs = logits.float().log_softmax(-1)
    return LogProbability(float(logs[range(len(tokens)), list(tokens)].double().sum()), len(tokens))


def read_batches(
    read: Sequence[list[int]], answers: Sequence[list[int]], limit: int | None, logits: Callable[[list[list[int]]], Any]
) -> list[LogProbability]:
    """Return the log-probability of each answer, whose tokens are predicted at the end of a row.

    Rows are padded on the right, where a causal model cannot look, to a length that follows from the row alone.
    """
    values = [LogProbability(0.0, 0)] * len(read)
    for length, rows in positions_by_key(bucket(len(ids), limit, step=_STEP) for ids in read).items():
        for batch, real in fixed_batches(rows, _ROWS):
            predictions = logits([read[row] + read[row][-1:] * (length - len(read[row])) for row in batch])
            for position, row in enumerate(batch[:real]):
                end, answer = len(read[row]), answers[row]
                values[row] = log_probability_of(predictions[position, end - len(answer) : end], answer)
    return values
