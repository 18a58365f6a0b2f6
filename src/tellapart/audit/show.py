"""An audit on the terminal, and in a folder: the record, the data card, the metadata, and the card to fill in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tellapart.audit import wording
from tellapart.audit.audit import Audit, Options, audit
from tellapart.audit.card import card_of, html, markdown
from tellapart.audit.croissant import LISTING, croissant, missing
from tellapart.audit.datasheet import with_questions
from tellapart.data.folder import read_pair_set
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.records.run_folder import write_whole
from tellapart.report.numbers import plain
from tellapart.report.terminal import console, table

__all__ = ["audit_folder", "print_audit", "write_audit"]

#: Items that a line names.
_NAMED = 5


def write_audit(folder: Path, pairs: PairSet, found: Audit) -> list[str]:
    """Write `audit.json`, `card.md`, `card.html`, `card.json` and, for a folder of files, `croissant.json`.

    `card.json` is the set's own card with every question of a datasheet as a field, null where it has no answer: fill it
    in, put it in the set's folder and audit again.

    Returns:
        What is to be known of the files, a line each.

    Raises:
        DataError: the set's card is not what it must be.
        RunError: a file cannot be written.

    >>> import tempfile
    >>> from tellapart.audit.audit import Options, audit
    >>> from tellapart.benchmarks.find import load_pairs
    >>> pairs = load_pairs("demo")
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     said = write_audit(Path(scratch), pairs, audit(pairs, Options(pictures=False)))
    ...     sorted(path.name for path in Path(scratch).iterdir())
    ['audit.json', 'card.html', 'card.json', 'card.md', 'croissant.json']
    """
    card = card_of(pairs, found)
    made = {
        "audit.json": found.model_dump_json(indent=1) + "\n",
        "card.md": markdown(card),
        "card.html": html(card),
        "card.json": _json(with_questions(pairs.card)),
    }
    said = [
        f"{folder / 'card.html'} and card.md: the data card; {len(card.unanswered)} questions of card.json are open"
    ]
    if pairs.read is None and (pairs.root / LISTING).is_file():
        made["croissant.json"] = _json(croissant(pairs))
        lacks = missing(pairs.card)
        said.append(
            f"{folder / 'croissant.json'}: Croissant 1.1, belongs beside {LISTING}"
            + (f"; the card lacks {', '.join(lacks)}, which it asks for" if lacks else "")
        )
    else:
        said.append(f"no croissant.json: {plain(pairs.name)} is no folder with {LISTING}")
    for name, text in made.items():
        write_whole(folder / name, text)
    return said


def audit_folder(folder: Path, progress: Progress | None = None) -> Path:
    """Audit a pair set's folder, and write `card.html` and `card.md` into it; return the first.

    Raises:
        DataError: the folder is no pair set, or an image cannot be read.
        RunError: a file cannot be written.
    """
    pairs = read_pair_set(folder)
    card = card_of(pairs, audit(pairs, Options(progress=progress)))
    page = folder / "card.html"
    write_whole(page, html(card))
    write_whole(folder / "card.md", markdown(card))
    return page


def print_audit(found: Audit) -> None:
    """Print what was found, what was not checked, and how many checks pass.

    >>> from tellapart.audit.audit import Options, audit
    >>> from tellapart.benchmarks.find import load_pairs
    >>> pairs = load_pairs("demo").select(range(2))
    >>> print_audit(audit(pairs, Options(pictures=False)))  # doctest: +ELLIPSIS
    demo: 2 items of 2x2, 4 distinct captions...
    """
    from rich.markup import escape

    out = console()
    size = f"{found.items:,} items of {found.shape[0]}x{found.shape[1]}, {found.texts:,} distinct captions"
    pictures = f", {found.images:,} distinct pictures" if found.images is not None else ""
    out.print(
        escape(f"{plain(found.name)}: {size}{pictures}, {found.clusters:,} clusters"), highlight=False, soft_wrap=True
    )
    rows = table("check", "value", "interval", numbers_from=1)
    rows.add_column("verdict")
    rows.add_column("passes if")
    for each in found.findings:
        colour = "green" if each.verdict == "pass" else "yellow"
        cells = (each.name, wording.value(each), wording.interval(each))
        rows.add_row(
            *(escape(plain(cell)) for cell in cells), f"[{colour}]{each.verdict}[/]", escape(plain(each.threshold))
        )
    out.print(rows)
    for each in found.warnings:
        names = ", ".join(each.items[:_NAMED]) + (", ..." if len(each.items) > _NAMED else "")
        line = f"warn  {each.name}: {each.title}: {wording.value(each)}; {each.says}" + (f" ({names})" if names else "")
        out.print(escape(plain(line)), highlight=False, soft_wrap=True)
    for skipped in found.not_done:
        out.print(escape(plain(f"not checked  {skipped.name}: {skipped.reason}")), highlight=False, soft_wrap=True)
    passed = len(found.findings) - len(found.warnings)
    out.print(f"{passed} of {len(found.findings)} checks pass", highlight=False, soft_wrap=True)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
