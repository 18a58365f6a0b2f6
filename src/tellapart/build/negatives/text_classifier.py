"""What a sequence classifier or regressor of transformers says of a text: acceptability (CoLA), plausibility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.find import ModelOptions
from tellapart.models.huggingface_files import config_facts, load_tokenizer, load_weights, read_config
from tellapart.models.torch_backend import fixed_batches, import_torch, runtime, weights_fingerprint
from tellapart.models.torch_forward import bucket, forward, grouped

__all__ = ["TextClassifier"]

#: Texts of one forward; part of what the scorer is.
_ROWS = 8
_SHIFTED = ("roberta", "camembert", "xlm-roberta", "xlm-roberta-xl")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextClassifier:
    """The log-odds of one label, or the only output of a regressor.

    Log-odds, not a probability: two texts that a sure model puts at 0.99999 and 0.999999 are no tie in float32. No number
    depends on batch size, order or neighbours.

    Attributes:
        name: of the model's class, with the label.
        model, tokenizer: in evaluation mode, on its device.
        fingerprint: of the weights, the configuration, the vocabulary and the label.
        column: of the label among the outputs.

    >>> TextClassifier.load(str(getfixture("tmp_path")), "acceptable")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: ... has no config.json; expected the folder of a model of transformers
    """

    name: str
    model: Any
    tokenizer: Any
    fingerprint: str
    column: int
    kind: ClassVar[ScoreKind] = "logit"

    @classmethod
    def load(cls, source: str, label: str | None) -> Self:
        """Load a classifier and its tokenizer.

        Args:
            source: a folder or a hub id.
            label: whose log-odds; None for a model with one output.

        Raises:
            ModelError: a file is missing, or there are several outputs and no label says which.
            MissingDependencyError: torch or transformers is not installed.
        """
        read_config(source)
        tokenizer = load_tokenizer(source)
        model = load_weights("AutoModelForSequenceClassification", source, runtime(ModelOptions()))
        labels = {name: column for column, name in model.config.id2label.items()}
        if label is None and len(labels) > 1:
            raise ModelError(
                f"{source} has the labels {', '.join(labels)}; say which is the good one: classifier:...#LABEL"
            )
        if label is not None and label not in labels:
            raise ModelError(f"{source} has no label {label!r}; its labels are {', '.join(labels)}")
        kind, facts = type(model).__name__, (config_facts(model.config), repr(sorted(tokenizer.get_vocab().items())))
        return cls(
            name=f"{kind}-{label}" if label else kind,
            model=model,
            tokenizer=tokenizer,
            fingerprint=f"tellapart:classifier:1:{label}:{weights_fingerprint(model, *facts)}",
            column=int(labels[label]) if label else 0,
        )

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return each text's log-odds or output, float32 `(n,)`.

        Raises:
            ModelError: a text has more tokens than the model can read.
        """
        limit = self._limit()
        tokens = [list(self.tokenizer(text).input_ids) for text in texts]
        for text, ids in zip(texts, tokens, strict=True):
            if len(ids) > limit:
                raise ModelError(f"{self.name} reads {limit} tokens; {text[:60]!a}... has {len(ids)}: shorten the text")
        scores = np.zeros(len(texts), np.float32)
        for length, places in grouped(bucket(len(ids), limit) for ids in tokens).items():
            for batch, real in fixed_batches(places, _ROWS):
                found = self._logits([tokens[place] for place in batch], length)
                scores[batch[:real]] = found[:real]
        return scores

    def _limit(self) -> int:
        config = self.model.config
        longest = int(getattr(config, "max_position_embeddings", None) or 10**9)
        # Their positions begin behind the padding token's number, so that two of the table are no text's.
        return min(int(self.tokenizer.model_max_length), longest - 2 * (config.model_type in _SHIFTED))

    def _logits(self, rows: Sequence[list[int]], length: int) -> NDArray[np.float32]:
        torch = import_torch()
        pad = self.tokenizer.pad_token_id or 0
        ids = torch.tensor([row + [pad] * (length - len(row)) for row in rows], device=self.model.device)
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows], device=self.model.device)
        with forward(self.name, self.model):
            logits = self.model(input_ids=ids, attention_mask=mask).logits.float()
            chosen = logits[:, self.column]
            if logits.shape[1] > 1:
                others = [column for column in range(logits.shape[1]) if column != self.column]
                chosen = chosen - logits[:, others].logsumexp(1)
        return np.asarray(chosen.cpu(), np.float32)
