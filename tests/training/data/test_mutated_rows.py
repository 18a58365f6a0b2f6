"""NegCLIP's TSV files, changed in every way a field can be: rows or one line; nothing is run, nothing takes long."""

from __future__ import annotations

import random
import resource
import time
from pathlib import Path

import pytest
from PIL import Image

from tellapart.errors import DataError
from tellapart.training.data.rows import TrainingRows, read_rows

HEADER = "title\tfilepath\tneg_caption\tneg_image"
ROWS = [
    (f"a cat {k}", f"{k}.png", repr([f"a dog {k}", "it's a cow"]), repr([other for other in range(4) if other != k]))
    for k in range(4)
]
#: Texts for a column of lists that a reader of Python's literals may choke on.
CRAFTED = {
    "minus signs": "[" + "-" * 100_000 + "1]",
    "sums": "[" + "1+" * 60_000 + "1]",
    "brackets": "[" * 130_000,
    "parentheses": "[" + "(" * 60_000 + ")" * 60_000 + "]",
    "negations": "[" + "not " * 30_000 + "1]",
    "attributes": "[a" + ".a" * 60_000 + "]",
    "a power": "[9**9**9**9]",
    "a long list of one": "[1]*99999999999",
    "a call": "[__import__('os').mkdir('ran')]",
    "digits": "[" + "9" * 100_000 + "]",
    "a list in a list": "[[[1]]]",
    "a set of a list": "[{(): 1, []: 2}]",
    "a complex number": "[1+2j]",
    "true": "[True]",
    "bytes": "[b'a cow']",
    "a far row": "[1000000000000000000000000]",
    "a negative row": "[-1]",
    "a fraction": "[1.5]",
    "none": "[None]",
    "a null byte": "['\0']",
    "nothing": "",
    "a longer field": "x" * 200_000,
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for k in range(4):
        Image.new("RGB", (4, 4), (k, 0, 0)).save(tmp_path / f"{k}.png")
    return tmp_path


def read(home: Path, data: bytes) -> TrainingRows | str:
    """Read a file of rows; return them, or the error's text."""
    (home / "rows.tsv").write_bytes(data)
    began = time.monotonic()
    try:
        return read_rows(["rows.tsv"], home)
    except DataError as error:
        said = str(error)
        assert "\n" not in said and len(said) <= 2_000 and ("rows.tsv" in said or str(home) in said), said[:500]
        return said
    finally:
        assert time.monotonic() - began < 10
        assert not Path("ran").exists()


def joined(rows: list[tuple[str, ...]]) -> bytes:
    return "\n".join((HEADER, *("\t".join(row) for row in rows), "")).encode("utf-8", "surrogatepass")


def test_the_file_is_read_as_it_is(home: Path) -> None:
    rows = read(home, joined(ROWS))
    assert isinstance(rows, TrainingRows) and len(rows) == 4


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_list_is_one_line(home: Path, name: str) -> None:
    for column in (2, 3):
        row = list(ROWS[0])
        row[column] = CRAFTED[name]
        found = read(home, joined([tuple(row), *ROWS[1:]]))
        assert isinstance(found, str) and "rows.tsv" in found, (column, found)


def test_mutated_files_are_rows_or_one_line(home: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for number in range(600):
        drawn = random.Random(f"tsv {number}")
        data = bytearray(joined(ROWS))
        for _ in range(drawn.randint(1, 4)):
            place, way = drawn.randrange(len(data)), drawn.randrange(5)
            if way == 0:
                data[place] = drawn.randrange(256)
            elif way == 1:
                del data[place : place + drawn.randint(1, 40)]
            elif way == 2:
                data[place:place] = data[place : place + drawn.randint(1, 40)] * drawn.choice((1, 3, 500))
            elif way == 3:
                data[place:place] = drawn.choice((b"\t", b"\n", b"\r", b"\0", b'"', b"[", b"\xff", b"\\", "é".encode()))
            else:
                data[place : place + 1] = drawn.choice(list(CRAFTED.values())[10:20]).encode()
        refused += isinstance(read(home, bytes(data)), str)
    assert 200 < refused < 600
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10  # KiB
