"""Sides of published items: captions that a context cuts, mixed scripts, torn pairs, and the place of the truth."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from examples.findings.frame import Source, join_words, make_table
from tellapart.auditing.captions import find_context, lost_captions, mixed_scripts, torn_sides, truth_first
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.set_file import read_rows
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet

#: Tokens of a caption that CLIP reads, and those that models such as CLIPA read.
_CONTEXTS = ("77", "32")

_XVNLI = "xvnli/datasets/XVNLI/annotations/{}/test.jsonl"
_MARVL = "marvl/datasets/marvl/zero_shot/annotations/marvl-{}.jsonl"
_CAMERA = "camerabench/camerabench/data/vqa_and_retrieval/*/*.jsonl"
_NATURAL = "naturalbench/test_set.json"

SIDES_SOURCES = (
    Source(_XVNLI.format("*"), "MIT", "github.com/e-bug/iglue at 43cbac9"),
    Source(_MARVL.format("??"), "CC BY 4.0", "github.com/e-bug/iglue at 43cbac9"),
    Source(_CAMERA, "CC BY 4.0", "github.com/linzhiqiu/t2v_metrics at 6ecb74f"),
    Source(_NATURAL, "see its page", "github.com/Baiqi-Li/NaturalBench"),
)


def describe_sides(data: Path, sets: Mapping[str, PairSet]) -> tuple[str, ...]:
    """Return blocks of a page on the sides of the sets, and of others whose files name scripts and places."""
    camera = find_benchmark("camerabench", Locations(data / "camerabench" / "camerabench")).records()
    rows, torn = [], []
    for name, pairs in (*sets.items(), ("camerabench", camera)):
        found = [lost_captions(find_context(tokens), tokens, pairs) for tokens in _CONTEXTS]
        rows.append([name, f"{len(pairs):,}", *(_count(each.value, pairs) for pair in found for each in pair)])
        if (sides := torn_sides(pairs)).value:
            torn.append(f"{name} ({sides.says})")
    mixed = [name for name, pairs in sets.items() if mixed_scripts(pairs).value]
    return (
        f"""**Captions that are not read to their end.** CLIP reads {_CONTEXTS[0]} tokens of a caption, start and end
        included; some models read {_CONTEXTS[1]}. Items with a caption that is longer in CLIP's tokens, and items whose
        captions are the same tokens:""",
        make_table(
            ["set", "items", *(f"{kind} {tokens}" for tokens in _CONTEXTS for kind in ("longer than", "equal within"))],
            "l|r|r|r|r|r",
            rows,
        ),
        f"""**Scripts, sides, places.** Of these sets {join_words(mixed) or "none"} has items that mix scripts, and
        {join_words(torn) or "none"} has items with a side that is missing or, by its name, another item's. Words of
        several scripts are not always faults, as names may stay in Latin letters: {"; ".join(_describe_scripts(data))}.
        {_describe_places(data)}""",
    )


def _count(share: float, pairs: PairSet) -> str:
    return f"{round(share * len(pairs)):,}"


def _describe_scripts(data: Path) -> Iterator[str]:
    """Yield for XVNLI and MaRVL how many rows have words of several scripts, by language."""
    for name, pattern, fields in (("XVNLI", _XVNLI, ("sentence1", "sentence2")), ("MaRVL", _MARVL, ("caption",))):
        counts = []
        for path in Source(pattern.format("??"), "", "").files(data):
            rows = [row.fields for row in read_rows(path)]
            found = mixed_scripts(_make_pairs((tuple(row[field] for field in fields), 0) for row in rows))
            language = path.parent.name if name == "XVNLI" else path.stem.rpartition("-")[2]
            counts.append((round(found.value * len(rows)), len(rows), language))
        some = [f"{count} of {n:,} rows in {language}" for count, n, language in counts if count]
        others = [language for count, _, language in counts if not count]
        yield f"{name} has {', '.join([*some, f'none in {join_words(others)}'])}"


def _describe_places(data: Path) -> str:
    """Return the places of the truth in files that name one."""
    camera = [row.fields for path in Source(_CAMERA, "", "").files(data) for row in read_rows(path)]
    first = truth_first(_make_pairs((row["texts"], row["texts"].index(row["pos_text"])) for row in camera))
    natural: list[list[Any]] = json.loads((data / _NATURAL).read_text(encoding="utf-8"))
    options = [(("A", "B"), "AB".index(answer.strip()[0])) for _, _, answer, _ in natural if answer.strip()[0] in "AB"]
    balanced = truth_first(_make_pairs(options))
    assert first is not None
    assert balanced is not None
    return f"""The film's own text stands first in CameraBench's rows ({first.says}): a program that takes the first of
        tied texts is right at every tie. NaturalBench's questions with options are balanced ({balanced.says})."""


def _make_pairs(rows: Iterable[tuple[Any, int]]) -> PairSet:
    items = tuple(
        Item(id=str(k), images=("0.png",), texts=tuple(texts), true=(true,) if len(texts) > 1 else ())
        for k, (texts, true) in enumerate(rows)
    )
    return PairSet("rows", items, Path())
