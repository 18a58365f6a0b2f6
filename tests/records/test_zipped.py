"""A zipped run folder is read by every command that reads a run; an archive that is more than that is refused."""

import io
import json
import struct
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import tellapart as ta
from facts import raises
from tellapart.errors import RunError
from tellapart.records import zipped
from tellapart.records.zipped import unpack_run, unpacked


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """`a.zip`, as `zip -r a.zip a` makes it; `b.zip`, whose files lie at its top; `both.zip`, with two runs."""
    folder = tmp_path_factory.mktemp("zipped")
    ta.evaluate(["random", "oracle"], "demo", limit=12, out=folder / "a")
    ta.evaluate("oracle", "demo", limit=12, out=folder / "b")
    pack(folder / "a.zip", {"a": folder / "a"})
    pack(folder / "b.zip", {"": folder / "b"})
    pack(folder / "both.zip", {"a": folder / "a", "b": folder / "b"})
    return folder


def pack(path: Path, folders: dict[str, Path]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, folder in folders.items():
            for file in sorted(folder.rglob("*")):
                archive.write(file, f"{name}/{file.relative_to(folder)}" if name else file.relative_to(folder))


@pytest.mark.parametrize("name", ["a", "b"])
def test_an_archive_is_read_as_its_folder_is(name, runs):
    whole, packed = runs / name, runs / f"{name}.zip"
    assert ta.open_run(packed).table().columns == ta.open_run(whole).table().columns
    assert ta.read_result(packed) == ta.read_result(whole)
    assert ta.table(packed, "csv") == ta.table(whole, "csv")
    assert ta.verify(packed)["state"] == ta.verify(whole)["state"]
    assert ta.convert(packed, to="lm-eval").text == ta.convert(whole, to="lm-eval").text
    assert ta.open_run(packed).items()["id"] == ta.open_run(whole).items()["id"]


def test_a_run_in_an_archive_is_named_by_its_path(runs, tmp_path, command):
    both = tmp_path / "both.zip"
    pack(both, {"sent/a": runs / "a", "sent/b": runs / "b"})
    for name in ("a", "sent/a"):
        assert ta.read_result(both / name) == ta.read_result(runs / "a")
    assert json.loads(command("show", both / "b", "--json").out)["report"] == str(tmp_path / "both-b.html")
    with raises(RunError, str(both), "nowhere", "is not there"):
        ta.open_run(both / "nowhere")


def test_an_archive_is_no_rival_of_itself_hides_no_model_and_needs_the_record_of_its_samples(runs, tmp_path):
    with raises(RunError, "b.zip", "one model", "oracle"):
        ta.compare(runs / "b.zip", runs / "b.zip")
    pack(tmp_path / "a.zip", {"runs/a": runs / "a"})
    assert ta.open_run(tmp_path / "a.zip").models == ["random", "oracle"]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(runs / "b" / "samples" / "demo.jsonl", "b/samples/demo.jsonl")
    with raises(RunError, "a.zip", "results.json", "in part"):
        ta.open_run(tmp_path / "a.zip")


def test_a_run_that_is_not_there_is_answered_with_the_nearest(runs, tmp_path, monkeypatch):
    with raises(RunError, "bb", "is not there", "did you mean 'b'"):
        ta.open_run(runs / "bb")
    with raises(RunError, "oracle", "is not there", f"did you mean '{runs / 'a.zip' / 'a'}/beside/oracle'"):
        ta.open_run(runs / "a.zip" / "oracle")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").symlink_to(runs)
    with raises(RunError, "run/a", "is not there", "did you mean 'runs/a'"):
        ta.open_run("run/a")


@pytest.mark.slow
def test_archives_are_compared_drawn_and_put_on_a_board(runs, tmp_path):
    compared = [ta.compare(one, two) for one, two in ((runs / "a.zip", runs / "b.zip"), (runs / "a", runs / "b"))]
    assert compared[0].columns == compared[1].columns
    assert ta.compare(runs / "b.zip", runs / "a.zip", gate=True).passed is False
    assert ta.plot("bars", runs / "both.zip", tmp_path / "bars.svg").stat().st_size > 1000
    pages = ta.board_export(tmp_path / "site", runs=runs / "both.zip", items=0, comparisons=0)
    assert pages == ta.board_export(tmp_path / "site2", runs=[runs / "a", runs / "b"], items=0, comparisons=0)
    for left in runs.glob("*/*.sqlite*"):
        left.unlink()


def test_every_command_that_reads_a_run_reads_an_archive(runs, command, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    one, two = runs / "a.zip", runs / "b.zip"
    for words in (
        ("show", one, "--json"), ("table", one, two), ("compare", one, two), ("verify", one),
        ("plot", "tiers", one, two, "--out", "t.svg"), ("convert", two, "--to", "lm-eval"),
        ("push", two, "me/mine", "--dry-run"),
    ):  # fmt: skip
        if words[0] == "plot" and find_spec("matplotlib") is None:
            continue
        command(*words, code=0)
    assert json.loads(command("show", one, "--json").out)["report"] == str(runs / "a.html")
    (runs / "a.html").unlink()
    assert "--bundle" in command("show", one, "--bundle").err


def test_nothing_is_left_of_an_archive(runs):
    before = set(Path(tempfile.gettempdir()).glob("tellapart-*"))
    run = ta.open_run(runs / "a.zip")
    inside = run.folder
    assert inside.is_dir() and not str(inside).startswith(str(runs))
    del run
    with unpacked([runs / "a.zip", runs / "b"]) as (_, other):
        assert other == runs / "b"
    assert not inside.exists()
    assert set(Path(tempfile.gettempdir()).glob("tellapart-*")) == before


def made(path: Path, *entries: tuple[str, bytes], link: bool = False) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o120777 if link else 0o100644) << 16
            archive.writestr(entry, data)
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("name", "data", "fact"),
    [
        *(
            (name, b"x", "leaves")
            for name in ("../out.json", "a/../../out.json", "/srv/out.json", "..\\out.json", "C:out.json", "a\\b")
        ),
        ("results.json", b"[]", "twice"),
        ("samples/demo.jsonl", bytes(80 << 20), "bytes"),  # a bomb
    ],
)
def test_an_archive_that_is_more_than_a_run_is_refused_before_it_is_unpacked(name, data, fact, tmp_path):
    path = made(tmp_path / "run.zip", ("results.json", b"{}"), (name, data))
    assert path.stat().st_size < 100_000
    with raises(RunError, "run.zip", fact):
        unpack_run(path, tmp_path / "into")
    assert not (tmp_path / "out.json").exists() and not (tmp_path / "into").exists()


def test_a_link_more_files_than_a_run_has_and_a_bomb_whose_table_is_wrong_are_refused(tmp_path, monkeypatch):
    with raises(RunError, "run.zip", "link"):
        unpack_run(made(tmp_path / "run.zip", ("samples", b"/etc"), link=True), tmp_path / "into")
    monkeypatch.setattr(zipped, "MOST_FILES", 3)
    with raises(RunError, "4 files", "3"):
        unpack_run(made(tmp_path / "run.zip", *((f"{k}.jsonl", b"") for k in range(4))), tmp_path / "into")
    monkeypatch.setattr(zipped, "_FREE", 1 << 10)
    path = made(tmp_path / "run.zip", ("samples/demo.jsonl", bytes(1 << 20)))
    data = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        struct.pack_into("<I", data, data.index(mark) + place, 100)  # the size that it says it unpacks to
    path.write_bytes(data)
    with raises(RunError, "run.zip"):
        unpack_run(path, tmp_path / "into")
    assert sum(file.stat().st_size for file in (tmp_path / "into").rglob("*.jsonl")) <= 1 << 10


def test_a_damaged_archive_and_one_without_a_run_are_refused(runs, tmp_path):
    data = (runs / "b.zip").read_bytes()
    cut, flipped, locked = (tmp_path / f"{name}.zip" for name in ("cut", "flipped", "locked"))
    cut.write_bytes(data[: len(data) // 2])
    flipped.write_bytes(data[:200] + bytes([data[200] ^ 255]) + data[201:])
    encrypted = bytearray(made(tmp_path / "plain.zip", ("results.json", b"{}")).read_bytes())
    for mark, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        encrypted[encrypted.index(mark) + place] |= 1
    locked.write_bytes(encrypted)
    with zipfile.ZipFile(tmp_path / "packed.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("samples/demo.jsonl", b"x" * 99)
    packed = ("samples/demo.jsonl", "packed")
    for path, fact in ((cut, ()), (flipped, ()), (locked, "encrypted"), (tmp_path / "packed.zip", packed)):
        with raises(RunError, path.name, fact):
            unpack_run(path, tmp_path / f"into-{path.stem}")
    with raises(RunError, "empty.zip"):
        ta.open_run(made(tmp_path / "empty.zip", ("readme.txt", b"nothing")))
    stream = io.BytesIO()
    zipfile.ZipFile(stream, "w").close()
    (tmp_path / "none.zip").write_bytes(stream.getvalue())
    with raises(RunError, "none.zip"):
        ta.open_run(tmp_path / "none.zip")
