"""Files of scores of five formats: what is written is read back, and whatever is wrong is refused with its place."""

import io
import json
import random
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from facts import raises
from published import winoground
from sets import file_bytes, write_file
from tellapart.data.scores import Scores
from tellapart.errors import ScoreError
from tellapart.models.memory.external import read_counted, read_scores, write_scores

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
IDS = st.lists(st.text(CHARACTERS, min_size=1, max_size=8), min_size=1, max_size=5, unique=True)


@st.composite
def any_scores(draw: st.DrawFn) -> Scores:
    ids = draw(IDS)
    shape = (len(ids), draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    kind = draw(st.sampled_from(["similarity", "logit", "probability"]))
    low, high = (0.0, 1.0) if kind == "probability" else (None, None)
    numbers = st.floats(low, high, width=32, allow_nan=False, allow_infinity=False)
    return Scores(ids, draw(arrays(np.float32, shape, elements=numbers)), kind)


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".jsonl"])
@example(Scores(("\r", "a,b", '"', "x\ny"), np.zeros((4, 1, 2)), "logit"), random.Random(0))
@given(any_scores(), st.randoms(use_true_random=False))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_what_is_written_is_read_back_and_npz_alone_keeps_the_kind(tmp_path, suffix, scores, shuffler):
    path = tmp_path / f"scores{suffix}"
    write_scores(scores, path)
    ids = list(scores.ids)
    shuffler.shuffle(ids)
    again = read_scores(path, ids=ids, shape=scores.shape, kind=scores.kind)
    assert (again.ids, again.kind) == (tuple(ids), scores.kind)
    assert again.values.tobytes() == scores.select(ids).values.tobytes()
    stated = scores.kind if suffix == ".npz" else "similarity"
    assert read_scores(path, ids=ids, shape=scores.shape).kind == stated
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


SCORES = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -7.0]
COLUMNS = {"id": [*"11110000"], "image": [0, 0, 1, 1] * 2, "text": [0, 1] * 4, "score": SCORES, "more": [None] * 8}


@pytest.mark.parametrize("ids", [COLUMNS["id"], [1] * 4 + [0] * 4])
def test_parquet_holds_the_columns_of_csv_and_ids_may_be_numbers(tmp_path, ids):
    path = write_file(tmp_path / "s.parquet", COLUMNS | {"id": ids})
    scores = read_scores(path, ids=["0", "1"], shape=(2, 2))
    assert scores.values.tolist() == [[[4, 5], [6, -7]], [[0, 1], [2, 3]]]


def lines(**changes: object) -> list[str]:
    labels = [f"{item}_c{text}_i{image}" for item in "01" for text in "01" for image in "01"]
    return [json.dumps({"label": label, "score": changes.get(f"_{label}", k / 8)}) for k, label in enumerate(labels)]


@pytest.fixture
def jsonl(tmp_path):
    return tmp_path / "scores.jsonl"


def test_winoground_lines_put_the_caption_last_and_an_id_may_look_like_a_label(jsonl):
    jsonl.write_text("\n".join(reversed(lines())), encoding="utf-8-sig")
    scores = read_scores(jsonl, ids=["0", "1"], shape=(2, 2))
    # lines() counts image fastest: c0_i0, c0_i1, c1_i0, c1_i1
    assert (scores.values * 8).tolist() == [[[0, 2], [1, 3]], [[4, 6], [5, 7]]]
    jsonl.write_text('{"label": "a_c1_i1_c0_i0", "score": 3, "model": "not looked at"}\n\n')
    assert read_scores(jsonl, ids=["a_c1_i1"], shape=(1, 1)).values.tolist() == [[[3]]]


def npz(**arrays_: object) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays_)
    return stream.getvalue()


def npy(array: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


GOOD = np.zeros((2, 2, 2))
MEMBERS = {"ids": npy(np.array(["0", "1"])), "scores": npy(GOOD), "kind": npy(np.array("logit"))}


def zipped(*names: str, method: int = zipfile.ZIP_DEFLATED, **changes: bytes) -> bytes:
    """An archive of these arrays, a name twice if it is given twice, with other bytes in the place of some."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive, warnings.catch_warnings(action="ignore"):
        for name in names or ("ids.npy", "scores.npy"):
            archive.writestr(name, (MEMBERS | changes)[name.removesuffix(".npy")])
    return stream.getvalue()


def with_header(header: bytes) -> bytes:
    """An archive whose array of scores has this header, and nothing else."""
    return zipped(scores=b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


ROWS = "id,image,text,score\n"
LABEL = '{"label": "0_c0_i0"'

#: A second line of a jsonl file, and the facts of its refusal.
BAD_LINES = [
    (f'{LABEL}, "score": 1', "JSON"),
    ("[" * 100_000, "JSON"),
    ("[1, 2]", ("an object", "[1, 2]")),
    (f"{LABEL}}}", ('{"label": "ID_c0_i0", "score": 0.5}', f"{LABEL}}}")),
    ('{"label": "0_i0_c0", "score": 1}', ("'label'", "ID_c0_i0", "'0_i0_c0'")),
    ('{"label": "0_c0_i0 ", "score": 1}', ("'label'", "ID_c0_i0", "'0_c0_i0 '")),
    ('{"label": 7, "score": 1}', ("'label'", "ID_c0_i0", "7")),
    (f'{LABEL}, "score": "high"}}', ("'score'", "number", "'high'")),
    (f'{LABEL}, "score": true}}', ("'score'", "number", "True")),
    (f'{LABEL}, "score": null}}', ("'score'", "number", "None")),
    (f'{LABEL}, "score": 1{"0" * 400}}}', ("JSON", "1" + "0" * 59)),
    *((f'{LABEL}, "score": {word}}}', ("JSON", word)) for word in ("NaN", "Infinity", "-Infinity")),
    (f'{LABEL}, "score": 1, "score": 2}}', ("'score'", "repeated")),
    ('{"label": "' + "a" * 300_000 + '", "score": 1}', ("'label'", "'" + "a" * 59)),
]
BAD_JSONL = [
    (lines()[:-2], ("2", "8", "1_c1_i0, 1_c1_i1")),
    ([*lines(), lines()[2]], ("1", "twice", "0_c1_i0 (line 9)")),
    *(
        ([f'{{"label": "{extra}", "score": 1}}', *lines()], ("1", "(2 images by 2 texts each", "(line 1)"))
        for extra in ("2_c0_i0", "0_c2_i0", "0_c0_i2", "0_c0_i99999999999999999999")
    ),
    ([""], ("8", "8", "missing", "0_c0_i0, 0_c1_i0")),
    *((lines(_0_c1_i1=score), ("1", "float32", "0_c1_i1 (line 4)")) for score in (1e39, -1e300)),
]
BAD_TABLES = [
    ("id,text,picture,score\n0,0,0,1\n", ("scores.csv", ROWS.strip(), "image", "'id,text,picture,score'")),
    ("", ("scores.csv", "no scores", ROWS.strip())),
    (f"{ROWS}0,0,0\n", ("scores.csv:2", "3 fields", "4")),
    (f"{ROWS}0,0,0,1\n0,-1,0,1\n", ("scores.csv:3", "'image'", "'-1'")),
    (f"{ROWS}0,0,one,1\n", ("scores.csv:2", "'text'", "'one'")),
    (f"{ROWS}0,0,\uff10,1\n", ("scores.csv:2", "'text'", "'\uff10'")),
    (f"{ROWS}0,0,0,1_0\n", ("scores.csv:2", "'score'", "number", "'1_0'")),
    (f"{ROWS}0,0,0,\uff11\n", ("scores.csv:2", "'score'", "number", "'\uff11'")),
    (f"{ROWS}0,0,0,\n", ("scores.csv:2", "'score'", "number", "''", "fill it in")),
    (f'{ROWS}"0,0,0,1\n', ("scores.csv:2", "CSV", "unexpected end of data")),
    (f"{ROWS}0,0,0,1\n0,0,0,1\n", ("1", "twice", "0_c0_i0 (line 3)")),
    (f"{ROWS}7,0,0,1\n", ("1", "7_c0_i0 (line 2)")),
    (f"{ROWS}0,0,0,1\n".encode() + b"\xe9,0,0,1\n", ("scores.csv:3", "UTF-8", "0xe9")),
    ("id;image;text;score\n0;0;0;0,5\n", ("scores.csv:2", "'0,5'", "0.5")),
    ("a,0,0,0.5\na,0,1,0.25\n", ("scores.csv:1", "'0'", "above")),
    *(
        (f"{ROWS}0,1,0,{score}\n", ("1", "float32", "0_c0_i1 (line 2)"))
        for score in ("NaN", "inf", "-inf", "1e39", "-1e300")
    ),
]
BAD_COLUMNS = [
    ({name: values for name, values in COLUMNS.items() if name != "score"}, ("score", "more")),
    (COLUMNS | {"text": [1.0, *[0.0] * 7]}, ("1", "'text'", "1.0")),
    (COLUMNS | {"score": [None, *SCORES[1:]]}, ("1", "'score'", "None")),
    (COLUMNS | {"score": [float("nan"), *SCORES[1:]]}, ("1_c0_i0", "not finite")),
    (COLUMNS | {"text": [0] * 8}, ("1_c0_i0", "twice")),
    ({name: [0] * 9 for name in ("id", "image", "text", "score")}, ("9 rows", "8 pairs")),
]
BAD_ARRAYS = [
    (npz(scores=GOOD), ("array ids", "ids", "scores")),
    (npz(ids=[0, 1], scores=GOOD), ("ids", "(n,)", "int64 (2,)")),
    (npz(ids=[["0", "1"]], scores=GOOD), ("ids", "(n,)", "<U1 (1, 2)")),
    (npz(ids=["0", "1"], scores=GOOD[0]), ("(2, 2, 2)", "2", "float64 (2, 2)")),
    (npz(ids=["0", "1"], scores=GOOD.astype(str)), ("numbers", "<U32 (2, 2, 2)")),
    (npz(ids=["0", "0"], scores=GOOD), ("1", "twice", "0")),
    (npz(ids=["0", "2"], scores=GOOD), ("1", "benchmark", "2")),
    (npz(ids=["0"], scores=GOOD[:1]), ("1", "2", "missing", "1")),
    (npz(ids=["0", "1"], scores=np.where(np.arange(8).reshape(GOOD.shape) == 7, np.nan, 0)), ("float32", "1")),
    (npz(ids=["0", "1"], scores=GOOD + 1e200), ("2", "float32", "0, 1")),
    (npz(ids=["0", "1"], scores=GOOD, kind="cosine"), ("kind", "similarity, logit, probability", "'cosine'")),
    (npz(ids=np.array(["0", "1"], object), scores=GOOD), ("npz", "ids", ".astype(str)")),
    (b"PK\x03\x04 cut off", ("npz", "File is not a zip file")),
    (npz(ids=["0", "1"], scores=GOOD)[:-40], ("npz", "plain arrays")),
    *((zipped(method=method), ("'ids.npy'", "packed")) for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)),
    *(
        (zipped("ids.npy", *twice), ("two arrays", "'scores'"))
        for twice in (["scores.npy"] * 2, ["scores", "scores.npy"])
    ),
    (zipped("ids.npy", "ids", "scores.npy"), ("two arrays", "'ids'")),
    (zipped("ids.npy", "scores.npy", "kind", "kind.npy"), ("two arrays", "'kind'")),
]
HEADERS = [
    b"(((",
    b"{[]: 1}",
    b"(" * 9_000,
    b"[" * 9_000,
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"9" * 5_000 + b",)}",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"9" * 300 + b", 2, 2)}",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1, 2)}",
    b"{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000, 2, 2)}",
    b"{'descr': [('a', '<f8')] * 9, 'fortran_order': False, 'shape': ()}",
    b"",
    b"\0",
]
HUGE = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 2, 2)}"
BAD_PLAIN = [
    (b"", ("plain", "file")),
    (b"\x93NUMPY\x01\x00v\x00{", ".npy"),
    (npy(np.zeros(5)), ("8", "(2, 2, 2)", "float64", "(5,)")),
]


def refused(path: Path, content: object, facts, ids: tuple[str, ...] = ("0", "1")) -> None:
    """Expect a file to be refused in one line, which is short whatever the file holds."""
    write_file(path, content)
    with raises(ScoreError, facts) as caught:
        read_scores(path, ids=ids, shape=(2, 2))
    assert len(str(caught.value)) < 600 and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("suffix", "content", "facts"),
    [(".jsonl", f"{lines()[0]}\n{row}", ("scores.jsonl:2", facts)) for row, facts in BAD_LINES]
    + [(".jsonl", "\n".join(rows), facts) for rows, facts in BAD_JSONL]
    + [(".csv", *case) for case in BAD_TABLES]
    + [(".parquet", *case) for case in BAD_COLUMNS]
    + [(".npz", *case) for case in BAD_ARRAYS]
    + [(".npz", with_header(header), ("scores.npz", "plain arrays")) for header in HEADERS]
    + [(".npz", with_header(HUGE), "(1000000000000, 2, 2)")]
    + [(".npy", *case) for case in BAD_PLAIN],
)
@pytest.mark.filterwarnings("error")
def test_a_bad_file_is_one_line_with_its_place(tmp_path, suffix, content, facts):
    refused(tmp_path / f"scores{suffix}", content, facts)


def test_of_many_scores_that_lack_some_are_named_and_damaged_parquet_is_refused(tmp_path, jsonl):
    many = tuple(str(k) for k in range(100))
    refused(jsonl, "\n".join(lines()), ("392", "400", "2_c0_i0", "4_c1_i0", "382"), ids=many)
    refused(tmp_path / "s.parquet", file_bytes("s.parquet", COLUMNS)[:-9], ("s.parquet", "parquet"))


def test_an_archive_that_holds_too_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("tellapart.data.strict_binary._MAX_ARRAY_BYTES", 1 << 20)
    bomb = zipped(scores=bytes(5 << 20))
    assert len(bomb) < 10_000
    refused(tmp_path / "scores.npz", bomb, ("'scores.npy'", "5,242,880", "1,048,576"))


def test_another_kind_and_probabilities_outside_their_range_are_refused_with_the_files_name(tmp_path, jsonl):
    write_scores(Scores(("a",), [[[0.25, 0.5]]], "probability"), tmp_path / "s.npz")
    with raises(ScoreError, "s.npz", "'probability'", "'logit'"):
        read_scores(tmp_path / "s.npz", ids=["a"], shape=(1, 2), kind="logit")
    jsonl.write_text("\n".join(lines(_1_c0_i0=1.5)))
    with raises(ScoreError, "scores.jsonl", "[0, 1]", "1", "2", "1"):
        read_scores(jsonl, ids=["0", "1"], shape=(2, 2), kind="probability")


def test_files_that_cannot_be_read_or_written_are_named(tmp_path):
    for name, facts in (
        ("gone.csv", ("gone.csv", "No such file or directory")),
        ("a.json", "'.json'"),
        ("sent.zip", ("sent.zip", "unpack it")),
    ):
        with raises(ScoreError, facts):
            read_scores(tmp_path / name, ids=["a"], shape=(1, 2))
    for item, name, facts in (
        ("a", "a", ("got ''", "files")),
        ("a", "gone/a.csv", ("a.csv", "No such file or directory")),
        ("a\0", "a.npz", ("NUL", "ids")),
        ("\ud800", "a.npz", ("NUL", "ids")),
    ):
        with raises(ScoreError, facts):
            write_scores(Scores((item,), [[[0.25, 0.5]]], "logit"), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_numbers_are_rounded_to_float32_and_the_ties_that_makes_are_counted(jsonl):
    jsonl.write_text("\n".join(lines(_0_c0_i0=0.1, _0_c0_i1=0.1 + 1e-10)))
    scores, ties = read_counted(jsonl, ids=["0", "1"], shape=(2, 2))
    assert scores.values[0, 0, 0] == scores.values[0, 1, 0]
    assert ties == 1
    write_scores(scores, jsonl)
    assert read_counted(jsonl, ids=["0", "1"], shape=(2, 2))[1] == 0


def test_a_plain_array_holds_items_in_their_order_or_one_number_a_pair(tmp_path):
    path, values = tmp_path / "s.npy", np.arange(12.0).reshape(2, 2, 3)
    for array in (values, values.reshape(-1, 1), values.reshape(-1)):
        np.save(path, array)
        scores = read_scores(path, ids=["b", "a"], shape=(2, 3), kind="logit")
        assert (scores.ids, scores.kind, scores.values.tolist()) == (("b", "a"), "logit", values.tolist())
    rows = np.random.default_rng(0).permutation(12).reshape(2, 2, 3)
    scores, _ = read_counted(path, ids=["b", "a"], shape=(2, 3), rows=rows)
    assert np.array_equal(scores.values, rows)


CLIPS = ("clip_b32", "clip_l14", "blip_itm_b16", "blip_itc_b16")


@pytest.mark.parametrize("name", [*CLIPS, "vilt", "flava_itm", "flava_itc", "ofa_medium", "human"])
def test_rounding_ties_no_published_score_of_winoground_and_the_35_ties_of_people_stay(name):
    """So every published text and image score is that of the numbers in the file."""
    path = winoground(name)
    scores, ties = read_counted(path, ids=[str(k) for k in range(400)], shape=(2, 2))
    s = scores.values
    exact = {row["label"]: row["score"] for row in map(json.loads, path.read_text().splitlines())}
    assert ties == 0 and s[3, 1, 0] == np.float32(exact["3_c0_i1"])
    tied = sum((s[:, k, k] == other).sum() for k in (0, 1) for other in (s[:, k, 1 - k], s[:, 1 - k, k]))
    assert tied == {"human": 35, "ofa_medium": 11, "flava_itm": 1}.get(name, 0)


@pytest.mark.parametrize("suffix", ["npz", "npy"])
def test_whole_numbers_that_differ_beyond_float32_are_counted_as_made_equal(suffix, tmp_path):
    values = np.full((3, 1, 2), 2**60, np.uint64)
    values[0, 0, 1] += 1  # beyond float64, too
    values[1, 0, 1] += 2**20
    path = tmp_path / f"mine.{suffix}"
    path.write_bytes(npy(values) if suffix == "npy" else npz(ids=np.array(["a", "b", "c"]), scores=values))
    scores, ties = read_counted(path, ids=["a", "b", "c"], shape=(1, 2))
    assert (ties, scores.values.dtype) == (2, np.float32)
