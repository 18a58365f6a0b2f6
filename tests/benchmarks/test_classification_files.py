"""Classification from files.

The bytes of CIFAR, folders of classes, lists of names and prompts, and what is wrong with them.
"""

import io
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from facts import raises
from pictures import plain
from sets import write_file
from tellapart import Benchmark, find_benchmark
from tellapart.benchmarks.classification import CifarFile
from tellapart.benchmarks.locations import Locations
from tellapart.data.images import decode
from tellapart.data.task_records import ClassificationSet
from tellapart.errors import DataError


def bench(name: str, data: Path | None = None) -> Benchmark:
    found = find_benchmark(name, None if data is None else Locations(data))
    assert isinstance(found, Benchmark)
    return found


def picture(path: Path, colour: int = 0) -> None:
    write_file(path, plain((colour, 0, 0), (4, 4), "JPEG" if path.suffix.lower() != ".png" else "PNG"))


def cifar(path: Path, labels: list[list[int]], seed: int = 0) -> np.ndarray:
    """Write a binary file as the page of CIFAR describes it; return its pictures (n, 32, 32, 3)."""
    pictures = np.random.default_rng(seed).integers(0, 256, (len(labels), 32, 32, 3), dtype=np.uint8)
    records = [bytes(label) + image.transpose(2, 0, 1).tobytes() for label, image in zip(labels, pictures, strict=True)]
    write_file(path, b"".join(records))
    return pictures


@pytest.mark.parametrize(
    ("name", "file", "labels", "classes"),
    [
        ("cifar10", "cifar-10-batches-bin/test_batch.bin", [[3], [8], [0]], ["cat", "ship", "airplane"]),
        ("cifar100", "test.bin", [[10, 49], [19, 99], [0, 1]], ["mountain", "worm", "aquarium fish"]),
    ],
)
def test_the_bytes_of_cifar_are_pictures_and_their_classes(name, file, labels, classes, tmp_path):
    pictures = cifar(tmp_path / file, labels)
    one = bench(name, tmp_path)
    records = one.records()
    assert len(records.classes) == int(name.removeprefix("cifar"))
    assert [records.classes[each.gold] for each in records.rows] == classes
    read = one.read_image()
    for each, expected in zip(records.rows, pictures, strict=True):
        assert np.array_equal(decode(read(each.images[0]), each.images[0]), expected)


def test_cifar_as_folders_of_classes_is_read_too(tmp_path):
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    for name in names:
        picture(tmp_path / "test" / name / "0001.png")
    records = bench("cifar10", tmp_path).records()
    assert (list(records.classes), records.rows[3].images[0]) == (names, "cat/0001.png")
    assert bench("cifar10", tmp_path).read_image()("cat/0001.png")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", ("0", "bytes", "3,073")),
        (bytes(3072), ("3,072", "bytes", "3,073")),
        (bytes([10]) + bytes(3072), ("0", "10", "10", "0")),
    ],
)
def test_a_damaged_cifar_file_is_refused(data, said, tmp_path):
    (tmp_path / "test_batch.bin").write_bytes(data)
    with raises(DataError, said):
        bench("cifar10", tmp_path).records()


def test_pickles_of_the_python_version_are_not_read(tmp_path):
    (tmp_path / "test_batch").write_bytes(pickle.dumps({b"labels": [0], b"data": np.zeros((1, 3072), np.uint8)}))
    with raises(DataError, "cifar10", "test_batch.bin"):
        bench("cifar10", tmp_path).records()


@pytest.mark.parametrize("reference", ["test_batch.bin#1", "test_batch.bin#-1", "other.bin#0", "test_batch.bin"])
def test_a_picture_that_is_not_in_the_file_is_named(reference, tmp_path):
    cifar(tmp_path / "test_batch.bin", [[0]])
    with raises(DataError, f"{reference!r}", "image"):
        CifarFile(tmp_path / "test_batch.bin")(reference)


def test_own_names_and_prompts_lie_beside_the_file(tmp_path):
    cifar(tmp_path / "test_batch.bin", [[0], [1]])
    published = bench("cifar10", tmp_path).records().classes
    (tmp_path / "classes.txt").write_text("".join(f"{name}\ta photographed {name}\n" for name in published[::-1]))
    (tmp_path / "templates.txt").write_text("{}\n\nthe {}!\n")
    records = bench("cifar10", tmp_path).records()
    assert records.classes == tuple(f"a photographed {name}" for name in published)
    assert records.templates == ("{}", "the {}!")


@pytest.fixture
def pets(tmp_path) -> Path:
    for number, image in enumerate(["big_cat/0.png", "big_cat/more/1.JPEG", "dog/0.jpg"]):
        picture(tmp_path / "pets" / image, number)
    (tmp_path / "pets" / "dog" / "notes.txt").write_text("no image")
    (tmp_path / "pets" / ".hidden").mkdir()
    return tmp_path / "pets"


def test_a_folder_a_class_is_a_benchmark_with_the_folders_names(pets):
    records = bench(f"classes:{pets}").records()
    assert records.classes == ("big cat", "dog")
    expected = [("big_cat/0.png", 0), ("big_cat/more/1.JPEG", 0), ("dog/0.jpg", 1)]
    assert [(each.images[0], each.gold) for each in records.rows] == expected
    assert decode(bench(f"classes:{pets}").read_image()("dog/0.jpg"), "dog/0.jpg").shape == (4, 4, 3)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("classes.txt", "big_cat\tlion\n", ("1", "2", "dog")),
        ("classes.txt", "dog\ta\ndog\tb\n", ("classes.txt:2", "'dog'")),
        ("classes.txt", "\ncow\ta cow\n", ("classes.txt:2", "'cow'")),
        ("classes.txt", "dog\n", ("classes.txt:1", "'dog'")),
        ("classes.txt", b"\xff", "classes.txt"),
        ("classes.txt", "dog\tpet\nbig_cat\tpet\n", "'pet'"),
        ("templates.txt", "a photo\n", ("templates.txt", "1")),
        ("templates.txt", "\n", ("templates.txt", "template")),
    ],
)
def test_a_list_that_does_not_fit_is_refused_with_its_line(file, content, said, pets):
    (pets / file).write_bytes(content.encode() if isinstance(content, str) else content)
    with raises(DataError, said):
        bench(f"classes:{pets}")


def test_a_folder_without_images_or_without_classes_is_refused(pets):
    (pets / "empty").mkdir()
    with raises(DataError, "image", "empty"):
        bench(f"classes:{pets}")
    with raises(DataError, "1", "folders"):
        bench(f"classes:{pets / 'big_cat'}")


def test_a_picture_that_is_not_read_is_not_left_out_without_a_word(pets):
    (pets / "big_cat" / "more" / "3.BMP").write_bytes(b"BM")
    with raises(DataError, str(pets), "1", "3.BMP", "PNG"):
        bench(f"classes:{pets}")
    (pets / "big_cat" / "more" / "3.BMP").unlink()
    assert bench(f"classes:{pets}").items == 3


def test_caltech_is_read_without_its_background_and_with_singular_names(tmp_path):
    for folder in ("BACKGROUND_Google", "Faces", "Faces_easy", "accordion", "car_side", "Motorbikes"):
        picture(tmp_path / "101_ObjectCategories" / folder / "image_0001.jpg")
    records = bench("caltech101", tmp_path).records()
    assert records.classes == ("face in front of a background", "face", "motorbike", "accordion", "car from the side")
    assert bench("caltech101", tmp_path).read_image()("Faces/image_0001.jpg")


def test_food_is_the_list_of_its_test_part(tmp_path):
    write_file(tmp_path / "meta" / "test.txt", "waffles/7\napple_pie/12\nwaffles/9\n")
    picture(tmp_path / "images" / "waffles" / "7.jpg")
    records = bench("food101", tmp_path).records()
    assert records.classes == ("apple pie", "waffles")
    expected = [("images/waffles/7.jpg", 1), ("images/apple_pie/12.jpg", 0), ("images/waffles/9.jpg", 1)]
    assert [(each.images[0], each.gold) for each in records.rows] == expected
    assert bench("food101", tmp_path).read_image()("images/waffles/7.jpg")
    (tmp_path / "meta" / "test.txt").write_text("waffles\n")
    with raises(DataError, "apple_pie/1011328", "'waffles'"):
        bench("food101", tmp_path).records()


WNIDS = ("n01440764", "n02012849", "n03126707")  # tench, and two that are called crane


@pytest.fixture
def imagenet(tmp_path) -> Path:
    for wnid in WNIDS:
        picture(tmp_path / "val" / wnid / "ILSVRC2012_val_00000001.JPEG")
    return tmp_path


def test_imagenet_takes_the_competitions_names_and_all_synonyms_where_the_first_is_shared(imagenet):
    lines = zip(WNIDS, ("tench, Tinca tinca", "crane", "crane, lifting device"), strict=True)
    (imagenet / "LOC_synset_mapping.txt").write_text("".join(f"{wnid} {name}\n" for wnid, name in lines))
    assert bench("imagenet", imagenet).records().classes == ("tench", "crane", "crane, lifting device")


def test_imagenet_takes_own_names_first(imagenet):
    (imagenet / "val" / "classes.txt").write_text("".join(f"{wnid}\tbird {k}\n" for k, wnid in enumerate(WNIDS)))
    assert bench("imagenet", imagenet).records().classes == ("bird 0", "bird 1", "bird 2")


@pytest.mark.slow
def test_imagenet_takes_clips_names_where_all_of_its_folders_are_there(imagenet):
    pytest.importorskip("torch", reason="torch is not installed (the models extra)")
    with raises(DataError, "3", "ImageNet", "1,000", "classes.txt"):
        bench("imagenet", imagenet).records()
    # CLIP calls the folders at 657 and 744 "missile", those at 836 and 837 "sunglasses"; the names of the others do not
    # matter.
    folders = [f"n{number:08}" for number in range(743)] + ["n01440764", "n04008634"]
    folders += [f"n{4100000 + number:08}" for number in range(91)] + ["n04355933"]
    folders += [f"n{5000000 + number:08}" for number in range(163)]
    data = imagenet / "all"
    for folder in folders:
        picture(data / "val" / folder / "a.JPEG")
    records = bench("imagenet", data).records()
    assert len(records.classes) == len(set(records.classes)) == 1000  # two pairs of CLIP's names are told apart
    expected = ["tench", "missile", "projectile", "burning glass", "sunglasses"]
    assert [records.classes[place] for place in (0, 657, 744, 836, 837)] == expected


def test_the_embedded_classes_are_what_the_captions_count():
    records, items = bench("demo-objects").records(), find_benchmark("demo").records().items
    captions = {image: text for item in items for image, text in zip(item.images, item.texts, strict=True)}
    clusters = {image: item.cluster for item in items for image in item.images}
    for each in records.rows:
        kind, caption = records.classes[each.gold].split()[-1], captions[each.images[0]]
        assert re.search(rf"\b{kind[:4]}", caption), (kind, caption)  # its plural, too
        assert each.cluster == clusters[each.images[0]]
    assert isinstance(records, ClassificationSet)
    assert decode(bench("demo-objects").read_image()(records.rows[0].images[0]), "first").shape == (160, 160, 3)


def test_a_png_of_a_cifar_picture_carries_nothing_else(tmp_path):
    cifar(tmp_path / "test_batch.bin", [[0]])
    data = CifarFile(tmp_path / "test_batch.bin")("test_batch.bin#0")
    with Image.open(io.BytesIO(data)) as image:
        assert (image.format, image.size, image.mode, image.info) == ("PNG", (32, 32), "RGB", {})
