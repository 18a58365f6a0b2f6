"""Files from strangers: whatever is in them, reading ends soon, in content or in one line that names the file."""

import gc
import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from facts import raises
from sets import write_file
from tellapart.benchmarks.set_file import read_set_file
from tellapart.data.rows import read_csv, read_jsonl, read_toml
from tellapart.data.strict_binary import read_arrays, read_plain_pickle
from tellapart.data.strict_json import collector_paused, read_whole
from tellapart.errors import DataError, ModelError, ScoreError, quote


@contextmanager
def soon(seconds: float) -> Iterator[None]:
    """Fail if what is done inside takes longer."""
    started = time.process_time()
    yield
    assert time.process_time() - started < seconds


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    import gates  # noqa: F401  # it sets a variable of the environment, for all tests of this file
    from doors import open_doors

    return {door.name: door for door in open_doors(tmp_path_factory.mktemp("doors"))}


def test_every_door_reads_its_own_file(doors):
    assert len(doors) > 20
    for door in doors.values():
        assert repr(door.read()) == repr(door.read())


@pytest.mark.few(1)
@pytest.mark.parametrize("examples", [300, 4_000])
def test_a_damaged_file_is_one_line_or_read(doors, examples):
    from gates import BAD, try_input

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(seed=st.integers(0, 10**9))
    def read_damaged(seed: int) -> None:
        with soon(10):
            tried = try_input(doors, seed, 0)
        assert tried["outcome"] not in BAD, tried

    read_damaged()


SET = 'name = "mine"\ntitle = "t"\nsource = "s"\nfiles = ["a.csv"]\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a = " + "9" * 5_000, ("TOML", "Exceeds the limit")),
        ("a = 99999999999999999999", ("TOML", "99999999999999999999")),
        ("a = " + "[" * 100_000, ("TOML", "nests")),
        ("a = " + "[" * 150 + "]" * 150, ("TOML", "100")),
        ("a" + ".a" * 100_000 + " = 1", ("TOML", "60", "key")),
        ("".join(f"[a{k}]\n" for k in range(20_000)), ("TOML", "10,000")),
        ("a = 1\n" * (1 << 20), ("4,194,304", "bytes")),
        ("a = 1\na = 2", ("TOML", "Cannot overwrite a value")),
        ("[a]\nb = [1, inf]", ("field 'a.b[1]'", "inf", "finite")),
        ("name = mine\n", ("line 1", "quotes")),
        (f'{SET}[item]\nid = "{{row}}"\n', ("'item'", "[[item]]")),  # a table for a list
    ],
    ids=range(11),
)
def test_toml_that_has_no_end_is_one_line(tmp_path, content, said):
    path = write_file(tmp_path / "recipe.toml", content)
    with soon(5), raises(DataError, "recipe.toml", said):
        (read_set_file if content.startswith(SET) else read_toml)(path)


def test_a_long_word_in_toml_takes_no_time(tmp_path):
    path = write_file(tmp_path / "a.toml", f'a = "{"a" * 2_000_000}"\n')
    with soon(5):
        assert len(read_toml(path)["a"]) == 2_000_000


def test_a_file_without_end_is_not_read_to_its_end():
    with raises(DataError, "/dev/zero", "1,000", "bytes"):
        read_whole(Path("/dev/zero"), most=1_000)


@pytest.mark.parametrize("order", "<>")
def test_an_array_of_text_that_no_text_has_is_refused(tmp_path, order):
    path = tmp_path / "scores.npz"
    np.savez(path, ids=np.array(["a", "é\U0010ffff"], f"{order}U2"))
    assert read_arrays(path, ["ids"])["ids"].tolist() == ["a", "é\U0010ffff"]
    np.savez(path, ids=np.array([[0x110000, 0]], f"{order}u4").view(f"{order}U2"))
    with raises(ScoreError, "scores.npz", "'ids.npy'"):
        read_arrays(path, ["ids"])


@pytest.mark.parametrize(
    ("name", "content", "read", "facts"),
    [
        ("a.jsonl", '"' + "x" * 300_000 + '"', read_jsonl, "a.jsonl"),
        ("a.jsonl", '{"X": 1, "X": 2}'.replace("X", "x" * 300_000), read_jsonl, "a.jsonl"),
        ("a.csv", ",".join(["x" * 100_000] * 2), read_csv, ("repeated", "header")),
        ("a.toml", "x" * 300_000 + " = inf", read_toml, "finite"),
    ],
    ids=range(4),
)
def test_what_is_quoted_of_a_file_is_bounded(tmp_path, name, content, read, facts):
    with raises(DataError, facts) as caught:
        list(read(write_file(tmp_path / name, content)))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [{"a": [1, (2,), ()], "b": None}, [], {}, (1, 2), "it's", b"a", 1.5, True, {"x": {}}])
def test_what_is_short_is_quoted_as_python_writes_it(value):
    assert quote(value) == repr(value)


def test_what_shares_itself_is_quoted_at_once():
    shared: list[Any] = ["x"]
    for _ in range(100):
        shared = [shared] * 10
    shared.append(shared)
    assert quote(shared, 60).startswith("[[[[[")
    assert len(quote({"a": shared, "b": "x" * 10**6}, 200)) == 200
    assert quote(10**5_000) == "an integer of 16,610 bits"
    assert str(ModelError("a" * 2_000 + "; name another --out")).endswith("aaa; name another --out")


LIST: list[Any] = ["x"]
KEYS = {(*"ab", k): [one := (("a", "b"), k), one] for k in range(9)}


@pytest.mark.parametrize("value", [[LIST, LIST, {"a": LIST}], KEYS])
def test_a_pickle_with_parts_that_are_shared_as_often_as_few_allow_is_read(tmp_path, value):
    assert read_plain_pickle(write_file(tmp_path / "refs.p", pickle.dumps(value))) == value


@pytest.mark.parametrize(
    ("key", "size"),
    [
        *((inner * 1_000_000, "100") for inner in (b"\x85", b"K\x01\x86", b"\x85\x94")),  # a million tuples
        # Of a dozen tuples, each twice the one before: with sixty, Python would hash for years.
        (b"q\x00" + b"".join(b"h%c\x86q%c" % (k, k + 1) for k in range(12)), "700"),
    ],
    ids=range(4),
)
def test_a_pickle_whose_key_is_of_many_tuples_is_refused_before_it_is_built(tmp_path, key, size):
    path = write_file(tmp_path / "refs.p", b"\x80\x04})" + key + b"K\x01s.")
    with raises(DataError, "refs.p", size, "complete"):
        read_plain_pickle(path)


def test_the_collector_is_on_after_an_error_and_stays_off_within_a_callers_pause():
    with pytest.raises(ValueError, match="broken"), collector_paused():
        assert not gc.isenabled()
        raise ValueError("broken")
    assert gc.isenabled()
    with collector_paused():
        collector_paused()(gc.isenabled)()
        assert not gc.isenabled()
    assert [collector_paused()(gc.isenabled)(), gc.isenabled()] == [False, True]
