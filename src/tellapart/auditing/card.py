"""The data card of a pair set: its audit, its datasheet and some of its items, in markdown and as one HTML file.

The page asks nothing of the network and runs no script; both forms escape captions, tags and answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tellapart.auditing.audit import Audit
from tellapart.auditing.datasheet import QUESTIONS, DatasheetAnswer, DatasheetQuestion, answers, field_text
from tellapart.auditing.finding import format_interval, format_value
from tellapart.data.pairset import PairSet
from tellapart.errors import plain
from tellapart.report.image_sources import Album, album
from tellapart.report.page import page_environment

if TYPE_CHECKING:
    from jinja2 import Environment

#: The beginning of an answer that nobody wrote.
COUNTED = "Counted:"


def count_answers(pairs: PairSet, audit: Audit) -> dict[str, str]:
    """Return the answers by the questions' keys; each begins with "Counted:"."""
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


#: Items that a card shows, evenly spread over the set.
SAMPLES = 12

#: Characters that their pictures may take in the file.
_BUDGET = 4_000_000

#: Fields of a set's card that a data card shows.
_FACTS = ("description", "licence", "creators", "source", "citation", "masks")

_HOW_TO_ANSWER = (
    "To answer, fill in these fields of datasheet in card.json, in the folder of the set (or of the table), and audit "
    "again; tellapart audit SET --to DIR writes a card.json that has them all."
)

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def size_text(audit: Audit, unit: str = " (images x texts)") -> str:
    """Write how large a set is."""
    pictures = f", {audit.images:,} distinct pictures" if audit.images is not None else ""
    size = f"{audit.items:,} items of {audit.shape[0]}x{audit.shape[1]}{unit}, {audit.texts:,} distinct captions"
    return f"{size}{pictures}, {audit.clusters:,} clusters"


@dataclass(frozen=True, slots=True)
class Card:
    """The content of both forms of a card; questions of the datasheet by section, and the items that are shown."""

    audit: Audit
    facts: dict[str, str]
    sections: dict[str, list[DatasheetAnswer]]
    open_questions: dict[str, list[DatasheetQuestion]]
    samples: list[dict[str, Any]]
    pictures: Album
    questions: int = len(QUESTIONS)

    @property
    def answered(self) -> bool:
        """Whether the set's card answers a question; the audit has counted the others' answers."""
        return any(not answer.text.startswith(COUNTED) for group in self.sections.values() for answer in group)

    @property
    def unanswered(self) -> int:
        """How many questions have no answer."""
        return sum(map(len, self.open_questions.values()))


def make_card(pairs: PairSet, audit: Audit) -> Card:
    """Gather a set's card."""
    replies = answers(pairs.card, count_answers(pairs, audit))
    sections: dict[str, list[DatasheetAnswer]] = {}
    without: dict[str, list[DatasheetQuestion]] = {}
    for answer in replies:
        section = answer.question.section
        if answer.text:
            sections.setdefault(section, []).append(answer)
        else:
            without.setdefault(section, []).append(answer.question)
    count = min(SAMPLES, len(pairs))
    chosen = [pairs.items[k * len(pairs) // count] for k in range(count)]
    samples = [
        {"id": item.id, "tags": item.tags, "texts": item.texts, "images": item.images,
         "true": item.truths if len(item.images) == 1 else ()}
        for item in chosen
    ]  # fmt: skip
    # If no picture was read, none may be readable.
    images = [item.images for item in chosen] if audit.images is not None else []
    facts = {name: text for name in _FACTS if (text := field_text(pairs.card, name))}
    return Card(audit, facts, sections, without, samples, album(images, pairs.read_bytes, _BUDGET))


def html(card: Card) -> str:
    """Return the card as one HTML file."""
    return _render(page_environment(), "card.html.j2", card)


def markdown(card: Card) -> str:
    """Return the card as markdown, without pictures."""
    # Its own filter escapes all texts, not as HTML.
    environment = page_environment().overlay(autoescape=False)
    environment.filters = {**environment.filters, "md": _escape_markdown}
    return _render(environment, "card.md.j2", card)


def _render(environment: Environment, name: str, card: Card) -> str:
    template = files("tellapart.auditing").joinpath(name).read_text(encoding="utf-8")
    shown = {"card": card, "audit": card.audit, "value": format_value, "interval": format_interval}
    shown |= {"how_to_answer": _HOW_TO_ANSWER, "size": size_text(card.audit)}
    return environment.from_string(template).render(shown)


def _escape_markdown(text: str) -> str:
    """Write untrusted text on one line, so that markdown takes it as text."""
    return _MARKDOWN.sub(r"\\\1", plain(" ".join(text.split())))
