"""Raw scores: a model's number for every image-text pair of every item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import ScoreError, TellapartError, quote, shorten

__all__ = ["ScoreKind", "Scores", "join_names", "note_spread"]

ScoreKind = Literal["similarity", "logit", "probability"]

#: A note names scores that hardly vary: so many at least, probabilities in so narrow a range, or such a share that
#: lies so near the median. The cosines of an encoder have a narrow range, and none of these.
_FEWEST, _NARROW, _SHARE, _NEAR = 10, 0.1, 0.99, 1e-4


def join_names(ids: Sequence[str], limit: int = 10) -> str:
    """Return the first ids for an error message, and how many were left out.

    >>> join_names(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    names = ", ".join(map(shorten, ids[:limit]))
    return names if len(ids) <= limit else f"{names} and {len(ids) - limit} more"


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of `n` items: float32 `(item, image, text)`, with the items' ids and the kind of number.

    The array is cast to float32 (every comparison is made in float32, whatever the model ran in) and made
    read-only. A probability must lie in [0, 1]; a similarity or a logit may be any finite number.

    Raises:
        ScoreError: not an array of real numbers; not three-dimensional; of another length than the ids; a value is not
            finite (or, for probabilities, outside [0, 1]); an id is not a string, or repeats; the kind is unknown.

    >>> scores = Scores(("a",), [[[0.9, 0.1], [0.2, 0.8]]], "similarity")
    >>> scores.shape, scores.values.dtype
    ((2, 2), dtype('float32'))
    """

    ids: tuple[str, ...]
    values: NDArray[np.float32]
    kind: ScoreKind

    def __init__(self, ids: Sequence[str], values: object, kind: ScoreKind) -> None:
        names, array = tuple(ids), as_float32(as_numbers(values, "scores", "(item, image, text)"), copy=True)
        _check_scores(names, array, kind)
        array.setflags(write=False)
        object.__setattr__(self, "ids", names)
        object.__setattr__(self, "values", array)
        object.__setattr__(self, "kind", kind)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def shape(self) -> tuple[int, int]:
        """Images and texts of one item."""
        return self.values.shape[1], self.values.shape[2]

    def select(self, ids: Sequence[str]) -> Scores:
        """Return the scores of `ids`, in that order.

        Raises:
            ScoreError: an id has no scores.

        >>> Scores(("a", "b"), [[[0.5, 0.1]], [[0.2, 0.3]]], "logit").select(["b"]).ids
        ('b',)
        """
        row = {item: index for index, item in enumerate(self.ids)}
        missing = [item for item in ids if item not in row]
        if missing:
            raise ScoreError(f"{len(missing)} of {len(ids)} items have no scores: {join_names(missing)}")
        return Scores(ids, self.values[[row[item] for item in ids]], self.kind)


def note_spread(scores: Sequence[Scores], *, of_reranker: bool = False) -> tuple[str, ...]:
    """Return a note on scores that hardly vary, or whose narrow range is odd for probabilities or a reranker.

    Source: vllm-project/vllm, issue 33885: without its chat template a reranker gives every pair about .5.
    """
    values = np.concatenate([np.zeros(0), *(table.values.ravel() for table in scores)])
    if len(values) < _FEWEST:
        return ()
    low, middle, high = (float(number) for number in np.quantile(values, (0, 0.5, 1)))
    share = float((np.abs(values - middle) <= _NEAR * max(1.0, abs(middle))).mean())
    if share >= _SHARE:
        fact = f"{100 * share:.4g} % of {len(values):,} scores are equal, at {middle:.4g}"
    elif (of_reranker or scores[0].kind == "probability") and high - low < _NARROW:
        fact = f"all {len(values):,} scores lie within .1 of one another ({low:.4g} to {high:.4g})"
    else:
        return ()
    return (
        f"{fact}: perhaps the model is not asked as it was trained, as a reranker without its chat template or an "
        "embedder read as a chat model",
    )


def as_numbers(
    values: object,
    what: str,
    axes: str,
    *,
    kinds: str = "fiub",
    error: type[TellapartError] = ScoreError,
    shape_error: type[TellapartError] | None = None,
) -> NDArray[Any]:
    """Return values as an array of real numbers, of numpy's kinds, with the axes and sizes of `axes`: `(box, 4)`."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as failure:  # ragged lists; a tensor that numpy cannot look into
        raise error(f"{what} must be one rectangular array {axes} of numbers; got none ({failure})") from failure
    if array.dtype.kind not in kinds:
        raise error(f"{what} must be an array {axes} of real numbers; got an array of {array.dtype} {array.shape}")
    names = [name.strip() for name in axes.strip("(,)").split(",")]
    sizes = [str(size) if name.isdigit() else name for name, size in zip(names, array.shape, strict=False)]
    if array.ndim != len(names) or sizes != names:
        got = f"got an array of {array.dtype}, {array.ndim} dimensions, shape {array.shape}"
        raise (shape_error or error)(f"{what} must be an array {axes}; {got}")
    return array


def as_float32(array: NDArray[Any], *, copy: bool = False) -> NDArray[np.float32]:
    """Return numbers as float32, which scores are compared in; numbers beyond it are infinite."""
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(np.float32, copy=copy)


def expect_finite(
    array: NDArray[Any],
    what: str,
    noun: str = "items",
    *,
    names: Sequence[str] | None = None,
    first: int = 0,
    error: type[TellapartError] = ScoreError,
) -> None:
    """Refuse an array that is not finite, with the names of its rows that are not, or their numbers from `first` on."""
    if np.isfinite(array).all():
        return
    rows = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1)).tolist()
    bad = join_names([str(first + row) if names is None else names[row] for row in rows])
    raise error(f"{what} must be finite; NaN or infinite in {len(rows)} of {len(array)} {noun}: {bad}; measure again")


def _check_scores(ids: tuple[str, ...], values: NDArray[np.float32], kind: ScoreKind) -> None:
    if kind not in get_args(ScoreKind):
        raise ScoreError(f"score kind {quote(kind)} is unknown; use one of {', '.join(get_args(ScoreKind))}")
    if 0 in values.shape[1:]:
        raise ScoreError(f"scores must be of one image and one text or more; got an array of shape {values.shape}")
    if len(ids) != len(values):
        raise ScoreError(f"{len(ids)} ids for {len(values)} rows of scores; give one id for each item")
    if other := [item for item in ids if not isinstance(item, str)]:
        raise ScoreError(f"item ids must be strings; got {quote(other[0])}")
    if repeated := [item for item, count in Counter(ids).items() if count > 1]:
        raise ScoreError(f"item ids must be distinct; repeated: {join_names(repeated)}")
    expect_finite(values, "scores", names=ids)
    outside = np.flatnonzero(((values < 0) | (values > 1)).any(axis=(1, 2))) if kind == "probability" else ()
    if len(outside):
        raise ScoreError(
            f"probabilities must lie in [0, 1]; outside in {len(outside)} of {len(ids)} items: "
            f"{join_names([ids[k] for k in outside])}; if these are raw model outputs, name their kind: logit or "
            "similarity"
        )
