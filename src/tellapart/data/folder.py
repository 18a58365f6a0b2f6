"""Pair sets on disk: `pairs.jsonl` with `images/` and `card.json`, or a Hugging Face `imagefolder`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

from tellapart.data.arguments import as_path, suggest_beside
from tellapart.data.atomic import atomic_folder
from tellapart.data.columns import describe_columns, expect_places, fields_of
from tellapart.data.images import check_reference, file_format, find_inside
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_lines, read_object
from tellapart.data.scores import join_names
from tellapart.data.validation import validate
from tellapart.data.video import DEFAULT_FRAMES
from tellapart.errors import DataError, quote

__all__ = ["LISTINGS", "make_item", "read_card", "read_pair_set", "write_pair_set"]

#: The files that list a folder's pairs; the first that is there is read.
LISTINGS = ("pairs.jsonl", "metadata.jsonl", "metadata.csv")
_KNOWN = f"a pair set is a folder with {LISTINGS[0]}, {LISTINGS[1]} or {LISTINGS[2]}"

#: Lines with a fault after which no more are read.
_FAULTS = 20


def read_pair_set(folder: Path | str, name: str | None = None, find: Callable[[str], Path] | None = None) -> PairSet:
    """Read a pair set's folder; every image must be there, none is decoded yet.

    `pairs.jsonl` is tellapart's format: one object a line with the fields of `Item`, images relative to the folder.
    Else `metadata.jsonl` or `metadata.csv` is read, a Hugging Face `imagefolder`; see `columns.fields_of`.

    Args:
        folder: the folder.
        name: the name of the set in results; the folder's name otherwise.
        find: takes an image's reference to its file, if that may lie elsewhere.

    Raises:
        DataError: the folder or a file is missing, or a line is malformed; the message names the
            file, the line and the field.

    >>> pairs = read_pair_set(Path("examples/eqsim_ablation/smoke_scenes"))
    >>> len(pairs), pairs.shape, pairs.card["licence"]
    (36, (2, 2), 'Apache-2.0')
    """
    folder = as_path(folder, "folder", DataError)
    if not folder.is_dir():
        raise DataError(f"no folder {str(folder)!r}; {_KNOWN}{_explain_lack(folder)}")
    listing = next((folder / file for file in LISTINGS if (folder / file).is_file()), None)
    if listing is None:
        raise DataError(f"{folder} holds none of the files that list pairs; {_KNOWN}{_name_splits(folder)}")
    find_file = find or partial(find_inside, folder, folders={})
    # Each image is looked for once, however many items show it: to resolve a path takes longer than to read an item.
    find_image = cache(lambda reference: bool(find_file(reference)))
    is_native = listing.name == LISTINGS[0]
    items: list[Item] = []
    lines: dict[str, str] = {}
    examples: dict[bool, dict[str, Any]] = {}  # the first row with places in `true`, and the first without
    faults: list[tuple[int, DataError]] = []
    for number, (line, row) in enumerate(read_lines(listing), start=1):
        place = f"{listing}:{line}"
        try:
            fields, sources = (row, {}) if is_native else fields_of(find_image, row)
            item = make_item(find_image, fields if is_native else {"id": f"row-{number}", **fields}, sources)
        except DataError as error:
            faults.append((line, error))
            if len(faults) == _FAULTS:
                break
            continue
        if item.id in lines:
            fault = f"field 'id': {quote(item.id, 200)} is in {lines[item.id]} already"
            raise DataError(f"{place}: {fault}", path=place, field="id")
        items.append(item)
        lines[item.id] = place
        examples.setdefault(bool(item.true), row)
    if faults:
        raise _join_faults(listing, faults)
    if not items:
        raise DataError(f"{listing} lists no pairs")
    if not is_native:
        expect_places(items, listing)
    card, frames = read_card(folder)
    read_as = "" if is_native else describe_columns(examples.get(True) or examples[False], items[0].shape)
    return PairSet(name or folder.resolve().name, tuple(items), folder, card, lines, frames=frames, read_as=read_as)


def _join_faults(listing: Path, faults: Sequence[tuple[int, DataError]]) -> DataError:
    """Return the error of the first line with a fault, with the other lines that have it, and with other faults."""
    lines: dict[str, list[str]] = {}
    for line, fault in faults:
        lines.setdefault(str(fault), []).append(str(line))
    (problem, (first_line, *equal_lines)), *others = lines.items()
    text = f"{listing}:{first_line}: {problem}"
    text += f" (lines {join_names(equal_lines, 5)}, too)" if equal_lines else ""
    if others:
        listed = [f"{numbers[0]}: {problem}" for problem, numbers in others]
        text += f"; and in other lines: {join_names(listed, _FAULTS)}"
    if len(faults) == _FAULTS:
        text += f"; lines after {faults[-1][0]} were not read"
    first_fault = faults[0][1]
    return DataError(text, path=f"{listing}:{first_line}", field=first_fault.field, got=first_fault.got)


def read_card(folder: Path) -> tuple[dict[str, Any], int]:
    """Return the set's card, empty if the folder has none, and how many frames its videos are read as."""
    path = folder / "card.json"
    card = read_object(path) if path.exists() else {}
    frames = card.get("frames", DEFAULT_FRAMES)
    if not isinstance(frames, int) or isinstance(frames, bool) or frames < 1:
        raise DataError(f"{path}: field 'frames': {quote(frames)} is not a number of frames; write 1 or more")
    return card, frames


def write_pair_set(
    folder: Path | str,
    items: Iterable[Item],
    images: Mapping[str, bytes],
    card: Mapping[str, Any],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a pair set's folder atomically: it gets its name after it is written completely and read back.

    Args:
        folder: must not exist yet, or be empty.
        items: of one shape, with distinct ids.
        images: reference (as in the items, such as `images/a_0.png`) -> the file's bytes; exactly those of the items,
            and of the masks in their provenance. Each is looked up when its file is written; before that, too, if it
            has no suffix, which its format then gives it.
        card: title, licence, recipe and the like.
        progress: called with how many images are written, and of how many.

    Raises:
        DataError: the folder holds something already, the items and images make no valid pair set, or it cannot be
            written.

    >>> from tempfile import TemporaryDirectory
    >>> clocks = read_pair_set(Path("examples/eqsim_ablation/smoke_scenes")).select([0])
    >>> with TemporaryDirectory() as folder:
    ...     images = {image: clocks.read_bytes(image) for image in clocks.items[0].images}
    ...     write_pair_set(Path(folder, "one"), clocks.items, images, {"licence": "Apache-2.0"})
    ...     sorted(path.name for path in Path(folder, "one").iterdir())
    ['card.json', 'images', 'pairs.jsonl']
    """
    folder = as_path(folder, "folder", DataError)
    # Pictures in a table's cells have no file names, and so no suffix.
    names = {name: f"{name}.{file_format(images[name]).lower()}" for name in images if not PurePosixPath(name).suffix}
    names = {name: new for name, new in names.items() if new not in images and not new.endswith(".other")}
    sources = {names.get(name, name): name for name in images}
    if names:
        items = (i.model_copy(update={"images": tuple(names.get(name, name) for name in i.images)}) for i in items)
    pairs = PairSet(folder.name, tuple(items), folder)
    _check_images(pairs.items, sources)
    # `true` is written where it adds to the item's shape.
    fields = [(item.id, item.model_dump(exclude=None if item.true else {"true"})) for item in pairs.items]
    rows = [_json_bytes(row, f"item {quote(id_, 200)}") for id_, row in fields]
    listing, about = b"".join(rows), _json_bytes(dict(card), "the card", indent=1)
    with atomic_folder(folder) as draft:
        for done, (reference, source) in enumerate(sources.items()):
            if progress is not None:
                progress(done, len(images))
            (draft / reference).parent.mkdir(parents=True, exist_ok=True)
            (draft / reference).write_bytes(images[source])
        (draft / "pairs.jsonl").write_bytes(listing)
        (draft / "card.json").write_bytes(about)
        read_pair_set(draft)
    if progress is not None:
        progress(len(images), len(images))


def make_item(find: Callable[[str], object], row: Mapping[str, Any], sources: Mapping[str, str]) -> Item:
    """Make an item of fields, and check that its images exist; `sources` names the columns of the fields."""
    item = validate(Item, row, "", sources)
    for k, reference in enumerate(item.images):
        field = f"images[{k}]"
        try:
            find(reference)
        except DataError as error:
            column = sources.get(field, field)
            raise DataError(f"field {column!r}: {error}", field=column) from error
    return item


def _explain_lack(path: Path) -> str:
    plain = Path(str(path).removeprefix("folder:"))
    if plain != path and plain.is_dir():
        return f"; write {plain} alone"
    if plain.is_file() and plain.name in LISTINGS:
        return f"; {plain} is a file: name its folder, {plain.parent}"
    if plain.is_file():
        return (
            f"; {plain} is a file: ta.write_pair_set makes a folder of it (docs/my_pairs.md), and commands with -b "
            f"take {'' if plain.suffix == '.toml' else 'table:'}{plain}"
        )
    return suggest_beside(plain)


def _name_splits(folder: Path) -> str:
    """Name the folders inside that are pair sets, most often a dataset's splits, or the list of a board's task."""
    if (folder / "items.jsonl").is_file():
        return "; of a hidden benchmark's task, rename items.jsonl to pairs.jsonl"
    parts = sorted({file.parent.name for name in LISTINGS for file in folder.glob(f"*/{name}")})
    return f"; these inside it are: {', '.join(parts[:10])}" if parts else ""


def _check_images(items: Iterable[Item], images: Mapping[str, str]) -> None:
    for reference in images:
        check_reference(reference)
        if normpath(reference) != reference:
            raise DataError(f"image {quote(reference, 200)}: write the path as {quote(normpath(reference), 200)}")
    used: set[str] = set()
    for item in items:
        named = [("the mask", reference) for reference in item.masks]
        named += [(f"field 'images[{k}]':", reference) for k, reference in enumerate(item.images)]
        for what, reference in named:
            if reference not in images:
                place = f"item {quote(item.id, 200)}: {what} {quote(reference, 200)}"
                raise DataError(f"{place}: no bytes are given for it")
            used.add(reference)
    if unused := [reference for reference in images if reference not in used]:
        raise DataError(f"{len(unused)} images belong to no item: {', '.join(unused[:5])}")


def _json_bytes(value: dict[str, Any], what: str, indent: int | None = None) -> bytes:
    try:
        return (json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent) + "\n").encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{what} cannot be written as JSON in UTF-8 ({error})") from error
