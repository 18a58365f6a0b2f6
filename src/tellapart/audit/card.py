"""The data card of a pair set: what it is, what an audit found, what its makers say of it, and some of its items.

In markdown, and as one HTML file that asks nothing of the network and runs no script. Captions, tags and answers are
untrusted: both forms escape them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from typing import Any

from tellapart.audit import wording
from tellapart.audit.audit import Audit
from tellapart.audit.datasheet import Answer, answers
from tellapart.data.pairset import PairSet
from tellapart.report.numbers import plain
from tellapart.report.pictures import Album, album

__all__ = ["SAMPLES", "Card", "card_of", "html", "markdown"]

#: Items that a card shows, evenly spread over the set.
SAMPLES = 12

#: Characters that their pictures may take in the file.
_BUDGET = 4_000_000

#: What the card of a set says in fields of its own.
_FACTS = {"description": "", "licence": "licence", "source": "source", "citation": "citation"}

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


@dataclass(frozen=True, slots=True)
class Card:
    """What both forms of a card show.

    Attributes:
        audit: what was found.
        facts: what the set's card says: name -> text.
        sections: answered questions of the datasheet, by section.
        unanswered: the others.
        samples: items that are shown: id, tags, captions, image references.
        pictures: of the samples.

    >>> from tellapart.audit.audit import Options, audit
    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> pairs = find_benchmark("demo").pairs().select(range(4))
    >>> card = card_of(pairs, audit(pairs, Options(pictures=False)))
    >>> [sample["id"] for sample in card.samples]
    ['attribute-000', 'attribute-001', 'attribute-002', 'attribute-003']
    """

    audit: Audit
    facts: dict[str, str]
    sections: dict[str, list[Answer]]
    unanswered: list[Answer]
    samples: list[dict[str, Any]]
    pictures: Album


def card_of(pairs: PairSet, found: Audit) -> Card:
    """Gather a set's card.

    Raises:
        DataError: the `datasheet` in the set's card is not what it must be.

    >>> from tellapart.audit.audit import Options, audit
    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> pairs = find_benchmark("demo").pairs().select(range(2))
    >>> card_of(pairs, audit(pairs, Options(pictures=False))).facts["licence"]
    'Apache-2.0'
    """
    replies = answers(pairs.card)
    given = [answer for answer in replies if answer.text]
    count = min(SAMPLES, len(pairs))
    chosen = [pairs.items[k * len(pairs) // count] for k in range(count)]
    shown = [
        {"id": item.id, "tags": item.tags, "texts": item.texts, "images": item.images, "true": pairs.shape[0] == 1}
        for item in chosen
    ]
    # Without the pictures having been read, none is promised.
    wanted = [item.images for item in chosen] if found.images is not None else []
    return Card(
        audit=found,
        facts={name: str(pairs.card[name]) for name in _FACTS if pairs.card.get(name)},
        sections={name: [*group] for name, group in groupby(given, key=lambda answer: answer.question.section)},
        unanswered=[answer for answer in replies if not answer.text],
        samples=shown,
        pictures=album(wanted, pairs.read_bytes, _BUDGET),
    )


def html(card: Card) -> str:
    """Return the card as HTML.

    >>> from tellapart.audit.audit import Options, audit
    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> pairs = find_benchmark("demo").pairs().select(range(2))
    >>> html(card_of(pairs, audit(pairs, Options(pictures=False))))[:15]
    '<!doctype html>'
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = files("tellapart.audit").joinpath("card.html.j2").read_text(encoding="utf-8")
    style = files("tellapart.report").joinpath("page.css").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        card=card, audit=card.audit, style=style, value=wording.value, interval=wording.interval
    )


def markdown(card: Card) -> str:
    """Return the card as markdown, without pictures.

    >>> from tellapart.audit.audit import Options, audit
    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> pairs = find_benchmark("demo").pairs().select(range(2))
    >>> markdown(card_of(pairs, audit(pairs, Options(pictures=False)))).splitlines()[0]
    '# Rendered scenes that differ in one attribute, count or location'
    """
    audit = card.audit
    size = f"{audit.items:,} items of {audit.shape[0]}x{audit.shape[1]} (images x texts), {audit.texts:,} distinct captions"
    pictures = f", {audit.images:,} distinct pictures" if audit.images is not None else ""
    lines = [f"# {_plain(audit.title)}", ""]
    if "description" in card.facts:
        lines += [_plain(card.facts["description"]), ""]
    lines += [f"- {size}{pictures}, {audit.clusters:,} clusters"]
    lines += [f"- {name}: {_plain(text)}" for name, text in card.facts.items() if name != "description"]
    if audit.fingerprint:
        lines.append(f"- fingerprint: `{audit.fingerprint}`")
    lines += ["", "## Audit", "", *_findings(audit), "", "Not checked:", ""]
    lines += [f"- {_plain(each.name)}: {_plain(each.reason)}" for each in audit.not_done]
    lines += _tags(audit) + _datasheet(card)
    lines += ["", "## Items", ""]
    for sample in card.samples:
        lines.append(f"- **{_plain(sample['id'])}**: " + " / ".join(_plain(text) for text in sample["texts"]))
    return "\n".join(lines) + "\n"


def _findings(audit: Audit) -> list[str]:
    lines = ["| check | value | interval | passes if | verdict | |", "|---|---:|---:|---|---|---|"]
    for each in audit.findings:
        cells = (each.title, wording.value(each), wording.interval(each), each.threshold, each.verdict, each.says)
        lines.append("| " + " | ".join(_plain(cell) for cell in cells) + " |")
    return lines


def _tags(audit: Audit) -> list[str]:
    if not audit.tags:
        return []
    lines = ["", "## Tags", ""]
    for tag, values in audit.tags.items():
        lines.append(f"- {_plain(tag)}: " + ", ".join(f"{_plain(name)} ({count:,})" for name, count in values.items()))
    return lines


def _datasheet(card: Card) -> list[str]:
    lines = ["", "## Datasheet"]
    for section, given in card.sections.items():
        lines += ["", f"### {section}", ""]
        lines += [f"- {_plain(answer.question.text)} {_plain(answer.text)}" for answer in given]
    lines += ["", f"### Not answered ({len(card.unanswered)})", ""]
    return lines + [f"- {answer.question.section}: {_plain(answer.question.text)}" for answer in card.unanswered]


def _plain(text: str) -> str:
    """Write untrusted text on one line, so that markdown takes it as text."""
    return _MARKDOWN.sub(r"\\\1", plain(" ".join(text.split())))
