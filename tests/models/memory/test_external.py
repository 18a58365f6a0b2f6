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
from tellapart.data.scores import Scores
from tellapart.errors import ScoreError
from tellapart.models.memory.external import read_counted, read_scores, write_scores

SUFFIXES = [".npz", ".csv", ".jsonl"]

IDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8),
    min_size=1,
    max_size=5,
    unique=True,
)


@st.composite
def any_scores(draw: st.DrawFn) -> Scores:
    ids = draw(IDS)
    shape = (len(ids), draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    kind = draw(st.sampled_from(["similarity", "logit", "probability"]))
    low, high = (0.0, 1.0) if kind == "probability" else (None, None)
    numbers = st.floats(low, high, width=32, allow_nan=False, allow_infinity=False)
    return Scores(ids, draw(arrays(np.float32, shape, elements=numbers)), kind)


@pytest.mark.parametrize("suffix", SUFFIXES)
@example(Scores(("\r", "a,b", '"', "x\ny"), np.zeros((4, 1, 2)), "logit"), random.Random(0))
@given(any_scores(), st.randoms(use_true_random=False))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_what_is_written_is_read_back(tmp_path, suffix, scores, shuffler):
    path = tmp_path / f"scores{suffix}"
    write_scores(scores, path)
    ids = list(scores.ids)
    shuffler.shuffle(ids)
    again = read_scores(path, ids=ids, shape=scores.shape, kind=scores.kind)
    assert (again.ids, again.kind) == (tuple(ids), scores.kind)
    assert again.values.tobytes() == scores.select(ids).values.tobytes()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_only_npz_keeps_the_kind_and_another_one_is_refused(tmp_path):
    scores = Scores(("a",), [[[0.25, 0.5]]], "probability")
    for suffix in SUFFIXES:
        write_scores(scores, tmp_path / f"s{suffix}")
    read = [read_scores(tmp_path / f"s{suffix}", ids=["a"], shape=(1, 2)).kind for suffix in SUFFIXES]
    assert read == ["probability", "similarity", "similarity"]
    with raises(ScoreError, "s.npz", "'probability'", "'logit'"):
        read_scores(tmp_path / "s.npz", ids=["a"], shape=(1, 2), kind="logit")


def write_parquet(path: Path, **changes: list[object]) -> None:
    pyarrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    columns = {"id": ["b", "a", "a", "b"], "image": [0] * 4, "text": [1, 0, 1, 0], "score": [0.5, 1.5, -2.0, 3.0]}
    held = {name: values for name, values in (columns | {"more": [None] * 4} | changes).items() if values}
    parquet.write_table(pyarrow.table(held), path)


@pytest.mark.parametrize(("rows", "ids"), [(["b", "a", "a", "b"], ["a", "b"]), ([1, 0, 0, 1], ["0", "1"])])
def test_parquet_holds_the_columns_of_csv_and_ids_may_be_numbers(tmp_path, rows, ids):
    write_parquet(tmp_path / "s.parquet", id=rows)
    assert read_scores(tmp_path / "s.parquet", ids=ids, shape=(1, 2)).values.tolist() == [[[1.5, -2.0]], [[3.0, 0.5]]]


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"score": []}, ("score", "more")),
        ({"text": [1.0, 0.0, 1.0, 0.0]}, ("1", "'text'", "1.0")),
        ({"score": [None, 1.0, 1.0, 1.0]}, ("1", "'score'", "None")),
        ({"score": [float("nan"), 1.0, 1.0, 1.0]}, ("b_c1_i0", "not finite")),
        ({"text": [0, 0, 1, 0]}, ("b_c0_i0", "twice")),
    ],
)
def test_parquet_that_lacks_or_repeats_scores_is_refused(tmp_path, changes, facts):
    write_parquet(tmp_path / "s.parquet", **changes)
    with raises(ScoreError, "s.parquet", facts):
        read_scores(tmp_path / "s.parquet", ids=["a", "b"], shape=(1, 2))


def test_parquet_with_more_rows_than_pairs_or_damage_is_refused(tmp_path):
    write_parquet(tmp_path / "s.parquet")
    with raises(ScoreError, "s.parquet", "4 rows", "2 pairs"):
        read_scores(tmp_path / "s.parquet", ids=["a"], shape=(1, 2))
    (tmp_path / "s.parquet").write_bytes((tmp_path / "s.parquet").read_bytes()[:-9])
    with raises(ScoreError, "s.parquet", "parquet"):
        read_scores(tmp_path / "s.parquet", ids=["a", "b"], shape=(1, 2))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "scores"


def refused(path: Path, content: str | bytes, facts, *, ids: tuple[str, ...] = ("0", "1")) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with raises(ScoreError, facts):
        read_scores(path, ids=ids, shape=(2, 2))


def lines(**changes: object) -> list[str]:
    labels = [f"{item}_c{text}_i{image}" for item in "01" for text in "01" for image in "01"]
    return [json.dumps({"label": label, "score": changes.get(f"_{label}", k / 8)}) for k, label in enumerate(labels)]


def test_winoground_lines_put_the_caption_last_and_an_id_may_look_like_a_label(file):
    path = file.with_suffix(".jsonl")
    path.write_text("\n".join(reversed(lines())), encoding="utf-8-sig")
    scores = read_scores(path, ids=["0", "1"], shape=(2, 2))
    # lines() counts image fastest: c0_i0, c0_i1, c1_i0, c1_i1
    assert scores.values[0].tolist() == [[0, 2 / 8], [1 / 8, 3 / 8]]
    assert scores.values[1].tolist() == [[4 / 8, 6 / 8], [5 / 8, 7 / 8]]
    path.write_text('{"label": "a_c1_i1_c0_i0", "score": 3, "model": "not looked at"}\n\n')
    assert read_scores(path, ids=["a_c1_i1"], shape=(1, 1)).values.tolist() == [[[3]]]


def test_jsonl_that_lacks_or_repeats_or_adds_scores_is_refused(file):
    path, all_of_them = file.with_suffix(".jsonl"), lines()
    refused(path, "\n".join(all_of_them[:-2]), ("2", "8", "1_c1_i0, 1_c1_i1"))
    refused(path, "\n".join([*all_of_them, all_of_them[2]]), ("1", "twice", "0_c1_i0 (line 9)"))
    for extra in ("2_c0_i0", "0_c2_i0", "0_c0_i2", "0_c0_i99999999999999999999"):
        row = json.dumps({"label": extra, "score": 1})
        refused(path, "\n".join([row, *all_of_them]), ("1", "(2 images by 2 texts each", "(line 1)"))
    refused(path, "", ("8", "8", "missing", "0_c0_i0, 0_c1_i0"))
    many = tuple(str(k) for k in range(100))
    refused(path, "\n".join(all_of_them), ("392", "400", "2_c0_i0", "4_c1_i0", "382"), ids=many)


@pytest.mark.parametrize("score", ["NaN", "Infinity", "-Infinity", "1e39", "-1e300"])
def test_a_score_that_is_not_finite_in_float32_is_refused(file, score):
    rows = lines()
    rows[3] = f'{{"label": "0_c1_i1", "score": {score}}}'
    said = ("1", "float32", "0_c1_i1 (line 4)")
    if "e" not in score or "y" in score:
        said = ("scores.jsonl:4", "JSON", score)
    refused(file.with_suffix(".jsonl"), "\n".join(rows), said)
    table = f"id,image,text,score\n0,1,0,{score.replace('Infinity', 'inf')}\n"
    refused(file.with_suffix(".csv"), table, ("1", "float32", "0_c0_i1 (line 2)"))


def npz(**arrays_: object) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays_)
    return stream.getvalue()


def npy(array: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


GOOD, TWO = np.zeros((2, 2, 2)), npy(np.array(["0", "1"]))
ROWS = "id,image,text,score\n"
LABEL = '{"label": "0_c0_i0"'

#: A second line of a jsonl file, and the facts of its refusal.
BAD_LINES = [
    (f'{LABEL}, "score": 1', "JSON"),
    ("[" * 100_000, "JSON"),
    ("[1, 2]", ("an object", "[1, 2]")),
    (f"{LABEL}}}", ('{"label": "ID_c0_i0", "score": 0.5}', f"{LABEL}}}")),
    ('{"label": "0_i0_c0", "score": 1}', ("'label'", "ID_c0_i0", "'0_i0_c0'")),
    ('{"label": 7, "score": 1}', ("'label'", "ID_c0_i0", "7")),
    (f'{LABEL}, "score": "high"}}', ("'score'", "number", "'high'")),
    (f'{LABEL}, "score": true}}', ("'score'", "number", "True")),
    (f'{LABEL}, "score": null}}', ("'score'", "number", "None")),
    (f'{LABEL}, "score": 1{"0" * 400}}}', ("JSON", "1" + "0" * 59)),
    (f'{LABEL}, "score": 1, "score": 2}}', ("'score'", "repeated")),
    ('{"label": "' + "a" * 300_000 + '", "score": 1}', ("'label'", "'" + "a" * 59)),
]
BAD_TABLES = [
    ("id,text,picture,score\n0,0,0,1\n", ("scores.csv", ROWS.strip(), "image", "'id,text,picture,score'")),
    ("", ("scores.csv", "no scores", ROWS.strip())),
    (f"{ROWS}0,0,0\n", ("scores.csv:2", "3 fields", "4")),
    (f"{ROWS}0,0,0,1\n0,-1,0,1\n", ("scores.csv:3", "'image'", "'-1'")),
    (f"{ROWS}0,0,one,1\n", ("scores.csv:2", "'text'", "'one'")),
    (f"{ROWS}0,0,0,1_0\n", ("scores.csv:2", "'score'", "number", "'1_0'")),
    (f"{ROWS}0,0,0,\uff11\n", ("scores.csv:2", "'score'", "number", "'\uff11'")),
    (f"{ROWS}0,0,0,\n", ("scores.csv:2", "'score'", "number", "''", "fill it in")),
    (f'{ROWS}"0,0,0,1\n', ("scores.csv:2", "CSV", "unexpected end of data")),
    (f"{ROWS}0,0,0,1\n0,0,0,1\n", ("1", "twice", "0_c0_i0 (line 3)")),
    (f"{ROWS}7,0,0,1\n", ("1", "7_c0_i0 (line 2)")),
    (f"{ROWS}0,0,0,1\n".encode() + b"\xe9,0,0,1\n", ("scores.csv:3", "UTF-8", "0xe9")),
    ("id;image;text;score\n0;0;0;0,5\n", ("scores.csv:2", "'0,5'", "0.5")),
    ("a,0,0,0.5\na,0,1,0.25\n", ("scores.csv:1", "'0'", "above")),
]
BAD_ARRAYS = [
    (npz(scores=GOOD), ("array ids", "ids", "scores")),
    (npz(ids=[0, 1], scores=GOOD), ("ids", "(n,)", "int64 (2,)")),
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
]


@pytest.mark.parametrize(
    ("suffix", "content", "facts"),
    [(".jsonl", f"{lines()[0]}\n{row}\n", ("scores.jsonl:2", facts)) for row, facts in BAD_LINES]
    + [(".csv", *case) for case in BAD_TABLES]
    + [(".npz", *case) for case in BAD_ARRAYS],
)
def test_a_bad_file_is_an_error_with_its_place(file, suffix, content, facts):
    refused(file.with_suffix(suffix), content, facts)


def zipped(method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return stream.getvalue()


def test_an_archive_that_claims_too_much_is_refused_before_it_is_unpacked(file, monkeypatch):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 2, 2)})
    for ids, said in ((b"", ("npz", "plain arrays")), (TWO, "(1000000000000, 2, 2)")):
        refused(file.with_suffix(".npz"), zipped(ids=ids, scores=header.getvalue()), said)
    monkeypatch.setattr("tellapart.data.strict_binary._MAX_ARRAY_BYTES", 1 << 20)
    bomb = zipped(ids=TWO, scores=bytes(5 << 20))
    assert len(bomb) < 10_000
    refused(file.with_suffix(".npz"), bomb, ("'scores.npy'", "5,242,880", "1,048,576"))


def crafted(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    "header",
    [
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
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_crafted_header_is_one_line(file, header):
    file.with_suffix(".npz").write_bytes(zipped(ids=TWO, scores=crafted(header)))
    with raises(ScoreError, "scores.npz", "plain arrays") as caught:
        read_scores(file.with_suffix(".npz"), ids=("0", "1"), shape=(2, 2))
    assert len(str(caught.value)) < 600 and "\n" not in str(caught.value)


def test_an_array_named_twice_is_refused(file):
    arrays = {"ids": TWO, "scores": npy(GOOD), "kind": npy(np.array("logit"))}
    for names in (("scores.npy", "scores.npy"), ("scores", "scores.npy"), ("ids.npy", "ids"), ("kind", "kind.npy")):
        stream, members = io.BytesIO(), ["ids.npy", "scores.npy", *names]
        with zipfile.ZipFile(stream, "w") as archive, warnings.catch_warnings(action="ignore"):
            for member in dict.fromkeys(members) if names[0] != names[1] else members:
                archive.writestr(member, arrays[member.removesuffix(".npy")])
        refused(file.with_suffix(".npz"), stream.getvalue(), ("two arrays", repr(names[0].removesuffix(".npy"))))


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_an_archive_packed_as_numpy_does_not_is_refused_before_it_reserves_memory(file, method):
    refused(file.with_suffix(".npz"), zipped(method, ids=TWO, scores=npy(GOOD)), ("'ids.npy'", "packed"))


def test_probabilities_outside_their_range_are_refused_with_the_files_name(file):
    path = file.with_suffix(".jsonl")
    path.write_text("\n".join(lines(_1_c0_i0=1.5)))
    with raises(ScoreError, "scores.jsonl", "[0, 1]", "1", "2", "1"):
        read_scores(path, ids=["0", "1"], shape=(2, 2), kind="probability")


def test_files_that_cannot_be_read_or_written_are_named(tmp_path):
    scores = Scores(("a",), [[[0.25, 0.5]]], "logit")
    with raises(ScoreError, "gone.csv", "No such file or directory"):
        read_scores(tmp_path / "gone.csv", ids=["a"], shape=(1, 2))
    with raises(ScoreError, "'.json'"):
        read_scores(tmp_path / "a.json", ids=["a"], shape=(1, 2))
    with raises(ScoreError, "sent.zip", "unpack it"):
        read_scores(tmp_path / "sent.zip", ids=["a"], shape=(1, 2))
    with raises(ScoreError, "got ''", "files"):
        write_scores(scores, tmp_path / "a")
    with raises(ScoreError, "a.csv", "No such file or directory"):
        write_scores(scores, tmp_path / "gone" / "a.csv")
    for bad in ("a\0", "\ud800"):
        with raises(ScoreError, "NUL", "ids"):
            write_scores(Scores((bad,), [[[0.25, 0.5]]], "logit"), tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []


def test_numbers_are_rounded_to_float32_and_the_ties_that_makes_are_counted(file):
    path = file.with_suffix(".jsonl")
    path.write_text("\n".join(lines(_0_c0_i0=0.1, _0_c0_i1=0.1 + 1e-10)))
    scores, ties = read_counted(path, ids=["0", "1"], shape=(2, 2))
    assert scores.values[0, 0, 0] == scores.values[0, 1, 0]
    assert ties == 1
    write_scores(scores, path)
    assert read_counted(path, ids=["0", "1"], shape=(2, 2))[1] == 0


def test_a_plain_array_holds_items_in_their_order_or_one_number_a_pair(tmp_path):
    values = np.arange(12.0).reshape(2, 2, 3)
    for name, array in (("items", values), ("pairs", values.reshape(-1)), ("column", values.reshape(-1, 1))):
        np.save(tmp_path / f"{name}.npy", array)
        scores = read_scores(tmp_path / f"{name}.npy", ids=["b", "a"], shape=(2, 3), kind="logit")
        assert (scores.ids, scores.kind) == (("b", "a"), "logit")
        assert np.array_equal(scores.values, values)
    rows = np.random.default_rng(0).permutation(12).reshape(2, 2, 3)
    scores, _ = read_counted(tmp_path / "pairs.npy", ids=["b", "a"], shape=(2, 3), rows=rows)
    assert np.array_equal(scores.values, rows)
    for bad, said in ((b"", ("plain", "file")), (b"\x93NUMPY\x01\x00v\x00{", ".npy")):
        (tmp_path / "bad.npy").write_bytes(bad)
        with raises(ScoreError, said):
            read_scores(tmp_path / "bad.npy", ids=["a"], shape=(1, 2))
    np.save(tmp_path / "short.npy", np.zeros(5))
    with raises(ScoreError, "2", "(1, 1, 2)", "float64", "(5,)"):
        read_scores(tmp_path / "short.npy", ids=["a"], shape=(1, 2))


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
    np.save(path, values) if suffix == "npy" else np.savez(path, ids=np.array(["a", "b", "c"]), scores=values)
    scores, ties = read_counted(path, ids=["a", "b", "c"], shape=(1, 2))
    assert (ties, scores.values.dtype) == (2, np.float32)
