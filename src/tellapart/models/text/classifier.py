"""Scores of texts by a sequence classifier or regressor of transformers: acceptability (CoLA), plausibility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.huggingface.files import read_config
from tellapart.models.options import ModelOptions
from tellapart.models.text.text_model import TextModel
from tellapart.models.torch.backend import forward, runtime

#: Texts in one forward pass; part of the scorer, as its last bits depend on it.
_ROWS = 8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextClassifier:
    """The log-odds of one label, or the only output of a regressor.

    Log-odds, not a probability: two texts that a sure model puts at 0.99999 and 0.999999 do not tie in float32. No
    number depends on batch size, order or neighbours.

    Attributes:
        column: of the label among the outputs.
    """

    text_model: TextModel
    name: str
    fingerprint: str
    column: int
    kind: ClassVar[ScoreKind] = "logit"

    @classmethod
    def load(cls, source: str, label: str | None) -> Self:
        """Load a classifier and its tokenizer from a folder or the hub; the label is None for a model with one
        output.
        """
        read_config(source)
        loaded = TextModel.load(
            "AutoModelForSequenceClassification", source, runtime(ModelOptions()), rows=_ROWS, tokenizer_limit=True
        )
        labels = {name: column for column, name in loaded.model.config.id2label.items()}
        if label is None and len(labels) > 1:
            raise ModelError(f"{source} has the labels {', '.join(labels)}; name the good one: classifier:...#LABEL")
        if label is not None and label not in labels:
            raise ModelError(f"{source} has no label {label!r}; its labels are {', '.join(labels)}")
        kind = type(loaded.model).__name__
        return cls(
            text_model=loaded,
            name=f"{kind}-{label}" if label else kind,
            fingerprint=f"tellapart:classifier:1:{label}:{loaded.weights_digest()}",
            column=int(labels[label]) if label else 0,
        )

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return each text's log-odds or output, float32 `(n,)`."""
        rows = self.text_model.ids(texts)
        scores = np.zeros(len(rows), np.float32)
        for places, inputs in self.text_model.batches(rows):
            scores[places] = self._log_odds(inputs)[: len(places)]
        return scores

    def _log_odds(self, inputs: dict[str, Any]) -> NDArray[np.float32]:
        with forward(self.name, self.text_model.model):
            logits = self.text_model.model(**inputs).logits.float()
            chosen = logits[:, self.column]
            if logits.shape[1] > 1:
                others = [column for column in range(logits.shape[1]) if column != self.column]
                chosen = chosen - logits[:, others].logsumexp(1)
        return np.asarray(chosen.cpu(), np.float32)
