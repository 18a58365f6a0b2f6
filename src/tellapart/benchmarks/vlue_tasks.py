"""VLUE's tasks as benchmarks: out of domain, on images of MaRVL, and in domain, on the set of the fine-tuning.

VQA 2.0's validation questions are read as its site ships them, or in the form of ALBEF and X-VLM (`vqa_val.json`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tellapart.benchmarks import vlue
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import Locations, find_files, first_file, one_file
from tellapart.data.task_records import QuestionSet

_VLUE: dict[str, Any] = {
    "source": "https://github.com/MichaelZhouwang/VLUE",
    "licence": "not stated; images as MaRVL has them",
    "citation": "Zhou et al., VLUE: A Multi-Task Benchmark for Evaluating Vision-Language Models, ICML 2022",
    "images": "MaRVL's",
    "domain": "out-of-domain",
}

VLUE_RETRIEVAL = Benchmark(
    name="vlue-retrieval",
    title="VLUE retrieval, out of domain: images of MaRVL and their captions, both ways",
    items=5_450,
    rows="4a241adea883bcb1",
    task="retrieval",
    **_VLUE,
    files=("itr_vlue_test.json",),
    cluster="the image",
    rival="coco-retrieval",
    load=one_file("vlue-retrieval", "itr_vlue_test.json", vlue.read_retrieval),
)

VLUE_NLVR2 = Benchmark(
    name="vlue-nlvr2",
    title="VLUE NLVR2, out of domain: is a sentence true of two images?",
    items=5_662,
    rows="247bd5ab2d7560e5",
    task="nlvr2",
    **(_VLUE | {"licence": "CC BY 4.0 (annotations); images as MaRVL has them"}),
    files=("nlvr2_vlue_test.json",),
    cluster="the sentence",
    rival="nlvr2",
    load=one_file("vlue-nlvr2", "nlvr2_vlue_test.json", vlue.read_statements),
)

VLUE_VQA = Benchmark(
    name="vlue-vqa",
    title="VLUE VQA, out of domain: questions on images of MaRVL, one gold answer each, 3,966 of them on two images",
    items=11_942,
    rows="712ee86d597671ef",
    task="vqa",
    **_VLUE,
    files=("vqa_vlue_test.json",),
    cluster="the image; of a pair of questions, all images that such pairs link",
    rival="vqa2",
    load=one_file("vlue-vqa", "vqa_vlue_test.json", vlue.read_questions),
)

VLUE_GROUNDING = Benchmark(
    name="vlue-grounding",
    title="VLUE visual grounding, out of domain: the box of a phrase; announced, but the file is not in VLUE's "
    "repository",
    items=1_313,
    task="grounding",
    **(_VLUE | {"source": "the authors of https://github.com/MichaelZhouwang/VLUE (it is not in their repository)"}),
    files=("refcoco+_vlue_test.json|refcoco+_bbox100_vlue_test.json",),
    cluster="the image",
    rival="refcoco+-test",
    load=one_file("vlue-grounding", "refcoco+_vlue_test.json|refcoco+_bbox100_vlue_test.json", vlue.read_boxes),
)

VLUE_CAPTIONS = Benchmark(
    name="vlue-captions",
    title="VLUE captions, out of domain: images of MaRVL against the captions of its retrieval task",
    items=5_450,
    task="captions",
    **_VLUE,
    files=("caption_vlue_test.json|itr_vlue_test.json",),
    cluster="the image",
    rival="coco-captions",
    load=one_file("vlue-captions", "caption_vlue_test.json|itr_vlue_test.json", vlue.read_captions),
)

_QUESTIONS = "v2_OpenEnded_mscoco_val2014_questions.json"
_ANSWERS = "v2_mscoco_val2014_annotations.json"
_JOINED = "vqa_val.json"


def _load_vqa2(place: Locations) -> QuestionSet:
    folder = place.folder("vqa2") or Path()
    questions, answers = find_files(folder, _QUESTIONS), find_files(folder, _ANSWERS)
    if questions and answers:
        return vlue.read_vqa2(questions[0], answers[0])
    return vlue.read_questions(first_file(place, "vqa2", _JOINED))


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
    load=_load_vqa2,
)
