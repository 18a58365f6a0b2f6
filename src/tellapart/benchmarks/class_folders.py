"""Folders of classes: a folder for each class and its images below it, as torchvision's `ImageFolder` reads them.

Two files next to them may add to the folders' names. `classes.txt`: a line a class, the folder's name, a tab
(after a name without spaces, a space will do), and how the class is called. `templates.txt`: a line a prompt, with `{}`
for the class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.image_sources import FolderImages
from tellapart.benchmarks.locations import Locations
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
