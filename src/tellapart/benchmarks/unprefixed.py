"""Paths that were named without the prefix that says what they hold, and what to write instead."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tellapart.data.folder import LISTINGS
from tellapart.data.images import IMAGE_SUFFIXES
from tellapart.data.rows import read_jsonl
from tellapart.errors import DataError

__all__ = ["explain_path"]


def explain_path(name: str) -> str | None:
    """Say what lies at a path and how it is named as a benchmark; None where nothing does."""
    path = Path(name).expanduser()
    if name and path.is_dir():
        return _folder(path, name)
    return _file(path, name) if path.is_file() else None


def _folder(path: Path, name: str) -> str:
    if any((path / listing).is_file() for listing in LISTINGS):
        return f"{name} is a folder of pairs; write folder:{name}"
    inside = sorted({file.parent for listing in LISTINGS for file in path.glob(f"*/{listing}")})
    if inside:
        return f"{name} holds folders of pairs; write {' or '.join(f'folder:{each}' for each in inside[:4])}"
    if sum(_has_image(each) for each in path.glob("*/")) > 1:
        return f"{name} holds folders of images, as of classes; write classes:{name}"
    return (
        f"{name} is a folder, and no benchmark; write folder:PATH of a folder with {' or '.join(LISTINGS)}, "
        "classes:PATH of one with a folder of images for each class, or a listed benchmark (`tellapart ls benchmarks`) "
        f"and where its files are: --data {name}"
    )


def _has_image(folder: Path) -> bool:
    return folder.is_dir() and any(each.suffix.lower() in IMAGE_SUFFIXES for each in folder.iterdir())


def _file(path: Path, name: str) -> str:
    if path.name in LISTINGS:
        return f"{name} lists the pairs of a folder; write folder:{path.parent}"
    with suppress(DataError):
        if path.suffix == ".jsonl" and "candidates" in next(iter(read_jsonl(path)), (0, {}))[1]:
            return f"{name} holds rankings by people; write ranking:{name}"
    return (
        f"{name} is a file, and no benchmark; write folder:PATH of a folder of pairs, ranking:FILE.jsonl, or a listed "
        "benchmark (`tellapart ls benchmarks`); scores of one are measured by: tellapart score BENCHMARK --scores FILE"
    )
