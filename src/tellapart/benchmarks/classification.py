"""Classification by name, if the user has the files: Caltech-101, Food-101, ImageNet; and one that is embedded.

The classes of the embedded one are the things in the pictures of the demo's counting pairs: several things of one
kind, alone on a platform. Both pictures of a pair are of one class and are resampled together.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.class_folders import own_names, own_templates, read_class_folders
from tellapart.benchmarks.demo import DEMO
from tellapart.benchmarks.locations import FolderImages, Locations, first_file
from tellapart.data.strict_json import decode_text, read_whole
from tellapart.data.task_records import ClassificationSet, ClassifiedImage
from tellapart.errors import DataError, quote
from tellapart.models.openclip.library import import_open_clip

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


_CALTECH = "|".join(f"{folder}accordion/*.jpg" for folder in ("101_ObjectCategories/", ""))
_IMAGENET = "|".join(f"{folder}n01440764/*.JPEG" for folder in ("val/", ""))
_FOOD101 = "meta/test.txt|food-101/meta/test.txt"


def _find_tree(place: Locations, name: str, pattern: str) -> Path:
    """Return the folder of the classes' folders, two levels above the first file of the pattern."""
    return first_file(place, name, pattern).parent.parent


def _open_images(name: str, pattern: str) -> Callable[[Locations], FolderImages]:
    return lambda place: FolderImages(_find_tree(place, name, pattern), outside=place.outside)


def read_food101(folder: Path) -> ClassificationSet:
    """Read the test part of Food-101: `meta/test.txt`, a line an image (`apple_pie/1011328`)."""
    path = folder / "meta" / "test.txt"
    lines = decode_text(read_whole(path), path).split()
    if wrong := next((line for line in lines if len(line.split("/")) != 2), None):
        raise DataError(f"{path}: expected lines such as apple_pie/1011328; got {quote(wrong)}")
    folders = sorted({line.split("/")[0] for line in lines})
    called = own_names(folder, folders)
    return ClassificationSet(
        "food101",
        tuple(called.get(one, one.replace("_", " ")) for one in folders),
        own_templates(folder, _FOOD),
        tuple(ClassifiedImage(line, f"images/{line}.jpg", folders.index(line.split("/")[0])) for line in lines),
    )


def _read_imagenet(place: Locations) -> ClassificationSet:
    tree = _find_tree(place, "imagenet", _IMAGENET)
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


CALTECH101 = Benchmark(
    name="caltech101",
    title="Caltech-101's photos, 101 classes (all of them; without the background class)",
    items=8_677,
    task="classification",
    source="https://data.caltech.edu/records/mzrjq-6wc02",
    licence="CC BY 4.0",
    citation="Fei-Fei, Fergus, Perona, Learning generative visual models from few training examples, 2004",
    files=(_CALTECH,),
    images="in a folder a class",
    cluster="the image",
    load=lambda place: read_class_folders(
        _find_tree(place, "caltech101", _CALTECH), "caltech101", _CALTECH_NAMES, _PHOTO
    ),
    pictures=_open_images("caltech101", _CALTECH),
)

FOOD101 = Benchmark(
    name="food101",
    title="Food-101's test photos, 101 dishes",
    items=25_250,
    task="classification",
    source="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
    licence="the photographers'; research only",
    citation="Bossard, Guillaumin, Van Gool, Food-101: mining discriminative components with random forests, ECCV 2014",
    files=(_FOOD101,),
    images="in `images/` beside `meta/`",
    cluster="the image",
    load=lambda place: read_food101(_find_tree(place, "food101", _FOOD101)),
    pictures=_open_images("food101", _FOOD101),
)
IMAGENET = Benchmark(
    name="imagenet",
    title="ImageNet's validation photos, 1,000 classes",
    items=50_000,
    task="classification",
    source="https://image-net.org",
    licence="the photographers'; non-commercial research",
    citation="Russakovsky et al., ImageNet large scale visual recognition challenge, IJCV 2015",
    files=(_IMAGENET,),
    images="the validation photos, sorted into a folder a class",
    cluster="the image",
    load=_read_imagenet,
    pictures=_open_images("imagenet", _IMAGENET),
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
