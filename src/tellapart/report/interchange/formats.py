"""The formats that a run's record is converted to, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.catalog import nearest
from tellapart.errors import RunError, UnknownNameError

if TYPE_CHECKING:
    from tellapart.records.result import Result

#: Format -> its description.
FORMATS = {
    "model-index": "the front matter of a model card",
    "eval-results": "a file for a model's .eval_results/",
    "lm-eval": "lm-evaluation-harness's results JSON",
}


def convert(result: Result, to: str, card: Path | None = None) -> str:
    """Return a run's record in another format, as text."""
    from tellapart.report.interchange.cards import eval_results_yaml, model_index_yaml, update_card
    from tellapart.report.interchange.harness import harness_json

    writers: dict[str, Callable[[Result], str]] = {
        "model-index": model_index_yaml,
        "eval-results": eval_results_yaml,
        "lm-eval": harness_json,
    }
    if to not in writers:
        raise UnknownNameError(f"no format {to!r}{nearest(to, FORMATS) or ';'} the formats are {', '.join(FORMATS)}")
    if card is None:
        return writers[to](result)
    if to != "model-index":
        raise RunError(f"a card holds a model-index, no {to}; leave card= out")
    return update_card(card, result)
