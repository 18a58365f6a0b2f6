"""The audit of a pair set: all checks, and the record of their findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from tellapart.auditing.captions import (
    bag_of_words,
    blind_accuracy,
    find_context,
    grammar_gap,
    length_gaps,
    lost_captions,
    mixed_scripts,
    open_tagger,
    plausibility_gap,
    seen_bindings,
    torn_sides,
    truth_first,
)
from tellapart.auditing.finding import Finding, NotDone, judge
from tellapart.auditing.origin import detectability
from tellapart.auditing.pictures import (
    Change,
    ImageScan,
    caption_duplicates,
    caption_leak,
    change_findings,
    changes_by_field,
    picture_duplicates,
    picture_leak,
    scan_images,
)
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.errors import counted
from tellapart.models.text.find import find_text_scorer
from tellapart.models.text.tinystories import TinyStories
from tellapart.records.result import Record

#: With fewer items of a value, the interval of its scores is too wide to mean much.
_FEWEST_ITEMS = 20

#: A tag with more values than this is an identifier, not a breakdown.
_MOST_VALUES = 64


def tag_counts(pairs: PairSet) -> dict[str, dict[str, int]]:
    """Return tag -> value -> number of items; a tag of more than 64 values is an identifier and left out."""
    counts: dict[str, Counter[str]] = {}
    for item in pairs.items:
        for tag, value in item.tags.items():
            counts.setdefault(tag, Counter())[value] += 1
    return {tag: dict(sorted(values.items())) for tag, values in sorted(counts.items()) if len(values) <= _MOST_VALUES}


def tag_balance(pairs: PairSet) -> list[Finding]:
    """Return a finding for each tag: the number of items of its rarest value, and how even the values are.

    Evenness is the entropy of the values divided by its maximum: Pielou (1966), J. Theor. Biol. 13, 131-144.
    """
    findings = []
    for tag, counts in tag_counts(pairs).items():
        shares = np.array([*counts.values()], np.float64) / sum(counts.values())
        evenness = 1.0 if len(shares) == 1 else float(-(shares * np.log(shares)).sum() / np.log(len(shares)))
        rarest = sorted(counts.items(), key=lambda entry: (entry[1], entry[0]))[:3]
        listed = ", ".join(f"{value} ({count:,})" for value, count in rarest)
        summary = f"{counted(len(counts), 'value')}, evenness {evenness:.2f}; rarest: {listed}"
        fewest, title = rarest[0][1], f"items of the rarest value of the tag {tag!r}"
        size, warns = {"value": fewest, "n": sum(counts.values())}, fewest < _FEWEST_ITEMS
        findings.append(judge(f"tag: {tag}", title, size, f"at least {_FEWEST_ITEMS}", warns, summary, unit="items"))
    return findings


class ItemChange(Record):
    """The changes between an item's pictures."""

    id: str
    change: Change


class Audit(Record):
    """The findings on a pair set, `against` another if one was named.

    `images` and `fingerprint` are None if pictures were not read; clusters are the units that intervals resample.
    `tags` counts items by tag and value. `changes_by_field` counts changes by the field of the picture, cut into 3 x 3,
    in which their centre lies. `bindings`: item's id -> `seen`, `partly`, `unseen` in the corpus, or `none`.
    """

    schema_version: Literal[1] = 1
    name: str
    title: str
    items: int
    shape: tuple[int, int]
    images: int | None
    texts: int
    clusters: int
    read_as: str = ""
    fingerprint: str | None
    against: str | None
    findings: list[Finding]
    not_done: list[NotDone]
    tags: dict[str, dict[str, int]]
    changes: list[ItemChange]
    changes_by_field: list[list[int]]
    bindings: dict[str, str] = Field(default_factory=dict)

    @property
    def warnings(self) -> list[Finding]:
        """Findings that miss their threshold."""
        return [finding for finding in self.findings if finding.verdict == "warn"]

    @property
    def verdict(self) -> str:
        """A sentence on all checks: how many of them warn, and the names of these."""
        if not (names := [finding.name for finding in self.warnings]):
            return f"none of {len(self.findings)} checks warns"
        return f"{len(names)} of {len(self.findings)} checks warn: {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an audit, as `tellapart.audit` takes them."""

    against: PairSet | None = None
    text_model: str | None = None
    pictures: bool = True
    progress: Progress | None = None
    detector_model: str | None = None
    grammar_model: str | None = None
    model: str | None = None
    corpus: Path | None = None
    tagger: str | None = None


def audit(pairs: PairSet, options: Options | None = None) -> Audit:
    """Return the findings of every check that the set's shape and the options allow, and the checks not done."""
    options, original = options or Options(), pairs
    pairs = original.one_truth()  # most checks compare the first of several true texts with the false ones
    scan = scan_images(pairs, progress=options.progress) if options.pictures else None
    findings, not_done = _check_captions(pairs, original, options)
    if scan is None:
        not_done += [NotDone(name="pictures", reason="--no-images: no picture was read, so none was compared")]
    else:
        findings += picture_duplicates(original, scan)
        if scan.changes:
            findings += change_findings(scan.changes, pairs)
        else:
            not_done.append(NotDone(name="change", reason="items have one picture: nothing changes within an item"))
    model, progress = options.detector_model, options.progress
    origin_findings, skipped = detectability(pairs, pictures=options.pictures, model=model, progress=progress)
    if (order := truth_first(original)) is None and 1 in original.shape:
        reason = "no item names the place of its true entry: by the set's form it is the first"
        not_done.append(NotDone(name="order: truth first", reason=reason))
    findings += [*([order] if order else []), torn_sides(original)]
    binding_findings, bindings = _find_bindings(pairs, options, not_done)
    findings += [*origin_findings, *_compare_other(original, scan, options, not_done)]
    findings += [*binding_findings, *tag_balance(pairs)]
    not_done += skipped
    changes = scan.changes if scan else ()
    return Audit(
        name=pairs.name,
        title=title_of(pairs),
        items=len(pairs),
        shape=original.shape,
        images=len(set(scan.pixels.values())) if scan else None,
        texts=len({text for item in original.items for text in item.texts}),
        clusters=len({item.cluster for item in pairs.items}),
        read_as=pairs.read_as,
        fingerprint=original.fingerprint(scan.pixels.__getitem__) if scan else None,
        against=options.against.name if options.against else None,
        findings=findings,
        not_done=not_done,
        tags=tag_counts(pairs),
        # There is a change for each item, or none at all.
        changes=[ItemChange(id=item.id, change=change) for item, change in zip(pairs.items, changes, strict=False)],
        changes_by_field=changes_by_field(changes),
        bindings=bindings,
    )


def title_of(pairs: PairSet) -> str:
    """Return the title on a set's card, or else its name without folders."""
    return str(pairs.card.get("title") or pairs.card.get("name") or pairs.name.rpartition("/")[2])


def _check_captions(pairs: PairSet, original: PairSet, options: Options) -> tuple[list[Finding], list[NotDone]]:
    """Check captions alone: of `pairs` with one true caption an item, of the `original` with all of them."""
    not_done = []
    any_shape = [mixed_scripts(original)]
    if options.model is None:
        not_done.append(NotDone(name="context", reason="no --model to be measured was named (or 77 of CLIP's tokens)"))
    else:
        any_shape += lost_captions(find_context(options.model), options.model, original, options.progress)
    if pairs.shape[1] == 1:
        reason = "items have one caption: there is none to tell it from"
        not_done.append(NotDone(name="blind, length, plausibility, grammar", reason=reason))
        return [*caption_duplicates(original)[1:], *any_shape], not_done  # none is false, so none comes twice
    findings = [blind_accuracy(find_text_scorer("blind", Path()), pairs, options.progress)]
    if options.text_model is None:
        not_done.append(NotDone(name="plausibility", reason="no --text-model was named (tinystories:PATH, say)"))
    else:
        model = find_text_scorer(options.text_model, Path())
        findings.append(blind_accuracy(model, pairs, options.progress))
        if isinstance(model, TinyStories):
            findings.append(plausibility_gap(model, pairs, options.progress))
    if options.grammar_model is None:
        reason = "no --grammar-model was named (link-grammar or classifier:FOLDER#LABEL, say)"
        not_done.append(NotDone(name="grammar", reason=reason))
    else:
        findings.append(grammar_gap(find_text_scorer(options.grammar_model, Path()), pairs, options.progress))
    return [*findings, *length_gaps(pairs), bag_of_words(pairs), *caption_duplicates(original), *any_shape], not_done


def _compare_other(pairs: PairSet, scan: ImageScan | None, options: Options, not_done: list[NotDone]) -> list[Finding]:
    """Return what a set shares with another one, if one was named; else add to `not_done`."""
    if options.against is None:
        not_done.append(NotDone(name="leak", reason="no other set was named (--against OTHER)"))
        return []
    findings = [caption_leak(pairs, options.against)]
    if scan is not None:
        other_scan = scan_images(options.against, changes=False, progress=options.progress)
        findings += picture_leak(pairs, scan, options.against, other_scan)
    return findings


def _find_bindings(pairs: PairSet, options: Options, not_done: list[NotDone]) -> tuple[list[Finding], dict[str, str]]:
    """Look for the captions' bindings in a corpus; return the finding and items' classes, or add to `not_done`."""
    if options.corpus is None or options.tagger is None or pairs.shape[1] == 1:
        reason = "no corpus of captions was named (--corpus FILE --tagger nltk:FOLDER)"
        not_done.append(NotDone(name="bindings", reason="items have one caption" if options.corpus else reason))
        return [], {}
    finding, classes = seen_bindings(pairs, options.corpus, open_tagger(options.tagger), options.progress)
    return [finding], classes
