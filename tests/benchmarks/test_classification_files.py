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
from tellapart import find_benchmark
from tellapart.benchmarks.classification import CifarFile
from tellapart.benchmarks.locations import Locations
from tellapart.data.images import decode
from tellapart.data.task_records import ClassificationSet
from tellapart.errors import DataError


def records_of(name: str, data: Path | None = None) -> ClassificationSet:
    return find_benchmark(name, data and Locations(data)).records()


def read(name: str, reference: str, data: Path | None = None) -> np.ndarray:
    return decode(find_benchmark(name, data and Locations(data)).read_image()(reference), reference)


def write_pictures(folder: Path, *names: str) -> None:
    for colour, name in enumerate(names):
        write_file(folder / name, plain((colour % 256, 0, 0), (4, 4), "PNG" if name.endswith(".png") else "JPEG"))


def names_and_golds(records: ClassificationSet) -> list[tuple[str, int]]:
    return [(each.images[0], each.gold) for each in records.rows]


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
    records = records_of(name, tmp_path)
    assert len(records.classes) == int(name.removeprefix("cifar"))
    assert [records.classes[each.gold] for each in records.rows] == classes
    for each, expected in zip(records.rows, pictures, strict=True):
        assert np.array_equal(read(name, each.images[0], tmp_path), expected)
    # A picture's file carries nothing else.
    data = find_benchmark(name, Locations(tmp_path)).read_image()(records.rows[0].images[0])
    with Image.open(io.BytesIO(data)) as image:
        assert (image.format, image.size, image.mode, image.info) == ("PNG", (32, 32), "RGB", {})


def test_cifar_as_folders_of_classes_is_read_too(tmp_path):
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    write_pictures(tmp_path / "test", *(f"{name}/0001.png" for name in names))
    records = records_of("cifar10", tmp_path)
    assert (list(records.classes), records.rows[3].images[0]) == (names, "cat/0001.png")
    assert read("cifar10", "cat/0001.png", tmp_path).shape == (4, 4, 3)


@pytest.mark.parametrize(
    ("file", "data", "said"),
    [
        ("test_batch.bin", b"", ("0", "bytes", "3,073")),
        ("test_batch.bin", bytes(3072), ("3,072", "bytes", "3,073")),
        ("test_batch.bin", bytes([10]) + bytes(3072), ("0", "10", "10", "0")),
        ("test_batch", pickle.dumps({b"labels": [0], b"data": np.zeros((1, 3072), np.uint8)}),
         ("cifar10", "test_batch.bin")),  # the version for Python
    ],
)  # fmt: skip
def test_a_damaged_cifar_file_and_one_of_pickles_are_refused(file, data, said, tmp_path):
    (tmp_path / file).write_bytes(data)
    with raises(DataError, said):
        records_of("cifar10", tmp_path)


@pytest.mark.parametrize("reference", ["test_batch.bin#1", "test_batch.bin#-1", "other.bin#0", "test_batch.bin"])
def test_a_picture_that_is_not_in_the_file_is_named(reference, tmp_path):
    cifar(tmp_path / "test_batch.bin", [[0]])
    with raises(DataError, f"{reference!r}", "image"):
        CifarFile(tmp_path / "test_batch.bin")(reference)


def test_own_names_and_prompts_lie_beside_the_file(tmp_path):
    cifar(tmp_path / "test_batch.bin", [[0], [1]])
    published = records_of("cifar10", tmp_path).classes
    write_file(tmp_path / "classes.txt", "".join(f"{name}\ta photographed {name}\n" for name in published[::-1]))
    write_file(tmp_path / "templates.txt", "{}\n\nthe {}!\n")
    records = records_of("cifar10", tmp_path)
    assert records.classes == tuple(f"a photographed {name}" for name in published)
    assert records.templates == ("{}", "the {}!")


@pytest.fixture
def pets(tmp_path) -> Path:
    write_pictures(tmp_path / "pets", "big_cat/0.png", "big_cat/more/1.JPEG", "dog/0.jpg")
    write_file(tmp_path / "pets" / "dog" / "notes.txt", "no image")
    (tmp_path / "pets" / ".hidden").mkdir()
    return tmp_path / "pets"


def test_a_folder_a_class_is_a_benchmark_with_the_folders_names(pets):
    records = records_of(f"classes:{pets}")
    assert records.classes == ("big cat", "dog")
    assert names_and_golds(records) == [("big_cat/0.png", 0), ("big_cat/more/1.JPEG", 0), ("dog/0.jpg", 1)]
    assert read(f"classes:{pets}", "dog/0.jpg").shape == (4, 4, 3)


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
        ("big_cat/more/3.BMP", b"BM", ("pets", "1", "3.BMP", "PNG")),  # it would be left out without a word
        ("empty/notes.txt", "no image", ("image", "empty")),
    ],
)
def test_a_list_or_folder_that_does_not_fit_is_refused_with_its_line_or_name(file, content, said, pets):
    assert find_benchmark(f"classes:{pets}").items == 3
    write_file(pets / file, content)
    with raises(DataError, said):
        find_benchmark(f"classes:{pets}")


def test_a_folder_without_classes_is_refused(pets):
    with raises(DataError, "1", "folders"):
        find_benchmark(f"classes:{pets / 'big_cat'}")


def test_caltech_is_read_without_its_background_and_with_singular_names(tmp_path):
    folders = ("BACKGROUND_Google", "Faces", "Faces_easy", "accordion", "car_side", "Motorbikes")
    write_pictures(tmp_path / "101_ObjectCategories", *(f"{folder}/image_0001.jpg" for folder in folders))
    classes = ("face in front of a background", "face", "motorbike", "accordion", "car from the side")
    assert records_of("caltech101", tmp_path).classes == classes
    assert read("caltech101", "Faces/image_0001.jpg", tmp_path).shape == (4, 4, 3)


def test_food_is_the_list_of_its_test_part(tmp_path):
    write_file(tmp_path / "meta" / "test.txt", "waffles/7\napple_pie/12\nwaffles/9\n")
    write_pictures(tmp_path / "images", "waffles/7.jpg")
    records = records_of("food101", tmp_path)
    assert records.classes == ("apple pie", "waffles")
    expected = [("images/waffles/7.jpg", 1), ("images/apple_pie/12.jpg", 0), ("images/waffles/9.jpg", 1)]
    assert names_and_golds(records) == expected
    assert read("food101", "images/waffles/7.jpg", tmp_path).shape == (4, 4, 3)
    write_file(tmp_path / "meta" / "test.txt", "waffles\n")
    with raises(DataError, "apple_pie/1011328", "'waffles'"):
        records_of("food101", tmp_path)


WNIDS = ("n01440764", "n02012849", "n03126707")  # tench, and two that are called crane


@pytest.fixture
def imagenet(tmp_path) -> Path:
    write_pictures(tmp_path / "val", *(f"{wnid}/ILSVRC2012_val_00000001.JPEG" for wnid in WNIDS))
    return tmp_path


def test_imagenet_takes_the_competitions_names_all_synonyms_where_the_first_is_shared_and_own_ones_first(imagenet):
    lines = zip(WNIDS, ("tench, Tinca tinca", "crane", "crane, lifting device"), strict=True)
    write_file(imagenet / "LOC_synset_mapping.txt", "".join(f"{wnid} {name}\n" for wnid, name in lines))
    assert records_of("imagenet", imagenet).classes == ("tench", "crane", "crane, lifting device")
    write_file(imagenet / "val" / "classes.txt", "".join(f"{wnid}\tbird {k}\n" for k, wnid in enumerate(WNIDS)))
    assert records_of("imagenet", imagenet).classes == ("bird 0", "bird 1", "bird 2")


@pytest.mark.slow
def test_imagenet_takes_clips_names_where_all_of_its_folders_are_there(imagenet):
    pytest.importorskip("torch", reason="torch is not installed (the models extra)")
    with raises(DataError, "3", "ImageNet", "1,000", "classes.txt"):
        records_of("imagenet", imagenet)
    # CLIP calls the folders at 657 and 744 "missile", those at 836 and 837 "sunglasses"; the names of the others do not
    # matter.
    numbers = [*range(743), 1440764, 4008634, *range(4100000, 4100091), 4355933, *range(5000000, 5000163)]
    write_pictures(imagenet / "all" / "val", *(f"n{number:08}/a.JPEG" for number in numbers))
    records = records_of("imagenet", imagenet / "all")
    assert len(records.classes) == len(set(records.classes)) == 1000  # two pairs of CLIP's names are told apart
    expected = ["tench", "missile", "projectile", "burning glass", "sunglasses"]
    assert [records.classes[place] for place in (0, 657, 744, 836, 837)] == expected


def test_the_embedded_classes_are_what_the_captions_count():
    records, items = records_of("demo-objects"), find_benchmark("demo").records().items
    captions = {image: text for item in items for image, text in zip(item.images, item.texts, strict=True)}
    clusters = {image: item.cluster for item in items for image in item.images}
    for each in records.rows:
        kind, caption = records.classes[each.gold].split()[-1], captions[each.images[0]]
        assert re.search(rf"\b{kind[:4]}", caption), (kind, caption)  # its plural, too
        assert each.cluster == clusters[each.images[0]]
    assert isinstance(records, ClassificationSet)
    assert read("demo-objects", records.rows[0].images[0]).shape == (160, 160, 3)
