"""Sentences for Action Genome's relations, after EqBen's template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tellapart.builders.video.scene_graphs import Relations

__all__ = ["Sentence", "Verb", "sentence"]

Verb = Literal["attention", "contacting", "both"]

#: Labels that say nothing (unsure, otherrelationship), or nothing sensible in the template (in him/her), have no words.
_WORDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "attention": {"lookingat": "looking at", "notlookingat": "not looking at"},
        "spatial": {
            "above": "above",
            "beneath": "beneath",
            "infrontof": "in front of",
            "behind": "behind",
            "onthesideof": "on the side of",
        },
        "contacting": {
            "carrying": "carrying",
            "coveredby": "covered by",
            "drinkingfrom": "drinking from",
            "eating": "eating",
            "haveitontheback": "carrying on his/her back",
            "holding": "holding",
            "leaningon": "leaning on",
            "lyingon": "lying on",
            "notcontacting": "not contacting",
            "sittingon": "sitting on",
            "standingon": "standing on",
            "touching": "touching",
            "twisting": "twisting",
            "wearing": "wearing",
            "wiping": "wiping",
            "writingon": "writing on",
        },
    }
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A caption, and which label of each relation it states.

    >>> Sentence("The person is holding the cup.", {"contacting": "holding"}).holds_for({"contacting": ("touching",)})
    False
    """

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

    An object may have several labels of a relation: the first one that can be said is taken. A class of several names,
    such as "cup/glass/bottle", is said with "or": the annotations do not tell which it is.

    Args:
        thing: the object's class.
        relations: labels by relation.
        verb: the relation that is said as the verb; the paper's template has `attention`, its Figure 16 `contacting`.

    Source: EqBen, appendix B.1 and Figure 16.

    >>> labels = {"attention": ("unsure",), "spatial": ("behind",), "contacting": ("carrying",)}
    >>> sentence("pillow", labels, "contacting").text
    'The person is carrying the pillow which is behind him/her.'
    >>> sentence("pillow", labels) is None
    True
    """
    kinds = (("attention", "contacting") if verb == "both" else (verb,)) + ("spatial",)
    said: dict[str, str] = {}
    for kind in kinds:
        label = next((label for label in relations[kind] if label in _WORDS[kind]), None)
        if label is None:
            return None
        said[kind] = label
    *first, last = thing.split("/")
    named = f"{', '.join(first)} or {last}" if first else last
    verbs = " and ".join(_WORDS[kind][said[kind]] for kind in kinds[:-1])
    return Sentence(f"The person is {verbs} the {named} which is {_WORDS['spatial'][said['spatial']]} him/her.", said)
