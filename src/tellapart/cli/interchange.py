"""The commands `tellapart import` and `tellapart convert`: results from other tools, and for them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tellapart.catalog import nearest
from tellapart.errors import RunError, UnknownNameError

if TYPE_CHECKING:
    from tellapart.records.result import Result

__all__ = ["FORMATS", "converted"]

#: Format -> what it is.
FORMATS = {
    "model-index": "the front matter of a model card",
    "eval-results": "a file for a model's .eval_results/",
    "lm-eval": "lm-evaluation-harness's results JSON",
}


def converted(result: Result, to: str, card: Path | None = None) -> str:
    """Return a run's record in another format, as text.

    Args:
        result: the record.
        to: one of `FORMATS`.
        card: a model card to put the results into, for `model-index`; nothing is written to it.

    Raises:
        UnknownNameError: no such format.
        RunError: the run has nothing that the format can say, or a card was named for another format.
        MissingDependencyError: huggingface_hub is not installed, which the first two need.

    >>> run = {"started": "", "seed": 0, "command": "", "versions": {}}
    >>> from tellapart.records.result import Result
    >>> model = {"name": "m", "fingerprint": "0", "kind": "logit"}
    >>> converted(Result.model_validate({"run": run, "model": model, "benchmarks": {}}), "lmeval")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: no format 'lmeval'; did you mean 'lm-eval'? the formats are model-index, eval-results, lm-eval
    """
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
        raise RunError(f"a card holds a model-index, no {to}; leave --card out")
    return update_card(card, result)


def import_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Results of CLIP_benchmark or mteb, of one model.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The run folder to make.")],
    model: Annotated[
        Optional[str],  # noqa: UP045  (typer reads it on 3.11)
        typer.Option("--model", help="The model's name, if the files do not say it."),
    ] = None,
) -> None:
    """Take results of CLIP_benchmark or mteb as a run: shown, drawn and tabulated, marked, and never compared."""
    from tellapart.report.interchange.imported import import_results
    from tellapart.report.numbers import plain

    command = shlex.join(["tellapart", *sys.argv[1:]])
    result = import_results(files, out, command=command, model=model)
    typer.echo(f"{plain(result.model.name)}: {', '.join(map(plain, result.benchmarks))}; run: {out}")


def convert_command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[str, typer.Option("--to", help=f"{'; '.join(f'{name}: {what}' for name, what in FORMATS.items())}.")],
    card: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--card", help="A model card on disk, whose text with the results put in is written."),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", help="Write there instead of printing."),
    ] = None,
) -> None:
    """Write a run's results for model cards on the hub, or as lm-evaluation-harness does."""
    from tellapart.records.run_folder import read_result, write_whole

    text = converted(read_result(run), to, card)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text)
        typer.echo(f"written: {out}")
