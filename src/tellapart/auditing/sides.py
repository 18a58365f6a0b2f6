"""Checks of the sides of items: scripts of their texts, the place of the true one, and sides that are not theirs."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from itertools import groupby
from pathlib import PurePosixPath

import numpy as np

from tellapart.auditing.finding import Finding, at_most, judge, mean_with_interval
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet

#: The share of items that may mix scripts: names of products and teams keep theirs (2 % of XVNLI in Russian).
_MIXED = 0.05

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
    """Find the items whose texts have words of several scripts, in one text or in different ones.

    Languages that share a script are not told apart.
    """
    scripts = [set[str]().union(*map(list_scripts, item.texts)) for item in pairs.items]
    counts = Counter(name for script in scripts if len(script) > 1 for name in script)
    says = f"a script gives texts away, or a translation is not finished: {', '.join(map(str.lower, sorted(counts)))}"
    mixed = [len(script) > 1 for script in scripts]
    return at_most(_MIXED, "captions: scripts", "items whose captions mix scripts", mixed, pairs, says)


def truth_first(pairs: PairSet) -> Finding | None:
    """Return the share of items whose true entry stands first, and the probability of such a share at random places.

    Returns:
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

    A side is missing if a loader wrote `nan` or the like for it. Names show more where they follow a rule in nine of
    ten items or more: pictures of an item are named alike but for the last part (`7_0.png`, `7_1.png`), or ids are
    (`7_pos`, `7_neg`) in families of one size; an item that breaks the rule was torn from its other side.
    """
    absent = [_lacks_side(item) for item in pairs.items]
    apart, alone = _named_apart(pairs), _lacks_kin(pairs)
    counts = {"without a side": absent, "pictures of different names": apart, "alone of their family of ids": alone}
    says = "; ".join(f"{sum(counter):,} {name}" for name, counter in counts.items() if any(counter))
    torn = [any(share) for share in zip(absent, apart, alone, strict=True)]
    title = "items with a side that is missing or of another item"
    return at_most(0, "sides: torn", title, torn, pairs, says)


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
