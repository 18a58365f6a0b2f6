"""Classification by name, if the user has the files: Caltech-101, Food-101, ImageNet; and one that is embedded.

The classes of the embedded one are the things in the pictures of the demo's counting pairs: several things of one
kind, alone on a platform. Both pictures of a pair are of one class and are resampled together.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.demo import DEMO
from tellapart.benchmarks.locations import FolderImages, Locations, first_file
from tellapart.data.images import IMAGE_SUFFIXES
from tellapart.data.scores import join_names
from tellapart.data.strict_json import decode_text, read_whole
from tellapart.data.task_records import ClassificationSet, ClassifiedImage, check_templates
from tellapart.errors import DataError, quote

# Folders of classes: a folder for each class and its images below it, as torchvision's `ImageFolder` reads them.
#
# Two files next to them may add to the folders' names. `classes.txt`: a line a class, the folder's name, a tab
# (after a name without spaces, a space will do), and how the class is called. `templates.txt`: a line a prompt, with
# `{}` for the class.

CLASSES = "classes:"
_TEMPLATES = ("a photo of a {}.",)


def read_class_folders(root: Path, name: str, names: Mapping[str, str], templates: Sequence[str]) -> ClassificationSet:
    """Read which images lie in which class's folder, however deep below it; no image is opened."""
    folders = sorted(path for path in root.glob("*/") if path.is_dir() and not path.name.startswith("."))
    folders = [path for path in folders if names.get(path.name, path.name)]  # "" means a folder that is not a class
    if len(folders) < 2:
        raise DataError(f"{root} holds {len(folders)} folders; two or more are needed, one a class")
    images = {
        path.name: [
            file.relative_to(root).as_posix()
            for file in sorted(path.rglob("*"))
            if file.suffix.lower() in IMAGE_SUFFIXES and file.is_file()
        ]
        for path in folders
    }
    if empty := [folder for folder, inside in images.items() if not inside]:
        raise DataError(f"{root}: no image ({', '.join(sorted(IMAGE_SUFFIXES))}) in {join_names(empty)}")
    return ClassificationSet(
        name,
        _class_names(root, [*images], names),
        own_templates(root, templates),
        tuple(ClassifiedImage(image, image, label) for label, inside in enumerate(images.values()) for image in inside),
    )


def _class_names(folder: Path, keys: Sequence[str], names: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
    """Return what classes are called: by `classes.txt`, else by the given names, else by their folders."""
    called = {**names, **own_names(folder, keys)}
    return tuple(called.get(key, key.replace("_", " ")) for key in keys)


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
    root = Path(name.removeprefix(CLASSES)).expanduser()
    name = f"{CLASSES}{root.resolve().name}"
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
    names = [file.reference(number) for number in range(len(labels))]
    return ClassificationSet(
        name,
        _class_names(path.parent, classes),
        own_templates(path.parent, _CIFAR_TEMPLATES),
        tuple(ClassifiedImage(image, image, label) for image, label in zip(names, labels.tolist(), strict=True)),
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


_PHOTO = ("a photo of a {}.", "a close-up photo of a {}.", "a picture of the {}.")
_FOOD = ("a photo of {}.", "a plate of {}.", "{}, a dish that is served in a restaurant.")
_SCENE = ("a photo of a {}.", "a rendering of a {}.", "a scene with a {} on the platform.")

#: Folders whose name is not a singular noun, or is shared; "" is not a class (photos of anything).
_CALTECH_NAMES = {
    "BACKGROUND_Google": "",
    "Faces": "face in front of a background",
    "Faces_easy": "face",
    "Leopards": "leopard",
    "Motorbikes": "motorbike",
    "airplanes": "airplane",
    "car_side": "car from the side",
    "garfield": "Garfield",
    "snoopy": "Snoopy",
    "yin_yang": "yin and yang symbol",
}

#: CLIP's list calls two pairs of classes by one name each; WordNet distinguishes them.
_IMAGENET_NAMES = {"n04008634": "projectile", "n04355933": "burning glass"}


def _of_tree(name: str, pattern: str, read: Callable[[Path], ClassificationSet], **facts: Any) -> Benchmark:
    """Return a benchmark of a folder, two levels above the first file of a pattern."""

    def tree(place: Locations) -> Path:
        return first_file(place, name, pattern).parent.parent

    return Benchmark(
        name=name,
        task="classification",
        files=(pattern,),
        cluster="the image",
        load=lambda place: read(tree(place)),
        pictures=lambda place: FolderImages(tree(place), outside=place.outside),
        **facts,
    )


def read_food101(folder: Path) -> ClassificationSet:
    """Read the test part of Food-101: `meta/test.txt`, a line an image (`apple_pie/1011328`)."""
    path = folder / "meta" / "test.txt"
    lines = decode_text(read_whole(path), path).split()
    if wrong := next((line for line in lines if len(line.split("/")) != 2), None):
        raise DataError(f"{path}: expected lines such as apple_pie/1011328; got {quote(wrong)}")
    folders = sorted({line.split("/")[0] for line in lines})
    return ClassificationSet(
        "food101",
        _class_names(folder, folders),
        own_templates(folder, _FOOD),
        tuple(ClassifiedImage(line, f"images/{line}.jpg", folders.index(line.split("/")[0])) for line in lines),
    )


def _read_imagenet(tree: Path) -> ClassificationSet:
    folders = sorted(path.name for path in tree.glob("n*/"))
    return read_class_folders(tree, "imagenet", _imagenet_names(tree, folders), _PHOTO)


def _imagenet_names(tree: Path, folders: list[str]) -> dict[str, str]:
    """Return names from `classes.txt`, the competition's list, or CLIP's, which open_clip has in the same order."""
    if (tree / "classes.txt").is_file():
        return {}  # read with the folders
    for home in (tree, tree.parent):
        if synset_names := own_names(home, folders, "LOC_synset_mapping.txt"):
            first = {folder: called.partition(",")[0].strip() for folder, called in synset_names.items()}
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
    return dict(zip(folders, names, strict=True)) | _IMAGENET_NAMES


def read_demo_objects() -> ClassificationSet:
    """Read the pictures of the demo's counting pairs, and the kind of thing in each."""
    items = [item for item in DEMO.records().items if item.tags["aspect"] == "counting"]
    kinds = {item.id: str(_name_things(item.provenance["things"])) for item in items}
    classes = sorted(set(kinds.values()))
    return ClassificationSet(
        "demo-objects",
        tuple(classes),
        _SCENE,
        tuple(
            ClassifiedImage(image, image, classes.index(kinds[item.id]), item.cluster)
            for item in items
            for image in item.images
        ),
    )


def _name_things(things: object) -> object:
    """Return the kind of the first thing in the first picture; all of a counting pair's are of one kind."""
    match things:
        case [[[str() as kind, *_], *_], *_]:
            return kind
    raise DataError(f"demo: expected the things of each picture; got {quote(things)}")


CALTECH101 = _of_tree(
    "caltech101",
    "|".join(f"{folder}accordion/*.jpg" for folder in ("101_ObjectCategories/", "")),
    lambda tree: read_class_folders(tree, "caltech101", _CALTECH_NAMES, _PHOTO),
    title="Caltech-101's photos, 101 classes (all of them; without the background class)",
    items=8_677,
    source="https://data.caltech.edu/records/mzrjq-6wc02",
    licence="CC BY 4.0",
    citation="Fei-Fei, Fergus, Perona, Learning generative visual models from few training examples, 2004",
    images="in a folder a class",
)

FOOD101 = _of_tree(
    "food101",
    "meta/test.txt|food-101/meta/test.txt",
    read_food101,
    title="Food-101's test photos, 101 dishes",
    items=25_250,
    source="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
    licence="the photographers'; research only",
    citation="Bossard, Guillaumin, Van Gool, Food-101: mining discriminative components with random forests, ECCV 2014",
    images="in `images/` beside `meta/`",
)

IMAGENET = _of_tree(
    "imagenet",
    "|".join(f"{folder}n01440764/*.JPEG" for folder in ("val/", "")),
    _read_imagenet,
    title="ImageNet's validation photos, 1,000 classes",
    items=50_000,
    source="https://image-net.org",
    licence="the photographers'; non-commercial research",
    citation="Russakovsky et al., ImageNet large scale visual recognition challenge, IJCV 2015",
    images="the validation photos, sorted into a folder a class",
)

DEMO_OBJECTS = Benchmark(
    name="demo-objects",
    title="Rendered pictures of several things of one kind, 23 kinds",
    items=200,
    task="classification",
    source="embedded; the demo's counting pairs",
    licence=DEMO.licence,
    citation=DEMO.citation,
    cluster="the pair of the demo that a picture is of",
    load=lambda _place: read_demo_objects(),
    pictures=lambda _place: DEMO.records().read_bytes,
)
