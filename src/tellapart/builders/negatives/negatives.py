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

# Rules make a false caption of a true one: they swap, replace or add an object, an attribute or a relation.
#
# A rule changes only words of the lexicon whose neighbours leave no doubt about their meaning, and corrects the article
# before them. It reads the caption, not the picture, so the picture may happen to show a replaced or added thing.

Kind = Literal["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"]

KINDS: tuple[Kind, ...] = get_args(Kind)
"""SugarCrepe's seven subsets, by its names."""

#: A word, an apostrophe and its letters (as in `lexicon.words`: "a dog's owner" names a dog), or a sign.
_TOKEN = re.compile(r"\w+|(?<=\w)['’]\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A false caption, and the change that made it, such as "dog -> cat"."""

    text: str
    change: str


class _Unmet(NamedTuple):
    """Why a rule cannot change a caption at one place, and the stage of the rule that found it, counted from 0."""

    stage: int
    lack: str


@dataclass(frozen=True, slots=True)
class _Noun:
    """An object of the lexicon in a caption: its index among the words, and its forms."""

    index: int
    kind: str
    singular: str
    is_plural: bool

    def form(self, singular: str) -> str:
        """Return another object in this noun's number."""
        return lexicon.plural(singular) if self.is_plural else singular


@dataclass(frozen=True, slots=True)
class _Caption:
    text: str
    written: tuple[str, ...]  # the words and signs in lower case
    words: tuple[str, ...]  # the same in the lexicon's spelling
    spans: tuple[tuple[int, int], ...]  # of the words in the text
    nouns: tuple[_Noun, ...]
    denied: int  # the index of the first word that may be part of a denial, else the number of words
    is_doubtful: bool  # whether the neighbours of an object leave doubt about its meaning
    is_british: bool

    def word_at(self, index: int) -> str | None:
        return self.words[index] if 0 <= index < len(self.words) else None

    def spell(self, word: str) -> str:
        """Return a word of the lexicon in this caption's spelling."""
        return lexicon.to_british(word) if self.is_british else word

    def replace(self, index: int, new: str) -> Rewrite:
        return Rewrite(self.edit({(index, index + 1): new}), f"{self.written[index]} -> {new}")

    def swap(self, one: int, other: int) -> Rewrite:
        word, other_word = self.written[one], self.written[other]
        edits = {(one, one + 1): other_word, (other, other + 1): word}
        return Rewrite(self.edit(edits), f"{word} <-> {other_word}")

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
    """Return whether every word of a text begins with a capital; the "s" of "Man's" is none."""
    return re.sub(r"['’]\w+", "", text).istitle()


def _capitalize(words: str, *, every_noun: bool) -> str:
    """Return words with a capital at the start, or of every noun, as in "A Man in a Car"."""
    first, *others = words.split()
    if every_noun:
        others = [word if word in lexicon.FUNCTION_WORDS else word[0].upper() + word[1:] for word in others]
    return " ".join([first[0].upper() + first[1:], *others])


_NOUNS = [(kind, noun) for kind, group in lexicon.OBJECTS.items() for noun in group]

#: By form of an object: its kind, its singular, whether the form is a plural. By attribute: its group.
_OBJECTS: Mapping[str, tuple[str, str, bool]] = {noun: (kind, noun, False) for kind, noun in _NOUNS} | {
    lexicon.plural(noun): (kind, noun, True) for kind, noun in _NOUNS
}
_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {word: group for group in lexicon.ATTRIBUTES for word in group}


def _read_caption(text: str, *, british: bool = False) -> _Caption:
    """Read a caption; `british` is the spelling of one without a word that tells British from American."""
    matches = list(_TOKEN.finditer(text))
    written = tuple(match[0].lower() for match in matches)
    words = tuple(map(lexicon.to_lexical, written))
    begin = lexicon.denied_from(text)
    # In "a dog or a cat", either may be replaced, and the caption stays true.
    denied = -1 if "or" in words else sum(match.end() <= begin for match in matches)
    nouns, is_doubtful = [], False
    for index, word in enumerate(words):
        if word not in _OBJECTS:
            continue
        kind, singular, is_plural = _OBJECTS[word]
        before = words[index - 1] if index else None
        has_determiner = before in lexicon.BEFORE_NOUN or before in _ATTRIBUTES
        # Only a plural needs no word before it: "dogs on a bed", "a group of dogs".
        is_bare = is_plural and (before is None or lexicon.follows_noun(before, preposition=True))
        ends_phrase = lexicon.follows_noun(words[index + 1] if index + 1 < len(words) else None)
        if (has_determiner or is_bare) and ends_phrase and index < denied:
            nouns.append(_Noun(index, kind, singular, is_plural))
        else:
            is_doubtful = True
    spans, is_british = tuple(match.span() for match in matches), lexicon.prefers_british(written)
    is_british = british if is_british is None else is_british
    return _Caption(text, written, words, spans, tuple(nouns), denied, is_doubtful, is_british)


# A rule yields every rewrite of a caption, and for the others why there is none.
_Step = Rewrite | _Unmet

#: Words that a relation belongs to, as "along with"; in "cars in front of and behind a bus", both relations stay.
_BINDING = frozenset({"made", "up", "along", "together", "and"})


def _no_object(caption: _Caption) -> _Unmet:
    reason = (
        "the words beside its objects leave doubt" if caption.is_doubtful else "it names none that the lexicon knows"
    )
    return _Unmet(0, reason)


def _replace_obj(caption: _Caption) -> Iterator[_Step]:
    yield _no_object(caption)
    nouns = {noun.singular for noun in caption.nouns}
    has_pronoun = bool(lexicon.PRONOUNS.intersection(caption.words))
    for noun in caption.nouns:
        if noun.kind in lexicon.PEOPLE and has_pronoun:  # "a woman with her dog"
            yield _Unmet(1, "a pronoun would have to change with its person")
            continue
        yield _Unmet(2, "it names every other of the kind, too")
        for rival in lexicon.OBJECTS[noun.kind]:
            if rival not in nouns and rival not in caption.words and lexicon.plural(rival) not in caption.words:
                yield caption.replace(noun.index, caption.spell(noun.form(rival)))


def _attributes_of(caption: _Caption) -> Iterator[tuple[str, _Noun] | _Unmet]:
    """Yield every attribute with the object right after it; the colour of a person does not count."""
    yield _no_object(caption)
    for noun in caption.nouns:
        before = caption.word_at(noun.index - 1)
        if before is None or before not in _ATTRIBUTES:
            yield _Unmet(1, "no known attribute stands before its objects")
        elif noun.kind in lexicon.PEOPLE and before in lexicon.COLOURS:
            yield _Unmet(2, "its colour is a person's")
        else:
            # "black and white dog", "dark red car": the colour is not one word.
            ahead = caption.word_at(noun.index - 2)
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
                yield caption.replace(noun.index - 1, caption.spell(rival))


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
            has_verb = caption.word_at(index - 1) in {"is", "are", "was", "were"}
            subject, after = caption.word_at(index - 2 if has_verb else index - 1), caption.word_at(index + 1)
            if not lexicon.has_posture(subject) or index > caption.denied:
                yield _Unmet(1, "no person or animal stands right before its posture")
            # "Standing up" and "lying down" name the posture twice.
            elif not lexicon.follows_noun(after, preposition=True) or after in {"up", "down"}:
                yield _Unmet(1, "no preposition of place follows its posture")
            else:
                yield from (caption.replace(index, rival) for rival in group if rival != word)


def _find_relation_fault(caption: _Caption, first: int, last: int, phrase: str) -> _Unmet | None:
    if first > caption.denied:
        return _Unmet(1, "a denial or an 'or' leaves doubt")
    # "filled with", "made out of", "along with": the word belongs to the one before it.
    if first > 0 and (caption.words[first - 1].endswith("ed") or caption.words[first - 1] in _BINDING):
        return _Unmet(1, "its relation belongs to the word before it")
    if caption.word_at(last) not in lexicon.BEFORE_NOUN:
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
    names_another = words[last : last + 1] == ("another",)
    names_another |= words[last : last + 2] in {("each", "other"), ("one", "another")}
    return names_another or any(name and name in before for name in after)


def turns_equals(text: str, old: str, new: str) -> bool:
    """Return whether a relation of a caption and its opposite say the same, as in "a car behind another car"."""
    caption = _read_caption(text)
    phrases = _find_phrases(caption, lexicon.ASYMMETRIC) if lexicon.RELATIONS.get(old) == new else ()
    equal = [_relates_equals(caption, first, last) for first, last, phrase in phrases if phrase == old]
    return bool(equal) and all(equal)


def _find_phrases(caption: _Caption, known: frozenset[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the known phrases after their ranges of words; the longest at each start, none inside another."""
    start = 0
    while start < len(caption.words):
        for length in (4, 3, 2, 1):  # "to the left of" has four words
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
        elif one.is_plural != other.is_plural:
            yield _Unmet(2, "one of its objects is several")
        elif not relations:
            yield _Unmet(3, "no such relation stands between its objects")
        elif {"and", "or", ",", ";", ".", "while", "but"} & set(between):
            yield _Unmet(4, "a conjunction or a comma parts its objects")
        elif not any(_begins_phrase(caption.words[last : other.index]) for last in relations):
            # "A dog in a field with a horse": of both the field is as true.
            yield _Unmet(5, "the relation is not to its other object")
        else:
            yield caption.swap(one.index, other.index)


def _begins_phrase(words: Sequence[str]) -> bool:
    """Return whether all words between a relation and a noun are of that noun's phrase: "a big", "the back of a"."""
    for part in re.split(r"\bof\b", " ".join(words)):
        for word in dropwhile(lexicon.BEFORE_NOUN.__contains__, part.split()):  # articles may begin each part
            if word in lexicon.BEFORE_NOUN or lexicon.follows_noun(word):
                return False
    return True


def _swap_att(caption: _Caption) -> Iterator[_Step]:
    steps = list(_attributes_of(caption))
    yield from (step for step in steps if isinstance(step, _Unmet))
    pairs = [step for step in steps if not isinstance(step, _Unmet)]
    if len(pairs) == 1:
        yield _Unmet(3, "it has one attribute only")
    for k, (attribute, noun) in enumerate(pairs):
        for other_attribute, other in pairs[k + 1 :]:
            if other_attribute == attribute or other_attribute not in _ATTRIBUTES[attribute]:
                yield _Unmet(4, "its attributes do not exclude each other")
            elif noun.singular == other.singular:
                yield _Unmet(5, "both attributes are of the same object")
            elif {noun.kind, other.kind} & lexicon.PEOPLE and attribute in lexicon.COLOURS:
                yield _Unmet(5, "its colour is a person's")
            else:
                yield caption.swap(noun.index - 1, other.index - 1)


def _add_obj(caption: _Caption) -> Iterator[_Step]:
    """Add an object at the caption's end, so that no verb has to agree with it."""
    yield _no_object(caption)
    end = len(caption.words) - (1 if caption.words and caption.words[-1] == "." else 0)
    for noun in caption.nouns:
        if noun.index + 1 != end:
            yield _Unmet(1, "it ends in another word")
        elif noun.is_plural or caption.word_at(noun.index - 1) not in {"a", "an"}:
            yield _Unmet(2, "no 'a' or 'an' stands right before its last word")
        else:
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
        elif caption.word_at(noun.index - 1) not in lexicon.BEFORE_NOUN:
            yield _Unmet(2, "no article or number stands right before it")
        else:
            yield _Unmet(3, "it names every colour, too")
            for colour in lexicon.COLOURS:
                if colour not in caption.words:
                    phrase = f"{caption.spell(colour)} {caption.written[noun.index]}"
                    yield Rewrite(caption.edit({(noun.index, noun.index + 1): phrase}), f"+ {phrase}")


#: By kind: its rule, and what the rule needs, with an example; the lexicon's words are the known ones.
_RULES: Mapping[str, tuple[Callable[[_Caption], Iterator[_Step]], str]] = {
    "replace_obj": (_replace_obj, "a known object after an article, number or attribute (a dog)"),
    "replace_att": (_replace_att, "a known attribute before a known object (a red cup)"),
    "replace_rel": (_replace_rel, "a relation with an opposite (in front of the house) or a posture (sitting on)"),
    "swap_obj": (_swap_obj, "two known objects, related one way (a dog on a bed)"),
    "swap_att": (_swap_att, "two known objects with attributes that exclude each other (a red cup and a blue bowl)"),
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
    """Return why `rewrites` is empty for a caption: what it lacked at the latest stage, and what the rule needs."""
    rule, need = _RULES[kind]
    nearest = max(step for step in rule(_read_caption(text)) if isinstance(step, _Unmet))
    return f"{nearest.lack}; needs {need}"


#: Kinds that add a thing or a property, which another caption may name.
_ADDS = frozenset({"replace_obj", "replace_att", "add_obj", "add_att"})


class FalseCaptionOptions(BaseModel):
    """The recipe's `[options]`.

    Attributes:
        captions: JSONL or CSV with the columns `image`, `caption` and optionally `id` and `cluster` (else the image),
            or COCO's JSON, relative to the recipe. An image may have several captions.
        images: the folder that the column `image` is relative to.
        kinds: the kinds of change.
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
        # The audit asks whether all false captions have the words of the true ones, as SugarCrepe's do in some subsets.
        order = "same" if same_words(true, false) else "differs"
        tags = {"type": kind.partition("_")[0], "subset": kind, "bag_of_words": order}
        images, texts, cluster = (f"images/{reference}",), (true, false), candidate.data["cluster"]
        item = Item(id=candidate.id, images=images, texts=texts, tags=tags, cluster=cluster, provenance=provenance)
        return self._images.complete(item, reference)


def contradiction(kind: str, true: str, false: str, others: Sequence[str]) -> str | None:
    """Return why the other captions of an image rule out a false caption of it, or None.

    The picture may well show a new thing or property that another caption names. A swap and another relation add
    neither, so only an equal caption rules them out. Words are compared, in any spelling: a property that another
    caption gives to another thing counts, too, and a synonym does not.
    """
    false_words, other_words = _lexical_words(false), [_lexical_words(text) for text in others]
    if false_words in other_words:
        return "is another caption"
    if kind not in _ADDS:
        return None
    added = Counter(false_words) - Counter(_lexical_words(true))
    singulars = {lexicon.singular(word) for caption_words in other_words for word in caption_words}
    if any(lexicon.singular(word) in singulars for word in added if word not in lexicon.FUNCTION_WORDS):
        return "names what another caption names"
    return None


def _lexical_words(text: str) -> list[str]:
    return [lexicon.to_lexical(word) for word in lexicon.words(text)]


class Negatives(FalseCaptionBuilder[FalseCaptionOptions]):
    """Make false captions by swapping, replacing or adding an object, an attribute or a relation.

    One of all changes that the rules find and the image's other captions allow is drawn, by the item's random number.
    """

    Options = FalseCaptionOptions

    about: Mapping[str, JsonValue] = about_set("negatives")
    models: Mapping[str, str] = {}

    @cached_property
    def _spells_british(self) -> bool:
        """Whether most captions spell British: new words in the other spelling would give the false captions away."""
        texts = (lexicon.words(caption.text) for caption in self._captions)
        return lexicon.prefers_british(chain.from_iterable(texts)) or False

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Make one false caption; reject a caption that the rule cannot change, or whose changes are all ruled out."""
        kind = candidate.data["kind"]
        choices = rewrites(candidate.data["caption"], kind, british=self._spells_british)
        if not choices:
            return Rejected(kind, explain_none(candidate.data["caption"], kind))
        faults = [self._find_contradiction(candidate, choice.text) for choice in choices]
        choices = [choice for choice, fault in zip(choices, faults, strict=True) if fault is None]
        if not choices:
            return Rejected("other-captions", faults[0] or "")
        # The draw depends on the seed and the item's id: neither the order of work nor other items change it.
        digest = hashlib.sha256(f"{self._seed}:{candidate.id}".encode()).digest()
        chosen = choices[int(np.random.default_rng(list(digest)).integers(len(choices)))]
        return self._make_item(candidate, chosen.text, {"change": chosen.change, "choices": len(choices)})
