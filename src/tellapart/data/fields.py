"""Texts with `{fields}` of a row, as a declaration of a set writes them: places of the row, and nothing that runs."""

from __future__ import annotations

import ast
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from types import MappingProxyType
from typing import Any

from tellapart.errors import DataError, quote

Kinds = dict[str, type]
"""Path of a field -> the type that its value had in the first row: the same place of a set holds one type."""

_FIELD = re.compile(r"\{(?P<path>[^{}|:]+)(?:\|(?P<change>\w+))?(?::0(?P<width>\d{1,2}))?\}")
_ALONE = re.compile(r"\{[^{}|:]+\}")

#: No picture has as many pixels to a side.
_FAR = 1_000_000

_NAMES = {str: "text", int: "a number"}

_CHANGES: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "name": lambda text: text.replace("\\", "/").rpartition("/")[2],
        "folder": lambda text: text.replace("\\", "/").partition("/")[0],
        "stem": lambda text: text.replace("\\", "/").rpartition("/")[2].rpartition(".")[0],
        "lower": str.lower,
        "end": lambda text: text.rpartition("_")[2],
        "series": lambda text: text.rpartition("_")[0],
        "start": lambda text: text.partition("_")[0],
        "after": lambda text: text.partition(": ")[2] or text,
        "truth": str,
        "count": str,
    }
)

#: The changes that take JSON's true and false, as words, and a list, to the number of its entries; no other field does.
_TRUTH, _COUNT = "truth", "count"

#: The suffix of a field that holds Python's writing of a list of texts, as pandas saves a column of lists.
LIST = "list"
_LISTED = re.compile(r"\{(?P<path>[^{}|:]+)\|list\}")
#: The escapes that Python itself writes.
_ESCAPE = r"""\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"""
_TEXT = rf"""(?:'(?:[^'\\\n]|{_ESCAPE})*'|"(?:[^"\\\n]|{_ESCAPE})*")"""
#: A text that can hardly be meant as one: numpy writes lists without commas.
_WRITTEN = re.compile(r"""\s*\[\s*(['"]).*(['"])\s*\]\s*""", re.DOTALL)
_LIST_OF_TEXTS = re.compile(rf"\s*\[\s*(?:{_TEXT}\s*(?:,\s*{_TEXT}\s*)*,?\s*)?\]\s*")


def field_fault(place: str, field: str, problem: str, *got: object) -> DataError:
    """Return the error of a row's field; the value follows the problem, if it is given."""
    mark = "" if problem.endswith(";") else ","
    text = f"{place}: field {quote(field, 200)}: {problem}{f'{mark} got {quote(got[0])}' if got else ''}"
    return DataError(text, path=place, field=field, got=got[0] if got else None)


def check_template(template: str, *, lists: bool = False) -> str:
    """Return a template if all of its braces are fields."""
    if not template:
        raise ValueError("a template is not empty")
    for field in _FIELD.finditer(template):
        if field["change"] == LIST and not lists:
            raise ValueError(f"{field[0]}: this is one text; only images, texts, captions and options may be a list")
        if field["change"] == LIST and not _LISTED.fullmatch(template):
            raise ValueError(f"{field[0]}: a list stands alone, as a separate template")
        if field["change"] and field["change"] not in (*_CHANGES, LIST):
            raise ValueError(f"{field[0]}: after | comes one of {', '.join((*_CHANGES, LIST))}")
    if set(_FIELD.sub("", template)) & {"{", "}"}:
        raise ValueError("a field is {name}, {name.0}, {name:012} or {name|change}; braces mean nothing else")
    return template


def check_several(templates: str | list[str]) -> str | list[str]:
    """Return one template or several, any of which may be a list."""
    for template in [templates] if isinstance(templates, str) else templates:
        check_template(template, lists=True)
    return templates


def fill(template: str, row: object, place: str, kinds: Kinds | None = None) -> str:
    """Return a template with every field of a row filled in: a text, or a number as it is written.

    `{caption}` is a key, `{options.2}` the third of a list, `{image_id:012}` a number of 12 digits, `{url|name}` the
    last part of a path (also `folder`, the first, `stem`, the last without its suffix, `lower`, and of a text with
    underscores `series`, the part before the last one, `end`, the part after it, and `start`, the part before the
    first; `after` is the part after the first colon); `{label|truth}` is JSON's true or false; `{foils|count}` is the
    number of a list's entries.

    >>> fill("{0:06}.jpg|{1|name}", [42, "https://host/a/7.jpg"], "a.json: row 0")
    '000042.jpg|7.jpg'
    """
    return _FIELD.sub(lambda field: _text_value(field, row, place, kinds), template)


def fill_all(templates: str | list[str], row: object, place: str, kinds: Kinds | None = None) -> tuple[str, ...]:
    """Return one text for each template; a template that is a field alone may stand for a list.

    Alone, `{keys}` is a list if the row has one, or writes one as a text. `{negatives|list}`, alone or among others, is
    a list, or one that a table holds as a text, in Python's writing. That is read, never run.

    >>> fill_all(["{true}", "{false|list}"], {"true": "a cup", "false": "['a cat', 'no cat']"}, "a.csv:2")
    ('a cup', 'a cat', 'no cat')
    """
    if isinstance(templates, list):
        return tuple(text for template in templates for text in _fill_one(template, row, place, kinds))
    if _ALONE.fullmatch(templates):
        path = templates[1:-1]
        value = _look_up(row, path, place)
        written = isinstance(value, str) and _WRITTEN.fullmatch(value) is not None
        kind = list if written or isinstance(value, list) else str
        if kinds is not None and kinds.setdefault(f"{path} as a whole", kind) is not kind:
            raise field_fault(place, path, "lists and single values are mixed;", value)
        if written:
            return _fill_one(f"{{{path}|{LIST}}}", row, place, kinds)
        if value == []:
            raise field_fault(place, path, "is an empty list")
        if isinstance(value, list):
            return tuple(fill(f"{{{path}.{k}}}", row, place, kinds) for k in range(len(value)))
    return _fill_one(templates, row, place, kinds)


def _fill_one(template: str, row: object, place: str, kinds: Kinds | None) -> tuple[str, ...]:
    listed = _LISTED.fullmatch(template)
    if listed is None:
        return (fill(template, row, place, kinds),)
    path = listed["path"]
    value = _look_up(row, path, place)
    texts = value if isinstance(value, list) and value else read_list(value, path, place)
    by_place = {str(k): text for k, text in enumerate(texts)}
    return tuple(fill(f"{{{k}}}", by_place, f"{place}: field {path!r}") for k in by_place)


def read_box(row: object, path: str, place: str) -> tuple[int, int, int, int]:
    """Return the whole pixels, x, y, width and height, that a row's box of these four numbers touches.

    >>> read_box({"bbox": [1.5, 2, 3, 4.2]}, "bbox", "a.json: row 0")
    (1, 2, 4, 5)
    """
    box = _look_up(row, path, place)
    numbers = isinstance(box, list) and all(isinstance(n, int | float) and abs(n) < _FAR for n in box)
    if not numbers or len(box) != 4 or min(box[2:]) <= 0:
        raise field_fault(place, path, "expected a box, the numbers x, y, width and height", box)
    left, top = math.floor(box[0]), math.floor(box[1])
    return left, top, math.ceil(box[0] + box[2]) - left, math.ceil(box[1] + box[3]) - top


def exchange_words(text: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return a text with words of it in every other order, their articles `a` and `an` as they need.

    >>> exchange_words("A red cup and an old map", ["red", "old"])
    ('An old cup and a red map',)
    """
    words = [word.lower() for word in words]
    listed = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    pattern = re.compile(rf"\b(?:(a)n?(\s+))?({listed})\b", re.IGNORECASE)
    if len(set(words)) < max(2, len(words)) or {word.lower() for *_, word in pattern.findall(text)} != set(words):
        raise ValueError(f"expected two or more different words of the text {quote(text)}, got {quote(words)}")

    def exchange(order: Sequence[str]) -> str:
        other = dict(zip(words, order, strict=True))

        def replace(part: re.Match[str]) -> str:
            word = other[part[3].lower()]
            return f"{part[1]}{'n' * (word[0] in 'aeiou')}{part[2]}{word}" if part[1] else word

        return pattern.sub(replace, text)

    return tuple(exchange(order) for order in permutations(words) if list(order) != words)


def read_list(value: object, path: str, place: str) -> list[str]:
    """Read a list of quoted texts, as Python writes it; nothing else reaches the parser, so nothing can nest."""
    try:
        texts = _parse_list(value)
    except (SyntaxError, ValueError) as error:  # also an escape that names no character, or half of one
        raise field_fault(place, path, str(error), value) from error
    if not texts:
        raise field_fault(place, path, "is an empty list")
    return texts


def split_list(value: object) -> object:
    """Return the texts of a list that was saved as one text, as pandas saves it; any other value as it is."""
    return _parse_list(value) if isinstance(value, str) and _WRITTEN.fullmatch(value) else value


def split_words(text: str, signs: str = "") -> list[str]:
    """Return a text's words in lower case: runs of letters, digits, `_`, their marks and these signs.

    Unlike `\\w` of a regular expression a vowel sign of Hindi or Tamil belongs to its word, and so does an accent that
    stands apart from its letter.

    >>> split_words("The man's बेटी", "'"), split_words("Cafe\u0301.") == ["caf\u00e9"]
    (['the', "man's", 'बेटी'], True)
    """
    letters = (
        letter if letter.isalnum() or letter in f"_{signs}" or unicodedata.category(letter)[0] == "M" else " "
        for letter in unicodedata.normalize("NFC", text.lower())
    )
    return "".join(letters).split()


def whole_text(text: str) -> str:
    """Return a text that holds no half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"half of a character ({text[error.start]!a}), which no UTF-8 file can hold"
        raise ValueError(f"{half}; write the whole character, or leave it out") from error
    return text


def one_text(text: str) -> str:
    """Return a text that is not a list of texts, saved as one text."""
    if _WRITTEN.fullmatch(text):
        raise ValueError(f"expected one text, and this is a list of texts, {quote(text)}; give them one by one")
    return text


def _parse_list(value: object) -> list[str]:
    if not isinstance(value, str) or not _LIST_OF_TEXTS.fullmatch(value):
        raise ValueError("expected a list of texts, ['...', \"...\"]")
    texts: list[str] = ast.literal_eval(value.strip())
    "".join(texts).encode()
    return texts


def _text_value(field: re.Match[str], row: object, place: str, kinds: Kinds | None) -> str:
    path = field["path"]
    value = _look_up(row, path, place)
    if isinstance(value, list) and field["change"] == _COUNT:
        value = len(value)
    if isinstance(value, bool) and field["change"] == _TRUTH:
        value = str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # A decimal number is a value where it stands alone, and a slip in a path or a sentence.
    decimal = isinstance(value, float) and math.isfinite(value) and field[0] == field.string
    kind = int if type(value) is int or decimal else str
    if kind is str and not (isinstance(value, str) and value.strip()):
        raise field_fault(place, path, "expected text or a whole number", value)
    before = kind if kinds is None else kinds.setdefault(path, kind)
    if before is not kind:
        raise field_fault(place, path, f"rows before it hold {_NAMES[before]};", value)
    try:
        text = whole_text(str(value))
    except ValueError as error:
        raise field_fault(place, path, str(error)) from error
    if field["width"]:
        if not text.isdigit():
            raise field_fault(place, path, "expected digits", value)
        text = text.zfill(int(field["width"]))
    return _CHANGES[field["change"]](text) if field["change"] else text


def _look_up(row: object, path: str, place: str) -> Any:
    value = row
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            held = f"it has {len(value)} entries there" if isinstance(value, list) else f"there is {quote(value)}"
            held = f"it has {', '.join(map(str, value))}" if isinstance(value, Mapping) else held
            raise field_fault(place, path, f"is missing; {held:.200}")
    return value
