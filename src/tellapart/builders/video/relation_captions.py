"""Sentences for Action Genome's relations, after EqBen's template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tellapart.builders.video.scene_graphs import Relations

__all__ = ["Sentence", "Verb", "sentence"]

Verb = Literal["attention", "contacting", "both"]


def _by_label(*words: str) -> dict[str, str]:
    return {text.replace(" ", ""): text for text in words}


#: Words by label. Labels without a meaning (unsure, otherrelationship), or without one in the template (in him/her),
#: have no words.
_WORDS: Mapping[str, Mapping[str, str]] = {
    "attention": _by_label("looking at", "not looking at"),
    "spatial": _by_label("above", "beneath", "in front of", "behind", "on the side of"),
    "contacting": _by_label(
        "carrying", "covered by", "drinking from", "eating", "holding", "leaning on", "lying on", "not contacting",
        "sitting on", "standing on", "touching", "twisting", "wearing", "wiping", "writing on",
    ) | {"haveitontheback": "carrying on his/her back"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sentence:
    """A caption, and the label of each relation that it states."""

    text: str
    labels: Mapping[str, str]

    def holds_for(self, relations: Relations) -> bool:
        """Tell whether everything it states is annotated of another frame, too.

        >>> Sentence("", {"spatial": "behind"}).holds_for({"spatial": ("behind", "above")})
        True
        """
        return all(label in relations[kind] for kind, label in self.labels.items())


def sentence(thing: str, relations: Relations, verb: Verb = "attention") -> Sentence | None:
    """Return "The person is <verb> the <object> which is <spatial> him/her.", or None where no label has words.

    An object may have several labels of a relation: the first one that has words is taken. A class of several names,
    such as "cup/glass/bottle", is joined by "or": the annotations do not tell which it is.

    Args:
        thing: the object's class.
        relations: labels by relation.
        verb: the relation that becomes the verb; the paper's template has `attention`, its Figure 16 `contacting`.

    Source: EqBen, appendix B.1 and Figure 16.

    >>> labels = {"attention": ("unsure",), "spatial": ("behind",), "contacting": ("carrying",)}
    >>> sentence("pillow", labels, "contacting").text
    'The person is carrying the pillow which is behind him/her.'
    >>> sentence("pillow", labels) is None
    True
    """
    kinds = (("attention", "contacting") if verb == "both" else (verb,)) + ("spatial",)
    labels: dict[str, str] = {}
    for kind in kinds:
        label = next((label for label in relations[kind] if label in _WORDS[kind]), None)
        if label is None:
            return None
        labels[kind] = label
    *first, last = thing.split("/")
    name = f"{', '.join(first)} or {last}" if first else last
    verbs = " and ".join(_WORDS[kind][labels[kind]] for kind in kinds[:-1])
    spatial = _WORDS["spatial"][labels["spatial"]]
    return Sentence(f"The person is {verbs} the {name} which is {spatial} him/her.", labels)
