"""How likely a text is for a causal language model of transformers: GPT-2, Llama, Qwen and their like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.find import ModelOptions
from tellapart.models.generative_text import read_batches
from tellapart.models.huggingface_files import config_facts, load_tokenizer, load_weights
from tellapart.models.torch_backend import import_torch, runtime, weights_fingerprint
from tellapart.models.torch_forward import forward

__all__ = ["CausalLikelihood"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CausalLikelihood:
    """A text's log-likelihood in nats: the sum over its tokens, or the mean.

    The first token follows the model's mark for the beginning, or for the end where it has only that (as GPT-2); a model
    with neither is refused. No number depends on batch size, order or neighbours.

    Attributes:
        name: of the model's class.
        model, tokenizer: in evaluation mode, on its device.
        fingerprint: of the weights, the configuration, the vocabulary, and of sum or mean.
        per_token: whether a score is the mean.

    >>> CausalLikelihood.load(str(getfixture("tmp_path")), per_token=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: ... has no tokenizer that can be read (...
    """

    name: str
    model: Any
    tokenizer: Any
    fingerprint: str
    per_token: bool
    kind: ClassVar[ScoreKind] = "similarity"

    @classmethod
    def load(cls, source: str, *, per_token: bool) -> Self:
        """Load a causal model and its tokenizer.

        Raises:
            ModelError: a file is missing, the weights are not those of a causal model, or it has no mark to begin with.
            MissingDependencyError: torch or transformers is not installed.
        """
        tokenizer = load_tokenizer(source)
        if tokenizer.bos_token_id is None and tokenizer.eos_token_id is None:
            raise ModelError(
                f"{source}: its tokenizer has no mark for the beginning or the end of a text, so the first word has no "
                "probability; name another causal model"
            )
        model = load_weights("AutoModelForCausalLM", source, runtime(ModelOptions()))
        way, facts = (
            "mean" if per_token else "sum",
            (config_facts(model.config), repr(sorted(tokenizer.get_vocab().items()))),
        )
        return cls(
            name=f"{type(model).__name__}-{way}",
            model=model,
            tokenizer=tokenizer,
            fingerprint=f"tellapart:causal:1:{way}:{weights_fingerprint(model, *facts)}",
            per_token=per_token,
        )

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return each text's log-likelihood in nats, float32 `(n,)`.

        Raises:
            ModelError: a text has no tokens, or more than the model can read.
        """
        tokenizer, limit = self.tokenizer, getattr(self.model.config, "max_position_embeddings", None)
        begin = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        tokens = [list(tokenizer(text, add_special_tokens=False).input_ids) for text in texts]
        for text, ids in zip(texts, tokens, strict=True):
            if not ids or (limit is not None and len(ids) > limit):
                raise ModelError(
                    f"{self.name} reads 1 to {limit or 'any number of'} tokens; {text[:60]!a} has {len(ids)}"
                )
        found = read_batches([[begin, *ids[:-1]] for ids in tokens], tokens, limit, self._logits)
        return np.array([each.total / (each.tokens if self.per_token else 1) for each in found], np.float32)

    def _logits(self, rows: list[list[int]]) -> Any:
        with forward(self.name, self.model):
            return self.model(input_ids=import_torch().tensor(rows, device=self.model.device)).logits
