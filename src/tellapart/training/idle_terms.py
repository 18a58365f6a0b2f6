"""Terms of a loss that contribute nothing: those that were 0 at every one of a run's first steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.data.rows import read_jsonl

if TYPE_CHECKING:
    from tellapart.training.losses.terms import LossTerm

#: Ends of the interval of a validation value, in a log.
ENDS = ("validation_low", "validation_high")
#: Fields of a log's line that are not terms of the loss.
NOT_TERMS = {"step", "gradient_norm", "learning_rate", "scale", "moved_loss", "moved_gradient", "lora_layers", *ENDS}
NOT_TERMS |= {"rows_same_caption", "rows_same_picture", "texts_cut"}

#: Steps after which a term that was always 0 is named.
IDLE_STEPS = 50


def find_idle_terms(log: Path, first: int = IDLE_STEPS) -> tuple[str, ...]:
    """Return the terms that a run's log has as exactly 0 at each of its first steps: none had a gradient."""
    steps = list(islice(_read_steps(log), first))
    if len(steps) < first:
        return ()
    return tuple(term for term in steps[0] if all(step.get(term) == 0 for step in steps))


def _read_steps(log: Path) -> Iterator[dict[str, float]]:
    """Yield the terms of each step."""
    for _, line in read_jsonl(log):
        if "total" in line:
            yield {name: value for name, value in line.items() if name not in NOT_TERMS and name != "total"}


def describe_idle(idle: Sequence[str], terms: Sequence[LossTerm], first: int = IDLE_STEPS) -> str:
    """Name the idle terms, and the reason of their losses if one is declared."""
    # Terms of an added loss begin with its name and a dot.
    owners = {name.partition(".")[0] if "." in name else terms[0].name for name in idle if terms}
    reasons = dict.fromkeys(term.loss.idle_reason for term in terms if term.name in owners and term.loss.idle_reason)
    verb = "was" if len(idle) == 1 else "were"
    why = f": {'; '.join(reasons)}" if reasons else ""
    return f"{', '.join(idle)} {verb} 0 at each of the first {first} steps and had no gradient{why}"
