"""The same text is the same tokens after the cut, and the same picture is the same pixels, in every place."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tiny_fusion import MODELS
from training_sets import architecture, config, logged, squares

import pictures
from facts import check_facts, raises
from sets import write_file
from tellapart.benchmarks.find import find_benchmark
from tellapart.errors import DataError, TellapartWarning
from tellapart.training.data.duplicates import (
    Leak,
    count_duplicates,
    find_leaks,
    hash_images,
    pixels_by_file,
    refuse_leaks,
)
from tellapart.training.data.rows import TextIds, TrainingRow, TrainingRows, read_rows
from tellapart.training.encoders import Trainable, draw_start, open_dual, open_fusion
from tellapart.training.loop import TrainingRanks
from tellapart.training.record import read_record
from tellapart.training.steps import matching_settings
from tellapart.training.train import Trained
from tellapart.training.training_run import choose_validation, run_training

LONG = "a red square left of a blue one and of a green one and of a grey one and of a red one and of a blue one"


def opened(folder: Path) -> Trainable:
    settings, ranks = config(folder), TrainingRanks("cpu")
    return draw_start(f"new:{folder / 'arch'}", settings, folder / "start", ranks)[1]


def check_reader(trainable: Trainable, equal: Sequence[str], other: str) -> None:
    """Ids are those of the tokens: the tower reads two texts alike exactly if their ids are equal."""
    ids = TextIds(trainable.reader)([*equal, other])
    assert len(set(ids[:-1])) == 1
    assert ids[-1] != ids[0]
    # Alone or beside a longer text, and in another process's reader, a text has one number.
    assert [TextIds(trainable.reader)([text])[0] for text in [*equal, other]] == ids
    tokens = [{name: tensor.tolist() for name, tensor in trainable.tokens([text]).items()} for text in [*equal, other]]
    assert all(one == tokens[0] for one in tokens[:-1]) and tokens[-1] != tokens[0]


def test_a_text_is_its_tokens_within_the_context(tmp_path):
    trainable = opened(tmp_path)
    check_reader(trainable, ["a red square", "A Red  square", " a red square "], "a red squares")
    check_reader(trainable, [LONG, f"{LONG} and more", f"{LONG} or less"], LONG[:40])
    assert trainable.reader.find_cut([LONG, "a red square"]) == [True, False]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_fusion_encoders_text_is_its_tokens_within_the_context(tmp_path, name):
    pytest.importorskip("transformers", reason="fusion encoders need the extra 'models'")
    trainable = open_fusion(MODELS[name](tmp_path / name), "cpu")
    check_reader(trainable, ["a red square", "a  red square"], "a blue square")
    assert trainable.reader.find_cut(["a red square"]) == [False]


def test_a_compact_encoders_text_is_its_tokens_within_the_context(tmp_path):
    home = Path(__file__).parents[3] / "examples" / "demo_encoder" / "architecture"
    values = config(tmp_path, model=f"new:{home}")
    name, trainable = draw_start(f"new:{home}", values, tmp_path / "start", TrainingRanks("cpu"))
    words = "a red cube " * 60
    check_reader(trainable, [words, words + "and more"], "a red cube")
    assert open_dual(name, "cpu").reader.find_cut([words, "a red cube"]) == [True, False]


def write_pictures(folder: Path) -> dict[str, Path]:
    """Three pictures in six files: the first in three formats, and with other bytes."""
    made = [Image.fromarray(pictures.noise(16, 16, seed)) for seed in range(3)]
    files = {"a.png": 0, "b.webp": 0, "c.png": 0, "d.png": 1, "e.png": 2}
    folder.mkdir()
    for name, number in files.items():
        made[number].save(folder / name, **({"lossless": True} if name.endswith("webp") else {}))
    with (folder / "c.png").open("ab") as file:
        file.write(b"\0")
    return {name: folder / name for name in files}


def test_a_picture_is_its_pixels_whatever_its_file(tmp_path):
    files, seen = write_pictures(tmp_path / "p"), []
    plain = TrainingRows(tuple(TrainingRow(path, "a") for path in files.values()))
    rows = plain.with_pictures(pixels_by_file(hash_images(plain.files, progress=lambda *each: seen.append(each))))
    assert (plain.image_ids.tolist(), rows.image_ids.tolist()) == ([0, 1, 2, 3, 4], [0, 0, 0, 1, 2])
    assert seen[-1] == ("training images", 5, 5)
    assert rows.fingerprint == plain.fingerprint and rows.with_pictures({}) == plain


PLACED = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 5)), min_size=1, max_size=24)


@given(PLACED, st.floats(0.1, 0.9))
def test_no_picture_and_no_cluster_lies_on_both_sides_of_a_split(rows, share):
    named = (TrainingRow(Path(f"{k}.png"), "x", cluster=c, picture=str(p)) for k, (c, p) in enumerate(rows))
    made = TrainingRows(tuple(named))
    trained, left = made.split(share)
    names = [row.image.name for part in (trained, left) for row in part.rows]
    assert sorted(names) == sorted(row.image.name for row in made.rows)
    for kind in ("cluster", "picture"):
        assert not {getattr(row, kind) for row in trained.rows} & {getattr(row, kind) for row in left.rows}
    # Clusters that share nothing stay apart: without copies a split is by the clusters' hashes, as it was.
    alone = made.with_pictures({})
    places = {row.cluster: int(hashlib.sha256(row.cluster.encode()).hexdigest()[:16], 16) / 2**64 for row in made.rows}
    assert alone.split(share)[0].rows == tuple(row for row in alone.rows if places[row.cluster] < share)


def test_a_share_that_leaves_no_row_is_refused(tmp_path):
    """Placeholders join all clusters, so all rows are on one side."""
    files = {name: tmp_path / f"{name}.png" for name in "abcd"}
    made = (TrainingRow(path, "a cat", ("a dog",), cluster=name, picture="grey") for name, path in files.items())
    rows = TrainingRows(tuple(made))
    settings = config(tmp_path, data={"train": ["rows.jsonl"], "share": 0.01})
    with raises(DataError, "data.share", "0.01", "4"):
        choose_validation(settings, tmp_path, rows)


def copies(folder: Path) -> Path:
    """Rows of twelve pictures, each under two names in two clusters, with a false caption each."""
    squares(folder / "train", 6)
    architecture(folder / "arch")
    rows = []
    for k in range(6):
        for side in (0, 1):
            image = folder / "train" / "images" / f"{k}_{side}.png"
            copy = image.with_name(f"copy_{k}_{side}.webp")
            Image.open(image).save(copy, lossless=True)
            for path in (image, copy):
                name = path.relative_to(folder).as_posix()
                rows.append({"image": name, "caption": f"picture {k} {side}", "negative_captions": [f"{k} of {side}"]})
    return write_file(folder / "rows.jsonl", rows)


def test_copies_lie_on_one_side_of_the_share(tmp_path):
    copies(tmp_path)
    for share in (0.3, 0.5, 0.7):
        settings = config(tmp_path, data={"train": ["rows.jsonl"], "share": share})
        rows = read_rows(["rows.jsonl"], tmp_path)
        hashes = pixels_by_file(hash_images(rows.files))
        trained, validation = choose_validation(settings, tmp_path, rows.with_pictures(hashes))
        chosen = {hashes[Path("/") / image] for item in validation.items for image in item.images}
        assert len(trained) and chosen and not chosen & {row.picture for row in trained.rows}
        # By files alone they are on both sides.
        trained, validation = choose_validation(settings, tmp_path, rows)
        chosen = {hashes[Path("/") / image] for item in validation.items for image in item.images}
        assert chosen & {hashes[row.image] for row in trained.rows}


def test_a_copy_of_a_picture_is_no_hard_counterpart(tmp_path):
    lines = [json.loads(line) for line in copies(tmp_path).read_text().splitlines()]
    settings = config(tmp_path, data={"train": ["rows.jsonl"]}, loss={"name": "trohn-img"}, optimiser={"steps": 2})
    # Its copy, and another picture.
    write_file(tmp_path / "rows.jsonl", [row | {"negative_images": [k ^ 1, k ^ 2]} for k, row in enumerate(lines)])
    run_training(settings, tmp_path, tmp_path / "run")
    write_file(tmp_path / "rows.jsonl", [row | {"negative_images": [k ^ 1]} for k, row in enumerate(lines)])
    with raises(DataError, "'trohn-img'", "row 0", "negative_images"):
        run_training(settings, tmp_path, tmp_path / "none")


def test_a_fusion_encoders_counterparts_show_another_picture_and_the_others_are_counted(tmp_path):
    rows = TrainingRows(
        tuple(
            TrainingRow(Path(f"{k}.png"), f"text {k}", counterparts=others, picture=picture)
            for k, (others, picture) in enumerate([((1, 2), "a"), ((0, 2), "a"), ((0, 1), "b")])
        )
    )
    assert rows.counterparts == [[2], [2], [0, 1]]
    duplicates = count_duplicates(rows, Letters())
    assert duplicates.counterparts == 2
    check_facts(duplicates.describe(), "2 hard counterparts")
    settings = config(tmp_path, loss={"name": "ranking"}, matching={"source": "rows", "negatives": 2})
    with raises(DataError, "2", "row 0", "0.png", "1"):
        matching_settings(settings, rows)


class Letters:
    """Reads eight letters of a text, small ones."""

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [[ord(letter) for letter in text.lower()[:8]] for text in texts]

    def find_cut(self, texts: Sequence[str]) -> list[bool]:
        return [len(text) > 8 for text in texts]


def test_duplicates_are_counted_by_rows():
    def row(file, picture, caption, *negatives):
        return TrainingRow(Path(file), caption, negatives, picture=picture)

    rows = (
        row("a.png", "1", "a cat", "a dog"),
        row("b.png", "1", "A cat", "a cat"),  # a copy: its caption is no other picture's
        row("c.png", "2", "a dog", "a cat", "A DOG"),
        row("d.png", "3", "a dog"),
        row("e.png", "4", "two cats sit", "two cats lie"),
        row("f.png", "5", "two cats run"),
        row("f.png", "5", "a bird"),
    )
    found = count_duplicates(TrainingRows(rows), Letters())
    assert (found.captions, found.pictures, found.foils, found.cut, found.texts, found.merged) == (4, 2, 3, 3, 8, 2)
    assert (found.caption, found.picture, found.middle) == (("a dog", 2), ("f.png", 2), 1)
    assert found.to_log() == {"rows_same_caption": 4.0, "rows_same_picture": 2.0, "texts_cut": 3.0}
    assert [part.split()[0] for part in found.describe().split(", ")] == ["4", "2", "3", "3"]
    distinct = count_duplicates(TrainingRows(rows[:1]), Letters())
    assert distinct.to_log() == {} and distinct.describe() == ""


def write(folder: Path, captions: Sequence[str], **fields) -> None:
    """Rows of the pictures of `folder/train`, with these captions."""
    squares(folder / "train", 8)
    architecture(folder / "arch")
    files = sorted(path.relative_to(folder).as_posix() for path in (folder / "train" / "images").iterdir())
    rows = [{"image": file, "caption": caption, **fields} for file, caption in zip(files, captions, strict=False)]
    write_file(folder / "rows.jsonl", rows)


@pytest.mark.parametrize("micro", [None, 3])
def test_captions_that_differ_after_the_cut_teach_nothing_and_the_record_counts_them(tmp_path, capsys, micro):
    write(tmp_path, [f"{LONG} and {k}" for k in range(16)])
    data = {"train": ["rows.jsonl"]}
    settings = config(tmp_path, data=data, batch={"size": 16, "micro": micro}, optimiser={"steps": 1})
    run_training(settings, tmp_path, tmp_path / "run")
    line = logged(tmp_path / "run")[0]
    assert line["total"] == 0 and (line["rows_same_caption"], line["texts_cut"]) == (16, 16)
    counted = read_record(tmp_path / "run").data.duplicates
    assert (counted.merged, counted.cut, counted.texts) == (16, 16, 16)
    assert "16 rows share their captions" in " ".join((tmp_path / "run" / "model" / "README.md").read_text().split())
    Trained(tmp_path, (read_record(tmp_path / "run"),)).show()
    check_facts(" ".join(capsys.readouterr().out.split()), "16 rows", "16 of 16 texts lose")
    released = config(tmp_path, data=data | {"duplicates": "negatives"}, batch={"size": 16}, optimiser={"steps": 1})
    run_training(released, tmp_path, tmp_path / "released")
    assert logged(tmp_path / "released")[0]["text_to_image"] == pytest.approx(np.log(16) / 2, abs=0.2)


def test_copies_of_a_picture_are_no_negatives_and_files_are_as_released(tmp_path):
    copies(tmp_path)
    totals = {}
    for duplicates in ("masked", "negatives"):
        data = {"train": ["rows.jsonl"], "duplicates": duplicates}
        settings = config(tmp_path, data=data, batch={"size": 24}, optimiser={"steps": 1})
        run_training(settings, tmp_path, tmp_path / duplicates)
        totals[duplicates] = logged(tmp_path / duplicates)[0]
    # Of 24 rows each has a copy with the same caption: of the 23 others one is no negative, or is an even rival.
    assert totals["negatives"]["total"] - totals["masked"]["total"] == pytest.approx(np.log(24 / 23), abs=0.05)
    assert {line["rows_same_picture"] for line in totals.values()} == {24}


def test_pictures_of_the_named_validation_set_that_are_trained_on_are_warned_of_and_recorded(tmp_path):
    squares(tmp_path / "held", 3, seed=5)
    settings = config(tmp_path, data={"validation": "folder:held"}, optimiser={"steps": 1})
    run_training(settings, tmp_path, tmp_path / "apart")
    leak = read_record(tmp_path / "apart").data.validation_leak
    assert leak.describe_choice() == ""
    settings = config(tmp_path, data={"validation": "folder:train"}, optimiser={"steps": 1})
    with pytest.warns(TellapartWarning, match="data.validation: 24 training images"):
        run_training(settings, tmp_path, tmp_path / "same")
    leak = read_record(tmp_path / "same").data.validation_leak
    assert len(leak.same) == 24
    card = " ".join((tmp_path / "same" / "model" / "README.md").read_text().split())
    assert "24 training images are pictures of that set" in card
    assert replace(leak, same=()).describe_choice() == ""


def demo_pictures(count: int) -> list[Image.Image]:
    pairs = find_benchmark("demo").records()
    return [Image.fromarray(pairs.pixels(item.images[0])) for item in pairs.items[:count]]


def rows(folder: Path, **files: Image.Image) -> TrainingRows:
    paths = [folder / name.replace("_", ".") for name in files]
    for path, picture in zip(paths, files.values(), strict=True):
        picture.save(path)
    return TrainingRows(tuple(TrainingRow(path, "a caption") for path in paths))


def noise(seed: int) -> Image.Image:
    return Image.fromarray(pictures.noise(64, 64, seed))


@pytest.mark.slow
def test_a_recompressed_picture_is_alike_and_a_copy_is_the_same(tmp_path):
    copied, jpeg, large = demo_pictures(3)
    smaller = large.resize((large.width * 3 // 4, large.height * 3 // 4))
    made = rows(tmp_path, copied_png=copied, jpeg_jpg=jpeg, smaller_png=smaller, other_png=noise(0))
    result = find_leaks(made, ["demo"])
    assert result == [Leak("demo", ("copied.png",), ("jpeg.jpg", "smaller.png"), result[0].images)]
    assert result[0].images == 800
    with raises(DataError, "1", "copied.png", "2"):
        refuse_leaks(result)


@pytest.mark.slow
def test_what_shares_nothing_is_let_through_and_all_benchmarks_are_looked_at(tmp_path):
    own, seen = rows(tmp_path, a_png=noise(1), b_png=noise(2)), []
    result = find_leaks(own, ["demo", "demo-objects"], lambda *settings: seen.append(settings))
    assert [(leak.benchmark, leak.same, leak.alike) for leak in result] == [("demo", (), ()), ("demo-objects", (), ())]
    refuse_leaks(result)
    assert ("training images", 2, 2) in seen
    assert find_leaks(own, []) == []


@pytest.mark.slow
def test_hashes_of_more_pictures_serve_for_some_and_no_file_is_read_again(tmp_path):
    more = rows(tmp_path, c_png=noise(3), a_png=demo_pictures(1)[0])
    hashes = hash_images(more.files)
    for row in more.rows:
        row.image.unlink()
    leaks = find_leaks(more.select([1]), ["demo"], hashes=hashes)
    assert [(leak.same, leak.alike) for leak in leaks] == [(("a.png",), ())]


def test_an_image_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "no.png").write_bytes(b"no picture")
    for name in ("gone.png", "no.png"):
        with raises(DataError, name):
            find_leaks(TrainingRows((TrainingRow(tmp_path / name, "a cat"),)), ["demo"])
