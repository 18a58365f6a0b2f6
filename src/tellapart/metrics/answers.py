"""Accuracy of answers: each alone, of groups that are right if all their rows are, and against ten people's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import fsum
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.answer_text import plain_text
from tellapart.data.scores import join_names
from tellapart.errors import MetricError, quote

_BRACES = re.compile(r"\{([^{}]*)\}")
_SIGN = re.compile(r"(?<![\w.])-(?=\d)")  # of the number -5; not the dash of `3-5` or of `cup - 5`
_MINUS = "\N{MINUS SIGN}"  # `clean_punctuation` removes hyphens, and leaves this sign
_LABELS = {"True": True, "False": False}


def exact_match(predictions: Sequence[str], answers: Sequence[str]) -> NDArray[np.float64]:
    """Return 1 if prediction and gold answer are the same string, blanks at the ends aside: float64 `(question,)`.

    Source: VLUE `xvlm/VQA.py` (`calculate_acc`), whose gold answers are in lower case with numbers as digits.

    >>> exact_match(["yes ", "Yes"], ["yes", "yes"])
    array([1., 0.])
    """
    _same_length("exact_match", predictions, answers)
    return np.array(
        [prediction.strip() == gold.strip() for prediction, gold in zip(predictions, answers, strict=True)], np.float64
    )


def label_accuracy(predictions: Sequence[bool | str], labels: Sequence[bool | str]) -> NDArray[np.float64]:
    """Return 1 if a statement is judged as labelled: float64 `(statement,)`. Chance 1/2.

    NLVR2's labels are the strings "True" and "False", both of which Python takes as true; here they are read, and
    anything else but a bool is refused.

    Source: NLVR2 (Suhr et al. 2019); VLUE section 3.1.

    >>> label_accuracy(["True", "False", True], ["True", "True", "True"])
    array([1., 0., 1.])
    """
    _same_length("label_accuracy", predictions, labels)
    predicted, gold = _read_labels("prediction", predictions), _read_labels("label", labels)
    return np.asarray(predicted == gold, dtype=np.float64)


def group_accuracy(correct: ArrayLike, groups: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Return 1 for each group all of whose rows are right, 0 or 1 a row: float64 `(group,)`.

    With the rows of one sentence it is NLVR2's consistency; with the two images of one question whose answers
    differ it is the group score of a pair, which a model that ignores the image cannot win.

    Source: NLVR2 (Suhr et al. 2019), section 4, consistency.

    >>> group_accuracy([1, 1, 0], [[0, 1], [1, 2]])
    array([1., 0.])
    """
    outcomes: NDArray[Any] = np.asarray(correct)
    if outcomes.ndim != 1 or outcomes.dtype.kind not in "biuf" or not np.isin(outcomes, (0, 1)).all():
        raise MetricError(f"group_accuracy needs 0 or 1 a row; got an array of {outcomes.dtype} {outcomes.shape}")
    if not groups or not all(groups):
        raise MetricError(f"group_accuracy: got {len(groups)} groups; pass one or more, each with one row or more")
    outside = sorted({row for group in groups for row in group if not 0 <= row < len(outcomes)})
    if outside:
        raise MetricError(
            f"group_accuracy: rows {join_names([str(row) for row in outside])} are not among the {len(outcomes)} "
            "outcomes"
        )
    return np.array([outcomes[list(group)].all() for group in groups], np.float64)


def _read_labels(noun: str, values: Sequence[bool | str]) -> NDArray[np.bool_]:
    wrong = [row for row, value in enumerate(values) if not isinstance(value, bool | np.bool_) and value not in _LABELS]
    if wrong:
        raise MetricError(
            f"label_accuracy: {noun} {wrong[0]} is {quote(values[wrong[0]])}; {len(wrong)} are neither 'True' nor "
            "'False'"
        )
    return np.array([_LABELS[value] if isinstance(value, str) else bool(value) for value in values], np.bool_)


def _same_length(call: str, predictions: Sequence[Any], gold: Sequence[Any]) -> None:
    if len(predictions) != len(gold) or len(gold) == 0:
        raise MetricError(f"{call}: {len(predictions)} predictions for {len(gold)} gold answers; give one for each")


# The soft accuracy of visual question answering against ten people's answers, and its normaliser.
#
# An answer is worth min(1, agreeing people / 3), averaged over the ten ways of leaving one person out. Answers agree if
# they are equal after normalisation. The normaliser's quirks are part of every published number, so they are kept and
# named here. The two scripts in use apply it in different cases:
#
# - `official` (VQA 2.0's present script): prediction and people are cleaned alike, punctuation and then words, but
#   only if the people do not all give the same answer; else the prediction is compared unchanged.
# - `xvlm` (its earlier version, copied by ALBEF, X-VLM and VLUE): the prediction is always cleaned; of the people's
#   answers only the punctuation is, and only if they are not all the same.

Variant = Literal["official", "xvlm"]

_MARKS = ';/[]"{}()=+\\_-><@`,?!'
_DIGITS_AND_COMMA = re.compile(r"\d,\d")
# The script means to keep a full stop after a digit, too; its look-behind is mistyped, so only the look-ahead acts.
_POINT = re.compile(r"\.(?!\d)")
_MOST_POINTS = 32  # the script passes a flag (re.UNICODE, 32) as the count, so it removes 32 full stops at most
_ARTICLES = frozenset({"a", "an", "the"})
_NUMBERS = {"none": "0", "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6"}
_NUMBERS |= {"seven": "7", "eight": "8", "nine": "9", "ten": "10"}
# A word that lacks exactly one of these apostrophes gets it back. Forms of "I" are useless: words are lower-cased.
_CONTRACTIONS = """
ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd he'd've
he's how'd how'll how's isn't it'd it'd've it'll ma'am mightn't mightn't've might've mustn't must've needn't not've
o'clock oughtn't 'ow's'at shan't she'd've should've shouldn't shouldn't've somebody'd've somebody'll somebody's
someone'd someone'd've someone'll someone's something'd something'd've something'll that's there'd there'd've
there're there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll what're what's
what've when's where'd where's where've who'd who'd've who'll who's who've why'll why're why's won't would've
wouldn't wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're you've
"""
_APOSTROPHES = {
    **{
        phrase[:index] + phrase[index + 1 :]: phrase
        for phrase in _CONTRACTIONS.split()
        for index, letter in enumerate(phrase)
        if letter == "'"
    },
    "somebody'd": "somebodyd",  # the script's table has this entry the wrong way round
}
_AGREEING = 3  # people who must agree for full marks


def clean_punctuation(text: str) -> str:
    """Return `text` without the script's marks and full stops; apostrophes and colons stay.

    A mark becomes nothing if it is next to a space anywhere in the text, or if the text holds a comma between digits;
    else a space. A full stop goes unless a digit follows, the first 32 only.

    Source: VQA 2.0 `vqaEval.py`, `processPunctuation`.

    >>> clean_punctuation("red-white"), clean_punctuation("red-white - blue"), clean_punctuation("1,000 - 2.5 m.")
    ('red white', 'redwhite  blue', '1000  2.5 m')
    """
    glue = _DIGITS_AND_COMMA.search(text) is not None
    cleaned = text
    for mark in _MARKS:
        cleaned = cleaned.replace(mark, "" if glue or f"{mark} " in text or f" {mark}" in text else " ")
    return _POINT.sub("", cleaned, count=_MOST_POINTS)


def clean_words(text: str) -> str:
    """Return `text` in lower case, numbers up to ten as digits, no articles, apostrophes put back, single spaces.

    Source: VQA 2.0 `vqaEval.py`, `processDigitArticle`; there "none" is the number 0, too.

    >>> clean_words("The  two dogs dont"), clean_words("None")
    ("2 dogs don't", '0')
    """
    words = (_NUMBERS.get(word, word) for word in text.lower().split())
    return " ".join(_APOSTROPHES.get(word, word) for word in words if word not in _ARTICLES)


def read_stated(answer: str) -> str:
    """Return the answer that is stated: what the last braces hold, or the only word, number, yes or no of a sentence.

    Case, marks and articles do not count, numbers up to ten are digits, and 2.0, as tables write it, is 2. If a
    sentence without braces has two numbers, or both yes and no, it is taken as it is.

    >>> [read_stated(answer) for answer in ("{4}", "It has four legs.", "\\\\boxed{B}", "(A)", "Yes, it is", "1 of 2")]
    ['4', '4', 'b', 'a', 'yes', '1 of 2']
    """
    text = plain_text(answer)  # with LaTeX's boxes, whose content is framed, too
    framed = _BRACES.findall(text)
    stated = (framed or [text])[-1]
    signed = _SIGN.sub(_MINUS, stated)
    words = clean_words(clean_punctuation(signed)) or re.sub(r"\W+", "", signed).lower()  # A alone is no article
    words = re.sub(rf"\A({_MINUS}?\d+)\.0+\Z", r"\1", words).replace(_MINUS, "-")
    words = "0" if words == "-0" else words
    if framed:
        return words
    several = words.split()
    numbers = [word for word in several if word.removeprefix("-").isdecimal()]
    for kind in (numbers, [word for word in several if word in ("yes", "no")]):
        if len(set(kind)) == 1:
            return kind[0]
    return words


def is_stated(answer: str, gold: str) -> bool:
    """Return whether an answer states the gold answer, as `read_stated` reads it, or is nothing else.

    >>> [is_stated(answer, "a 2 cup") for answer in ("{2 cup}", "A 2 cup.", "2", "")], is_stated("It is -5.", "5")
    ([True, True, False, False], False)
    """
    right = read_stated(f"{{{gold}}}")
    return bool(right) and right in (read_stated(answer), read_stated(f"{{{answer}}}"))


def soft_accuracy(
    predictions: Sequence[str], answers: Sequence[Sequence[str]], variant: Variant = "official"
) -> NDArray[np.float64]:
    """Return the VQA accuracy of each prediction by the script of a variant: float64 `(question,)`, in [0, 1].

    A question has two people's answers or more, ten as a rule: then 1, 2, 3 and 4 who agree give 0.3, 0.6, 0.9 and 1.

    Source: VQA 2.0 `vqaEval.py`; VLUE section 3.1 (in-domain).

    >>> soft_accuracy(["two"], [["2"] * 3 + ["3"] * 7])
    array([0.9])
    >>> soft_accuracy(["Yes."], [["yes"] * 10]), soft_accuracy(["Yes."], [["yes"] * 10], "xvlm")
    (array([0.]), array([1.]))
    """
    if variant not in get_args(Variant):
        raise MetricError(f"soft_accuracy: no variant {variant!r}; use one of {', '.join(get_args(Variant))}")
    if len(predictions) != len(answers) or not predictions:
        raise MetricError(
            f"soft_accuracy: {len(predictions)} predictions for {len(answers)} questions; give one for each"
        )
    values = np.empty(len(predictions))
    for row, (prediction, people) in enumerate(zip(predictions, answers, strict=True)):
        if isinstance(people, str) or len(people) < 2:
            raise MetricError(
                f"soft_accuracy: question {row} has {quote(people)} for answers; it leaves one person out, so it needs "
                "two or more: with one gold answer use exact_match"
            )
        values[row] = _leave_one_out(*_normalise_answers(prediction, people, variant))
    return values


def _normalise_answers(prediction: str, people: Sequence[str], variant: Variant) -> tuple[str, list[str]]:
    """Return the prediction and the people's answers as the variant's script compares them."""
    predicted = _one_line(prediction)
    cleaned = clean_words(clean_punctuation(predicted))  # in every case: its cost must not follow the people's answers
    if variant == "official":
        people = [_one_line(answer) for answer in people]
        if len(set(people)) == 1:
            return predicted, people
        return cleaned, [clean_words(clean_punctuation(answer)) for answer in people]
    differ = len(set(people)) > 1
    return cleaned, [clean_punctuation(answer) if differ else answer for answer in people]


def _leave_one_out(predicted: str, people: Sequence[str]) -> float:
    """Return the worth of an answer, averaged over the ways of leaving one person out."""
    agree = people.count(predicted)
    out = [(agree - (answer == predicted)) / _AGREEING for answer in people]
    return fsum(min(1.0, share) for share in out) / len(out)


def _one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\t", " ").strip()
