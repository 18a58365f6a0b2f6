"""RefCOCO's pickles, changed instruction by instruction: one line or plain data; no code, no hang, little memory."""

import json
import pickle
import pickletools
import random
import resource
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tellapart.benchmarks.published_tasks import read_refcoco
from tellapart.data.plain_pickle import read_plain_pickle
from tellapart.errors import DataError

PEOPLE, CLIP = (89.5, 88.5, 85.5), (30.75, 10.25, 8.25)


REFS = [
    {
        "ann_id": k,
        "split": ("val", "testA")[k % 2],
        "ref_id": k,
        "file_name": "a.jpg",
        "sent_ids": [2 * k, 2 * k + 1],
        "sentences": [{"sent_id": 2 * k + n, "sent": "left man", "tokens": ["left", "man"]} for n in (0, 1)],
    }
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
    for _ in range(drawn.randint(1, 4)):
        place = drawn.randrange(len(parts))
        way = drawn.randrange(7)
        if way == 0:
            del parts[place : place + drawn.randint(1, 5)]
        elif way == 1:
            parts[place:place] = [parts[place]] * drawn.choice((1, 2, 50, 2_000))
        elif way == 2:
            parts.insert(drawn.randrange(len(parts)), parts.pop(place))
        elif way == 3:
            parts[place] = drawn.choice(OPERATIONS) + drawn.randbytes(drawn.choice((0, 1, 4, 8)))
        elif way == 4:
            parts[place:place] = hostile[: drawn.randint(1, len(hostile))]
        elif way == 5:  # a length or a number that promises much
            parts[place] = parts[place][:1] + drawn.choice(
                (b"\xff\xff\xff\x7f", b"\xff" * 8, b"\x00" * 8, b"9" * 5_000)
            )
        else:
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
        read_refcoco(refs, instances, "val")
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
    (tmp_path / "instances.json").write_text(json.dumps(INSTANCES))
    return tmp_path / "refs(unc).p", tmp_path / "instances.json"


def check_many(files: tuple[Path, Path], count: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = [try_refs(*files, mutated(random.Random(f"pickle {number}"))) for number in range(count)]
    refused = sum(outcome is not None for outcome in outcomes)
    assert count / 2 < refused < count  # most are damaged, and some change nothing that is read
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10  # KiB


def test_the_pickles_of_all_protocols_are_read(files):
    for protocol in range(6):
        assert try_refs(*files, pickle.dumps(REFS, protocol=protocol)) is None


def test_mutated_pickles_are_one_line_each(files):
    check_many(files, 1_000)


@pytest.mark.slow
def test_many_mutated_pickles_are_one_line_each(files):
    check_many(files, 8_000)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (doubling(60), "parts"),
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
