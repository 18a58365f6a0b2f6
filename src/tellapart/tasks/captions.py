"""Captions of images against people's: BLEU-1 to 4, ROUGE-L and CIDEr-D, as pycocoevalcap computes them, without Java.

BLEU is of the full set: its interval leaves out one image after the other, or draws images and takes BLEU of those
drawn. CIDEr-D weighs an n-gram by how many of the measured images' references hold it, so a limit changes it; of a
single image it is not defined.

Predictions may be COCO's results format: `[{"image_id": 42, "caption": "a dog"}]`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellapart.data.task_records import CaptionSet
from tellapart.metrics.captions import bleu, caption_scores
from tellapart.models.generative.readings import Answerer
from tellapart.stats.interval import Reduce
from tellapart.tasks.answering import ask, count_empty, read_answers
from tellapart.tasks.declared import facts_of
from tellapart.tasks.task import Session, Task, Unit, Units, value_of


def _write_captions(model: Answerer, records: CaptionSet, session: Session) -> list[str]:
    prompt = model.task_prompt("caption").fill()
    return ask(model, [(image,) for image in records.images], [prompt] * len(records.images), session, longest=64)


def measure_captions(records: CaptionSet, predictions: Sequence[str]) -> tuple[Units, ...]:
    """Measure captions; equal images are resampled together."""
    references = dict(zip(records.ids, records.references, strict=True))
    scores = caption_scores(dict(zip(records.ids, predictions, strict=True)), references)
    units = tuple(
        Unit(id=id_, cluster=image, images=(image,), output=caption, gold="; ".join(own))
        for id_, image, caption, own in zip(records.ids, records.images, predictions, records.references, strict=True)
    )
    values = (
        *(value_of(f"bleu_{n + 1}", scores.bleu_statistics, reduce=_bleu_of(n, len(units))) for n in range(4)),
        value_of("rouge_l", scores.rouge_l),
        value_of("cider", scores.cider),
    )
    return (Units("image", units, values),)


def _bleu_of(order: int, items: int) -> Reduce:
    def reduce(means: NDArray[np.float64]) -> NDArray[np.float64]:
        # BLEU's small constants are meant for sums over the set; of means they would weigh more.
        return np.asarray(bleu(means * items)[..., order])

    return reduce


def _write_notes(_records: CaptionSet, predictions: Sequence[str]) -> tuple[str, ...]:
    same = len(predictions) - len(set(predictions))
    return (
        *count_empty(predictions, "captions"),
        *((f"{same:,} of {len(predictions):,} captions repeat another image's word for word",) if same else ()),
    )


CAPTIONS = Task(
    **facts_of("captions"),
    # No key `caption`: a template that is not filled in must not be read as one that is.
    template=lambda records: (
        {"id": id_, "prediction": None, "image": image} for id_, image in zip(records.ids, records.images, strict=True)
    ),
    read=lambda path, records: read_answers(
        path, records.ids, "image", lambda number, caption: caption in records.references[number]
    ),
    measure=measure_captions,
    notes=_write_notes,
    runners=((Answerer, _write_captions),),
)
