"""Every annotation format, damaged every way: the same items in some order, or one error that names the file.

Three kinds of damage: bytes (cut, overwritten), order (rows and keys shuffled at every level), and types (any value of
a file replaced by one of another type, or left out). Never another exception, never fewer items.
"""

import copy
import pickle
import pickletools
import random
import re
import resource
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import reduce
from itertools import pairwise
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from annotation_formats import COUNTERFACTUALS, FORMATS, GROOVES, Content, Format, pairs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from facts import raises
from sets import write_file
from tellapart.auditing.origin import detector_outcomes
from tellapart.benchmarks import minimal_pairs, set_file
from tellapart.benchmarks.published_tasks import read_refcoco
from tellapart.data.rows import expect_count
from tellapart.data.strict_binary import read_plain_pickle
from tellapart.errors import DataError, ScoreError


@pytest.fixture(autouse=True)
def few(request, monkeypatch) -> None:
    """Let the few rows of a made file be all that its benchmark has."""
    if "kind" not in request.fixturenames:
        return
    each = 2 if request.getfixturevalue("kind") == "eqben, a subset's own" else 1
    made = {
        "EQBEN": {name: (subset, each) for name, (subset, _) in minimal_pairs.EQBEN.items()},
        "_ITEMS": len(GROOVES),
        "INSTRUMENTS": dict.fromkeys(minimal_pairs.INSTRUMENTS, (3, 2)),
        "SUBSETS": dict.fromkeys(minimal_pairs.SUBSETS, (3,)),
        "BLOCKS": tuple((*block[:2], 1) for block in minimal_pairs.BLOCKS),
    }
    for name, value in made.items():
        monkeypatch.setattr(minimal_pairs, name, value)
    of_declared = dict.fromkeys((23_937, 28_748, 25_010, 5_000), 3) | {17_410: len(COUNTERFACTUALS)}

    def expect_few(path: Path, count: int, known: int, **about: str) -> None:
        expect_count(path, count, of_declared.get(known, known), **about)

    monkeypatch.setattr(set_file, "expect_count", expect_few)


class Made(NamedTuple):
    """A file as it is written, and what it loads as; short when hypothesis prints it."""

    form: Format
    path: Path
    before: Content

    def __repr__(self) -> str:
        return self.path.name


def outcome_of(form: Format, path: Path, content: Any) -> Content | None:
    """Load the file with this content in its place, or have one error that names it; its own content comes back."""
    whole = path.read_bytes()
    write_file(path, content)
    try:
        return form.load(path)
    except DataError as error:
        said = str(error)
        assert path.name in said or str(path.parent) in said, said
        assert len(said) < 1000
        return None
    finally:
        path.write_bytes(whole)


def check_bytes(made: Made, damaged: bytes, *, letters: bool = False) -> None:
    """`letters`: bytes were overwritten, and a letter of a caption may be another, which nothing can tell."""
    found = outcome_of(made.form, made.path, damaged)
    assert found in (None, made.before) or (letters and found.total() == made.before.total())


def shuffled(value, drawn: random.Random, rows: int):
    """Shuffle keys everywhere, and rows; a list within a row has an order of its own."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], drawn, rows - 1) for key in drawn.sample(list(value), len(value))}
    if isinstance(value, list) and rows > 0:
        return [shuffled(one, drawn, rows - 1) for one in drawn.sample(value, len(value))]
    return value


def places_of(form: Format) -> list[tuple[Any, ...]]:
    """The ways to the values of a file; those of a table are its cells."""
    return [place for place in places(form.content) if not (form.is_table and len(place) < 2)]


def places(value, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*above, key)
        yield from places(child, (*above, key))


#: What no field ever holds for what it means, and what might be what another field holds.
NEVER = st.sampled_from([None, True, False, "", " ", [], {}, [[]], [None], [{}], {"a": None}, -1e400, "\ud800"])
OTHER = st.sampled_from(
    [0, 1, 2, -1, 10**30, 0.5, "1", "x", "c0i0", "True", ["x"], ["x", "y"], [1, 2, 3, 4], {"a": "x"}]
)
LATE = settings(
    deadline=timedelta(seconds=20),
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(params=FORMATS)
def kind(request) -> str:
    return str(request.param)


@pytest.fixture
def made(kind, tmp_path) -> Made:
    form = FORMATS[kind]
    path = form.write(tmp_path)
    before = form.load(path)
    assert before.total() >= 2
    return Made(form, path, before)


@pytest.mark.slow
def test_a_file_that_is_cut_off_anywhere(made):
    whole = made.path.read_bytes()
    end = len(whole)
    for length in sorted({*range(0, end, 1 + end // 120), *range(max(0, end - 20), end)}):
        check_bytes(made, whole[:length])


@pytest.mark.slow
@LATE
@given(places=st.lists(st.floats(0, 0.9999), min_size=1, max_size=4), byte=st.integers(0, 255))
def test_a_file_with_wrong_bytes(made, places, byte):
    damaged = bytearray(made.path.read_bytes())
    for place in places:
        damaged[int(place * len(damaged))] = byte
    check_bytes(made, bytes(damaged), letters=True)


@pytest.mark.slow
@LATE
@given(drawn=st.randoms(use_true_random=False))
def test_a_file_with_its_rows_and_keys_in_another_order(made, drawn):
    form, path, before = made
    found = outcome_of(form, path, shuffled(form.content, drawn, form.rows))
    assert found == before or (found is None and "bivlc" in path.name.lower())  # its order is what its ids are


@pytest.mark.few(8)
@pytest.mark.parametrize("values", [NEVER, OTHER], ids=["never", "other"])
@LATE
@given(data=st.data())
def test_a_value_that_no_field_has_or_that_another_field_has(made, values, data):
    form, path, before = made
    place = data.draw(st.sampled_from(places_of(form)))
    found = outcome_of(form, path, changed(form.content, place, data.draw(values)))
    if found is not None:  # what another field has may be another caption, or another id
        assert_same(found, before, one_differs=values is OTHER or form.may_differ(place))


def test_a_field_that_holds_nothing_is_named(made):
    form, path, _ = made
    fields = {place[-1]: place for place in places_of(form) if len(place) > form.rows and isinstance(place[-1], str)}
    for field, place in fields.items():
        write_file(path, changed(form.content, place, None))
        try:
            form.load(path)
        except DataError as error:
            assert re.search(rf"['.]{re.escape(field.rstrip('s'))}", str(error)), error


def test_a_value_that_is_left_out(made):
    form, path, before = made
    for place in places_of(form):
        if not form.counted and (len(place) <= form.rows or isinstance(place[-1], int)) and place != ("accuracy",):
            continue  # nothing can tell that a row was ever there
        found = outcome_of(form, path, changed(form.content, place))
        if found is not None:  # the first of a list may be another one now
            assert_same(found, before, one_differs=form.may_differ(place) or isinstance(place[-1], int))


def changed(content, place: tuple[Any, ...], *value):
    content = copy.deepcopy(content)
    inside = reduce(getitem, place[:-1], content)
    if value:
        inside[place[-1]] = value[0]
    else:
        del inside[place[-1]]
    return content


def assert_same(found: Content, before: Content, *, one_differs: bool) -> None:
    assert found.total() == before.total()
    assert (before - found).total() <= (1 if one_differs else 0)


@pytest.mark.parametrize("kind", ["parquet"])
@LATE
@given(data=st.data())
def test_a_damaged_parquet_file(kind, tmp_path, data):
    """Winoground as the hub has it, but of four rows; its pictures are not opened."""
    pictures = {side: {"bytes": b"picture", "path": None} for side in ("image_0", "image_1")}
    rows = pytest.importorskip("pyarrow").Table.from_pylist([row | pictures for row in GROOVES])
    path = tmp_path / "test-00000-of-00001.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(rows, path, row_group_size=2)
    form = Format(path.name, None, pairs("winoground", ids=True))
    made, whole = Made(form, path, form.load(path)), path.read_bytes()
    places = st.integers(0, len(whole) - 1)
    check_bytes(made, whole[: data.draw(places)])
    damaged = bytearray(whole)
    for place in data.draw(st.lists(places, min_size=1, max_size=3)):
        damaged[place] = data.draw(st.integers(0, 255))
    check_bytes(made, bytes(damaged), letters=True)


NUMBERS = st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=2), st.just([]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["detector"])
@given(st.lists(st.lists(NUMBERS, max_size=3), max_size=3), st.lists(st.lists(st.floats(0, 1), max_size=3), max_size=3))
def test_a_detectors_probabilities_are_such_or_are_one_error(kind, one, other):
    said = r"detector probabilities of (text|image): |[0-3] items of captions and [0-3] of images"
    for texts, images in ((one, other), (other, one)):
        try:
            found = detector_outcomes(texts, images)
        except ScoreError as error:
            assert re.match(said, str(error))
        else:
            assert {len(column) for column in found.values()} == {len(texts)} == {len(images)}
            assert {float(value) for column in found.values() for value in column} <= {0.0, 1.0}


@pytest.mark.parametrize(
    ("kind", "place", "value", "message"),
    [
        ("winoground", (1, "id"), None, ("jsonl:2", "'id'", "0", "3", "None")),
        ("winoground", (1, "id"), 0, ("jsonl:2", "'id'", "'0'")),
        ("winoground", (1, "tag"), ["Noun"], ("jsonl:2", "'tag'", "['Noun']")),
        ("coco-counterfactuals", (1, "id"), "0_0", ("jsonl:2", "'id'", "'0_0'")),
        ("eqben, flat", (1, "private_info", "name"), [], ("1", "'private_info'")),
        ("vlue, retrieval", (1, "caption"), ["a 1", " "], ("1", "'caption[1]'")),
        ("gebplus", ("abcdefghijk", 1, "label"), " ", ("1", "'label'")),
        ("gpt-4v", ("2", "filename"), " ", ("'2'", "'filename'")),
    ],
)
def test_what_the_fuzz_has_found_is_named(tmp_path, kind, place, value, message):
    form = FORMATS[kind]
    path = form.write(tmp_path)
    write_file(path, changed(form.content, place, value))
    with raises(DataError, message):
        form.load(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", b"3", b"\xff\xfe", b'{"a": NaN', b"[" * 100_000])
def test_a_file_that_holds_something_else_is_one_error(made, content):
    assert outcome_of(made.form, made.path, content) is None


# RefCOCO's pickles, changed instruction by instruction: one line or plain data; no code, no hang, little memory.


REFS = [
    {"ann_id": k, "split": ("val", "testA")[k % 2], "ref_id": k, "file_name": "a.jpg", "sent_ids": [2 * k, 2 * k + 1]}
    | {"sentences": [{"sent_id": 2 * k + n, "sent": "left man", "tokens": ["left", "man"]} for n in (0, 1)]}
    for k in range(4)
]
INSTANCES = {
    "images": [{"id": 0, "file_name": "a.jpg", "width": 9, "height": 9}],
    "annotations": [{"id": k, "image_id": 0, "bbox": [1, 2, 3, 4]} for k in range(4)],
}
OPERATIONS = [each.code.encode("latin-1") for each in pickletools.opcodes]
CALLED: list[object] = []


class Hostile:
    """Runs a function of this file when it is unpickled as usual."""

    def __reduce__(self) -> tuple[Any, ...]:
        return CALLED.append, ("code ran",)


def instructions(data: bytes) -> list[bytes]:
    places = [place for _, _, place in pickletools.genops(data)] + [len(data)]
    return [data[start:end] for start, end in pairwise(places)]


def mutated(drawn: random.Random) -> bytes:
    """A pickle of one of the protocols with up to four instructions lost, doubled, moved, changed or foreign."""
    parts = instructions(pickle.dumps(REFS, protocol=drawn.randrange(6)))
    hostile = instructions(pickle.dumps(Hostile(), protocol=drawn.randrange(6)))
    much = (b"\xff\xff\xff\x7f", b"\xff" * 8, b"\x00" * 8, b"9" * 5_000)  # a length or a number that promises much
    for _ in range(drawn.randint(1, 4)):
        place = drawn.randrange(len(parts))
        match drawn.randrange(7):
            case 0:
                del parts[place : place + drawn.randint(1, 5)]
            case 1:
                parts[place:place] = [parts[place]] * drawn.choice((1, 2, 50, 2_000))
            case 2:
                parts.insert(drawn.randrange(len(parts)), parts.pop(place))
            case 3:
                parts[place] = drawn.choice(OPERATIONS) + drawn.randbytes(drawn.choice((0, 1, 4, 8)))
            case 4:
                parts[place:place] = hostile[: drawn.randint(1, len(hostile))]
            case 5:
                parts[place] = parts[place][:1] + drawn.choice(much)
            case _:
                parts[place] = bytes(b ^ (drawn.random() < 0.2) << drawn.randrange(8) for b in parts[place])
        if not parts:
            return b""
    return b"".join(parts)


def doubling(levels: int) -> bytes:
    """A list of two times the same list of two times the same list, and so on."""
    inner: list[Any] = ["x"]
    for _ in range(levels):
        inner = [inner, inner]
    return pickle.dumps(inner, protocol=2)


def try_refs(refs: Path, instances: Path, data: bytes) -> str | None:
    """Read a file; return the error's text, None where the file was read."""
    refs.write_bytes(data)
    began = time.monotonic()
    try:
        read_refcoco(refs, instances, splits=["val"])
    except DataError as error:
        said = str(error)
        assert "\n" not in said and len(said) <= 2_000 and refs.name in said
        return said
    finally:
        assert time.monotonic() - began < 10
        assert not CALLED
    return None


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    return tmp_path / "refs(unc).p", write_file(tmp_path / "instances.json", INSTANCES)


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [1_000, 8_000])
def test_mutated_pickles_are_one_line_each(files, count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = [try_refs(*files, mutated(random.Random(f"pickle {number}"))) for number in range(count)]
    refused = sum(outcome is not None for outcome in outcomes)
    assert count / 2 < refused < count  # most are damaged, and some change nothing that is read
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10  # KiB


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (doubling(60), "parts"),
        (b"\x80\x02]}U\x06ann_id" + doubling(60)[2:-1] + b"sa.", "parts"),
        (pickle.dumps([Hostile()]), "not plain data"),
        (b"\x80\x02]q\x00h\x00a.", "holds itself"),
        (b"\x80\x02" + b"]" * 3_000 + b"a" * 2_999 + b".", "levels"),
        (b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.", "not a complete pickle"),  # a text of 2**63 bytes
        (b"\x80\x02]r\xff\xff\xff\xff.", "place 4294967295"),
        (b"I" + b"9" * 100_000 + b"\n.", "not a complete pickle"),
    ],
)
def test_crafted_pickles_are_refused_at_once(files, data, what):
    assert what in (try_refs(*files, data) or "")


def test_long_numbers_and_floats_that_are_no_numbers_are_no_boxes(files):
    odd = [2**200, -1, 1.5, float("nan"), True, "\ud800", None, "7", [7]]
    for field in ("ann_id", "split", "sentences"):
        for value in odd:
            rows = [REFS[0] | {field: value}]
            assert try_refs(*files, pickle.dumps(rows, protocol=2)) is not None, (field, value)
    assert read_plain_pickle(files[0]) is not None
