"""Zero-shot classification: CIFAR, Caltech-101, Food-101, ImageNet or any folders of classes, and the demo's objects.

The demo's set needs no files. Its pictures are those of the counting pairs, which show several objects of one kind;
the kind is the class. Both pictures of a pair are of one class and are resampled together.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.benchmark import Benchmark, own_benchmark
from tellapart.benchmarks.locations import FolderImages, Locations, first_file
from tellapart.catalog import load
from tellapart.data.images import IMAGE_SUFFIXES
from tellapart.data.scores import join_names
from tellapart.data.strict_json import decode_text, read_whole
from tellapart.data.task_records import ClassificationSet, Record, check_templates
from tellapart.errors import DataError, quote

# Folders of classes: a folder for each class and its images below it, as torchvision's `ImageFolder` reads them.
#
# Two files next to them may add to the folders' names. `classes.txt`: a line a class, the folder's name, a tab
# (after a name without spaces, a space will do), and the class's name. `templates.txt`: a line a prompt, with
# `{}` for the class's name.

CLASSES = "classes:"
_TEMPLATES = ("a photo of a {}.",)

#: Suffixes of pictures that are not read: without them a class would have fewer images, and another accuracy.
_UNREAD = frozenset(
    (".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jp2", ".jfif", ".avif", ".heic", ".heif", ".jpe")
)


def read_class_folders(root: Path, name: str, names: Mapping[str, str], templates: Sequence[str]) -> ClassificationSet:
    """Read which images lie in which class's folder, however deep below it; no image is opened."""
    folders = sorted(path for path in root.glob("*/") if path.is_dir() and not path.name.startswith("."))
    folders = [path for path in folders if names.get(path.name, path.name)]  # "" means a folder that is not a class
    if len(folders) < 2:
        raise DataError(f"{root} holds {len(folders)} folders; two or more are needed, one a class")
    files = {path.name: [file for file in sorted(path.rglob("*")) if file.is_file()] for path in folders}
    if unread := [file for inside in files.values() for file in inside if file.suffix.lower() in _UNREAD]:
        raise DataError(
            f"{root} holds pictures of a format that is not read, {len(unread):,} of them, the first {unread[0].name}: "
            "save them as PNG, JPEG or WebP, or take them out of the folder"
        )
    images = {
        folder: [file.relative_to(root).as_posix() for file in inside if file.suffix.lower() in IMAGE_SUFFIXES]
        for folder, inside in files.items()
    }
    if empty := [folder for folder, inside in images.items() if not inside]:
        raise DataError(f"{root}: no image ({', '.join(sorted(IMAGE_SUFFIXES))}) in {join_names(empty)}")
    return ClassificationSet(
        name,
        tuple(Record(image, (image,), (), label) for label, inside in enumerate(images.values()) for image in inside),
        _class_names(root, [*images], names),
        _read_templates(root, templates),
    )


def _class_names(folder: Path, keys: Sequence[str], names: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
    """Return the classes' names: those of `classes.txt`, else of `names`, else of their folders."""
    names = {**names, **_read_names(folder, keys)}
    return tuple(names.get(key, key.replace("_", " ")) for key in keys)


def _read_names(folder: Path, keys: Sequence[str], file: str = "classes.txt") -> dict[str, str]:
    """Return the name of every class, by its key, as a file has them; empty without that file."""
    path = folder / file
    names: dict[str, str] = {}
    for number, line in _read_lines(path):
        key, _, name = line.partition("\t" if "\t" in line else " ")
        if not name.strip():
            raise DataError(f"{path}:{number}: expected a folder's name, a tab and the class's name; got {quote(line)}")
        if key in names or key not in keys:
            raise DataError(f"{path}:{number}: {key!r} {'is repeated' if key in names else 'is not a class here'}")
        names[key] = name.strip()
    if names and (missing := [key for key in keys if key not in names]):
        raise DataError(f"{path} leaves out {len(missing)} of {len(keys)} classes: {join_names(missing)}")
    return names


def _read_templates(folder: Path, templates: Sequence[str]) -> tuple[str, ...]:
    """Return the prompts of `templates.txt`; without that file, `templates`."""
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
    root = Path(name.removeprefix(CLASSES)).expanduser()
    name = f"{CLASSES}{root.resolve().name}"
    records = read_class_folders(root, name, {}, _TEMPLATES)
    return own_benchmark(
        name,
        root,
        records,
        task="classification",
        title=f"folders of classes: {root.resolve().name}",
        cluster="the image",
        pictures=lambda place: FolderImages(root, outside=place.outside),
        place=Locations(images=root, outside=place is not None and place.outside),
    )


# CIFAR-10 and CIFAR-100

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE


class CifarFile:
    """Pictures of one binary file, read as PNG files: `test_batch.bin#17` is the eighteenth."""

    def __init__(self, path: Path, label_bytes: int = 1) -> None:
        self.path = path
        self._labels = label_bytes

    @cached_property
    def _record_bytes(self) -> NDArray[np.uint8]:
        data = np.frombuffer(read_whole(self.path), np.uint8)
        size = self._labels + _PIXELS
        if not len(data) or len(data) % size:
            raise DataError(
                f"{self.path}: {len(data):,} bytes are not complete records of {size:,}; it is cut off, or not "
                "the binary version"
            )
        return data.reshape(-1, size)

    @property
    def labels(self) -> NDArray[np.uint8]:
        """The number of each picture's class, uint8 `(picture,)`."""
        return self._record_bytes[:, self._labels - 1]

    def __call__(self, reference: str) -> bytes:
        """Return a picture as a PNG file."""
        from PIL import Image

        file, _, number = reference.rpartition("#")
        if file != self.path.name or not number.isdecimal() or int(number) >= len(self._record_bytes):
            raise DataError(f"no image {reference!r} in {self.path}")
        planes = self._record_bytes[int(number), self._labels :].reshape(3, _SIDE, _SIDE)
        stream = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(planes.transpose(1, 2, 0))).save(stream, "PNG", compress_level=1)
        return stream.getvalue()


def load_cifar(place: Locations, benchmark: Benchmark, *, classes: str, templates: list[str]) -> ClassificationSet:
    """Load CIFAR from its binary file, or from folders of classes."""
    file, names = open_cifar(place, benchmark, classes=classes), classes.split()
    if not isinstance(file, CifarFile):
        return load_tree(place, benchmark, templates=templates)
    path, labels = file.path, file.labels
    if labels.max() >= len(names):
        raise DataError(
            f"{path}: record {int(labels.argmax())} is of class {labels.max()}; there are {len(names)}, from 0"
        )
    images = [f"{path.name}#{number}" for number in range(len(labels))]
    return ClassificationSet(
        benchmark.name,
        tuple(Record(image, (image,), (), label) for image, label in zip(images, labels.tolist(), strict=True)),
        _class_names(path.parent, names),
        _read_templates(path.parent, templates),
    )


def open_cifar(place: Locations, benchmark: Benchmark, *, classes: str, **_arguments: object) -> Callable[[str], bytes]:
    """Return the reader of CIFAR's pictures."""
    path = first_file(place, benchmark.name, benchmark.files[0])
    # A record of CIFAR-100 begins with the coarse class.
    return CifarFile(path, 1 + (len(classes.split()) > 10)) if path.suffix == ".bin" else open_tree(place, benchmark)


# Caltech-101, Food-101 and ImageNet


def _find_tree(place: Locations, benchmark: Benchmark) -> Path:
    """Return the folder two levels above the first file of the benchmark's pattern."""
    return first_file(place, benchmark.name, benchmark.files[0]).parent.parent


def load_tree(
    place: Locations, benchmark: Benchmark, *, templates: list[str], names: Mapping[str, str] = MappingProxyType({})
) -> ClassificationSet:
    """Load folders of classes."""
    return read_class_folders(_find_tree(place, benchmark), benchmark.name, names, templates)


def open_tree(place: Locations, benchmark: Benchmark, **_arguments: object) -> FolderImages:
    """Return the reader of images in folders of classes."""
    return FolderImages(_find_tree(place, benchmark), outside=place.outside)


def load_food101(place: Locations, benchmark: Benchmark, *, templates: list[str]) -> ClassificationSet:
    """Load the test part of Food-101: `meta/test.txt`, a line an image (`apple_pie/1011328`)."""
    folder = _find_tree(place, benchmark)
    path = folder / "meta" / "test.txt"
    lines = decode_text(read_whole(path), path).split()
    if wrong := next((line for line in lines if len(line.split("/")) != 2), None):
        raise DataError(f"{path}: expected lines such as apple_pie/1011328; got {quote(wrong)}")
    folders = sorted({line.split("/")[0] for line in lines})
    return ClassificationSet(
        benchmark.name,
        tuple(Record(line, (f"images/{line}.jpg",), (), folders.index(line.split("/")[0])) for line in lines),
        _class_names(folder, folders),
        _read_templates(folder, templates),
    )


def load_imagenet(
    place: Locations, benchmark: Benchmark, *, templates: list[str], names: Mapping[str, str]
) -> ClassificationSet:
    """Load ImageNet's validation photos; `names` replace some of CLIP's."""
    tree = _find_tree(place, benchmark)
    folders = sorted(path.name for path in tree.glob("n*/"))
    return load_tree(place, benchmark, templates=templates, names=_imagenet_names(tree, folders, names))


def _imagenet_names(tree: Path, folders: list[str], corrected: Mapping[str, str]) -> dict[str, str]:
    """Return names from `classes.txt`, the competition's list, or CLIP's, which open_clip has in the same order."""
    if (tree / "classes.txt").is_file():
        return {}  # read with the folders
    for home in (tree, tree.parent):
        if synset_names := _read_names(home, folders, "LOC_synset_mapping.txt"):
            first = {folder: synonyms.partition(",")[0].strip() for folder, synonyms in synset_names.items()}
            # Synonyms distinguish the classes that share their first name.
            shared = {name for name in first.values() if list(first.values()).count(name) > 1}
            return {folder: synset_names[folder] if name in shared else name for folder, name in first.items()}
    from tellapart.models.openclip.library import import_open_clip

    names: list[str] = import_open_clip().IMAGENET_CLASSNAMES
    if len(folders) != len(names):
        raise DataError(
            f"{tree} holds {len(folders)} of ImageNet's 1,000 folders; name them in classes.txt (a line a class: "
            "n01440764, a tab, tench)"
        )
    return {**dict(zip(folders, names, strict=True)), **corrected}


def load_demo_objects(_place: Locations, benchmark: Benchmark, *, templates: list[str]) -> ClassificationSet:
    """Load the pictures of the demo's counting pairs, and the kind of thing in each."""
    items = [item for item in load("benchmark", "demo").records().items if item.tags["aspect"] == "counting"]
    # All things of a counting pair are of one kind: that of the first thing in the first picture.
    kinds = {item.id: str(item.provenance["things"][0][0][0]) for item in items}
    classes = sorted(set(kinds.values()))
    return ClassificationSet(
        benchmark.name,
        tuple(
            Record(image, (image,), (), classes.index(kinds[item.id]), cluster=item.cluster)
            for item in items
            for image in item.images
        ),
        tuple(classes),
        tuple(templates),
    )


def open_demo_objects(_place: Locations, _benchmark: Benchmark, **_arguments: object) -> Callable[[str], bytes]:
    """Return the reader of the demo's pictures."""
    reader: Callable[[str], bytes] = load("benchmark", "demo").records().read_bytes
    return reader
