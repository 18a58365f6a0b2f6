"""The sets as tables of the `datasets` library; images stay the files' bytes, as the hub's own tables hold them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Image, List, Value


def table(sets: Path, name: str, images: Sequence[str], texts: Sequence[str] | str) -> Dataset:
    """Make a table with these columns of images, and of texts: one each, or one that lists them; and `__key__`."""
    rows = [json.loads(line) for line in (sets / name / "pairs.jsonl").read_text().splitlines()]
    columns: dict[str, list[Any]] = {"__key__": [row["id"] for row in rows]}
    features: dict[str, Any] = {"__key__": Value("string")}
    for place, column in enumerate(images):
        columns[column] = [{"bytes": (sets / name / row["images"][place]).read_bytes(), "path": None} for row in rows]
        features[column] = Image()
    if isinstance(texts, str):
        columns[texts] = [row["texts"] for row in rows]
        features[texts] = List(Value("string"))
    else:
        for place, column in enumerate(texts):
            columns[column] = [row["texts"][place] for row in rows]
            features[column] = Value("string")
    return Dataset.from_dict(columns, features=Features(features))
