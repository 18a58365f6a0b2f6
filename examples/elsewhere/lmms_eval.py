"""Write a file of predictions from the samples that lmms-eval logs (`--log_samples`).

    python -m examples.elsewhere.lmms_eval 20260101_samples_mmvp.jsonl --out answers.jsonl
    tellapart score mmvp --data DIR --scores answers.jsonl --name mine --out runs/mine

An item's id is its `doc_id`; `--id question_id` takes a field of `doc`; `--like FILE` takes the id in that place of the
file that `tellapart export` wrote, if both have the same order. The prediction is the first filtered response.
"""

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def convert_samples(path: Path, field: str = "", ids: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return `id` and `prediction` of each sample: its `doc_id`, a field of its `doc`, or the `doc_id`-th of `ids`."""
    found = []
    # At newlines alone: `splitlines` would break an answer at U+2028, too.
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        row: dict[str, Any] = json.loads(line)
        answers = row.get("filtered_resps") or row.get("resps")
        while isinstance(answers, list) and answers:
            answers = answers[0]
        key = (row.get("doc") or {}).get(field) if field else row.get("doc_id")
        if key is None or not isinstance(answers, str):
            wanted = f"doc.{field}" if field else "doc_id"
            raise SystemExit(f"{path}, line {number}: no {wanted}, or no response in words")
        if ids and not 0 <= int(key) < len(ids):
            raise SystemExit(f"{path}, line {number}: doc_id {key}, but there are {len(ids)} items")
        found.append({"id": ids[int(key)] if ids else str(key), "prediction": answers.strip()})
    return found


def read_ids(path: Path) -> list[str]:
    """Return the ids of a file of `tellapart export`, each once, in its order."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(dict.fromkeys(row["id"] for row in csv.DictReader(file)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--id", default="", help="the field of `doc` that holds an item's id")
    parser.add_argument("--like", type=Path, help="a file of `tellapart export`, in the same order")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = convert_samples(given.samples, given.id, read_ids(given.like) if given.like else ())
    given.out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
