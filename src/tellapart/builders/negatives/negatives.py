"""The builder `negatives`: hard negatives of real captions by rule, after SugarCrepe's subsets."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, dropwhile, pairwise, takewhile
from typing import Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.benchmarks.minimal_pairs import same_words
from tellapart.builders.builder import Candidate, Made, Rejected, Start, about_set
from tellapart.builders.caption_files import ImageFolder, file_digest, read_captions
from tellapart.builders.negatives import lexicon
from tellapart.data.item import Item

# Rules that make a false caption of a true one: swap, replace or add an object, an attribute or a relation.
#
# A rule changes words of the lexicon alone, if their neighbours leave no doubt about their meaning, and corrects the
# article before them. It reads the caption, not the picture: a replaced or added thing may happen to be there, too.

Kind = Literal["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"]

KINDS: tuple[Kind, ...] = get_args(Kind)
"""SugarCrepe's seven subsets, by its names."""

#: The letters after an apostrophe are a word, as in `words`: "a dog's owner" names a dog.
_TOKEN = re.compile(r"\w+|(?<=\w)['’]\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A false caption, and the change that made it, such as "dog -> cat"."""

    text: str
    change: str


class _Unmet(NamedTuple):
    """The missing part of a caption for a rule; of several places, the one at the latest stage came closest."""

    stage: int
    what: str


@dataclass(frozen=True, slots=True)
class _Noun:
    index: int  # among the words
    kind: str
    singular: str
    many: bool

    def form(self, singular: str) -> str:
        return lexicon.plural(singular) if self.many else singular


@dataclass(frozen=True, slots=True)
class _Caption:
    text: str
    written: tuple[str, ...]  # in lower case
    words: tuple[str, ...]  # in the lexicon's spelling, too
    spans: tuple[tuple[int, int], ...]
    nouns: tuple[_Noun, ...]
    denied: int  # the first word of a denial and of all that may be a part of it; else their number
    doubtful: bool  # whether it names an object whose neighbours leave doubt
    british: bool

    def word(self, index: int) -> str | None:
        return self.words[index] if 0 <= index < len(self.words) else None

    def spell(self, word: str) -> str:
        """Return a word of the lexicon as this caption's author would write it."""
        return lexicon.to_british(word) if self.british else word

    def edit(self, edits: Mapping[tuple[int, int], str]) -> str:
        """Return the text with ranges of words replaced, and with the right article before each."""
        with_articles = dict(edits)
        for (first, _), new in edits.items():
            if first > 0 and self.words[first - 1] in {"a", "an"}:
                with_articles[first - 1, first] = lexicon.article(new)
        text = self.text
        recase = str.upper if text.isupper() else str.title if _is_title(text) else str
        for (first, last), new in sorted(with_articles.items(), reverse=True):
            start, end = self.spans[first][0], self.spans[last - 1][1]
            fitting = _capitalize(new, every_noun=first > 0) if text[start].isupper() else new
            text = text[:start] + recase(fitting) + text[end:]
        return text


def _is_title(text: str) -> bool:
    return re.sub(r"['’]\w+", "", text).istitle()


def _capitalize(words: str, *, every_noun: bool) -> str:
    """Return words that begin with a capital; in "A Man in a Car", every noun does."""
    first, *others = words.split()
    small = lexicon.FUNCTION_WORDS if every_noun else others
    return " ".join([first[0].upper() + first[1:], *(w if w in small else w[0].upper() + w[1:] for w in others)])


_NOUNS = [(kind, noun) for kind, group in lexicon.OBJECTS.items() for noun in group]

#: Every form of an object -> its kind, its singular, whether it is a plural; an attribute -> those that it excludes.
_OBJECTS: Mapping[str, tuple[str, str, bool]] = {noun: (kind, noun, False) for kind, noun in _NOUNS} | {
    lexicon.plural(noun): (kind, noun, True) for kind, noun in _NOUNS
}
_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {word: group for group in lexicon.ATTRIBUTES for word in group}


def _read_caption(text: str, *, british: bool = False) -> _Caption:
    matches = list(_TOKEN.finditer(text))
    written = tuple(match[0].lower() for match in matches)
    words = tuple(map(lexicon.to_lexical, written))
    begin = lexicon.denied_from(text)
    # Of "a dog or a cat" both may be exchanged, and the caption stays true.
    denied = -1 if "or" in words else sum(match.end() <= begin for match in matches)
    nouns, doubtful = [], False
    for index, word in enumerate(words):
        if word not in _OBJECTS:
            continue
        kind, singular, many = _OBJECTS[word]
        before = words[index - 1] if index else None
        in_lexicon = before in lexicon.BEFORE_NOUN or before in _ATTRIBUTES
        # Only a plural needs no word before it: "dogs on a bed", "a group of dogs".
        bare = many and (before is None or lexicon.follows_noun(before, preposition=True))
        ends = lexicon.follows_noun(words[index + 1] if index + 1 < len(words) else None)
        if (in_lexicon or bare) and ends and index < denied:
            nouns.append(_Noun(index, kind, singular, many))
        else:
            doubtful = True
    own = lexicon.prefers_british(written)
    spans, spelling = tuple(match.span() for match in matches), british if own is None else own
    return _Caption(text, written, words, spans, tuple(nouns), denied, doubtful, spelling)


_Step = Rewrite | _Unmet

#: "Cars in front of and behind a bus" keeps both.
_BINDING = frozenset({"made", "up", "along", "together", "and"})


def _no_object(caption: _Caption) -> _Unmet:
    reason = "the words beside its objects leave doubt" if caption.doubtful else "it names none that the lexicon knows"
    return _Unmet(0, reason)


def _replace_obj(caption: _Caption) -> Iterator[_Step]:
    yield _no_object(caption)
    nouns = {noun.singular for noun in caption.nouns}
    # "A woman with her dog": the pronoun would have to change, too.
    free = not lexicon.PRONOUNS.intersection(caption.words)
    for noun in caption.nouns:
        if noun.kind in lexicon.PEOPLE and not free:
            yield _Unmet(1, "a pronoun would have to change with its person")
            continue
        yield _Unmet(2, "it names every other of the kind, too")
        for rival in lexicon.OBJECTS[noun.kind]:
            if rival not in nouns and rival not in caption.words and lexicon.plural(rival) not in caption.words:
                new = caption.spell(noun.form(rival))
                edits = {(noun.index, noun.index + 1): new}
                yield Rewrite(caption.edit(edits), f"{caption.written[noun.index]} -> {new}")


def _attributes_of(caption: _Caption) -> Iterator[tuple[str, _Noun] | _Unmet]:
    """Yield every attribute with the object right after it; a person's colour is none."""
    yield _no_object(caption)
    for noun in caption.nouns:
        before = caption.word(noun.index - 1)
        if before is None or before not in _ATTRIBUTES:
            yield _Unmet(1, "no known attribute stands before its objects")
        elif noun.kind in lexicon.PEOPLE and before in lexicon.COLOURS:
            yield _Unmet(2, "its colour is a person's")
        else:
            # "black and white dog", "dark red car": the colour is not one word.
            ahead = caption.word(noun.index - 2)
            if ahead is None or ahead in lexicon.BEFORE_NOUN or lexicon.follows_noun(ahead, preposition=True):
                yield before, noun
            else:
                yield _Unmet(2, "its attribute is part of several words")


def _replace_att(caption: _Caption) -> Iterator[_Step]:
    for step in _attributes_of(caption):
        if isinstance(step, _Unmet):
            yield step
            continue
        attribute, noun = step
        yield _Unmet(3, "it names every attribute that excludes it, too")
        for rival in _ATTRIBUTES[attribute]:
            if rival not in caption.words:
                new, edited = caption.spell(rival), (noun.index - 1, noun.index)
                yield Rewrite(caption.edit({edited: new}), f"{caption.written[noun.index - 1]} -> {new}")


def _replace_rel(caption: _Caption) -> Iterator[_Step]:
    yield _Unmet(0, "it has neither")
    for first, last, phrase in _find_phrases(caption, frozenset(lexicon.RELATIONS)):
        fault = _find_relation_fault(caption, first, last, phrase)
        opposite = lexicon.RELATIONS[phrase]
        yield fault or Rewrite(caption.edit({(first, last): opposite}), f"{phrase} -> {opposite}")
    for index, word in enumerate(caption.words):
        for group in lexicon.POSTURES:
            if word not in group:
                continue
            subject = index - 1 - (caption.word(index - 1) in {"is", "are", "was", "were"})
            if not lexicon.has_posture(caption.word(subject)) or index > caption.denied:
                yield _Unmet(1, "no person or animal stands right before its posture")
                continue
            # "Standing up" and "lying down" name the posture twice.
            after = caption.word(index + 1)
            if not lexicon.follows_noun(after, preposition=True) or after in {"up", "down"}:
                yield _Unmet(1, "no preposition of place follows its posture")
                continue
            for rival in group:
                if rival != word:
                    yield Rewrite(caption.edit({(index, index + 1): rival}), f"{word} -> {rival}")


def _find_relation_fault(caption: _Caption, first: int, last: int, phrase: str) -> _Unmet | None:
    if first > caption.denied:
        return _Unmet(1, "a denial or an 'or' leaves doubt")
    # "filled with", "made out of", "along with": the word belongs to the one before it.
    if first > 0 and (caption.words[first - 1].endswith("ed") or caption.words[first - 1] in _BINDING):
        return _Unmet(1, "its relation belongs to the word before it")
    if caption.word(last) not in lexicon.BEFORE_NOUN:
        return _Unmet(1, "no article or number follows its relation")
    # "A car in front of a car": one is behind the other, too.
    same = phrase in lexicon.ASYMMETRIC and _relates_equals(caption, first, last)
    return _Unmet(2, "its objects are the same") if same else None


def _relates_equals(caption: _Caption, first: int, last: int) -> bool:
    """Return whether a relation is between things of one name, or "another", "each other" or the like follows it."""
    words = caption.words

    def name_at(start: int) -> list[str]:
        phrase = takewhile(lambda word: word == "of" or not lexicon.follows_noun(word), words[start:])
        return [word for word in phrase if word not in {"a", "an", "the", "another", "other"}]

    before = [name_at(k) for k in range(first) if k == 0 or words[k] in lexicon.BEFORE_NOUN]
    after = [name_at(k) for k in range(last, len(words)) if k == last or words[k - 1] == "of"]
    alike = caption.word(last) == "another" or words[last : last + 2] in {("each", "other"), ("one", "another")}
    return alike or any(name and name in before for name in after)


def turns_equals(text: str, old: str, new: str) -> bool:
    """Return whether a relation of a caption and its opposite say the same, as in "a car behind another car"."""
    caption = _read_caption(text)
    phrases = _find_phrases(caption, lexicon.ASYMMETRIC) if lexicon.RELATIONS.get(old) == new else ()
    equal = [_relates_equals(caption, first, last) for first, last, phrase in phrases if phrase == old]
    return bool(equal) and all(equal)


def _find_phrases(caption: _Caption, known: frozenset[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the known phrases with their ranges of words; the longest at each start, none inside another."""
    start = 0
    while start < len(caption.words):
        for length in (4, 3, 2, 1):
            phrase = " ".join(caption.words[start : start + length])
            if phrase in known and start + length <= len(caption.words):
                yield start, start + length, phrase
                start += length
                break
        else:
            start += 1


def _swap_obj(caption: _Caption) -> Iterator[_Step]:
    yield _Unmet(1, "it has one object only") if caption.nouns else _no_object(caption)
    for one, other in pairwise(caption.nouns):
        between = caption.words[one.index + 1 : other.index]
        relations = [
            last for first, last, _ in _find_phrases(caption, lexicon.ASYMMETRIC) if one.index < first < other.index
        ]
        if one.singular == other.singular:
            yield _Unmet(2, "its objects are the same")
        elif one.many != other.many:
            yield _Unmet(2, "one of its objects is several")
        elif not relations:
            yield _Unmet(3, "no such relation stands between its objects")
        elif {"and", "or", ",", ";", ".", "while", "but"} & set(between):
            yield _Unmet(4, "a conjunction or a comma parts its objects")
        elif not any(_begins_phrase(caption.words[last : other.index]) for last in relations):
            # "A dog in a field with a horse": of both the field is as true.
            yield _Unmet(5, "the relation is not to its other object")
        else:
            names = caption.written[one.index], caption.written[other.index]
            edits = {(one.index, one.index + 1): names[1], (other.index, other.index + 1): names[0]}
            yield Rewrite(caption.edit(edits), f"{names[0]} <-> {names[1]}")


def _begins_phrase(words: Sequence[str]) -> bool:
    """Return whether all words between a relation and a noun are of that noun's phrase: "a big", "the back of a"."""
    parts = re.split(r"\bof\b", " ".join(words))
    rest = [word for part in parts for word in dropwhile(lexicon.BEFORE_NOUN.__contains__, part.split())]
    return not any(word in lexicon.BEFORE_NOUN or lexicon.follows_noun(word) for word in rest)


def _swap_att(caption: _Caption) -> Iterator[_Step]:
    steps = list(_attributes_of(caption))
    yield from (step for step in steps if isinstance(step, _Unmet))
    pairs = [step for step in steps if not isinstance(step, _Unmet)]
    if len(pairs) == 1:
        yield _Unmet(3, "it has one attribute only")
    for k, (attribute, noun) in enumerate(pairs):
        for other_attribute, other in pairs[k + 1 :]:
            # Of two people a colour is not an attribute, and of two cups "a red and a blue one" is the same either way.
            if other_attribute == attribute or other_attribute not in _ATTRIBUTES[attribute]:
                yield _Unmet(4, "its attributes do not exclude each other")
            elif noun.singular == other.singular:
                yield _Unmet(5, "both attributes are of the same object")
            elif {noun.kind, other.kind} & lexicon.PEOPLE and attribute in lexicon.COLOURS:
                yield _Unmet(5, "its colour is a person's")
            else:
                names = caption.written[noun.index - 1], caption.written[other.index - 1]
                edits = {(noun.index - 1, noun.index): names[1], (other.index - 1, other.index): names[0]}
                yield Rewrite(caption.edit(edits), f"{names[0]} <-> {names[1]}")


def _add_obj(caption: _Caption) -> Iterator[_Step]:
    """At the end, so that no verb has to agree with the sum."""
    yield _no_object(caption)
    end = len(caption.words) - (1 if caption.words and caption.words[-1] == "." else 0)
    for noun in caption.nouns:
        if noun.index + 1 != end:
            yield _Unmet(1, "it ends in another word")
            continue
        if noun.many or caption.word(noun.index - 1) not in {"a", "an"}:
            yield _Unmet(2, "no 'a' or 'an' stands right before its last word")
            continue
        yield _Unmet(3, "it names every other of the kind, too")
        for rival in lexicon.OBJECTS[noun.kind]:
            if rival not in caption.words and lexicon.plural(rival) not in caption.words:
                addition = f"and {lexicon.article(rival)} {caption.spell(rival)}"
                edits = {(noun.index, noun.index + 1): f"{caption.written[noun.index]} {addition}"}
                yield Rewrite(caption.edit(edits), f"+ {addition}")


def _add_att(caption: _Caption) -> Iterator[_Step]:
    yield _no_object(caption)
    for noun in caption.nouns:
        if noun.kind not in lexicon.COUNTED:
            yield _Unmet(1, "its objects are of other kinds")
            continue
        if caption.word(noun.index - 1) not in lexicon.BEFORE_NOUN:
            yield _Unmet(2, "no article or number stands right before it")
            continue
        yield _Unmet(3, "it names every colour, too")
        for colour in map(caption.spell, lexicon.COLOURS):
            if lexicon.to_lexical(colour) not in caption.words:
                word = caption.written[noun.index]
                edits = {(noun.index, noun.index + 1): f"{colour} {word}"}
                yield Rewrite(caption.edit(edits), f"+ {colour} {word}")


#: Kind -> its rule, and what that needs, with an example; known are the words of the lexicon.
_RULES: Mapping[str, tuple[Callable[[_Caption], Iterator[_Step]], str]] = {
    "replace_obj": (_replace_obj, "a known object after an article, number or attribute (a dog)"),
    "replace_att": (_replace_att, "a known attribute before a known object (a red cup)"),
    "replace_rel": (_replace_rel, "a relation with an opposite (in front of the house) or a posture (sitting on)"),
    "swap_obj": (_swap_obj, "two known objects, related one way (a dog on a bed)"),
    "swap_att": (
        _swap_att,
        "two known objects with attributes that exclude each other (a red cup and a blue bowl)",
    ),
    "add_obj": (_add_obj, "a known object after 'a' or 'an' at the end (... on a bed)"),
    "add_att": (_add_att, "a known object of any colour, with none yet (a car, a cup, a hat)"),
}


def rewrites(text: str, kind: str, *, british: bool = False) -> list[Rewrite]:
    """Return every false caption that the rules of one kind make of a true one, in a fixed order, none twice."""
    rule, _ = _RULES[kind]
    steps = rule(_read_caption(text, british=british))
    by_text = {step.text: step for step in steps if isinstance(step, Rewrite) and step.text != text}
    return list(by_text.values())


def explain_none(text: str, kind: str) -> str:
    """Return why `rewrites` is empty for a caption: the nearest case, and the need of the kind's rule."""
    rule, need = _RULES[kind]
    return f"{max(step for step in rule(_read_caption(text)) if isinstance(step, _Unmet)).what}; needs {need}"


#: Kinds that bring in a thing or a property, which another caption may name.
_BRINGS_IN = frozenset({"replace_obj", "replace_att", "add_obj", "add_att"})


class FalseCaptionOptions(BaseModel):
    """The recipe's `[options]`.

    Attributes:
        captions: JSONL or CSV with the columns `image`, `caption` and, if there are any, `id` and `cluster` (else the
            image), or COCO's JSON, relative to the recipe.
            Rows of the same image are captions of one another's picture (COCO has five).
        images: the folder that the column `image` is relative to.
        kinds: of change.
        other_captions: whether the other captions of an image rule out false captions that they support.
        uniform: whether both captions get a capital and a full stop.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    captions: str
    images: str
    kinds: list[Kind] = Field(default_factory=lambda: list(KINDS), min_length=1)
    other_captions: bool = True
    uniform: bool = False


Options = TypeVar("Options", bound=FalseCaptionOptions)


class FalseCaptionBuilder(Generic[Options]):
    """A builder whose candidates are captions, each with a kind of change."""

    def __init__(self, start: Start) -> None:
        self._options: Options = start.options
        self._seed, self._home, self._insecure = start.seed, start.home, start.insecure
        self._images = ImageFolder(start.home / self._options.images)
        self.source_of = self._images.source_of
        path = start.home / self._options.captions
        self._captions = read_captions(path, with_images=True)
        self.inputs: Mapping[str, str] = file_digest(path)

    def candidates(self) -> Sequence[Candidate]:
        """Return every caption with every kind of change, caption by caption."""
        by_image: dict[str | None, list[tuple[str, str]]] = {}
        for caption in self._captions:
            by_image.setdefault(caption.image, []).append((caption.id, caption.raw))
        candidates = []
        for caption in self._captions:
            others = tuple(text for name, text in by_image[caption.image] if name != caption.id)
            data = {"caption": caption.raw, "image": caption.image, "others": others, "cluster": caption.cluster}
            kinds = dict.fromkeys(self._options.kinds)
            candidates += [Candidate(f"{caption.id}-{kind}", {"kind": kind, **data}) for kind in kinds]
        return candidates

    def _find_contradiction(self, candidate: Candidate, false: str) -> str | None:
        """Return why the image's other captions rule out a false caption, or None."""
        kind, true, others = (candidate.data[key] for key in ("kind", "caption", "others"))
        return contradiction(kind, true, false, others) if self._options.other_captions else None

    def _make_item(self, candidate: Candidate, false: str, provenance: dict[str, JsonValue]) -> Made:
        """Return the item of a candidate and its false caption."""
        kind, true, reference = (candidate.data[key] for key in ("kind", "caption", "image"))
        if true.isupper():
            false = false.upper()
        elif _is_title(true):
            false = re.sub(r"(?<![\w'’])\w", lambda letter: letter[0].upper(), false)
        if self._options.uniform:
            true, false = lexicon.uniform(true), lexicon.uniform(false)
        # As SugarCrepe's items have it: the audit asks for it, since a mixture of both is two tasks.
        order = "same" if same_words(true, false) else "differs"
        item = Item(
            id=candidate.id,
            images=(f"images/{reference}",),
            texts=(true, false),
            tags={"type": kind.partition("_")[0], "subset": kind, "bag_of_words": order},
            cluster=candidate.data["cluster"],
            provenance=provenance,
        )
        return self._images.complete(item, reference)


def contradiction(kind: str, true: str, false: str, others: Sequence[str]) -> str | None:
    """Return why the other captions of an image rule out a false caption of it, or None.

    A new thing or property that one of them names may well be in the picture. A swap and another relation bring in
    neither, so only an equal caption rules them out. The test is of words, in British or American spelling: a property
    that another caption gives to another thing counts, too, and a synonym does not.
    """
    ours, before, *theirs = (
        [lexicon.to_lexical(word) for word in lexicon.words(text)] for text in (false, true, *others)
    )
    if ours in theirs:
        return "is another caption"
    if kind not in _BRINGS_IN:
        return None
    brought = Counter(ours) - Counter(before)
    nouns = {lexicon.singular(word) for other in theirs for word in other}
    if any(lexicon.singular(word) in nouns for word in brought if word not in lexicon.FUNCTION_WORDS):
        return "names what another caption names"
    return None


class Negatives(FalseCaptionBuilder[FalseCaptionOptions]):
    """Make false captions by swapping, replacing or adding an object, an attribute or a relation.

    Of all the changes that the rules find and that the image's other captions allow, the item's random number picks
    one.
    """

    Options = FalseCaptionOptions

    about: Mapping[str, JsonValue] = about_set("negatives")
    models: Mapping[str, str] = {}

    @cached_property
    def _spells_british(self) -> bool:
        """The spelling of new words next to words of either spelling: otherwise the spelling would give them away."""
        texts = (lexicon.words(caption.text) for caption in self._captions)
        return lexicon.prefers_british(chain.from_iterable(texts)) or False

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Make one false caption, or return the reason: the rule lacks a word, or other captions forbid all changes."""
        kind = candidate.data["kind"]
        choices = rewrites(candidate.data["caption"], kind, british=self._spells_british)
        if not choices:
            return Rejected(kind, explain_none(candidate.data["caption"], kind))
        faults = [self._find_contradiction(candidate, choice.text) for choice in choices]
        choices = [choice for choice, fault in zip(choices, faults, strict=True) if fault is None]
        if not choices:
            return Rejected("other-captions", faults[0] or "")
        # The item's number: neither the order of work nor other images change it.
        digest = hashlib.sha256(f"{self._seed}:{candidate.id}".encode()).digest()
        chosen = choices[int(np.random.default_rng(list(digest)).integers(len(choices)))]
        return self._make_item(candidate, chosen.text, {"change": chosen.change, "choices": len(choices)})
