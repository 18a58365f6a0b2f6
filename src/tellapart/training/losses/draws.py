"""Random draws that depend on the step, the row and the column alone: not on ranks, chunks or devices."""

from __future__ import annotations

from tellapart.training.lazy_torch import Tensor, torch


def _sign_constant(constant: int) -> int:
    return constant - (1 << 64) if constant >= 1 << 63 else constant


_ROW, _COLUMN, _STEP = (_sign_constant(c) for c in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
_FIRST, _SECOND = (_sign_constant(c) for c in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def uniform(step: int, rows: Tensor, columns: int) -> Tensor:
    """Return numbers within (0, 1), float32 `(len(rows), columns)`: a hash of step, row and column.

    Source: the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    """
    mixed = rows[:, None] * _ROW + torch.arange(columns, device=rows.device)[None, :] * _COLUMN
    mixed = _mix_bits(mixed + _mix_bits(torch.tensor(step * _STEP % (1 << 63), device=rows.device)))
    # The upper 23 bits: with the half they are exact in float32, and never 0 or 1.
    return (((mixed >> 41) & 0x7FFFFF).float() + 0.5) / (1 << 23)


def _mix_bits(x: Tensor) -> Tensor:
    # int64 wraps as the source's uint64 does; its right shift is arithmetic, so the copies of the sign are cut off.
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _FIRST
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _SECOND
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def draw(logits: Tensor, count: int, step: int, rows: Tensor) -> Tensor:
    """Draw `count` distinct columns a row with the probabilities of a softmax; -1 if none is left.

    The same distribution as `torch.multinomial` without replacement.
    """
    # With standard Gumbel noise added to logits, the largest is a draw by their softmax.
    noise = -(-uniform(step, rows, logits.shape[1]).log()).log()
    return best(logits + noise.to(logits.dtype), count)


def best(values: Tensor, count: int) -> Tensor:
    """Return the columns of each row's `count` largest values, int64 `(c, count)`; -1 if a value is -inf or missing."""
    top = values.topk(min(count, values.shape[1]), dim=1)
    columns = torch.where(top.values == float("-inf"), -1, top.indices)
    return torch.nn.functional.pad(columns, (0, count - columns.shape[1]), value=-1)
