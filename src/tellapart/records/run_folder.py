"""The run folder: `results.json`, `samples/<benchmark>.jsonl`, `report.html`, each written atomically."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

from pydantic import ValidationError

from tellapart.catalog import REFERENCES
from tellapart.data.arguments import as_path, suggest_beside
from tellapart.data.atomic import atomic_file
from tellapart.data.strict_json import read_json
from tellapart.data.validation import first_problem
from tellapart.errors import RunError, quote
from tellapart.records.result import SCHEMA, Located, Record, Result

RESULTS, SAMPLES = "results.json", "samples"

#: In a run folder: the folder of further models measured in the same run, which holds a run folder for each; the file
#: that marks models as checkpoints of one training, and names their folder or pattern.
BESIDE, FOLLOWED = "beside", "followed.json"

R = TypeVar("R", bound=Record)

#: The last entry of a record, a checksum of the rest; a person who edits a record on purpose deletes it.
_CHECKSUM = "sha256"

Checksum = Literal["right", "wrong", "missing"]

#: The message of a line or file that does not fit the schema.
UNREADABLE = "is not a record this version reads"


def file_name(name: str) -> str:
    """Turn the name of a model or benchmark into a valid file name on every system; different names stay different.

    They differ in more than case, none is a device of Windows (`con`), and none is long.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")
    device = re.match(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", plain[-60:], re.IGNORECASE)
    if plain == name.lower() == name and len(name) <= 100 and not device:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{'_' if device else ''}{plain[-60:]}-{digest[:8]}"


def beside(folder: Path, model: str) -> Path:
    """Return the run folder of a further model, inside the run folder of the first."""
    return folder / BESIDE / file_name(model)


def locate(path: Path, folder: Path, *, hashed: bool = False) -> Located:
    """Record the path of a file or folder, both absolute and relative to a run folder; `hashed` adds its SHA-256."""
    path = path.expanduser().resolve()
    digest = hashlib.sha256()
    if hashed:
        for file in sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    try:
        relative = Path(os.path.relpath(path, folder.resolve())).as_posix()
    except ValueError:  # on another drive
        relative = ""
    return Located(path=str(path), relative=relative, sha256=digest.hexdigest() if hashed else "")


def find_located(located: Located, folder: Path) -> Path | None:
    """Return the path at which a recorded file or folder exists, absolute or relative; None if at neither."""
    return next((path for path in places_of(located, folder) if path.exists()), None)


def places_of(located: Located, folder: Path) -> list[Path]:
    """Return the paths at which a file or folder may be: the recorded one, and the one relative to the run folder."""
    paths = [Path(located.path), *([folder.resolve() / located.relative] if located.relative else [])]
    # Without `..`: `exists` fails if a folder that the path leaves by `..` is gone.
    return list(dict.fromkeys(Path(os.path.normpath(path)) for path in paths))


def write_text_file(path: Path, text: str, *, synced: bool = True) -> None:
    """Write a text file as `atomic_file` does."""
    write_blocks(path, [text.encode()], synced=synced)


def write_blocks(path: Path, blocks: Iterable[bytes], *, synced: bool = True) -> None:
    """Write a file as `atomic_file` does, block after block, so that an iterator may make each when it is written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path, synced=synced) as draft, draft.open("wb") as file:
            file.writelines(blocks)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error


def write_result(folder: Path, result: Result) -> None:
    """Write `results.json`, with a checksum of its content as the last entry."""
    write_record(folder / RESULTS, result)


def write_record(path: Path, record: Record) -> None:
    """Write a file that holds one record, with a checksum of its content as the last entry."""
    text = record.model_dump_json(by_alias=True, indent=1)
    last = f'"{_CHECKSUM}": "{_content_checksum(json.loads(text))}"'
    write_text_file(path, text.removesuffix("\n}") + f",\n {last}\n}}\n")


class Stored(NamedTuple, Generic[R]):
    """A record as its file has it; a checksum that is `right` proves that it was written with these numbers."""

    result: R
    checksum: Checksum


def read_stored(folder: Path | str, *, checked: bool = True) -> Stored[Result]:
    """Read a run folder's record as its file has it; `tellapart.read_result` measures again if there is no checksum.

    A wrong checksum is an error if `checked`.
    """
    folder = as_path(folder, "folder")
    missing = f"{folder} has no {RESULTS}; name a run folder that `tellapart run --out` wrote"
    return read_record(folder / RESULTS, Result, missing=missing, checked=checked)


def read_record(
    path: Path, record: type[R], *, missing: str, refusal: str = UNREADABLE, checked: bool = True
) -> Stored[R]:
    """Read a file that holds one record; `missing` and `refusal` are the messages of the first and the last error."""
    if not path.exists():
        raise RunError(missing)
    content = read_json(path, error=RunError)
    checksum: Checksum = "missing"
    if isinstance(content, dict):
        # The schema first: a newer record may hold fields that this version would call a mistake.
        schema = content.get("schema")
        if isinstance(schema, int) and schema != SCHEMA:
            raise RunError(f"{path} has schema {quote(schema)}, this version reads {SCHEMA}; update tellapart")
        if _CHECKSUM in content:
            checksum = "right" if content.pop(_CHECKSUM) == _content_checksum(content) else "wrong"
    if checked and checksum == "wrong":
        raise RunError(
            f"{path} was changed after it was written: its checksum is not its content's; copy it again or measure "
            f"again. `tellapart verify {path.parent}` names the numbers that its samples do not give. If you changed "
            f"it on purpose, delete its last entry, {_CHECKSUM!r}: its numbers are then measured again from its samples"
        )
    try:
        return Stored(record.model_validate(content), checksum)
    except ValidationError as error:
        raise RunError(f"{path} {refusal}: {first_problem(error)}") from error


def _content_checksum(content: object) -> str:
    """Return the SHA-256 of a record's content; white space and the order of keys do not change it."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def find_runs(folder: Path) -> list[Path]:
    """List the runs to show for a folder: a run and its further models, else the runs directly inside, by name."""
    if (folder / RESULTS).is_file():
        # Models of other names first, then the reference models in their order.
        rank = {name: place for place, name in enumerate(REFERENCES)}
        models = (path.parent for path in folder.glob(f"{BESIDE}/*/{RESULTS}"))
        return [folder, *sorted(models, key=lambda model: (rank.get(model.name, -1), natural_key(model.name)))]
    inside = sorted(path.parent for path in folder.glob(f"*/{RESULTS}"))
    if not inside:
        fault, hint = f"no run in {folder}", ""
        if not folder.exists():
            usual = (place / folder.name for place in (Path("runs"), folder.parent / BESIDE))
            run = next((path for path in usual if (path / RESULTS).is_file()), None)
            hint = suggest_beside(folder) if run is None else f"; did you mean {run.as_posix()!r}?"
            fault = f"{folder} is not there"
        elif (folder / SAMPLES).is_dir():
            fault = f"{folder} holds {SAMPLES}/ and no {RESULTS}: the run was cut off, or the folder was copied in part"
        raise RunError(f"{fault}; name a run folder that `tellapart run --out` wrote, or a zip archive of it{hint}")
    return inside


def natural_key(name: str) -> tuple[object, ...]:
    """Return a key that sorts names by the numbers in them, as people count: `epoch_9` comes before `epoch_10`."""
    texts = re.split(r"([0-9]+)", name)  # text, digits, text, digits, ..., text
    return *(int(text) if place % 2 else text for place, text in enumerate(texts)), name
