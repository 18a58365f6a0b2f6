"""All checks of a pair set, and the record of what they found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tellapart.audit.balance import tag_balance, tag_counts
from tellapart.audit.blind import blind_accuracy, plausibility_gap
from tellapart.audit.change import Change, change_findings, changes_by_field
from tellapart.audit.detectable import detectability
from tellapart.audit.duplicates import caption_duplicates, picture_duplicates
from tellapart.audit.finding import Finding, NotDone
from tellapart.audit.grammar import grammar_gap
from tellapart.audit.image_scan import Look, look
from tellapart.audit.leak import caption_leak, picture_leak
from tellapart.audit.lengths import length_gaps
from tellapart.audit.words import bag_of_words
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.models.text.find import find_text_scorer
from tellapart.models.text.tinystories import TinyStories

__all__ = ["Audit", "ItemChange", "Options", "audit"]


class ItemChange(BaseModel):
    """What changes between an item's pictures.

    >>> ItemChange(id="a", change=Change(share=0.5)).change.share
    0.5
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    change: Change


class Audit(BaseModel):
    """What was found in a pair set.

    Attributes:
        name: the set's, as it was asked for.
        title: as its card has it.
        items, shape: how many items, of how many images and texts.
        images: distinct pictures, by their pixels; None if they were not read.
        texts: distinct captions.
        clusters: what intervals resample.
        fingerprint: over ids, texts and pixels; None if pictures were not read.
        against: the set that it was compared with.
        findings: one number each.
        not_done: checks that were not made, and why.
        tags: items by tag and value.
        changes: of each item; empty if items have one picture.
        changes_by_field: items by where the change's centre lies, 3 rows of 3 fields of the picture.

    >>> Audit.model_fields["schema_version"].default
    1
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    name: str
    title: str
    items: int
    shape: tuple[int, int]
    images: int | None
    texts: int
    clusters: int
    fingerprint: str | None
    against: str | None
    findings: list[Finding]
    not_done: list[NotDone]
    tags: dict[str, dict[str, int]]
    changes: list[ItemChange]
    changes_by_field: list[list[int]]

    @property
    def warnings(self) -> list[Finding]:
        """Findings that do not keep their threshold.

        >>> from tellapart.benchmarks.find import load_pairs
        >>> pairs = load_pairs("demo").select(range(2))
        >>> [finding.name for finding in audit(pairs, Options(pictures=False)).warnings]
        ['tag: aspect', 'tag: change', 'tag: held_out']
        """
        return [finding for finding in self.findings if finding.verdict == "warn"]


@dataclass(frozen=True, slots=True)
class Options:
    """What an audit does beside its own checks.

    Attributes:
        against: another set, to find what both hold.
        text_model: a model of texts alone, to ask which caption is the likelier.
        pictures: whether pictures are read.
        progress: told what is done.
        grammar_model: a scorer of texts that says how grammatical one is.
        detector_model: a dual encoder on whose vectors it is tried to tell first entries from the others, too.

    >>> Options().pictures
    True
    """

    against: PairSet | None = None
    text_model: str | None = None
    pictures: bool = True
    progress: Progress | None = None
    detector_model: str | None = None
    grammar_model: str | None = None


def audit(pairs: PairSet, options: Options | None = None) -> Audit:
    """Make every check that can be made.

    Raises:
        DataError: a picture is missing or cannot be decoded.
        ModelError, UnknownNameError: the text model cannot be had or cannot read a caption; the detector's model cannot
            be had or is no dual encoder.

    >>> from tellapart.benchmarks.find import load_pairs
    >>> found = audit(load_pairs("demo").select(range(4)))
    >>> found.images, found.findings[0].name
    (8, 'blind: blind')
    """
    options = options or Options()
    seen = look(pairs, progress=options.progress) if options.pictures else None
    findings, not_done = _of_captions(pairs, options)
    if seen is None:
        not_done += [NotDone(name="pictures", reason="--no-images: no picture was read, so none was compared")]
    else:
        findings += picture_duplicates(pairs, seen)
        if seen.changes:
            findings += change_findings(seen.changes, pairs)
        else:
            not_done.append(NotDone(name="change", reason="items have one picture: nothing changes within an item"))
    found, skipped = detectability(
        pairs, pictures=options.pictures, model=options.detector_model, progress=options.progress
    )
    findings += found + _of_other(pairs, seen, options, not_done) + tag_balance(pairs)
    not_done += skipped
    changes = seen.changes if seen else ()
    return Audit(
        name=pairs.name,
        title=str(pairs.card.get("title") or pairs.card.get("name") or pairs.name.rpartition("/")[2]),
        items=len(pairs),
        shape=pairs.shape,
        images=len(set(seen.pixels.values())) if seen else None,
        texts=len({text for item in pairs.items for text in item.texts}),
        clusters=len({item.cluster for item in pairs.items}),
        fingerprint=pairs.fingerprint(seen.pixels.__getitem__) if seen else None,
        against=options.against.name if options.against else None,
        findings=findings,
        not_done=not_done,
        tags=tag_counts(pairs),
        changes=[ItemChange(id=item.id, change=each) for item, each in zip(pairs.items, changes, strict=False)],
        changes_by_field=changes_by_field(changes),
    )


def _of_captions(pairs: PairSet, options: Options) -> tuple[list[Finding], list[NotDone]]:
    """Make the checks that read captions alone."""
    not_done = []
    if pairs.shape[1] == 1:
        reason = "items have one caption: there is none to tell it from"
        return caption_duplicates(pairs)[1:], [NotDone(name="blind, length, plausibility, grammar", reason=reason)]
    findings = [blind_accuracy(find_text_scorer("blind", Path()), pairs)]
    if options.text_model is None:
        reason = "no --text-model was named (tinystories:PATH, say)"
        not_done.append(NotDone(name="plausibility", reason=reason))
    else:
        model = find_text_scorer(options.text_model, Path())
        findings.append(blind_accuracy(model, pairs))
        if isinstance(model, TinyStories):
            findings.append(plausibility_gap(model, pairs))
    if options.grammar_model is None:
        reason = "no --grammar-model was named (link-grammar or classifier:FOLDER#LABEL, say)"
        not_done.append(NotDone(name="grammar", reason=reason))
    else:
        findings.append(grammar_gap(find_text_scorer(options.grammar_model, Path()), pairs))
    return [*findings, *length_gaps(pairs), bag_of_words(pairs), *caption_duplicates(pairs)], not_done


def _of_other(pairs: PairSet, seen: Look | None, options: Options, not_done: list[NotDone]) -> list[Finding]:
    """Compare with another set, if one was given."""
    if options.against is None:
        not_done.append(NotDone(name="leak", reason="no other set was named (--against OTHER)"))
        return []
    found = [caption_leak(pairs, options.against)]
    if seen is not None:
        there = look(options.against, changes=False, progress=options.progress)
        found += picture_leak(pairs, seen, options.against, there)
    return found
