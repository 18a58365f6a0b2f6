"""Audit a pair set: the function of `tellapart audit`."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout

from tellapart.auditing.audit import Audit, Options
from tellapart.auditing.card import html, make_card
from tellapart.auditing.kept import kept_audit
from tellapart.auditing.show import print_audit, write_audit
from tellapart.benchmarks.arguments import PairsGiven, load_sets, locations
from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.pairset import PairSet
from tellapart.report.frame import Frame
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.report.terminal import print_text

__all__ = ["Audited", "audit"]


def audit(
    pairs: PairsGiven,
    *,
    against: PairsGiven | None = None,
    to: PathGiven | None = None,
    text_model: str | None = None,
    grammar_model: str | None = None,
    detector_model: str | None = None,
    model: str | None = None,
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
    with reporting(progress) as report:
        update = None if report is None else report("audit")
        own, other = load_sets(pairs, against, place)
        record = kept_audit(own, Options(other, text_model, read_images, update, detector_model, grammar_model, model))
    lines = () if to is None else tuple(write_audit(as_path(to, "to"), own, record))
    return Audited(record, own, lines)


class Audited(Frame):
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

    def __repr__(self) -> str:
        with redirect_stdout(io.StringIO()) as text:
            self.show()
        return "\n".join(line.rstrip() for line in text.getvalue().strip().splitlines())
