"""The table of docs/board_file.md: every key of a board file, as its model declares and documents it."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

from pydantic import BaseModel

from tellapart.board.settings import BoardSettings
from tellapart.board.submissions.hidden import HiddenBenchmark, SubmissionSettings

#: A table of the file -> the model that reads it.
BOARD_TABLES: dict[str, type[BaseModel]] = {
    "[board]": BoardSettings,
    "[submissions]": SubmissionSettings,
    "[[hidden]]": HiddenBenchmark,
}


def attribute_texts(model: type[BaseModel]) -> dict[str, str]:
    """Return the texts of a docstring's `Attributes:`, by name; names that share a text each get it."""
    section = (inspect.getdoc(model) or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}


def show_default(value: Any, required: bool) -> str:
    """Return a default as TOML writes it; empty for none."""
    if required:
        return "needed"
    return "" if value in (None, "", ()) else f"`{json.dumps(value)}`"


def board_keys_table() -> str:
    """Return a row for each key of a board file."""
    rows = ["| table | key | default | meaning |", "|---|---|---|---|"]
    for table, model in BOARD_TABLES.items():
        texts = attribute_texts(model)
        for name, field in model.model_fields.items():
            if not field.exclude:
                default = show_default(field.default, field.is_required())
                rows.append(f"| `{table}` | `{name}` | {default} | {texts[name]} |")
    return "\n".join(rows) + "\n"
