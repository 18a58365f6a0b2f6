"""Answers to questions of the datasheet that an audit has counted: the set's card need not repeat them."""

from __future__ import annotations

from collections.abc import Iterator

from tellapart.auditing.audit import Audit
from tellapart.data.pairset import PairSet

__all__ = ["COUNTED", "count_answers"]

#: The beginning of an answer that nobody wrote.
COUNTED = "Counted:"


def count_answers(pairs: PairSet, audit: Audit) -> dict[str, str]:
    """Return the answers by the questions' keys; each begins with "Counted:".

    >>> from tellapart.auditing.audit import Options, audit
    >>> from tellapart.benchmarks.find import load_pairs
    >>> pairs = load_pairs("demo").select(range(2))
    >>> counted = count_answers(pairs, audit(pairs, Options(pictures=False)))
    >>> counted["instance_data"]
    'Counted: an item has 2 images and 2 texts; 4 texts of the set are distinct.'
    """
    return {key: f"{COUNTED} {text}." for key, text in _list_answers(pairs, audit)}


def _list_answers(pairs: PairSet, audit: Audit) -> Iterator[tuple[str, str]]:
    tags = (
        f"; by {tag}: {', '.join(f'{value} {count:,}' for value, count in list(values.items())[:20])}"
        for tag, values in audit.tags.items()
        if len(values) > 1
    )
    yield "count", f"{audit.items:,} items{''.join(tags)}"
    images, texts = audit.shape
    nouns = f"{images} image{'s' * (images > 1)} and {texts} text{'s' * (texts > 1)}"
    distinct = f"{audit.texts:,} texts of the set are distinct"
    if audit.images is not None:
        distinct = f"{audit.images:,} pictures and {distinct}"
    masks = sum(len(item.masks) for item in pairs.items)
    of_things = f"; {masks:,} masks of the things in the images" if masks else ""
    yield "instance_data", f"an item has {nouns}; {distinct}{of_things}"
    truth = "image k belongs to text k" if images == texts else "the true ones are known by their place"
    yield "labels", f"yes, {truth}, in each of {audit.items:,} items"
    lacking = {tag: audit.items - sum(values.values()) for tag, values in audit.tags.items()}
    without = ", ".join(f"{count:,} have no tag {tag}" for tag, count in lacking.items() if count)
    yield "missing", f"every item has its images and texts{f'; {without}' if without else ''}"
    if audit.clusters < audit.items:
        yield "relationships", f"yes, by the field cluster: {audit.items:,} items in {audit.clusters:,} clusters"
    warned = ", ".join(finding.name for finding in audit.warnings)
    checks = f"{len(audit.warnings)} of {len(audit.findings)} checks of this audit warn"
    yield "errors", f"{checks}{f' ({warned})' if warned else ''}"
    if pairs.read is None:
        yield "self_contained", "yes, the images of every item are files in its folder"
