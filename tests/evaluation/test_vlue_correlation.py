"""What VLUE's correlation of 0.75 may be taken over: the table of docs/benchmarks.md, from the paper's Table 2."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tellapart.evaluation.gap import pearson
from tellapart.records.imported import ImportedModel, read_imported

ROOT = Path(__file__).parents[2]
TEXT = (("coco-retrieval", "i2t_recall@1"), ("vlue-retrieval", "i2t_recall@1"))
IMAGE = (("coco-retrieval", "t2i_recall@1"), ("vlue-retrieval", "t2i_recall@1"))
NLVR2 = (("nlvr2", "accuracy"), ("vlue-nlvr2", "accuracy"))
VQA = (("vqa2", "soft_accuracy"), ("vlue-vqa", "exact_match"))
GROUNDING = (("refcoco+-val", "box_accuracy"), ("vlue-grounding", "box_accuracy"))
Task = tuple[tuple[str, str], tuple[str, str]]

MODELS = read_imported(ROOT / "examples" / "vlue_board" / "records.toml").models
SEVEN = [model for model in MODELS if model.latency is not None]


def points(tasks: Sequence[Task], models: Sequence[ImportedModel] = MODELS) -> list[tuple[float, float]]:
    """The scores in domain and out of it of every model in every task, where the paper has both."""
    both = [
        tuple(model.scores.get(benchmark, {}).get(metric) for benchmark, metric in task)
        for task in tasks
        for model in models
    ]
    return [(inside, outside) for inside, outside in both if inside is not None and outside is not None]


def means() -> list[tuple[float, float]]:
    each = [points((NLVR2, VQA), [model]) for model in MODELS]
    return [tuple(np.mean(own, axis=0).tolist()) for own in each if len(own) == 2]


ROWS = {
    "NLVR2 (Test-P) and VQA (Test-dev), the two tasks of every model": points((NLVR2, VQA)),
    "the same, of the seven models of Table 4": points((NLVR2, VQA), SEVEN),
    "the same, each model's mean of the two": means(),
    "R@1 of both ways of retrieval, NLVR2 and VQA": points((TEXT, IMAGE, NLVR2, VQA)),
    "R@1, NLVR2, VQA and grounding (Val)": points((TEXT, IMAGE, NLVR2, VQA, GROUNDING)),
    "R@1 of text retrieval alone": points((TEXT,)),
    "R@1 of image retrieval alone": points((IMAGE,)),
    "NLVR2 alone": points((NLVR2,)),
    "VQA alone": points((VQA,)),
    "grounding (Val) alone": points((GROUNDING,)),
}


def test_the_documents_table_is_what_comes_out_of_the_papers_table_2() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    table = text[text.index("| correlated, in domain") :].split("\n\n")[0]
    printed = re.findall(r"^\| (.+) \| (\d+) \| (0\.\d{3}) \|$", table, re.MULTILINE)
    assert len(SEVEN) == 7
    assert printed == [(name, str(len(own)), f"{pearson(*zip(*own, strict=True)):.3f}") for name, own in ROWS.items()]


def test_the_papers_number_comes_out_of_the_two_tasks_of_every_model_whichever_x_vlm_is_counted() -> None:
    for left_out in ("none", "X-VLM", "X-VLM 16M"):
        own = points((NLVR2, VQA), [model for model in MODELS if model.name != left_out])
        assert pearson(*zip(*own, strict=True)) == pytest.approx(0.75, abs=0.005)
