"""The mark of a model that was trained on the items it is measured on: a file that moves with its folder."""

from __future__ import annotations

import json
from pathlib import Path

from tellapart.data.rows import read_object
from tellapart.records.run_folder import write_text_file

#: What follows the name of such a model in records, and so in tables, comparisons and pictures.
MARK, _FILE = " (transductive)", "transductive.json"


def write_mark(folder: Path, items: str) -> None:
    """Mark a model's folder with the set whose items it was trained on."""
    write_text_file(folder / _FILE, json.dumps({"items": items}) + "\n")


def read_mark(name: str) -> str:
    """Return the set that a model in a folder, with or without a prefix, was trained on; empty without a mark."""
    path = Path(name.partition(":")[2] or name).expanduser() / _FILE
    return str(read_object(path).get("items")) if path.is_file() else ""
