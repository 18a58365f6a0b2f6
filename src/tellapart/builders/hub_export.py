"""Export of pair sets for Hugging Face `datasets`: an `imagefolder`, or a parquet file with the images inside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tellapart.data.atomic import atomic_file, atomic_folder
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.video import is_video
from tellapart.errors import DataError, quote, require

#: Rows of a parquet row group: few, since rows hold images, and a viewer reads whole groups.
_ROWS_PER_GROUP = 100


def write_imagefolder(pairs: PairSet, folder: Path) -> None:
    """Write `metadata.jsonl` and the images; `load_dataset("imagefolder", data_dir=...)` and tellapart read them.

    The format cannot say which image or caption is true, so the true one is written first.
    """
    pairs = _truth_first(pairs)
    with atomic_folder(folder) as draft:
        with (draft / "metadata.jsonl").open("w", encoding="utf-8", newline="\n") as lines:
            for item in pairs.items:
                row: dict[str, Any] = {"id": item.id}
                if len(item.images) == 1:
                    row["file_name"] = item.images[0]
                else:
                    row |= {f"image_{k}_file_name": name for k, name in enumerate(item.images)}
                row |= {f"caption_{k}": text for k, text in enumerate(item.texts)}
                row |= {"cluster": item.cluster, "tags": dict(item.tags)}
                lines.write(f"{json.dumps(row, ensure_ascii=False)}\n")
        for reference in dict.fromkeys(image for item in pairs.items for image in item.images):
            (draft / reference).parent.mkdir(parents=True, exist_ok=True)
            (draft / reference).write_bytes(pairs.read_bytes(reference))


def write_parquet(pairs: PairSet, path: Path) -> None:
    """Write one parquet file: `id`, `image_k` with bytes, `caption_k`, `cluster`; `tags` and `provenance` as JSON.

    The true image or caption is written first, as by `write_imagefolder`.
    """
    pairs = _truth_first(pairs)
    if not path.parent.is_dir():
        raise DataError(f"{path} cannot be written: there is no folder {path.parent}")
    if videos := [name for item in pairs.items for name in item.images if is_video(name)]:
        raise DataError(f"{path}: {quote(videos[0])} is a video, and cells of this form are pictures; keep the folder")
    arrow, parquet = require("pyarrow", extra="hub"), require("pyarrow.parquet", extra="hub")
    images, texts = pairs.shape
    image = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    strings = [*(f"caption_{k}" for k in range(texts)), "cluster", "tags", "provenance"]
    fields = [("id", arrow.string()), *((f"image_{k}", image) for k in range(images))]
    fields += [(name, arrow.string()) for name in strings]
    # `datasets` reads from this which columns to decode as images.
    features = {
        name: {"_type": "Image"} if kind == image else {"dtype": "string", "_type": "Value"} for name, kind in fields
    }
    schema = arrow.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})
    try:
        with atomic_file(path) as draft, parquet.ParquetWriter(draft, schema) as writer:
            for start in range(0, len(pairs), _ROWS_PER_GROUP):
                rows = [_make_record(pairs, item) for item in pairs.items[start : start + _ROWS_PER_GROUP]]
                writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error})") from error


def _truth_first(pairs: PairSet) -> PairSet:
    if pairs.true > 1:
        raise DataError(f"{pairs.name}: this form cannot hold {pairs.true} true texts an item; keep its folder")
    return replace(pairs, items=tuple(item.truth_first() for item in pairs.items), rows=None)


def _make_record(pairs: PairSet, item: Item) -> dict[str, Any]:
    row: dict[str, Any] = {"id": item.id, "cluster": item.cluster}
    row |= {f"image_{k}": {"bytes": pairs.read_bytes(name), "path": name} for k, name in enumerate(item.images)}
    row |= {f"caption_{k}": text for k, text in enumerate(item.texts)}
    objects = {"tags": item.tags, "provenance": item.provenance}
    return row | {key: json.dumps(value, ensure_ascii=False, sort_keys=True) for key, value in objects.items()}
