"""Likelihoods of texts under a causal language model of transformers: GPT-2, Llama, Qwen and the like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.options import ModelOptions
from tellapart.models.text.text_model import TextModel
from tellapart.models.torch.backend import Runtime, forward, import_torch, runtime
from tellapart.models.torch.likelihood import read_batches

if TYPE_CHECKING:
    from torch import Tensor

_ARCHITECTURE = "AutoModelForCausalLM"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CausalLikelihood:
    """A text's log-likelihood in nats, the sum over its tokens or the mean: a `TextScorer`.

    No number depends on batch size, order or neighbours.

    Attributes:
        begin: the token put before the first one; None: there is none, and the first one is not predicted.
        per_token: whether a score is the mean.
    """

    text_model: TextModel
    name: str
    fingerprint: str
    begin: int | None
    per_token: bool
    kind: ClassVar[ScoreKind] = "similarity"

    @classmethod
    def from_mark(cls, source: str, *, per_token: bool) -> Self:
        """Load a model that reads a text after its mark for the beginning, or for the end if it has only that
        (GPT-2).
        """
        loaded = TextModel.load(_ARCHITECTURE, source, runtime(ModelOptions()))
        begin, end = loaded.tokenizer.bos_token_id, loaded.tokenizer.eos_token_id
        if begin is None and end is None:
            raise ModelError(
                f"{source}: its tokenizer has no mark for the beginning or the end of a text, so the first word has no "
                "probability; name another causal model"
            )
        way = "mean" if per_token else "sum"
        return cls(
            text_model=loaded,
            name=f"{type(loaded.model).__name__}-{way}",
            fingerprint=f"tellapart:causal:1:{way}:{loaded.weights_digest()}",
            begin=end if begin is None else begin,
            per_token=per_token,
        )

    @classmethod
    def from_second_token(cls, source: str, runtime: Runtime) -> Self:
        """Load a model that predicts all tokens but the first, and scores the mean: minus the log of the perplexity.

        Source: the authors' code of Le et al., COCO-Counterfactuals, 2023, with GPT-2 large.
        """
        loaded = TextModel.load(_ARCHITECTURE, source, runtime)
        return cls(loaded, source, loaded.fingerprint(), begin=None, per_token=True)

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return each text's log-likelihood in nats, float32 `(n,)`."""
        unmarked = self.begin is None
        rows = self.text_model.ids(texts, least=2 if unmarked else 1, special=unmarked)
        if self.begin is not None:
            rows = [[self.begin, *row] for row in rows]
        read, expected = [row[:-1] for row in rows], [row[1:] for row in rows]
        sums = read_batches(read, expected, self.text_model.limit, self._predict_tokens)
        return np.array([total.total / (total.tokens if self.per_token else 1) for total in sums], np.float32)

    def _predict_tokens(self, rows: list[list[int]]) -> Tensor:
        with forward(self.name, self.text_model.model):
            ids = import_torch().tensor(rows, device=self.text_model.runtime.device)
            return self.text_model.model(input_ids=ids).logits
