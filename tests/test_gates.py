"""`make gates` finds out a reader that takes a damaged file for a whole one, and lets one that sees the damage pass."""

import json
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

for _library in ("torch", "av", "h5py", "pyarrow", "safetensors", "fastapi"):
    pytest.importorskip(_library)

from doors import Door, door_of  # noqa: E402
from gates import BAD, try_input  # noqa: E402
from reshape import ALWAYS, FIELDS, ROWS, reshape  # noqa: E402

from tellapart.models.memory.external import read_scores  # noqa: E402

ROWS_OF_SCORES = [{"label": f"{id_}_c{text}_i0", "score": 0.25 * text} for id_ in "ab" for text in (0, 1)]


def take_what_is_there(path: Path) -> list[Any]:
    """Read scores as a script does in a hurry."""
    rows = [json.loads(line) for line in path.read_text("utf-8-sig").splitlines() if line]
    return [{row.get("label"): row.get("score", 0.0) for row in rows}]


def try_reader(path: Path, read: Callable[[Path], Any], inputs: int = 250) -> Counter[tuple[str, str]]:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS_OF_SCORES)
    door: Door = door_of(path, read, lines, whole=False, knows=FIELDS | ROWS)
    tried = [try_input({"scores": door}, 1, number) for number in range(inputs)]
    return Counter((one["outcome"], one["way"]) for one in tried)


def test_a_reader_that_takes_what_is_there_is_silently_wrong_and_that_of_scores_is_not(tmp_path):
    tried = try_reader(tmp_path / "scores.jsonl", take_what_is_there)
    silent = {way for outcome, way in tried if outcome == "silent"}
    assert silent >= {"misspelt key", "null", "row dropped", "key dropped", "type"}
    assert not silent & {*ALWAYS, "keys in another order", "rows in another order", "key more"}
    read = partial(read_scores, ids=("a", "b"), shape=(1, 2), kind="similarity")
    tried = try_reader(tmp_path / "scores.jsonl", lambda path: read(path).values.tolist())
    assert not [one for one in tried if one[0] in BAD]
    assert {outcome for outcome, _ in tried} >= {"same", "refused"}


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".json", '{"a": [{"id": "x", "n": 1}, {"id": "y", "n": 2.5}], "free": {"k": 1}}'),
        (".jsonl", '{"id": "x", "n": 1}\n{"id": "y", "n": true}\n'),
        (".toml", 'a = 1\n[b]\nc = ["x", "y"]\nday = 2027-06-01T12:00:00Z\n[[d]]\ne = 0.5\n'),
        (".csv", 'id,n\nx,1\ny,"2, 3"\n'),
    ],
)
def test_every_way_is_drawn_and_the_same_number_draws_the_same_file(suffix, text):
    made = [reshape(suffix, text.encode(), random.Random(number), ("free",)) for number in range(300)]
    assert made[:20] == [reshape(suffix, text.encode(), random.Random(number), ("free",)) for number in range(20)]
    assert {way for way, _ in made} == ALWAYS | FIELDS | ROWS
    assert len({data for _, data in made}) > 30
    assert all(b'"k": 1' in data for way, data in made if suffix == ".json" and way in FIELDS - {"misspelt key"})
