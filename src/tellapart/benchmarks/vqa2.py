"""VQA 2.0's validation questions, as its site ships them or in the form of ALBEF and X-VLM (`vqa_val.json`)."""

from __future__ import annotations

from pathlib import Path

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import Locations, find_files, first_file
from tellapart.benchmarks.vlue import read_questions, read_vqa2
from tellapart.data.task_records import QuestionSet

__all__ = ["VQA2"]

_QUESTIONS = "v2_OpenEnded_mscoco_val2014_questions.json"
_ANSWERS = "v2_mscoco_val2014_annotations.json"
_JOINED = "vqa_val.json"


def _load(place: Locations) -> QuestionSet:
    folder = place.folder("vqa2") or Path()
    questions, answers = find_files(folder, _QUESTIONS), find_files(folder, _ANSWERS)
    if questions and answers:
        return read_vqa2(questions[0], answers[0])
    return read_questions(first_file(place, "vqa2", _JOINED))


VQA2 = Benchmark(
    name="vqa2",
    title="VQA 2.0 validation: questions on COCO images, with the answers of ten people",
    items=214_354,
    task="vqa2",
    source="https://visualqa.org/download.html",
    licence="CC BY 4.0 (annotations); images of COCO val2014",
    citation="Goyal et al., Making the V in VQA Matter: Elevating the Role of Image Understanding, CVPR 2017",
    files=(f"{_QUESTIONS}|{_JOINED}", f"{_ANSWERS}|{_JOINED}"),
    images="COCO val2014",
    cluster="the image",
    domain="in-domain",
    rival="vlue-vqa",
    load=_load,
)
