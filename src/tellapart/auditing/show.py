"""Audit a pair set, print it, and write its files: the record, the data card and the metadata; print a detection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tellapart.auditing.audit import Audit, Options, title_of
from tellapart.auditing.audit import audit as make_audit
from tellapart.auditing.card import (
    CARD_FIELDS,
    LISTING,
    croissant,
    html,
    make_card,
    markdown,
    missing,
    size_text,
    with_questions,
)
from tellapart.auditing.finding import format_interval, format_value
from tellapart.auditing.origin import Detection
from tellapart.benchmarks.arguments import PairsGiven, load_sets, locations
from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.folder import read_pair_set
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.rows import read_object
from tellapart.data.strict_json import read_whole
from tellapart.errors import DataError, RunError, plain, quote
from tellapart.models.store.cache import audit_folder as kept_audits
from tellapart.models.store.cache import default_store_path
from tellapart.records.machine import versions
from tellapart.records.run_folder import write_text_file
from tellapart.report.frame import Frame, Shown
from tellapart.report.numbers import percent
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.report.tables import text_table
from tellapart.report.terminal import print_lines, print_tables, print_text

#: Items that a line names.
_NAMED = 5


def audit(
    pairs: PairsGiven,
    *,
    against: PairsGiven | None = None,
    to: PathGiven | None = None,
    text_model: str | None = None,
    grammar_model: str | None = None,
    detector_model: str | None = None,
    model: str | None = None,
    corpus: PathGiven | None = None,
    tagger: str | None = None,
    read_images: bool = True,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    columns: Mapping[str, str] | None = None,
    progress: ProgressGiven = None,
) -> Audited:
    """Look for artefacts in a pair set: blind accuracy, lengths, duplicates, leaks, changes of the pictures, tags.

    Args:
        pairs: a pair set, its folder, or a benchmark's name.
        against: another one, such as training data, to find items that both hold.
        to: a folder for audit.json, the data card and croissant.json.
        text_model: also ask a model that reads texts alone.
        grammar_model: scores how grammatical a text is.
        detector_model: a dual encoder, by whose vectors first entries are distinguished from others, as well.
        model: the model to be measured: the captions that its context cuts; or a number of CLIP's tokens ("77").
        corpus: captions, such as training data (JSONL, CSV, JSON of COCO, or a line each): which bindings of an
            attribute and its noun, and of two nouns and their relation, occur there.
        tagger: nltk:FOLDER of NLTK's data, which finds these bindings.
        read_images: whether pictures are read.
        data, images, outside_images, columns, progress: as of `evaluate`.

    Raises:
        TellapartError: the set or a model is not there, or an image cannot be read.

    >>> import tellapart as ta
    >>> found = ta.audit("demo", read_images=False)
    >>> found.record.items, "pass" in found["verdict"]
    (400, True)
    """
    place = locations(data, images, outside_images, columns)
    if (corpus is None) != (tagger is None):
        raise RunError("corpus= and tagger= belong together: a file of captions, and nltk:FOLDER of NLTK's data")
    texts = None if corpus is None else as_path(corpus, "corpus")
    with reporting(progress) as report:
        update = None if report is None else report("audit")
        audited, other = load_sets(pairs, against, place)
        options = Options(other, text_model, read_images, update, detector_model, grammar_model, model, texts, tagger)
        record = kept_audit(audited, options)
    lines = () if to is None else tuple(write_audit(as_path(to, "to"), audited, record))
    return Audited(record, audited, lines)


class Audited(Shown, Frame):
    """Findings of an audit: a row for each check, each with its threshold.

    Attributes:
        record: the full audit.
        pairs: the set.
        lines: the written files, in words.
    """

    def __init__(self, record: Audit, pairs: PairSet, lines: tuple[str, ...] = ()) -> None:
        self.record, self.pairs, self.lines = record, pairs, lines
        keys = ("name", "value", "low", "high", "reason", "verdict", "threshold")
        super().__init__(
            {key: [getattr(finding, key, None) for finding in record.findings] for key in keys},
            f"audit of {record.name}",
        )

    def card(self) -> str:
        """Return the data card, as a page of HTML."""
        return html(make_card(self.pairs, self.record))

    def show(self) -> None:
        """Print it as `tellapart audit` does."""
        print_audit(self.record)
        for line in self.lines:
            print_text(line)


def kept_audit(pairs: PairSet, options: Options) -> Audit:
    """Return the audit of a set: one that is kept of the same items and files, or else a new one, which is kept.

    Audits by models or against another set depend on more than the set's files, and are not kept.
    """
    if replace(options, pictures=True, progress=None, tagger=None) != Options():
        return make_audit(pairs, options)
    path = kept_audits(default_store_path()) / f"{_key(pairs, pictures=options.pictures)}.json"
    record = None
    with suppress(DataError, ValidationError):
        record = Audit.model_validate_json(read_whole(path))
    if record is None:
        record = make_audit(pairs, options)
        with suppress(RunError):  # a cache that cannot be written costs time alone
            write_text_file(path, record.model_dump_json())
    return record.model_copy(update={"name": pairs.name, "title": title_of(pairs), "read_as": pairs.read_as})


def _key(pairs: PairSet, *, pictures: bool) -> str:
    """Return the SHA-256 over all that an audit reads: items, the bytes of their pictures, and the libraries."""
    digest = hashlib.sha256(json.dumps([versions(), pictures]).encode())
    for path in sorted(Path(__file__).parent.glob("*.*")):
        digest.update(read_whole(path))  # a checkout's checks change without its version
    for item in pairs.items:
        digest.update(item.model_dump_json().encode() + b"\n")
    if pictures:
        for reference in dict.fromkeys(image for item in pairs.items for image in item.images):
            digest.update(pairs.content_key(reference, pairs.read_bytes(reference)).encode())
    return digest.hexdigest()


def write_audit(folder: Path, pairs: PairSet, record: Audit) -> list[str]:
    """Write `audit.json`, `card.md`, `card.html`, `card.json` and, for a folder of files, `croissant.json`.

    `card.json` is the set's card with its title, the facts that Croissant asks for, and every question of a datasheet
    as fields, null if they are open: fill it in, put it in the set's folder and audit again. Returns lines to print.
    """
    card, filled = make_card(pairs, record), with_questions(pairs.card)
    _keep_answers(folder / "card.json", filled)
    files = {
        "audit.json": record.model_dump_json(indent=1) + "\n",
        "card.md": markdown(card),
        "card.html": html(card),
        "card.json": _dump_json(filled),
    }
    lines = [
        f"{folder / 'card.html'} and card.md: the data card; {card.unanswered} questions of card.json are open: answer "
        "them in the set's folder"
    ]
    listed = (pairs.root / LISTING).is_file()
    if pairs.read is None and listed:
        files["croissant.json"] = _dump_json(croissant(pairs))
        lacks = ", ".join(missing(pairs.card))
        asked = f"; the card lacks {lacks}, which it asks for as fields beside `title`" if lacks else ""
        lines.append(f"{folder / 'croissant.json'}: Croissant 1.1, belongs beside {LISTING}{asked}")
    else:
        why = f"is not a folder with {LISTING}; ta.write_pair_set makes one of it (docs/my_pairs.md)"
        why = "has images in another folder, or names them by absolute paths" if listed else why
        lines.append(f"no croissant.json: {plain(pairs.name)} {why}")
    if record.bindings:
        rows = [json.dumps({"id": name, "bindings": of}, ensure_ascii=False) for name, of in record.bindings.items()]
        files["bindings.jsonl"] = "\n".join(rows) + "\n"
        lines.append(f"{folder / 'bindings.jsonl'}: the items by their bindings, for `tellapart run --tags`")
    for name, text in files.items():
        write_text_file(folder / name, text)
    return lines


def _keep_answers(path: Path, known: Mapping[str, Any]) -> None:
    """Refuse to write over answers that were filled in at another place than the set's."""
    if not path.is_file():
        return
    written = read_object(path)
    lost = [key for key in written if key not in known]
    lost += [key for key in CARD_FIELDS if written.get(key) and not known[key]]
    if isinstance(datasheet := written.get("datasheet"), dict):
        lost += [key for key, answer in datasheet.items() if answer and not known["datasheet"].get(key)]
    if lost:
        named = ", ".join(map(quote, lost[:_NAMED]))
        raise RunError(
            f"{path} has answers that the set's card lacks ({named}), and would be written over: put it into the "
            "folder of the set (or of the table), where an audit reads it, or remove it"
        )


def audit_folder(folder: Path, progress: Progress | None = None) -> tuple[Path, str]:
    """Audit a pair set's folder, and write `card.html` and `card.md` into it; return the first, and the verdict."""
    pairs = read_pair_set(folder)
    record = kept_audit(pairs, Options(progress=progress))
    card = make_card(pairs, record)
    write_text_file(folder / "card.html", html(card))
    write_text_file(folder / "card.md", markdown(card))
    return folder / "card.html", record.verdict


def print_audit(record: Audit) -> None:
    """Print the findings, the checks that were left out, and the verdict."""
    from rich.text import Text

    if record.read_as:
        print_lines(plain(f"{record.name}: {record.read_as}"))
    print_lines(f"{plain(record.name)}: {size_text(record, '')}")
    rows = text_table("check", "value", "interval", numbers_from=1).rich()
    rows.columns[0].no_wrap = False  # on a narrow terminal names make room for the numbers
    rows.add_column("verdict", no_wrap=True, min_width=len("verdict"))
    rows.add_column("passes if")
    for each in record.findings:
        verdict = Text(each.verdict, "green" if each.verdict == "pass" else "yellow")
        interval = "too few" if each.reason else format_interval(each)
        texts = (Text(plain(cell)) for cell in (each.name, format_value(each), interval))
        rows.add_row(*texts, verdict, Text(plain(each.threshold)))
    print_tables(rows, gap=False)
    reasons = {each.name: each.reason.removeprefix("too few for an interval: ") for each in record.findings}
    lines = [f"too few  {name}: {reason}" for name, reason in reasons.items() if reason]
    for each in record.warnings:
        listed = ", ".join((*each.items[:_NAMED], *(["..."] if len(each.items) > _NAMED else ())))
        names = f" ({listed})" if listed else ""
        lines.append(f"warn  {each.name}: {each.title}: {format_value(each)}; {each.says}{names}")
    lines += [f"not checked  {skipped.name}: {skipped.reason}" for skipped in record.not_done]
    print_lines(*map(plain, lines), plain(record.verdict))


def _dump_json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def print_detection(detection: Detection) -> None:
    """Print how well a detector separates origins, and its score on the benchmark by that alone."""
    folds = detection.folds
    fitted_on = detection.trained_on if folds is None else f"the other {folds - 1} of {folds} folds"
    counts = f"{detection.pairs}: {detection.items:,} items, {detection.clusters:,} clusters"
    print_lines(plain(f"{counts}; heads on {detection.model}, fitted on {fitted_on}"))
    rows = (
        (name, percent(score.value), score.reason if score.low is None or score.high is None
         else f"[{percent(score.low)}, {percent(score.high)}]")
        for name, score in detection.scores.items()
    )  # fmt: skip
    print_tables(text_table("detector", "%", "interval", numbers_from=1, rows=rows), gap=False)
    alone = detection.scores["format_accuracy"]
    if alone.value > 0.5 and (alone.low is None or alone.low > 0.5):
        sides = "; ".join(f"{name} {first:,} and {second:,}" for name, (first, second) in detection.formats.items())
        kinds = f"natural and synthetic ones are {sides}; write both in one format, and measure again"
        print_lines(f"the file format alone separates {percent(alone.value)} % of the pictures (chance: 50 %): {kinds}")
