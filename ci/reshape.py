"""Ways to damage what a file says rather than its bytes: names, types, rows and encodings of JSON, TOML and tables.

Each leaves the content as it was, or does what a reader can see who knows the fields or the rows.
"""

import csv
import io
import json
import random
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any


class _Object(list[tuple[str, Any]]):
    """An object as its pairs, so that a key may stand twice."""


class _NoPlaceError(Exception):
    """The content has nothing that could be damaged so."""


#: Names under which files hold right answers, ids and other things that may stand beside a prediction.
_BESIDE = (
    *("answer", "label", "truth", "gold", "prediction", "output", "caption", "bbox", "class", "correct", "target"),
    *("score", "question_id", "image_id", "id", "annotator", "split"),
)


_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def can_reshape(suffix: str) -> bool:
    """Say whether files of a suffix can be damaged so."""
    return suffix in (".json", ".jsonl", ".toml", *_DELIMITERS)


def reshape(suffix: str, valid: bytes, drawn: random.Random, free: Collection[str] = ()) -> tuple[str, bytes]:
    """Return what was done to a valid file, and the bytes that came of it."""
    way = drawn.choice(sorted(ALWAYS | _WAYS.keys()))
    if way in ALWAYS:
        return way, _TEXTS[way](valid)
    content = _parse(suffix, valid.decode())
    same_keys = suffix in _DELIMITERS or (suffix == ".jsonl" and drawn.random() < 0.5)
    try:
        _WAYS[way](_Places(content, frozenset(free), drawn, same_keys))
    except _NoPlaceError:
        return way, valid
    return way, _write(suffix, content).encode("utf-8", "surrogatepass")


def _parse(suffix: str, text: str) -> Any:
    if suffix == ".json":
        return json.loads(text, object_pairs_hook=_Object)
    if suffix == ".jsonl":
        return [json.loads(line, object_pairs_hook=_Object) for line in text.splitlines() if line]
    if suffix == ".toml":
        return _objects(tomllib.loads(text))
    return [_Object(row.items()) for row in csv.DictReader(io.StringIO(text), delimiter=_DELIMITERS[suffix])]


def _objects(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _Object((key, _objects(inner)) for key, inner in value.items())
    return list(map(_objects, value)) if isinstance(value, list) else value


def _write(suffix: str, content: Any) -> str:
    if suffix == ".json":
        return _spell(content, ": ")
    if suffix == ".jsonl":
        return "".join(_spell(row, ": ") + "\n" for row in content)
    if suffix == ".toml":
        return "".join(f"{json.dumps(key)} = {_spell(value, ' = ')}\n" for key, value in content)
    stream = io.StringIO()
    table = csv.writer(stream, delimiter=_DELIMITERS[suffix], lineterminator="\n")
    if content:
        table.writerow(key for key, _ in content[0])
    table.writerows([_cell(value) for _, value in row] for row in content)
    return stream.getvalue()


def _cell(value: Any) -> str:
    return value or "" if value is None or isinstance(value, str) else _spell(value, ": ")


def _spell(value: Any, equals: str) -> str:
    """Write a value as JSON, or as TOML's inline tables: they differ in a sign, and in numbers that are not finite."""
    if isinstance(value, _Object):
        return "{" + ", ".join(f"{json.dumps(key)}{equals}{_spell(inner, equals)}" for key, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_spell(inner, equals) for inner in value) + "]"
    if isinstance(value, float) and equals == " = ":
        return repr(value)
    return value.isoformat() if isinstance(value, datetime) else json.dumps(value)


class _Places:
    """Places to damage, drawn at random, none below a free key; with `same_keys` in all rows at once."""

    def __init__(self, content: Any, free: Collection[str], drawn: random.Random, same_keys: bool) -> None:
        self.content, self.free, self.drawn, self.same_keys = content, free, drawn, same_keys

    def _walk(self, value: Any) -> Iterator[Any]:
        yield value
        for inner in value if isinstance(value, list) else ():
            if not isinstance(value, _Object):
                yield from self._walk(inner)
            elif inner[0] not in self.free:
                yield from self._walk(inner[1])

    def draw(self, values: Sequence[Any], least: int = 1) -> Any:
        """Return one of some values, of which there must be so many."""
        if len(values) < least:
            raise _NoPlaceError
        return self.drawn.choice(values)

    def objects(self) -> list[_Object]:
        """Return one object that has keys; of a table with the same key in all rows, all of them."""
        every = [value for value in self._walk(self.content) if isinstance(value, _Object) and value]
        return list(self.content) if every and self.same_keys else [self.draw(every)]

    def rows(self, default: list[_Object] | None = None) -> list[_Object]:
        """Return one list of objects, or the default where there is none."""
        every = [
            value
            for value in self._walk(self.content)
            if type(value) is list and value and all(isinstance(row, _Object) for row in value)
        ]
        return default if default and not every else self.draw(every)

    def replace(self, kinds: tuple[type, ...], change: Callable[[Any], Any]) -> None:
        """Put another value in the place of one of these kinds."""
        holder, index = self.draw(
            [
                (holder, index)
                for holder in self._walk(self.content)
                if isinstance(holder, list)
                for index, inner in enumerate(holder)
                if not (isinstance(holder, _Object) and inner[0] in self.free)
                and not (holder is self.content and self.same_keys)
                and isinstance(inner[1] if isinstance(holder, _Object) else inner, kinds)
            ]
        )
        if isinstance(holder, _Object):
            key, value = holder[index]
            holder[index] = key, change(value)
        else:
            holder[index] = change(holder[index])


_ANY = (str, int, float, bool, list)
_NO_NUMBERS = (float("nan"), float("inf"), float("-inf"))


def _misspell(places: _Places) -> None:
    objects = places.objects()
    old = places.draw([key for key, _ in objects[0] if key not in places.free])
    new = places.draw([old[:-1], f"{old}s", old.capitalize(), old.upper(), f" {old}", old.replace("_", "-")])
    if new == old or not new.strip():
        new = f"{old}_"
    for row in objects:
        row[:] = [(new if key == old else key, value) for key, value in row]


def _add(places: _Places, names: Collection[str]) -> None:
    """Add a key with a value that another object of the file has under its last key."""
    objects = places.objects()
    name, rows = places.draw([name for name in names if name not in dict(objects[0])]), places.rows(objects)
    at = places.draw([0, len(objects[0])])
    for row in objects:
        row.insert(at, (name, deepcopy(places.draw(rows)[-1][1])))


def _repeat_key(places: _Places) -> None:
    objects = places.objects()
    place = places.drawn.randrange(len(objects[0]))
    others, before = places.rows(objects), places.draw([True, False])
    for row in objects:
        place = min(place, len(row) - 1)
        key = row[place][0]
        other = deepcopy(dict(places.draw(others)).get(key, places.draw(["other", 7])))
        row.insert(0 if before else len(row), (key, other))


def _drop_key(places: _Places) -> None:
    objects = places.objects()
    gone, _ = places.draw(objects[0], least=2)
    for row in objects:
        row[:] = [(key, value) for key, value in row if key != gone]


def _order_keys(places: _Places) -> None:
    objects = places.objects()
    order = [key for key, _ in objects[0]]
    places.drawn.shuffle(order)
    for row in objects:
        row.sort(key=lambda pair: order.index(pair[0]) if pair[0] in order else len(order))


def _other_types(value: Any) -> list[Any]:
    """Return a value as other types: the same to a reader who takes them, and wrong to one who does not."""
    if isinstance(value, bool):
        return [int(value), str(value).lower(), str(value), [value]]
    if isinstance(value, int | float):
        return [str(value), float(value), [value], *([bool(value)] if value in (0, 1) else [])]
    if isinstance(value, _Object):
        return [[value], _spell(value, ": ")]
    if isinstance(value, list):
        return [_spell(value, ": "), str(value), [value], _Object((str(k), inner) for k, inner in enumerate(value))]
    plain = [int(value)] if value.isascii() and value.isdigit() and str(int(value)) == value else []
    return [[value], _Object([(value, value)]), *plain]


def _drop_row(places: _Places) -> None:
    rows = places.rows()
    del rows[places.draw(range(len(rows)), least=2)]


def _repeat_row(places: _Places) -> None:
    """Give a row twice, the second time as it is, or with another row's last value."""
    rows = places.rows()
    row, other = _Object(places.draw(rows)), places.draw(rows)
    if places.drawn.random() < 0.5 and row and other:
        row[-1] = row[-1][0], other[-1][1]
    rows.insert(places.drawn.randrange(len(rows) + 1), row)


_TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "line ends of Windows": lambda data: data.replace(b"\n", b"\r\n"),
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "blank lines": lambda data: data + b"\n\n",
}

#: Names of the fields of one row, and their types.
_NAMED: dict[str, Callable[[_Places], None]] = {
    "misspelt key": _misspell,
    "key beside": lambda places: _add(places, _BESIDE),
    "key more": lambda places: _add(places, ("x", "Unnamed: 0", "comment")),
    "repeated key": _repeat_key,
    "keys in another order": _order_keys,
    "type": lambda places: places.replace(_ANY, lambda value: places.drawn.choice(_other_types(value))),
    "null": lambda places: places.replace(_ANY, lambda _: None),
    "not finite": lambda places: places.replace((int, float), lambda _: places.drawn.choice(_NO_NUMBERS)),
}
_ROWED: dict[str, Callable[[_Places], None]] = {
    "key dropped": _drop_key,
    "rows in another order": lambda places: places.drawn.shuffle(places.rows()),
    "row dropped": _drop_row,
    "row repeated": _repeat_row,
}
_WAYS = _NAMED | _ROWED

#: Ways that mislead no reader at all, none that knows its fields, and none that knows its rows.
ALWAYS, FIELDS, ROWS = (frozenset(ways) for ways in (_TEXTS, _NAMED, _ROWED))
