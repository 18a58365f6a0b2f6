"""A run's record in the formats of other tools, and a model in another folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.data.arguments import PathGiven, as_path
from tellapart.errors import ModelError, RunError, UnknownNameError, nearest, quote

if TYPE_CHECKING:
    from tellapart.records.result import Result

#: Format -> its description.
FORMATS = {
    "model-index": "the front matter of a model card",
    "eval-results": "a file for a model's .eval_results/",
    "lm-eval": "lm-evaluation-harness's results JSON",
}


def format_result(result: Result, to: str, card: Path | None = None) -> str:
    """Return a run's record in another format, as text."""
    from tellapart.data.strict_json import decode_text, read_whole
    from tellapart.report.interchange.push import eval_results_yaml, harness_json, model_index_yaml, put_results

    if to not in FORMATS:
        raise UnknownNameError(f"no format {to!r}{nearest(to, FORMATS) or ';'} the formats are {', '.join(FORMATS)}")
    if card is not None and to != "model-index":
        raise RunError(f"a card holds a model-index, no {to}; leave card= out")
    if card is not None:
        try:
            text = decode_text(read_whole(card, error=RunError), card, error=RunError)
        except RunError as error:
            raise RunError(f"{card} is not a model card: {error}") from error
        return put_results(text, result, str(card), rename=True)
    return dict(zip(FORMATS, (model_index_yaml, eval_results_yaml, harness_json), strict=True))[to](result)


@dataclass(frozen=True, slots=True)
class Converted:
    """A run's results in another format, or a model in another folder.

    Attributes:
        text: the results; None of a model.
        folder: the model's; None of results.
        parameters: how many the model has; None of results.
    """

    text: str | None = None
    folder: Path | None = None
    parameters: int | None = None


def convert(
    source: PathGiven,
    folder: PathGiven | None = None,
    *,
    to: str | None = None,
    tokenizer: PathGiven | None = None,
    card: PathGiven | None = None,
    out: PathGiven | None = None,
) -> Converted:
    """Write a model as safetensors or ONNX, or a run's results for model cards on the hub or as lm-eval does.

    A model in its authors' file (`albef:FILE`) becomes a folder without a pickle, and `compact:FOLDER` one for ONNX
    Runtime.

    Args:
        source: a model, or a run folder.
        folder: of a model: the new folder.
        to: of a run: the format of its results.
        tokenizer: a model's, in its folder, if not in the file's folder or on the hub.
        card: of a run: a model card on disk, whose text with the results put in is returned.
        out: of a run: also write the text there.

    Raises:
        TellapartError: an argument of a run is given with a model, or the other way round; the folder is not a run, the
            format is unknown, the model has no such file, or the new folder holds something.

    >>> import tellapart as ta
    >>> run = ta.evaluate("oracle", "demo", limit=20)
    >>> ta.convert(run, to="lm-eval").text[:1]
    '{'
    """
    if to is None:
        unused, reason = {"card": card, "out": out}, "goes with a run, and so with to=FORMAT"
    else:
        unused, reason = {"folder": folder, "tokenizer": tokenizer}, "goes with a model; results are written with out="
    for name, value in unused.items():
        if value is not None:
            raise RunError(f"convert: {name}={os.fspath(value)} {reason}")
    if to is None:
        if folder is None:
            raise RunError(
                f"convert {source}: name the output: of a model a new folder (tellapart convert {source} FOLDER), "
                f"of a run to={', to='.join(FORMATS)}"
            )
        from tellapart.models.find import declared_prefix, name_forms
        from tellapart.models.transductive import read_mark, write_mark

        model, new = os.fspath(source), as_path(folder, "folder")
        prefix = declared_prefix(model)
        if prefix is None or prefix.convert is None or not model.partition(":")[2].strip():
            forms = ", ".join(name_forms(can_convert=True))
            raise ModelError(f"convert({quote(model)}): no model that can be converted; write one of {forms}")
        parameters = prefix.convert(model, new, None if tokenizer is None else as_path(tokenizer, "tokenizer"))
        if items := read_mark(model):
            write_mark(new, items)
        return Converted(folder=new, parameters=parameters)
    from tellapart.evaluation.verified import read_result
    from tellapart.records.run_folder import write_text_file
    from tellapart.records.zipped import run_folders

    with run_folders(source, "source") as (run,):
        text = format_result(read_result(run), to, None if card is None else as_path(card, "card"))
    if out is not None:
        write_text_file(as_path(out, "out"), text)
    return Converted(text=text)
