"""Checks that read no image: blind models, plausibility, grammar, length, word order, scripts, bindings, torn sides."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tellapart.auditing.finding import MARGIN, Finding, Unit, at_most, excludes, judge, mean_with_interval, split_texts
from tellapart.benchmarks.minimal_pairs import same_words
from tellapart.builders.caption_files import expect_text, read_json_captions
from tellapart.builders.captions.stages import NltkTagger, Word
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.rows import read_lines
from tellapart.data.strict_json import decode_text, plain_suffix, read_whole
from tellapart.errors import DataError, ModelError, require
from tellapart.models.find import find_model
from tellapart.models.protocols import Bounded, TextScorer
from tellapart.models.text.tinystories import TinyStories

#: The probability of so many true entries in first places, below which their order is no chance.
_LEAST_P = 0.01

_TWO_LETTERS = re.compile("[A-Za-z]{2}")
_LETTERS = re.compile(r"[^\W\d_]+")

#: Scripts that are written together; the first word of their characters' names in Unicode.
_TOGETHER = dict.fromkeys(("HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"), "CJK")

#: What loaders write in the place of a side that is not there.
_ABSENT = {"", "nan", "none", "null", "n/a", "<na>", "undefined"}

#: A rule of names holds for a set if it holds for so many of its items.
_RULE = 0.9

#: The most items that ids may put together; larger groups are subsets.
_LARGEST_FAMILY = 8


@lru_cache(maxsize=4096)
def _find_script(letter: str) -> str:
    name = unicodedata.name(letter, "").partition(" ")[0]
    return _TOGETHER.get(name, name)


def list_scripts(text: str) -> set[str]:
    """Return the scripts of a text, as Unicode names them; a single letter of one is a label or a shape (a T-shirt).

    Chinese, Japanese and Korean ones count as one, since they are written together.
    """
    if text.isascii():
        return {"LATIN"} if _TWO_LETTERS.search(text) else set()
    runs = [
        (script, len([*letters]))
        for word in _LETTERS.findall(unicodedata.normalize("NFKC", text))
        for script, letters in groupby(word, key=_find_script)
    ]
    return {script for script, length in runs if script and (length > 1 or script == "CJK")}


def mixed_scripts(pairs: PairSet) -> Finding:
    """Find the items whose texts have words of several scripts; languages that share a script are not separated."""
    scripts = [set[str]().union(*map(list_scripts, item.texts)) for item in pairs.items]
    counts = Counter(name for script in scripts if len(script) > 1 for name in script)
    mixed = [len(script) > 1 for script in scripts]
    return at_most("captions: scripts", mixed, pairs, scripts=", ".join(map(str.lower, sorted(counts))))


def truth_first(pairs: PairSet) -> Finding | None:
    """Return the share of items whose true entry stands first, and the probability of such a share at random places.

    None if no item names the place of its truth: the form of the set then puts it first.

    Source of the probability: the exact two-sided binomial test of `scipy.stats.binomtest`.
    """
    if not any(item.true for item in pairs.items):
        return None
    from scipy.stats import binomtest

    first = np.array([0 in item.truths for item in pairs.items], np.float64)
    entries, count = max(pairs.shape), int(first.sum())
    p = float(binomtest(count, len(first), pairs.true / entries).pvalue)
    written = f"p = {p:.2g}" if p else "p < 1e-300"
    places = f"at random places ({pairs.true} of {entries})"
    allowed, says = f"as {places}, with p of at least {_LEAST_P:g}", f"{count:,} of {len(first):,}; {places} {written}"
    title, mean = "items whose true entry stands first", mean_with_interval(first, pairs)
    return judge("order: truth first", title, mean, allowed, p < _LEAST_P, says)


def torn_sides(pairs: PairSet) -> Finding:
    """Find items with a side that is missing, or whose sides do not belong together by their names.

    A loader writes `nan` or the like for a missing side. Where nine of ten items name their pictures alike but for the
    last part (`7_0.png`, `7_1.png`), or ids are in families of one size (`7_pos`, `7_neg`), one that does not was torn.
    """
    absent = [_lacks_side(item) for item in pairs.items]
    apart, alone = _named_apart(pairs), _lacks_kin(pairs)
    counts = {"without a side": absent, "pictures of different names": apart, "alone of their family of ids": alone}
    found = "; ".join(f"{sum(counter):,} {name}" for name, counter in counts.items() if any(counter))
    return at_most("sides: torn", map(any, zip(absent, apart, alone, strict=True)), pairs, found=found)


def _lacks_side(item: Item) -> bool:
    texts = {text.strip().casefold() for text in item.texts}
    images = {PurePosixPath(image).stem.casefold() for image in item.images}
    return not _ABSENT.isdisjoint(texts | images)


def _cut_last_part(name: str) -> str:
    """Return a name without its suffix and its last run of letters and digits."""
    path = PurePosixPath(name)
    return re.sub(r"[^\W_]+$", "", str(path.with_suffix("") if path.suffix else path))


def _named_apart(pairs: PairSet) -> list[bool]:
    """Return for each item whether its pictures' names differ in more than the last part, against the set's rule."""
    nothing = [False] * len(pairs)
    if pairs.shape[0] == 1:
        return nothing
    kin = [{_cut_last_part(image) for image in item.images} for item in pairs.items]
    together = [next(iter(names)) for names in kin if len(names) == 1]
    # Names that many items share are folders, and show nothing.
    if len(together) < _RULE * len(kin) or len(set(together)) < _RULE * len(together):
        return nothing
    return [len(names) > 1 for names in kin]


def _lacks_kin(pairs: PairSet) -> list[bool]:
    """Return for each item whether its family of ids has another size than nine of ten families have."""
    families = Counter(_cut_last_part(item.id) for item in pairs.items)
    size, count = Counter(families.values()).most_common(1)[0]
    if not 2 <= size <= _LARGEST_FAMILY or count < max(_RULE * len(families), 2):
        return [False] * len(pairs)
    return [families[_cut_last_part(item.id)] != size for item in pairs.items]


def find_context(name: str) -> Bounded:
    """Return a model that shows its tokens, or, for a number, CLIP's tokenizer with a context of so many tokens."""
    if name.isdecimal():
        from tellapart.models.openclip.tokens import clip_tokens

        if int(name) < 3:
            raise ModelError(f"model={name!r}: a context holds at least 3 tokens, of which two are its start and end")
        return clip_tokens(int(name))
    model = find_model(name)
    if not isinstance(model, Bounded):
        raise ModelError(
            f"model={name!r} does not show its tokens: name a dual encoder of open_clip: or hf:, or a number of CLIP's "
            "tokens, such as 77"
        )
    return model


def lost_captions(model: Bounded, name: str, pairs: PairSet, progress: Progress | None = None) -> list[Finding]:
    """Return the share of items with a caption that a model cuts, and of those whose captions it reads as the same."""
    texts = [*dict.fromkeys(text for item in pairs.items for text in item.texts)]
    cut: dict[str, bool] = {}
    read: dict[str, tuple[int, ...]] = {}
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        cut |= zip(block, model.find_cut(block), strict=True)
        read |= zip(block, map(tuple, model.token_ids(block)), strict=True)
        if progress is not None:
            progress(f"captions read by {name}", len(cut), len(texts))
    context = f"{name} tokens" if name.isdecimal() else f"the context of {name}"
    lost = [any(cut[text] for text in item.texts) for item in pairs.items]
    sides = [(true, {*false} - true) for true, false in map(split_texts, pairs.items)]
    same = [len({read[text] for text in false} - {read[text] for text in true}) < len(false) for true, false in sides]
    return [
        at_most("context: cut", lost, pairs, context=context, cut=sum(cut.values()), captions=len(texts)),
        at_most("context: equal", same, pairs, context=context, by_cut=sum(map(min, same, lost))),
    ]


#: How far apart mean log-likelihoods may lie, in nats per token: the perplexities then differ by a tenth.
_NATS = 0.1

#: How far apart mean grammar scores may lie, in standard deviations of all scores.
_DEVIATIONS = 0.1

#: How far apart mean lengths may lie, as a share of the mean length.
_SHARE_OF_LENGTH = 0.05

_LENGTHS: Mapping[Unit, Callable[[str], int]] = {"words": lambda text: len(text.split()), "characters": len}

#: Captions per call of the model; progress is reported after each call.
_BLOCK = 256

#: A name for a tag that separates items whose captions differ in word order alone.
_TAG = "bag_of_words"


def text_scores(model: TextScorer, pairs: PairSet, progress: Progress | None = None) -> NDArray[np.float32]:
    """Score every caption, each distinct one once: float32 `(item, text)`."""
    texts = [*dict.fromkeys(text for item in pairs.items for text in item.texts)]
    known: dict[str, float] = {}
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        scores = np.asarray(model.score_texts(block), np.float32)
        if scores.shape != (len(block),) or not np.isfinite(scores).all():
            raise ModelError(f"{model.name} gave {scores.shape} for {len(block)} texts, or numbers that are not finite")
        known |= zip(block, scores.tolist(), strict=True)
        if progress is not None:
            progress(f"captions read by {model.name}", len(known), len(texts))
    return np.array([[known[text] for text in item.texts] for item in pairs.items], np.float32)


def blind_accuracy(model: TextScorer, pairs: PairSet, progress: Progress | None = None) -> Finding:
    """Return how often a blind model prefers the caption with index 0; a tie of k captions counts 1 / k.

    With one image this is its accuracy: above chance, the set can be solved in part without images; below, captions
    mislead. With two images both captions are true; the share shows whether they come from different sources.
    """
    scores = text_scores(model, pairs, progress)
    top = scores == scores.max(axis=1, keepdims=True)
    chance = 1 / pairs.shape[1]
    mean = mean_with_interval(np.asarray(top[:, 0] / top.sum(axis=1), np.float64), pairs)
    differs = abs(mean["value"] - chance) > 1e-9 and excludes(mean, chance)
    prefers = "no difference from chance" if not differs else "too often" if mean["value"] > chance else "too rarely"
    tied = int((top.sum(axis=1) > 1).sum())
    meaning = "its accuracy" if pairs.shape[0] == 1 else "both captions are true, so this solves no item"
    title = f"{model.name}, which sees no image, prefers {_first_caption(pairs)}"
    allowed = f"within {100 * MARGIN:g} points of chance ({100 * chance:.1f} %), or an interval that holds chance"
    warns, says = differs and abs(mean["value"] - chance) > MARGIN, f"{prefers} ({meaning}); {tied:,} items tied"
    return judge(f"blind: {model.name}", title, mean, allowed, warns, says)


def plausibility_gap(model: TinyStories, pairs: PairSet, progress: Progress | None = None) -> Finding:
    """Return by how much caption 0 is more likely than the others, in nats per token, and both perplexities."""
    per_token = text_scores(TinyStories(model.checkpoint, per_token=True), pairs, progress).astype(np.float64)
    first, others = per_token[:, 0], per_token[:, 1:].mean(axis=1)
    perplexities = np.exp(-first.mean()), np.exp(-others.mean())
    title = f"log-likelihood per token of {_first_caption(pairs)}, less that of the others"
    says = f"perplexity {perplexities[0]:.1f} against {perplexities[1]:.1f} under {model.name}"
    gaps, name = first - others, f"plausibility: {model.name}"
    return _judge_gap(name, title, gaps, pairs, limit=_NATS, near=f"{_NATS} of 0", says=says, unit="nats")


def grammar_gap(model: TextScorer, pairs: PairSet, progress: Progress | None = None) -> Finding:
    """Return by how much caption 0 is more grammatical than the others, in deviations of all captions' scores."""
    scores = text_scores(model, pairs, progress).astype(np.float64)
    first, others = scores[:, 0], scores[:, 1:].mean(axis=1)
    spread = float(scores.std()) or 1.0  # if all scores are equal, every gap is 0
    title, name = f"grammar of {_first_caption(pairs)}, less that of the others", f"grammar: {model.name}"
    says = f"{model.name}: {first.mean():.4g} on average against {others.mean():.4g}"
    within = f"{_DEVIATIONS} standard deviations of 0"
    gaps = (first - others) / spread
    return _judge_gap(name, title, gaps, pairs, limit=_DEVIATIONS, near=within, says=says, unit="deviations")


def length_gaps(pairs: PairSet) -> list[Finding]:
    """Return by how many words and characters caption 0 is longer than the mean of the item's other captions."""
    findings = []
    for unit, length in _LENGTHS.items():
        lengths = np.array([[length(text) for text in item.texts] for item in pairs.items], np.float64)
        first, others = lengths[:, 0], lengths[:, 1:].mean(axis=1)
        limit = _SHARE_OF_LENGTH * float(lengths.mean())
        near = f"{limit:.2f} of 0 ({100 * _SHARE_OF_LENGTH:g} % of the mean)"
        says = f"{first.mean():.2f} against {others.mean():.2f} on average"
        title = f"{unit} of {_first_caption(pairs)}, less those of the others"
        gap = _judge_gap(f"length: {unit}", title, first - others, pairs, limit=limit, near=near, says=says, unit=unit)
        findings.append(gap)
    return findings


def bag_of_words(pairs: PairSet) -> Finding:
    """Return the share of items that a model without word order cannot solve: all captions hold caption 0's words.

    A share of 0 or 1 is taken as a choice of the set's authors (Winoground has 1). Any other share means a mixture of
    two tasks, and passes only if a tag of all items separates them: no value of it holds both.
    """
    same = [all(same_words(item.texts[0], text) for text in item.texts[1:]) for item in pairs.items]
    mean = mean_with_interval(np.array(same, np.float64), pairs)
    mixed = 0 < mean["value"] < 1 and not _separates_any_tag(pairs, same)
    says = "a model without word order cannot solve them" if mean["value"] else "none"
    says = f"two tasks in one set: tag the items, with {_TAG!r} say, and report them apart" if mixed else says
    title = "items whose captions hold the same words in another order"
    ids = [pairs.items[k].id for k in np.flatnonzero(same)]
    return judge("bag of words", title, mean, "0 %, 100 %, or a tag that separates them", mixed, says, items=ids)


def _separates_any_tag(pairs: PairSet, same: Sequence[bool]) -> bool:
    """Return whether some tag of all items has no value that items of both kinds share."""
    for name in set.intersection(*(set(item.tags) for item in pairs.items)):
        kinds = {(item.tags[name], kind) for item, kind in zip(pairs.items, same, strict=True)}
        if len(kinds) == len({value for value, _ in kinds}):
            return True
    return False


def _judge_gap(
    name: str, title: str, gaps: NDArray[np.float64], pairs: PairSet, *, limit: float, near: str, says: str, unit: Unit
) -> Finding:
    """Judge the mean gap between caption 0 and the others, which may reach a limit, or have an interval around 0."""
    mean = mean_with_interval(gaps, pairs, bounds=None)
    warns = excludes(mean, 0) and abs(mean["value"]) > limit
    return judge(name, title, mean, f"within {near}, or an interval that holds 0", warns, says, unit=unit)


def _first_caption(pairs: PairSet) -> str:
    """Name the caption with index 0: the true one of a single image, else the first image's."""
    return "the true caption" if pairs.shape[0] == 1 else "the first caption"


# Which bindings of captions occur in a caption corpus: an attribute with its noun, two nouns with their relation. If
# true captions hold bindings that were seen and false ones do not, the set is solved without looking at the picture.
#
# Source: openreview 0riiPY0Egp: 79.8 % of ARO's true captions and 41.8 % of its false ones were seen in training.

#: Stems of an attribute and its noun, or of a subject, a relation and its object.
Binding: TypeAlias = tuple[str, ...]

Class: TypeAlias = Literal["seen", "partly", "unseen", "none"]

#: A tagger takes "T-shirt" and "black-and-white" for single words, and cuts the end of "T-shirt's".
_JOINED = re.compile(r"\w+(?:[-/.'’]\w+)*")

#: Nouns of place, which belong to a relation: "to the left of".
_PLACES = frozenset({"left", "right", "front", "back", "top", "bottom", "side", "middle", "center", "edge"})

#: Verbs that add nothing to a relation.
_AUXILIARIES = frozenset({"is", "are", "was", "were", "be", "been", "being", "am"})

_BETWEEN = ("VB", "IN", "RP", "TO", "RB")


@cache
def _stem(word: str) -> str:
    return str(_stemmer().stem(word.lower()))


@cache
def _stemmer() -> Any:
    return require("nltk.stem.porter", extra="captions").PorterStemmer()


def list_bindings(words: Sequence[Word]) -> set[Binding]:
    """Return the bindings of a tagged caption in Porter's stems: adjectives with nouns, and nouns with a relation."""
    found: set[Binding] = set()
    attributes: list[str] = []
    subject, between, broken = "", list[str](), False
    for place, word in enumerate(words):
        text, tag = word.text.lower(), word.tag
        following = words[place + 1] if place + 1 < len(words) else None
        if tag.startswith("NN") and not (text in _PLACES and following is not None and following.text == "of"):
            if following is not None and following.tag.startswith("NN") and following.text.lower() not in _PLACES:
                attributes.append(_stem(text))  # the first part of a compound, or a colour that is tagged as a noun
                continue
            noun = _stem(text)
            found |= {(attribute, noun) for attribute in attributes}
            if subject and between and not broken:
                found.add((subject, " ".join(between), noun))
            subject, between, broken, attributes = noun, [], False, []
        elif tag.startswith("JJ") or (tag == "VBN" and not between and not attributes and following is not None):
            attributes.append(_stem(text))
            if subject and between == [] and _ends_phrase(words, place):
                found.add((attributes.pop(), subject))
        elif text in _AUXILIARIES or tag in ("DT", "CD", "PRP$", "EX"):
            continue
        elif tag.startswith(_BETWEEN) or text in _PLACES:
            between.append(_stem(text))
        else:
            broken = broken or bool(subject)
    return found


def _ends_phrase(words: Sequence[Word], place: int) -> bool:
    """Return whether an adjective follows an auxiliary and no noun follows it: "the car is red"."""
    before = words[place - 1].text.lower() if place else ""
    after = words[place + 1].tag if place + 1 < len(words) else "."
    return before in _AUXILIARIES and not after.startswith(("NN", "JJ"))


def find_in_corpus(
    wanted: Iterable[Binding], captions: Sequence[str], tagger: NltkTagger, progress: Progress | None = None
) -> set[Binding]:
    """Return the bindings that occur in a corpus; only captions with a binding's first and last word are tagged."""
    waiting: dict[str, set[Binding]] = defaultdict(set)
    for binding in wanted:
        waiting[binding[-1]].add(binding)
    seen: set[Binding] = set()
    for number, caption in enumerate(captions):
        if progress is not None and number % 1000 == 0:
            progress("captions of the corpus", number, len(captions))
        stems = {_stem(part) for word in _JOINED.findall(caption) for part in _list_parts(word)}
        if any(binding[0] in stems for stem in stems & waiting.keys() for binding in waiting[stem]):
            for binding in list_bindings(tagger.read(caption)):
                if binding in waiting.get(binding[-1], ()):
                    waiting[binding[-1]].discard(binding)
                    seen.add(binding)
    if progress is not None:
        progress("captions of the corpus", len(captions), len(captions))
    return seen


def _list_parts(word: str) -> list[str]:
    """Return what a tagger may make of a run of letters and signs: all of it, without a last `'s`, or its letters."""
    return [word, re.sub(r"['’]s$", "", word), *_LETTERS.findall(word)]


def _class_of(bindings: Sequence[bool]) -> Class:
    if not bindings:
        return "none"
    return "seen" if all(bindings) else "partly" if any(bindings) else "unseen"


def open_tagger(name: str) -> NltkTagger:
    """Open the tagger of a name, `nltk:FOLDER`."""
    kind, _, folder = name.partition(":")
    if kind != "nltk" or not folder:
        raise ModelError(f"tagger={name!r}: name nltk:FOLDER of NLTK's data (docs/audit.md)")
    return NltkTagger.load(Path(folder).expanduser())


def seen_bindings(
    pairs: PairSet, corpus: Path, tagger: NltkTagger, progress: Progress | None = None
) -> tuple[Finding, dict[str, str]]:
    """Return how much more often the first caption's bindings are all in the corpus than another's, and items' classes.

    An item's class is that of its first caption, of several pictures of all.
    """
    texts = [*dict.fromkeys(text for item in pairs.items for text in item.texts)]
    of_text = {text: sorted(list_bindings(tagger.read(text))) for text in texts}
    captions = _read_corpus(corpus)
    seen = find_in_corpus({binding for found in of_text.values() for binding in found}, captions, tagger, progress)
    known = {text: [binding in seen for binding in found] for text, found in of_text.items()}
    first = np.array([_class_of(known[item.texts[0]]) == "seen" for item in pairs.items], np.float64)
    others = [[_class_of(known[text]) == "seen" for text in item.texts[1:]] for item in pairs.items]
    rest = np.array([np.mean(of_item) for of_item in others])
    gap = mean_with_interval(first - rest, pairs, bounds=(-1.0, 1.0))
    kinds = Counter(map(_class_of, known.values()))
    counted = ", ".join(f"{kinds[name]:,} {name}" for name in get_args(Class))
    sides = ("true", "false") if pairs.shape[0] == 1 else ("first", "second")
    shares = f"{100 * first.mean():.1f} % of {sides[0]} and {100 * rest.mean():.1f} % of {sides[1]} captions"
    says = f"all bindings of {shares} are in the corpus's {len(captions):,}; of {len(texts):,} {counted}"
    warns = abs(gap["value"]) > MARGIN and excludes(gap, 0.0)
    title = f"how much more often {sides[0]} captions have all of their bindings in the corpus"
    shown = pairs.shape[1] if pairs.shape[0] > 1 else 1
    classes = {item.id: _class_of([is_seen for text in item.texts[:shown] for is_seen in known[text]])
               for item in pairs.items}  # fmt: skip
    return judge("bindings: seen", title, gap, f"within {100 * MARGIN:g} points of 0", warns, says), dict(classes)


def _read_corpus(path: Path) -> list[str]:
    """Return captions: of a .txt the lines, after a tab if there is one; of another file its captions."""
    # Ids may repeat there, and images may be addresses: neither is read.
    if plain_suffix(path) == ".json":
        captions = [expect_text(row, "caption", place, ()) for place, row in read_json_captions(path)]
    elif plain_suffix(path) != ".txt":
        captions = [expect_text(row, "caption", f"{path}:{line}", ()) for line, row in read_lines(path)]
    else:
        lines = decode_text(read_whole(path), path).split("\n")
        captions = [text for line in lines if (text := line.rpartition("\t")[2].strip())]
    if not captions:
        raise DataError(f"{path} lists no captions")
    return captions
