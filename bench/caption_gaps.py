"""What filling a caption's gaps together saves over one call for each.

`python bench/caption_gaps.py --nltk DIR --tokenizer DIR --captions FILE`.

The model is a BERT of roberta-base's shape (12 layers, width 768) with random weights, which cost what learnt ones
cost; the tokenizer is a folder of transformers (all-MiniLM-L6-v2's will do), the captions are
`caption_files.read_captions`'s, spread evenly. The ways take turns caption by caption, and a number is the processor's
seconds, which a busy machine changes little:

- `pipeline`: transformers' fill-mask pipeline, a call for each gap, as the authors of COCO-Counterfactuals do it
- `gap`: `MaskedLanguageModel.fill` with one gap a call, in rows of one
- `caption`: all gaps of a caption in one call, in rows of `--rows`, as the builder does it
- `block`: all gaps of all captions in one call, as `write_caption_pairs` does it with as large a block
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tellapart.builders.caption_files import read_captions
from tellapart.builders.captions.stages import NOUNS, MaskedLanguageModel, NltkTagger, SentenceGap
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.torch.backend import Runtime


def seconds(work: Callable[[], Any]) -> float:
    """Return the processor's seconds that some work takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def gaps_of(captions: list[str], tagger: NltkTagger) -> list[list[SentenceGap]]:
    """Return each caption's gaps; captions without a noun are left out."""
    found = [
        [SentenceGap(text[: w.start], text[w.end :]) for w in tagger.read(text) if w.tag in NOUNS] for text in captions
    ]
    return [gaps for gaps in found if gaps]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("nltk", "tokenizer", "captions"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    told = parser.parse_args()
    transformers = import_transformers()
    torch.set_num_threads(told.threads)
    captions = [caption.text for caption in read_captions(told.captions)]
    gaps = gaps_of(captions[:: max(1, len(captions) // told.count)][: told.count], NltkTagger.load(told.nltk))
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = transformers.AutoTokenizer.from_pretrained(told.tokenizer)
        tokenizer.save_pretrained(folder)
        torch.manual_seed(0)
        transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=len(tokenizer))).save_pretrained(folder)
        own = MaskedLanguageModel.load(folder, Runtime("cpu"), told.rows)
        single = MaskedLanguageModel.load(folder, Runtime("cpu"), 1)
        theirs = transformers.pipeline("fill-mask", model=folder, device=-1)
    ways: dict[str, Callable[[list[SentenceGap]], Any]] = {
        "pipeline": lambda some: [theirs(f"{gap.before}[MASK]{gap.after}", top_k=10) for gap in some],
        "gap": lambda some: [single.fill([gap], 10) for gap in some],
        "caption": lambda some: own.fill(some, 10),
    }
    for way in ways.values():
        way(gaps[0])  # warms up
    spent = dict.fromkeys(ways, 0.0)
    for together in gaps:
        for name, way in ways.items():
            spent[name] += seconds(partial(way, together))
    every = [gap for together in gaps for gap in together]
    spent["block"] = seconds(partial(own.fill, every, 10))
    print(
        json.dumps(
            {name: round(value / len(gaps), 4) for name, value in spent.items()}
            | {"captions": len(gaps), "gaps": len(every)}
        )
    )


if __name__ == "__main__":
    main()
