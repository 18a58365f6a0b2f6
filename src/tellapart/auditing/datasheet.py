"""The questions of a datasheet, and a set's answers to them. No answer is ever invented.

An audit answers those that it has counted (`counted`). A card answers a question in its object `datasheet`, by the
question's key; four fields of a card answer one, too (`description`, `source`, `licence`, `creators`). A question
without an answer, or with the answer null, is shown as unanswered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tellapart.errors import DataError, nearest, quote


@dataclass(frozen=True, slots=True)
class DatasheetQuestion:
    """One question; a card's field, and the property of Croissant's vocabulary, that have its answer, too."""

    key: str
    section: str
    text: str
    card: str = ""
    rai: str = ""


@dataclass(frozen=True, slots=True)
class DatasheetAnswer:
    """A question and its answer; empty if there is none."""

    question: DatasheetQuestion
    text: str


#: Fields of a card beside its `datasheet` that a person fills in: texts, but for `creators`, a list of names.
CARD_FIELDS = ("title", "description", "licence", "url", "creators", "date_published", "citation", "version")

_CARD = {"instances": "description", "acquired": "source", "licence": "licence", "creators": "creators"}

_RAI = {
    "acquired": "dataCollection",
    "preprocessing": "dataPreprocessingProtocol",
    "errors": "dataLimitations",
    "sensitive": "personalSensitiveInformation",
    "purpose": "dataUseCases",
    "use_risks": "dataSocialImpact",
    "updates": "dataReleaseMaintenancePlan",
}

# In short, after Gebru et al. (2021), Datasheets for Datasets, Communications of the ACM 64 (12), sec. 3.
_SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Motivation": {
        "purpose": "For what purpose was the set created?",
        "creators": "Who created it, on behalf of whom?",
        "funding": "Who funded its creation?",
        "motivation_comments": "Any other comments on its motivation?",
    },
    "Composition": {
        "instances": "What do the items represent?",
        "count": "How many items are there, of each type?",
        "sample": "Does it hold all possible items, or a sample of them?",
        "instance_data": "What data does each item consist of?",
        "labels": "Is there a label or target for each item?",
        "missing": "Is anything missing from individual items?",
        "relationships": "Are relations between items made explicit?",
        "splits": "Are there recommended splits?",
        "errors": "Are there errors, sources of noise, or redundancies?",
        "self_contained": "Is it self-contained, or does it rely on external resources?",
        "confidential": "Does it hold data that might be confidential?",
        "offensive": "Does it hold data that might offend, threaten or cause anxiety?",
        "subpopulations": "Does it identify subpopulations of people?",
        "identifiable": "Can individuals be identified from it?",
        "sensitive": "Does it hold data that might be sensitive?",
        "composition_comments": "Any other comments on its composition?",
    },
    "Collection": {
        "acquired": "How was the data of each item acquired?",
        "mechanisms": "By what mechanisms was it collected, and how were they validated?",
        "sampling": "If it is a sample, how was it drawn?",
        "collectors": "Who collected it, and how were they paid?",
        "timeframe": "Over what time was it collected?",
        "ethical_review": "Were there ethical reviews?",
        "direct_collection": "Was data about people collected from them, or through others?",
        "notification": "Were the people told of the collection?",
        "consent": "Did they consent to collection and use?",
        "revocation": "Can they revoke their consent?",
        "impact_analysis": "Was the impact on the people in it analysed?",
        "collection_comments": "Any other comments on its collection?",
    },
    "Preprocessing": {
        "preprocessing": "Was the data preprocessed, cleaned or labelled?",
        "raw_data": "Was the raw data kept?",
        "software": "Is the software that did it available?",
        "preprocessing_comments": "Any other comments on its preprocessing?",
    },
    "Uses": {
        "used_already": "Has it been used for any tasks already?",
        "repository": "Is there a list of papers or systems that use it?",
        "other_tasks": "What other tasks could it be used for?",
        "use_risks": "Does anything about it bear on future uses (unfair treatment, other harms)?",
        "misuse": "For which tasks should it not be used?",
        "uses_comments": "Any other comments on its uses?",
    },
    "Distribution": {
        "third_parties": "Will it be distributed to third parties?",
        "distribution_means": "How will it be distributed?",
        "distribution_date": "When will it be distributed?",
        "licence": "Under which licence or terms of use?",
        "ip_restrictions": "Have third parties imposed restrictions on it?",
        "export_controls": "Do export controls or other regulations apply?",
        "distribution_comments": "Any other comments on its distribution?",
    },
    "Maintenance": {
        "maintainer": "Who supports, hosts and maintains it?",
        "contact": "How can the maintainer be contacted?",
        "erratum": "Is there an erratum?",
        "updates": "Will it be updated, how often and by whom?",
        "retention": "If it relates to people, are there limits on how long their data is kept?",
        "old_versions": "Will older versions be supported?",
        "contributions": "Can others extend it, and how?",
        "maintenance_comments": "Any other comments on its maintenance?",
    },
}

QUESTIONS: tuple[DatasheetQuestion, ...] = tuple(
    DatasheetQuestion(key, section, text, _CARD.get(key, ""), _RAI.get(key, ""))
    for section, questions in _SECTIONS.items()
    for key, text in questions.items()
)
"""All questions, in the datasheet's order."""


def answers(card: Mapping[str, Any], counted: Mapping[str, str] = MappingProxyType({})) -> list[DatasheetAnswer]:
    """Return every question with the card's answer, or else one that was counted in the set.

    >>> [(a.question.key, a.text) for a in answers({"licence": "CC0", "datasheet": {"purpose": "a test"}}) if a.text]
    [('purpose', 'a test'), ('licence', 'CC0')]
    """
    datasheet = card.get("datasheet", {})
    if not isinstance(datasheet, Mapping):
        raise DataError(f"card.json: field 'datasheet': expected an object of answers, got {quote(datasheet)}")
    known = [question.key for question in QUESTIONS]
    for key, value in datasheet.items():
        if key not in known:
            raise DataError(f"card.json: field 'datasheet': no question {quote(key)}{nearest(key, known)}")
        if value is not None and not isinstance(value, str):
            raise DataError(f"card.json: field 'datasheet.{key}': expected a text or null, got {quote(value)}")
    replies = []
    for question in QUESTIONS:
        written = datasheet.get(question.key) or (field_text(card, question.card) if question.card else "")
        text = written or counted.get(question.key, "")
        replies.append(DatasheetAnswer(question, text.strip()))
    return replies


def field_text(card: Mapping[str, Any], name: str) -> str:
    """Return a field of a card as a text, a list's names joined; empty if it is neither."""
    value = card.get(name)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else ""


def with_questions(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the card with the fields of `CARD_FIELDS` and every question in its `datasheet`; null for open ones."""
    datasheet = {answer.question.key: answer.text or None for answer in answers(card)}
    return {**dict.fromkeys(CARD_FIELDS), **card, "datasheet": datasheet}
