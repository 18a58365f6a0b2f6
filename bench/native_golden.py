"""The largest difference of each family to its authors' code: on their own state dicts, random and of tiny width.

`--full` compares LXMERT at its published width with transformers' class, and adds `lxmert_full` to the record; ViLBERT
and VL-T5 have no library to be compared with.
"""

import json
import sys
from pathlib import Path
from typing import Any

from record import RECORDS, run_bench

from tellapart.models.huggingface.files import import_transformers
from tellapart.models.torch.backend import import_torch
from tellapart_native.library_regions import Lxmert


def compare_lxmert() -> float:
    """Return the largest difference of LXMERT's match of two pairs, in logits, to transformers' own class."""
    torch, library = import_torch(), import_transformers()
    torch.manual_seed(0)
    module = library.LxmertForPreTraining(library.LxmertConfig()).eval()
    features, boxes = torch.rand(2, 36, 2048), torch.rand(2, 36, 4)
    ids, mask = torch.randint(1000, 30_000, (2, 12)), torch.ones(2, 12, dtype=torch.bool)
    mask[1, 9:] = False  # a shorter text
    ours = Lxmert(module)
    with torch.inference_mode():
        theirs = module(
            input_ids=ids, visual_feats=features, visual_pos=boxes, attention_mask=mask.float()
        ).cross_relationship_score
        joined = ours.join(ours.images(features, boxes, torch.ones(2, 36, dtype=torch.bool)), ours.texts(ids, mask))
    print("LXMERT's logits:", theirs.tolist())
    return float((joined - theirs).abs().max())


def compare(full: bool = False) -> dict[str, Any]:
    """Compare every file in every reading, or LXMERT alone; what is not compared is kept of the record."""
    known = json.loads((RECORDS / "native_golden.json").read_text())
    if full:
        return known | {"lxmert_full": {"itm": compare_lxmert()}}
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "native"))
    from golden import CASES, difference

    record = {name: {reading: difference(name, reading) for reading in case.scores} for name, case in CASES.items()}
    return record | {name: found for name, found in known.items() if name.endswith("_full")}


if __name__ == "__main__":
    run_bench(compare, "native_golden")
