"""VLUE's tasks as benchmarks: each out of domain, on images of MaRVL, and in domain, on the set it was fine-tuned on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tellapart.benchmarks.place import Place, find_files
from tellapart.benchmarks.task_benchmark import TaskBenchmark
from tellapart.benchmarks.vlue import read_statements

__all__ = ["NLVR2_IN_DOMAIN", "VLUE_NLVR2"]

_VLUE = "Zhou et al., VLUE: A Multi-Task Benchmark for Evaluating Vision-Language Models, ICML 2022"
_VLUE_SITE = "https://github.com/MichaelZhouwang/VLUE"


def _one_file(benchmark: str, pattern: str, read: Callable[[Path], Any]) -> Callable[[Place], Any]:
    """Read a benchmark that is one file."""

    def load(place: Place) -> Any:
        return read(find_files(place.folder(benchmark) or Path(), pattern)[0])

    return load


VLUE_NLVR2 = TaskBenchmark(
    name="vlue-nlvr2",
    title="VLUE NLVR2, out of domain: is a sentence true of two images?",
    items=5_662,
    task="nlvr2",
    source=_VLUE_SITE,
    licence="CC BY 4.0 (annotations); images as MaRVL has them",
    citation=_VLUE,
    files=("nlvr2_vlue_test.json",),
    images="MaRVL's",
    cluster="the sentence",
    domain="out-of-domain",
    rival="nlvr2",
    load=_one_file("vlue-nlvr2", "nlvr2_vlue_test.json", read_statements),
)

NLVR2_IN_DOMAIN = TaskBenchmark(
    name="nlvr2",
    title="NLVR2 test-P: is a sentence true of two images?",
    items=6_967,
    task="nlvr2",
    source="https://github.com/lil-lab/nlvr",
    licence="CC BY 4.0 (annotations)",
    citation="Suhr et al., A Corpus for Reasoning about Natural Language Grounded in Photographs, ACL 2019",
    files=("nlvr2_test.json",),
    images="NLVR2's test images",
    cluster="the sentence",
    domain="in-domain",
    rival="vlue-nlvr2",
    load=_one_file("nlvr2", "nlvr2_test.json", read_statements),
)
