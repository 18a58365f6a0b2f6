"""NLVR2's published files: JSON lines with identifiers; or the lists that ALBEF and X-VLM make of them.

An identifier is `SPLIT-SET-PAIR-SENTENCE` (`test1-0-1-0`): of a set of up to four pairs of images, which pair, and
which of the at most two sentences that were written about the set. Consistency is over the rows of one sentence of one
set, so a sentence that was written about two sets counts twice: 1,995 groups on test-P, and 1,987 distinct sentences.
Source: https://github.com/lil-lab/nlvr, `nlvr2/README.md` and `nlvr2/eval/metrics.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import one_file
from tellapart.benchmarks.vlue import read_statements
from tellapart.data.annotations import AnnotationRow, check_row, expect_count
from tellapart.data.rows import read_jsonl
from tellapart.data.task_records import Statement, StatementSet

#: The images are named after the identifier without its sentence: `test1-0-1-img0.png` is the left one.
_IMAGE = re.compile(r"(?:.*/)?([^-/]+-\d+)-\d+-img[01]\.\w+")


class _Example(AnnotationRow):
    """The measured fields of a line; it also holds images' addresses, the writer, the votes and the search's words."""

    model_config = ConfigDict(extra="ignore")

    identifier: Annotated[str, Field(pattern=r"^[^-/]+-\d+-\d+-\d+$")]
    sentence: Annotated[str, Field(pattern=r"\S")]
    label: Literal["True", "False"]


def read_nlvr2(path: Path) -> StatementSet:
    """Read `test1.json` or `dev.json` as the authors publish them; or ALBEF's and X-VLM's list of the same rows.

    The list has no identifiers: its statements are numbered, and the set is taken from the images' names.

    >>> path = getfixture("tmp_path") / "test1.json"
    >>> _ = path.write_text('{"identifier": "test1-0-1-0", "sentence": "Two dogs.", "label": "True"}')
    >>> read_nlvr2(path).statements[0]
    Statement(id='test1-0-1-0', sentence='Two dogs.', left='test1/test1-0-1-img0.png', \
right='test1/test1-0-1-img1.png', label=True, group='test1-0--0')
    """
    if not _is_lines(path):
        listed = read_statements(path)
        return replace(listed, statements=tuple(map(_in_its_set, listed.statements)))
    rows = ((f"{path}:{number}", row) for number, row in read_jsonl(path))
    return StatementSet(path.stem, tuple(_make_statement(check_row(_Example, row, place)) for place, row in rows))


def _is_lines(path: Path) -> bool:
    """Return whether a file begins with an object, and so holds one a line; a list is the other form."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            return file.read(1 << 16).lstrip().startswith("{")
    except OSError:  # the reader of lists reports why
        return False


def _make_statement(row: _Example) -> Statement:
    split, set_, pair, sentence = row.identifier.split("-")
    # The folder is the one that the images are handed out in.
    left, right = (f"{split}/{split}-{set_}-{pair}-img{side}.png" for side in (0, 1))
    # The group as `metrics.py` writes it.
    return Statement(
        row.identifier, row.sentence, left, right, row.label == "True", group=f"{split}-{set_}--{sentence}"
    )


def _in_its_set(row: Statement) -> Statement:
    """Put a statement into the group of its set's sentence, if the images' names contain the set."""
    sets = {match[1] for image in (row.left, row.right) if (match := _IMAGE.fullmatch(image))}
    return replace(row, group=f"{sets.pop()}: {row.sentence}") if len(sets) == 1 else row


def _make_reader(items: int) -> Callable[[Path], StatementSet]:
    """Return the reader of a split; a file of lines that was cut between two of them shows in nothing else."""

    def read(path: Path) -> StatementSet:
        records = read_nlvr2(path)
        if _is_lines(path):
            expect_count(path, len(records.statements), items, what="statements")
        return records

    return read


def _declare_split(name: str, split: str, items: int, file: str, images: str, rival: str = "") -> Benchmark:
    """Declare a split; `split` is its name in words."""
    return Benchmark(
        name=name,
        title=f"NLVR2 {split}: is a sentence true of two images?",
        items=items,
        task="nlvr2",
        files=(file,),
        images=images,
        rival=rival,
        source="https://github.com/lil-lab/nlvr/tree/master/nlvr2/data",
        licence="CC BY 4.0 (annotations)",
        citation="Suhr et al., A Corpus for Reasoning about Natural Language Grounded in Photographs, ACL 2019",
        cluster="the sentence",
        domain="in-domain",
        load=one_file(name, file, _make_reader(items)),
    )


NLVR2 = _declare_split(
    "nlvr2",
    "test-P",
    6_967,
    "test1.json|nlvr_test.json|nlvr2_test.json",
    "NLVR2's test images, test1/test1-0-0-img0.png",
    rival="vlue-nlvr2",
)

NLVR2_DEV = _declare_split(
    "nlvr2-dev",
    "dev",
    6_982,
    "dev.json|nlvr_dev.json|nlvr2_dev.json",
    "NLVR2's development images, dev/dev-0-0-img0.png",
)
