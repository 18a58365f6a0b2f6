"""Folders of classes: a folder for each class and its images below it, as torchvision's `ImageFolder` reads them.

Two files next to them may add to the folders' names. `classes.txt`: a line a class, the folder's name, a tab
(after a name without spaces, a space will do), and how the class is called. `templates.txt`: a line a prompt, with `{}`
for the class.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import FolderImages, Locations, first_file
from tellapart.data.images import IMAGE_SUFFIXES
from tellapart.data.scores import join_names
from tellapart.data.strict_json import decode_text, read_whole
from tellapart.data.task_records import ClassificationSet, ClassifiedImage, check_templates
from tellapart.errors import DataError, quote

PREFIX = "classes:"
_TEMPLATES = ("a photo of a {}.",)


def read_class_folders(root: Path, name: str, names: Mapping[str, str], templates: Sequence[str]) -> ClassificationSet:
    """Read which images lie in which class's folder, however deep below it; no image is opened."""
    folders = sorted(path for path in root.glob("*/") if path.is_dir() and not path.name.startswith("."))
    folders = [path for path in folders if names.get(path.name, path.name)]  # "" means a folder that is not a class
    if len(folders) < 2:
        raise DataError(f"{root} holds {len(folders)} folders; two or more are needed, one a class")
    called = dict(names) | own_names(root, [path.name for path in folders])
    images = {path.name: list(_list_images(root, path)) for path in folders}
    if empty := [folder for folder, inside in images.items() if not inside]:
        raise DataError(f"{root}: no image ({', '.join(sorted(IMAGE_SUFFIXES))}) in {join_names(empty)}")
    return ClassificationSet(
        name,
        tuple(called.get(folder, folder.replace("_", " ")) for folder in images),
        own_templates(root, templates),
        tuple(ClassifiedImage(image, image, label) for label, inside in enumerate(images.values()) for image in inside),
    )


def _list_images(root: Path, folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file():
            yield path.relative_to(root).as_posix()


def own_names(folder: Path, known: Sequence[str], file: str = "classes.txt") -> dict[str, str]:
    """Return the names of the classes in `classes.txt`: none without that file, else every one of them."""
    path = folder / file
    names: dict[str, str] = {}
    for number, line in _read_lines(path):
        key, _, called = line.partition("\t" if "\t" in line else " ")
        if not called.strip():
            raise DataError(f"{path}:{number}: expected a folder's name, a tab and the class's name; got {quote(line)}")
        if key in names or key not in known:
            raise DataError(f"{path}:{number}: {key!r} {'is repeated' if key in names else 'is not a class here'}")
        names[key] = called.strip()
    if names and (missing := [key for key in known if key not in names]):
        raise DataError(f"{path} leaves out {len(missing)} of {len(known)} classes: {join_names(missing)}")
    return names


def own_templates(folder: Path, templates: Sequence[str]) -> tuple[str, ...]:
    """Return the prompts of `templates.txt`, or those given without that file."""
    path = folder / "templates.txt"
    if not path.is_file():
        return tuple(templates)
    return check_templates(tuple(line for _, line in _read_lines(path)), str(path))


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.is_file():
        return
    for number, line in enumerate(decode_text(read_whole(path), path).splitlines(), start=1):
        if line.strip():
            yield number, line.strip()


def class_folder_benchmark(name: str, place: Locations | None = None) -> Benchmark:
    """Return the benchmark `classes:DIR`, the user's folders of classes."""
    if name == PREFIX:
        raise DataError("classes: names no folder; write classes:DIR, a folder with a folder for each class")
    root = Path(name.removeprefix(PREFIX)).expanduser()
    name = f"{PREFIX}{root.resolve().name}"
    records = read_class_folders(root, name, {}, _TEMPLATES)
    return Benchmark(
        name=name,
        own=root.resolve(),
        title=f"folders of classes: {root.resolve().name}",
        items=len(records.pictures),
        task="classification",
        source=str(root),
        cluster="the image",
        load=lambda _place: records,
        pictures=lambda place: FolderImages(root, outside=place.outside),
        place=Locations(images=root, outside=place is not None and place.outside),
    )


# CIFAR-10 and CIFAR-100: 32x32 photos, from the binary files or from folders of classes.
#
# A record of the binary version is one byte of label (CIFAR-100: two, the coarse one first) and 3,072 of pixels: red,
# green, blue, each row by row. The "python version" holds pickles, which can run code when they are read: they are not
# read here.
#
# Source: Krizhevsky, Learning multiple layers of features from tiny images, 2009; the page of the data describes the
#     bytes.

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
_CIFAR_TEMPLATES = (
    "a photo of a {}.",
    "a small photo of a {}.",
    "a tiny, blurry picture of a {}.",
    "a {} seen from afar.",
)
#: In the order of the labels.
_TEN = "airplane automobile bird cat deer dog frog horse ship truck"
_HUNDRED = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can "
    "castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin "
    "elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster "
    "man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck "
    "pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
    "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger "
    "tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)


class CifarFile:
    """Pictures of one binary file, read as PNG files: `test_batch.bin#17` is the eighteenth."""

    def __init__(self, path: Path, label_bytes: int = 1) -> None:
        self._path = path
        self._labels = label_bytes

    @cached_property
    def _record_bytes(self) -> NDArray[np.uint8]:
        data = np.frombuffer(read_whole(self._path), np.uint8)
        size = self._labels + _PIXELS
        if not len(data) or len(data) % size:
            raise DataError(
                f"{self._path}: {len(data):,} bytes are not complete records of {size:,}; it is cut off, or not "
                "the binary version"
            )
        return data.reshape(-1, size)

    @property
    def labels(self) -> NDArray[np.uint8]:
        """The number of each picture's class, uint8 `(picture,)`."""
        return self._record_bytes[:, self._labels - 1]

    def reference(self, number: int) -> str:
        """Name a picture, counted from 0."""
        return f"{self._path.name}#{number}"

    def __call__(self, reference: str) -> bytes:
        """Return a picture as a PNG file."""
        from PIL import Image

        file, _, number = reference.rpartition("#")
        if file != self._path.name or not number.isdecimal() or int(number) >= len(self._record_bytes):
            raise DataError(f"no image {reference!r} in {self._path}")
        planes = self._record_bytes[int(number), self._labels :].reshape(3, _SIDE, _SIDE)
        stream = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(planes.transpose(1, 2, 0))).save(stream, "PNG", compress_level=1)
        return stream.getvalue()


def read_cifar(path: Path, name: str, classes: tuple[str, ...], label_bytes: int = 1) -> ClassificationSet:
    """Read the labels of a binary file."""
    file = CifarFile(path, label_bytes)
    labels = file.labels
    if labels.max() >= len(classes):
        raise DataError(
            f"{path}: record {int(labels.argmax())} is of class {labels.max()}; there are {len(classes)}, from 0"
        )
    called = own_names(path.parent, classes)
    references = [file.reference(number) for number in range(len(labels))]
    return ClassificationSet(
        name,
        tuple(called.get(entry, entry.replace("_", " ")) for entry in classes),
        own_templates(path.parent, _CIFAR_TEMPLATES),
        tuple(
            ClassifiedImage(reference, reference, label)
            for reference, label in zip(references, labels.tolist(), strict=True)
        ),
    )


def _declare_benchmark(name: str, title: str, names: str, file: str, folder: str) -> Benchmark:
    classes = tuple(names.split())
    label_bytes = 1 if len(classes) == 10 else 2
    trees = "|".join(f"{split}{classes[0]}/*{suffix}" for split in ("test/", "") for suffix in (".png", ".jpg"))
    pattern = f"{file}|{folder}/{file}|{trees}"

    def load(place: Locations) -> ClassificationSet:
        path = first_file(place, name, pattern)
        if path.suffix == ".bin":
            return read_cifar(path, name, classes, label_bytes)
        return read_class_folders(path.parent.parent, name, {}, _CIFAR_TEMPLATES)

    def pictures(place: Locations) -> Callable[[str], bytes]:
        path = first_file(place, name, pattern)
        if path.suffix == ".bin":
            return CifarFile(path, label_bytes)
        return FolderImages(path.parent.parent, outside=place.outside)

    return Benchmark(
        name=name,
        title=title,
        items=10_000,
        task="classification",
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
        citation="Krizhevsky, Learning multiple layers of features from tiny images, 2009",
        files=(pattern,),
        images="in the file of the binary version (pickles are not read), or in a folder a class",
        cluster="the image",
        load=load,
        pictures=pictures,
    )


CIFAR10 = _declare_benchmark(
    "cifar10", "CIFAR-10's test photos, 10 classes", _TEN, "test_batch.bin", "cifar-10-batches-bin"
)
CIFAR100 = _declare_benchmark(
    "cifar100", "CIFAR-100's test photos, 100 classes", _HUNDRED, "test.bin", "cifar-100-binary"
)
