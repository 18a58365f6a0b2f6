"""The mark of a model that was trained on the items it is measured on: a file that moves with its folder."""

from __future__ import annotations

import json
from pathlib import Path

from tellapart.data.rows import read_object
from tellapart.models.torch.checkpoint import split_part
from tellapart.records.run_folder import write_text_file

#: What follows the name of such a model in records, and so in tables, comparisons and pictures.
MARK, _FILE = " (transductive)", "transductive.json"


def write_mark(folder: Path, items: str) -> None:
    """Mark a model's folder with the set whose items it was trained on."""
    write_text_file(folder / _FILE, json.dumps({"items": items}) + "\n")


def read_mark(name: str) -> str:
    """Return the set that a model in a folder, or in a file there, was trained on; empty without a mark.

    The name may have a prefix, open_clip's architecture before `@`, and a part of the file behind `#`.
    """
    place = split_part(name.partition(":")[2] or name)[0]
    paths = [Path(text).expanduser() for text in (place, place.partition("@")[2]) if text]
    marks = [(path.parent if path.is_file() else path) / _FILE for path in paths]
    return next((str(read_object(mark).get("items")) for mark in marks if mark.is_file()), "")
