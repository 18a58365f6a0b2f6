"""Training rows in webdataset's shards, as img2dataset writes them: tar files of `KEY.jpg`, `KEY.txt` and `KEY.json`.

Nothing is unpacked: a picture's path is `shard-00000.tar/KEY.jpg`, and its bytes are read by their place in the shard.
Source: webdataset's format (github.com/webdataset/webdataset, README): the key ends at the first dot of a file's name.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from tellapart.data.images import leaves
from tellapart.data.strict_json import decode_text, parse_json, read_whole
from tellapart.errors import DataError

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_KEY = re.compile(r"(.*/)?[^./]*")
_END = 1024  # bytes of zeros
_PICTURES = ("jpg", "jpeg", "png", "webp")
#: Fields of rows that a sample's JSON may hold; others, such as img2dataset's `url`, are passed over.
_FIELDS = ("caption", "negative_captions", "positive_captions", "units", "cluster")


def expand_shards(path: Path) -> list[Path]:
    """Return the files that `{00000..00009}` in a path stands for.

    >>> [shard.name for shard in expand_shards(Path("shard-{009..010}.tar"))]
    ['shard-009.tar', 'shard-010.tar']
    """
    if (span := _RANGE.search(str(path))) is None:
        return [path]
    numbers = range(int(span[1]), int(span[2]) + 1)
    texts = [str(path).replace(span[0], str(number).zfill(len(span[1])), 1) for number in numbers]
    return [shard for text in texts for shard in expand_shards(Path(text))]


def shard_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield place and fields of the samples of shards, in order; a caption in `KEY.txt` counts before that in the
    JSON.
    """
    for shard in expand_shards(path):
        for key, names in groupby(_list_members(shard), key=lambda name: _KEY.match(name)[0]):  # type: ignore[index]
            members = {name.removeprefix(f"{key}.").lower(): name for name in names}
            fields: dict[str, Any] = {}
            if "json" in members:
                stated = parse_json(_read_text(shard / members["json"]), shard / members["json"])
                fields = {name: stated[name] for name in _FIELDS if isinstance(stated, dict) and name in stated}
            if "txt" in members:
                fields["caption"] = _read_text(shard / members["txt"]).strip()
            for picture in [members[suffix] for suffix in _PICTURES if suffix in members][:1]:
                fields["image"] = f"{shard.relative_to(path.parent)}/{picture}"
            yield f"{shard}: sample {key!r}", fields


def find_member(root: Path, reference: str) -> Path | None:
    """Return the path of a member of a shard in a folder, if a reference names one."""
    if ".tar/" not in reference or leaves(reference):
        return None
    path = root.resolve() / reference
    return path if _find_shard(path) else None


def read_image(path: Path) -> bytes:
    """Return the bytes of a training row's image: of a file, or of a member of a shard."""
    if (shard := _find_shard(path)) is None:
        return read_whole(path)
    name = path.relative_to(shard).as_posix()
    if name not in _list_members(shard):
        raise DataError(f"{shard}: has no member {name!r}")
    start, size = _list_members(shard)[name]
    with shard.open("rb") as file:
        file.seek(start)
        return file.read(size)


def _find_shard(path: Path) -> Path | None:
    return next((folder for folder in path.parents if folder.suffix == ".tar" and folder.is_file()), None)


def _read_text(path: Path) -> str:
    return decode_text(read_image(path), path)


def _list_members(shard: Path) -> Mapping[str, tuple[int, int]]:
    """Return the place and the size of each file in a shard, in order, as the shard is now."""
    state = shard.stat() if shard.is_file() else None  # what is no file is refused below
    return _read_members(shard, (state.st_mtime_ns, state.st_size) if state else (0, 0))


@cache
def _read_members(shard: Path, _state: tuple[int, int]) -> Mapping[str, tuple[int, int]]:
    members: dict[str, tuple[int, int]] = {}
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                if member.name in members or leaves(member.name):
                    raise DataError(f"{shard}: member {member.name!r} leaves its folder or is there twice")
                if member.isfile():
                    members[member.name] = member.offset_data, member.size
        with shard.open("rb") as file:
            file.seek(-_END, io.SEEK_END)  # tarfile takes a shard that is cut off for one that ends
            if any(file.read()):
                raise tarfile.ReadError("its end is missing")
    except (OSError, tarfile.TarError) as error:
        raise DataError(f"{shard}: is no complete, plain tar file ({error}); copy it again; unpack .tar.gz") from error
    return members
