"""Invalid files are refused with the reason, before they count, and without harm."""

import asyncio
import errno
import io
import json
import os
import re
import resource
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from facts import check_facts, raises
from scripts import limited
from tellapart.board.submissions import routes
from tellapart.board.submissions.accounts import RefusedError
from tellapart.board.submissions.prepared import hide
from tellapart.board.submissions.routes import write_upload
from tellapart.board.submissions.worker import form_bytes, pack, read_sent, unpack
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.errors import ScoreError, TellapartError
from tellapart.models.generative.answers import BothOrders
from tellapart.tasks.choice import Chosen
from tellapart.tasks.pairs import PAIRS
from tellapart.tasks.registry import HIDEABLE


@pytest.fixture
def made(board):
    return board()


@pytest.fixture(scope="module")
def published() -> PairSet:
    items = tuple(Item(id=str(k), images=(f"{k}a.png", f"{k}b.png"), texts=(f"x {k}", f"y {k}")) for k in range(24))
    return PairSet("set", hide(PAIRS, PairSet("set", items, Path()), b"secret", 0.5).bare(), Path())


def lines(ids: list[str], score=0.5) -> list[str]:
    return [json.dumps({"label": f"{i}_c{c}_i{k}", "score": score}) for i in ids for c in (0, 1) for k in (0, 1)]


def bad_files(ids: list[str]) -> dict[str, tuple[str, bytes, Any]]:
    """Name -> (file name, bytes, the refusal); the tests of the readers have more."""
    stream = io.BytesIO()
    np.savez(stream, ids=np.array(ids[1:]), scores=np.zeros((len(ids) - 1, 2, 2)))
    all_lines = lines(ids)
    return {
        "missing id": ("s.npz", stream.getvalue(), f"1 of 24 items are missing: {ids[0]}"),
        "no zip": ("s.npz", b"PK\x03\x04 and no more", ("npz", "cut off", "again")),
        "a page": ("s.npz", b"<!doctype html>\n<p>", ("npz", "<!doctype html>", "numpy.savez", ".csv")),
        "line twice": ("s.jsonl", "\n".join([*all_lines, all_lines[0]]).encode(), "twice"),
        "digits without end": ("s.jsonl", ('{"label": "a_c0_i0", "score": ' + "9" * 5000 + "}").encode(), "s.jsonl"),
        "no text": ("s.jsonl", b"\xff\xfe\x00", ("s.jsonl:1", "UTF-8")),
        "empty lines": ("s.jsonl", b"\n" * 100_000, ("96", "96", "missing")),
        "long cell": ("s.csv", b"id,image,text,score\n" + b"a" * 200_000 + b",0,0,1\n", "CSV"),
    }


@pytest.mark.parametrize("name", list(bad_files(["a"] * 24)))
def test_a_file_that_is_not_one_of_this_benchmark_is_refused_with_the_reason(published, name, tmp_path, monkeypatch):
    file, data, why = bad_files([item.id for item in published.items])[name]
    monkeypatch.chdir(tmp_path)
    Path(file).write_bytes(data)
    with raises(TellapartError, why) as caught:
        read_sent(Path(file), published, "pairs")
    assert str(tmp_path) not in str(caught.value)  # the server's own paths are nobody's business


def members(**named: tuple[int, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, (method, data) in named.items():
            archive.writestr(name, data, method)
    return stream.getvalue()


def with_ids(published: PairSet, scores: bytes) -> bytes:
    """Return a file of scores: the items' ids, and an array's file as it stands."""
    ids = io.BytesIO()
    np.save(ids, np.array([item.id for item in published.items]))
    return members(**{"ids.npy": (zipfile.ZIP_STORED, ids.getvalue()), "scores.npy": (zipfile.ZIP_STORED, scores)})


ARCHIVES = {
    "zip bomb": (members(**{"scores.npy": (zipfile.ZIP_DEFLATED, bytes(8 << 20))}), ("8,388,608", "bytes")),
    "bomb beside the scores": (members(**{"extra.npy": (zipfile.ZIP_DEFLATED, bytes(1 << 20))}), "unpacks"),
    "many members": (members(**{f"a{k}.npy": (zipfile.ZIP_STORED, b"") for k in range(20)}), ("20", "members")),
    "path traversal": (members(**{"../../scores.npy": (zipfile.ZIP_STORED, b"x")}), "path"),
    "windows path": (members(**{"..\\scores.npy": (zipfile.ZIP_STORED, b"x")}), "path"),
    "absolute path": (members(**{"/etc/scores.npy": (zipfile.ZIP_STORED, b"x")}), "path"),
    "lzma": (members(**{"scores.npy": (zipfile.ZIP_LZMA, bytes(64))}), "packed"),
}


def test_a_table_of_contents_that_lies_about_a_size_unpacks_to_no_more_than_it_says(published, tmp_path):
    data = bytearray(members(**{"scores.npy": (zipfile.ZIP_DEFLATED, bytes(64 << 20)), "ids.npy": (0, b"x")}))
    for signature, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        data[(at := data.index(signature) + offset) : at + 4] = struct.pack("<I", 100)
    (tmp_path / "s.npz").write_bytes(data)
    with raises(ScoreError, "npz", "plain"):
        read_sent(tmp_path / "s.npz", published, "pairs")


def npy(
    shape: str, descr: str = "'<f8'", *, data: bytes = b"", version: bytes = b"\x01\x00", order: bool = False
) -> bytes:
    """An array's file with a head that says whatever is wanted."""
    head = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY" + version + struct.pack("<H" if version == b"\x01\x00" else "<I", len(head)) + head + data


HEADS = {
    "a shape below nothing twice": npy("(-24, -2, 2)", data=bytes(96 * 8)),
    "a shape that is no number": npy("('a', 2, 2)"), "a shape with code": npy("(__import__('os').getpid(), 2, 2)"),
    "a shape of many places": npy("(" + "1, " * 70 + ")", data=bytes(8)),
    "objects": npy("(24, 2, 2)", "'|O'", data=b"\x80\x04." * 96),
    "fields of objects": npy("(24, 2, 2)", "[('a', '|O')]", data=bytes(96 * 8)),
    "fields": npy("(24, 2, 2)", "[('a', '<f4'), ('b', '<f4')]", data=bytes(96 * 8)),
    "times": npy("(24, 2, 2)", "'<M8[s]'", data=bytes(96 * 8)),
    "complex numbers": npy("(24, 2, 2)", "'<c16'", data=bytes(96 * 16)),
    "truths": npy("(24, 2, 2)", "'|b1'", data=bytes(96)), "raw bytes": npy("(24, 2, 2)", "'|V8'", data=bytes(96 * 8)),
    "a kind that is none": npy("(24, 2, 2)", "'<z9'"),
    "a head of a later version": npy("(24, 2, 2)", version=b"\x09\x00", data=bytes(96 * 8)),
    "a head without end": b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31) + b"{", "half a head": b"\x93NUMPY\x01",
    "a pickle": b"\x80\x04K\x01.", "too little": npy("(24, 2, 2)", data=bytes(96 * 8 - 1)),
}  # fmt: skip


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="how much memory is used is read from /proc")
@pytest.mark.parametrize("name", list(HEADS))
def test_an_array_whose_head_lies_is_refused_and_takes_nothing(published, name, tmp_path):
    (tmp_path / "s.npz").write_bytes(with_ids(published, HEADS[name]))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with limited(resource.RLIMIT_AS, used + (256 << 20)), pytest.raises(ScoreError):
        read_sent(tmp_path / "s.npz", published, "pairs")


@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00"])
@pytest.mark.parametrize("order", [False, True])
def test_an_array_in_any_of_numpys_ways_is_read(published, version, order, tmp_path):
    values = np.random.default_rng(0).normal(size=(24, 2, 2))
    data = npy("(24, 2, 2)", data=values.tobytes("F" if order else "C"), version=version, order=order)
    (tmp_path / "s.npz").write_bytes(with_ids(published, data))
    read = read_sent(tmp_path / "s.npz", published, "pairs")
    assert np.array_equal(read.values, np.float32(values))


def changed(data: bytes, *fields: tuple[bytes, int, str, int]) -> bytes:
    """Change numbers in a zip file: behind each record of a signature, at an offset."""
    found = bytearray(data)
    for signature, offset, kind, value in fields:
        at = -1
        while (at := found.find(signature, at + 1)) >= 0:
            struct.pack_into(kind, found, at + offset, value)
    return bytes(found)


def twice(name: str) -> bytes:
    stream = io.BytesIO()
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(stream, "w") as archive:
        for _ in range(2):
            archive.writestr(name, bytes(4096))
    return stream.getvalue()


ONE = members(**{"scores.npy": (zipfile.ZIP_STORED, bytes(4096)), "ids.npy": (zipfile.ZIP_STORED, bytes(4096))})
LIARS = {
    "members that overlap": lambda: changed(ONE, (b"PK\x01\x02", 42, "<I", 0)),
    "a member twice": lambda: twice("scores.npy"),
    "a table elsewhere": lambda: changed(ONE, (b"PK\x05\x06", 16, "<I", 1 << 31)),
    "a table of other length": lambda: changed(ONE, (b"PK\x05\x06", 12, "<I", 7)),
    "sixty thousand members that are not there": lambda: changed(ONE, (b"PK\x05\x06", 10, "<H", 60_000)),
    "zip64 sizes that are not there": lambda: changed(ONE, (b"PK\x01\x02", 24, "<I", 0xFFFFFFFF)),
    "a member beyond the end": lambda: changed(ONE, (b"PK\x01\x02", 42, "<I", 1 << 30)),
    "encrypted": lambda: changed(ONE, (b"PK\x01\x02", 8, "<H", 1)),
    "a wrong check sum": lambda: changed(ONE, (b"PK\x01\x02", 16, "<I", 1)),
    "a version of the future": lambda: changed(ONE, (b"PK\x01\x02", 6, "<H", 999)),
    "a thousand members": lambda: members(**{f"a{k}": (zipfile.ZIP_STORED, b"") for k in range(1000)}),
    "an archive within": lambda: members(**{"scores.npy": (zipfile.ZIP_STORED, ONE)}),
    "something before it": lambda: b"#!/bin/sh\n" + ONE,
}


@pytest.mark.parametrize("name", [*ARCHIVES, *LIARS])
def test_an_archive_that_is_a_trap_or_lies_about_its_members_is_refused(published, name, tmp_path):
    data, why = ARCHIVES[name] if name in ARCHIVES else (LIARS[name](), "s.npz")
    (tmp_path / "s.npz").write_bytes(data)
    with raises(ScoreError, why) as caught:
        read_sent(tmp_path / "s.npz", published, "pairs")
    assert len(str(caught.value)) < 1000


def labelled(ids: list[str], score: str) -> str:
    return "\n".join(row.replace("0.5", score) for row in lines(ids))


def widen(id_: str) -> str:
    return id_.replace(id_[0], chr(ord(id_[0]) + 0xFEE0))


def csv_of(ids: list[str], score: str, end: str = "\n") -> str:
    rows = [f"{i},{image},{text},{score}" for i in ids for image in (0, 1) for text in (0, 1)]
    return end.join(["id,image,text,score", *rows, ""])


#: Spellings of numbers, ids and lines that some readers take for others.
SPELT: dict[str, tuple[str, Callable[[list[str]], str], bool]] = {
    "a million digits": ("s.jsonl", lambda ids: lines(ids[:1], 0)[0].replace("0}", "1" * 1_000_000 + "}"), False),
    "digits behind a point": ("s.jsonl", lambda ids: labelled(ids, "0." + "1" * 1000), True),
    "ids in wide digits": ("s.jsonl", lambda ids: labelled([widen(i) for i in ids], "1"), False),
    "ids in capitals": ("s.jsonl", lambda ids: labelled([i.upper() + "A" for i in ids], "1"), False),
    "ids with a joiner": ("s.jsonl", lambda ids: labelled([f"{i}\u200d" for i in ids], "1"), False),
    "places in other digits": ("s.jsonl", lambda ids: labelled(ids, "1").replace("_c0", "_c\u0660"), False),
    "a mark at the start": ("s.jsonl", lambda ids: "\ufeff" + labelled(ids, "0.5"), True),
    "lines of windows": ("s.jsonl", lambda ids: labelled(ids, "0.5").replace("\n", "\r\n"), True),
    "csv of windows": ("s.csv", lambda ids: "\ufeff" + csv_of(ids, "0.5", "\r\n"), True),
    "csv with nothing in it": ("s.csv", lambda ids: csv_of(ids, "0.5\0"), False),
    "csv with a formula": ("s.csv", lambda ids: csv_of(ids, "=1+1"), False),
    "csv with wide rows": ("s.csv", lambda _: "id,image,text,score" + ",x" * 1_000_000 + "\n1\n", False),
}


@pytest.mark.parametrize("name", list(SPELT))
def test_numbers_and_ids_are_what_they_are_spelt_and_nothing_else(published, name, tmp_path):
    file, write, good = SPELT[name]
    (tmp_path / file).write_text(write([item.id for item in published.items]), newline="")
    with nullcontext() if good else pytest.raises(TellapartError):
        assert np.isfinite(read_sent(tmp_path / file, published, "pairs").values).all()


@pytest.mark.slow
def test_a_refused_file_gets_a_reason_leaves_nothing_and_does_not_count(board):
    made = board(limits={"daily": 1})
    values = made.right()
    values[2, 0, 0] = np.nan
    seen = made.measured(made.npz(values))
    assert (seen["state"], seen["public"]) == ("refused", None)
    assert "scores.npz: 1 items have scores not finite in float32" in seen["error"]
    assert [path.name for path in made.queue.folder.iterdir()] == [".lock"]
    assert made.measured(made.npz(made.right()))["state"] == "done"
    assert made.send(made.npz(made.right(0.5))).status_code == 429  # and now the day's one is used


@pytest.mark.slow
def test_a_file_that_would_take_all_memory_ends_its_worker_alone(board):
    made = board(settings={"memory_bytes": 256 << 20})
    seen = made.measured(b"[" + b"1," * (20 << 20) + b"1]", file="scores.jsonl")
    assert seen["state"] == "refused" and re.search("memory|did not end within", seen["error"])


@pytest.mark.slow
def test_a_file_that_takes_too_long_to_read_is_refused(board):
    made = board(settings={"seconds": 1})
    ids = [item["id"] for item in made.task()]
    seen = made.measured("\n".join(lines(ids) * 5000).encode(), file="scores.jsonl")
    assert (seen["state"], seen["error"]) == ("refused", "reading the file did not end within 1 s and 2,048 MiB")


def test_two_gigabytes_that_say_so_are_refused_before_a_byte_is_read(made):
    def never() -> Iterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    headers = {**made.of("ann"), "Content-Length": str(2 << 30)}
    answer = made.client.post("/hidden/clocks/submissions?model=m&file=s.npz", content=never(), headers=headers)
    assert answer.status_code == 413
    check_facts(answer.json()["detail"], ("2,147,483,648", f"{made.service.settings.upload_bytes:,}", "nothing else"))


def test_a_form_whose_file_is_in_another_field_is_refused_with_the_field_and_the_line(made):
    address, headers = "/hidden/clocks/submissions?model=m", made.of("ann")
    answer = made.client.post(address, files={"scores": ("s.npz", b"PK")}, headers=headers)
    assert answer.status_code == 422
    check_facts(answer.json()["detail"], ("field file", "-F file=@FILE"))


@pytest.mark.parametrize("as_form", [False, True])
def test_a_body_without_a_length_is_cut_at_the_cap_and_deleted(board, as_form):
    made = board(settings={"upload_bytes": 200_000})
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="s.npz"\r\n\r\n' if as_form else b""
    kind = "multipart/form-data; boundary=b" if as_form else "application/octet-stream"
    taken = 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        piece = head + bytes(65_536) if taken == 1 else bytes(65_536)
        return {"type": "http.request", "body": piece, "more_body": taken < 40}

    where = "/hidden/clocks/submissions?model=m&file=s.npz"
    _, said = made.post(where, {**made.of("ann"), "Content-Type": kind}, receive)
    assert b"at most" in said
    assert taken <= 5  # of the 40 that would have come
    assert not list(made.queue.folder.glob("*.part"))


def test_a_timeout_of_the_disk_is_the_servers_fault(made, monkeypatch):
    def time_out(_):
        raise OSError(errno.ETIMEDOUT, "Connection timed out")

    monkeypatch.setattr(routes, "os", SimpleNamespace(fsync=time_out, strerror=os.strerror))
    answer = made.send(b"x")
    assert (answer.status_code, "nothing was counted" in answer.json()["detail"]) == (507, True)


def test_a_full_disk_changes_no_refusal(tmp_path):
    async def pieces():
        yield b"12345678"
        yield b"9"

    with limited(resource.RLIMIT_FSIZE, 4), pytest.raises(RefusedError, match="more bytes"):
        asyncio.run(write_upload(pieces(), tmp_path / "a.part", 8))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_full_disk_leaves_nothing_half_written_and_counts_nothing(made):
    with limited(resource.RLIMIT_FSIZE, 300_000):  # a file that grows further fails as on a full disk
        answer = made.send(bytes(1_000_000))
    assert answer.status_code == 507 and "nothing was counted" in answer.json()["detail"]
    assert list(made.queue.folder.iterdir()) == []
    assert made.client.get("/submissions", headers=made.of("ann")).json()["submissions"] == []
    assert made.measured(made.npz(made.right()))["state"] == "done"


SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SIDES = st.floats(-1e9, 1e9)
PLACES = st.sampled_from([-1, 0, 1])
#: Task -> one row of what its reader gives.
ROWS: dict[str, st.SearchStrategy[Any]] = {
    "pairing": st.tuples(TEXTS, TEXTS), "nlvr2": st.booleans(), "vqa": TEXTS, "vqa2": TEXTS,
    "grounding": st.tuples(SIDES, SIDES, SIDES, SIDES), "choice": st.tuples(PLACES, PLACES), "yes-no": TEXTS,
}  # fmt: skip


def test_every_task_that_can_be_hidden_has_a_form_without_half_characters():
    assert set(ROWS) == {"pairing", *HIDEABLE}
    with raises(ScoreError, "Unicode", "texts"):
        pack([json.loads(r'"\ud800"')], "vqa")


@given(
    SHAPES.flatmap(lambda shape: arrays(np.float32, shape, elements=st.floats(0, 1, width=32))),
    st.sampled_from(["similarity", "logit", "probability"]),
)
def test_scores_come_out_as_they_went_in_and_are_as_long_as_is_known_before(values, kind):
    form = pack(Scores([f"id {k}" for k in range(len(values))], values, kind), "pairs")
    shape = values.shape[1:]
    assert len(form) <= form_bytes("pairs", len(values), shape, 0) < len(form) + 64
    found = unpack(form, "pairs", len(values), shape)
    assert (found.kind, found.values.tobytes()) == (kind, values.tobytes())
    for items, other in ((len(values) + 1, shape), (len(values), (shape[0], shape[1] + 1)), (len(values), None)):
        with raises(ScoreError, "'pairs'", "rows"):
            unpack(form, "pairs", items, other)


@pytest.mark.few(2)
@pytest.mark.parametrize("task", list(ROWS))
@given(data=st.data())
def test_predictions_come_out_as_they_went_in(task, data):
    rows = data.draw(st.lists(ROWS[task], min_size=1, max_size=5))
    sides = {"pairing": ("in_order", "swapped"), "choice": ("true_first", "true_second")}.get(task)
    joined = {"pairing": BothOrders, "choice": Chosen}.get(task)
    sent: Any = joined(*zip(*rows, strict=True)) if joined else rows
    shape = (2, 2) if task == "pairing" else None
    form = pack(sent, task)
    found = unpack(form, task, len(rows), shape)
    assert type(found) is type(sent)
    assert (list(zip(*(getattr(found, side) for side in sides), strict=True)) if sides else found) == rows
    # A file cannot be shorter than its texts; a reader's form is at most in proportion to it.
    parts = [part for row in rows for part in (row if isinstance(row, tuple) else [row])]
    texts = "".join(part for part in parts if isinstance(part, str))
    if texts.isprintable():
        assert len(form) <= form_bytes(task, len(rows), shape, len(texts.encode()))
    with raises(ScoreError, "form"):
        unpack(form, task, len(rows) + 1, shape)


WRONG = {
    "nlvr2": ["1", "null", '"true"', "[true]"],
    "vqa": ["1", "null", "true", '["two"]', r'"\ud800"', "{}"],
    "grounding": [f"[0,0,1{end}]" for end in ("", ",1,1", ",NaN", ",1e400", ",2e9", ',"1"', ",true")],
    "choice": ["[1]", "[1,2]", "[1,0.5]", '["1","1"]', "[1,1,1]", "[1,null]"],
    "pairing": ['["1;2"]', '["1;2", 1]', '"12"', '["1;2", ["2;1"]]'],
}  # fmt: skip


@pytest.mark.parametrize(("task", "row"), [(task, row) for task, rows in WRONG.items() for row in rows])
def test_a_row_that_no_reader_gives_is_refused_in_words_that_do_not_repeat_it(task, row):
    good = {"nlvr2": "true", "vqa": '"a"', "grounding": "[0,0,1,1]", "choice": "[1,-1]", "pairing": '["1;2","2;1"]'}
    assert unpack(f"[{good[task]}]".encode(), task, 1, None)
    with raises(ScoreError, repr(task), "1") as caught:
        unpack(f"[{row}]".encode(), task, 1, None)
    assert len(row) < 3 or row not in str(caught.value)
