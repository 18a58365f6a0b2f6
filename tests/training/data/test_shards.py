"""webdataset's shards are training rows as files are: in order, with the same checks, fingerprint and leaks."""

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from facts import raises
from pictures import plain
from tellapart.benchmarks.find import find_benchmark
from tellapart.errors import DataError
from tellapart.training.config import DataConfig
from tellapart.training.data.duplicates import find_leaks
from tellapart.training.data.rows import TrainingRow, TrainingRows, read_image, read_rows, write_rows
from tellapart.training.dry_run import open_images
from tellapart.training.loop import left_over
from tellapart.training.training_run import find_sources


def picture(value: int) -> bytes:
    return plain((value, 2 * value, 9), (6, 4))


def write_shard(path: Path, members: dict[str, bytes], kind: str = "w") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, kind) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def shards(tmp_path):
    for shard in range(2):
        members = {}
        for sample in range(3):
            key, number = f"{shard:05}{sample:04}", 10 * shard + sample
            facts = {"caption": "not this", "url": "http://x", "status": "success"}
            facts |= {"negative_captions": [f"no {number}"]}
            members[f"{key}.json"] = json.dumps(facts).encode()
            members[f"{key}.png"] = picture(number)
            members[f"{key}.txt"] = f"picture {number}\n".encode()
        write_shard(tmp_path / "shards" / f"shard-{shard:05}.tar", members)
    return tmp_path


def test_samples_are_rows_in_the_order_of_the_shards(shards):
    rows = read_rows(["shards/shard-{00000..00001}.tar"], shards)
    assert [row.caption for row in rows.rows] == [f"picture {n}" for n in (0, 1, 2, 10, 11, 12)]
    assert rows.rows[3].negatives == ("no 10",) and rows.rows[3].image.name == "000010000.png"
    assert rows.pixels(4)[0, 0].tolist() == [11, 22, 9] and rows.is_wide(4)
    assert len({row.cluster for row in rows.rows}) == len(set(rows.image_ids)) == 6
    again = read_rows(["shards/shard-00000.tar", "shards/shard-00001.tar"], shards)
    assert (again.rows, again.fingerprint) == (rows.rows, rows.fingerprint)


def test_they_are_the_rows_of_the_same_files(shards, monkeypatch):
    rows = read_rows(["shards/shard-{00000..00001}.tar"], shards)
    for number, row in enumerate(rows.rows):
        (shards / f"{number}.png").write_bytes(read_image(row.image))
    files = TrainingRows(tuple(replace(row, image=shards / f"{n}.png") for n, row in enumerate(rows.rows)))
    write_rows(shards / "rows.jsonl", files, shards)
    assert read_rows(["rows.jsonl"], shards).fingerprint == rows.fingerprint
    write_rows(shards / "mined.jsonl", rows, shards)
    assert read_rows(["mined.jsonl"], shards).fingerprint == rows.fingerprint
    monkeypatch.setattr("tellapart.training.dry_run._COMPARED", 0)
    opened = [open_images(each, seconds) for each in (rows, files) for seconds in (9.0, 0.0)]
    assert [(len(hashes), errors) for _, hashes, errors in opened] == [(6, []), (0, []), (6, []), (0, [])]
    assert left_over(rows).read_bytes(left_over(rows).items[4].images[0]) == picture(11)


def test_a_picture_of_a_benchmark_in_a_shard_is_a_leak(tmp_path):
    demo = find_benchmark("demo").records()
    data = (demo.root / demo.items[0].images[0]).read_bytes()
    write_shard(tmp_path / "a.tar", {"0.webp": data, "0.txt": b"a scene"})
    (leak,) = find_leaks(read_rows(["a.tar"], tmp_path), ["demo"])
    assert leak.same == ("0.webp",)


BAD = {
    "no caption": ({"a.png": picture(1)}, "w", ("sample 'a'", "caption")),
    "no picture": ({"a.txt": b"a cat"}, "w", ("sample 'a'", "image")),
    "a path that leaves": ({"../a.png": picture(1), "../a.txt": b"a cat"}, "w", ("../a.png", "leaves")),
    "packed": ({"a.png": picture(1), "a.txt": b"a cat"}, "w:gz", ("tar", "unpack")),
}


@pytest.mark.parametrize("case", BAD)
def test_a_shard_that_is_not_rows_is_refused_with_its_sample(tmp_path, case):
    members, kind, facts = BAD[case]
    write_shard(tmp_path / "s.tar", members, kind)
    with raises(DataError, "s.tar", *facts):
        read_rows(["s.tar"], tmp_path)


def test_a_shard_that_is_cut_off_or_missing_is_named(shards):
    (shards / "cut.tar").write_bytes((shards / "shards" / "shard-00001.tar").read_bytes()[:1200])
    with raises(DataError, "cut.tar", "copy it again"):
        read_rows(["cut.tar"], shards)
    with raises(DataError, "shard-00002.tar", "No such file"):
        read_rows(["shards/shard-{00000..00002}.tar"], shards)
    with raises(DataError, "training row 0", "x.tar"):
        TrainingRows((TrainingRow(shards / "x.tar" / "a.png", "a cat"),)).pixels(0)
    write_shard(shards / "broken.tar", {"a.png": picture(1)[:20], "a.txt": b"a cat"})
    with raises(DataError, "broken.tar/a.png"):
        read_rows(["broken.tar"], shards).pixels(0)
    assert np.array_equal(read_rows(["shards/shard-00000.tar"], shards).pixels(0)[0, 0], [0, 0, 9])


def test_a_data_set_of_the_hub_is_answered_with_the_line_that_saves_it(tmp_path):
    with raises(DataError, "hf:user/data", "rows.jsonl") as caught:
        find_sources(DataConfig(train=["hf:user/data"]), tmp_path)
    line = str(caught.value).partition('python -c "')[2].partition('"')[0]
    assert "load_dataset('user/data'" in line and compile(line, "line", "exec")


def test_a_shard_that_is_written_again_is_read_again(tmp_path):
    write_shard(tmp_path / "a.tar", {"1.png": b"first", "2.png": b"second"})
    assert read_image(tmp_path / "a.tar" / "2.png") == b"second"
    write_shard(tmp_path / "a.tar", {"0.png": bytes(3000), "2.png": b"other"})
    assert read_image(tmp_path / "a.tar" / "2.png") == b"other"
