"""Text models of transformers, whose inputs depend in shape on the text alone; likelihoods of causal ones (GPT-2)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.control_tokens import ControlTokens
from tellapart.models.huggingface.files import config_facts, load_tokenizer, load_weights
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import (
    Runtime,
    bucket,
    fixed_batches,
    forward,
    import_torch,
    positions_by_key,
    runtime,
    weights_fingerprint,
)
from tellapart.models.torch.likelihood import read_batches
from tellapart.models.torch.network import Tensor

ROWS = 4  # texts that a model reads together by default: about the nouns of a caption

#: Their positions begin behind the padding token's number: two rows of the table belong to no text.
_SHIFTED = ("roberta", "camembert", "xlm-roberta", "xlm-roberta-xl")


@dataclass(frozen=True, slots=True, eq=False)
class TextModel:
    """Weights and tokenizer of one folder or hub id, in evaluation mode.

    `rows` texts are read together, filled up by copies: the last bits of a number depend on it and on the text alone.
    With `tokenizer_limit` texts are held to the tokenizer's maximum, too.
    """

    source: str
    model: Any
    tokenizer: Any
    runtime: Runtime
    rows: int = ROWS
    tokenizer_limit: bool = False

    @classmethod
    def load(
        cls,
        architecture: str,
        source: str,
        runtime: Runtime,
        *,
        unused: Sequence[str] = (),
        rows: int = ROWS,
        tokenizer_limit: bool = False,
    ) -> Self:
        """Load a class of transformers, none of its weights guessed; `unused` parts may be missing in its files."""
        tokenizer = load_tokenizer(source)
        model = load_weights(architecture, source, runtime, unused=unused)
        return cls(source, model, tokenizer, runtime, rows, tokenizer_limit)

    def fingerprint(self) -> str:
        """Return the model's class and a hash of weights, configuration, vocabulary, dtype and rows."""
        vocabulary = json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        facts = (config_facts(self.model.config), vocabulary, self.runtime.dtype, str(self.rows))
        return f"{type(self.model).__name__}:{weights_fingerprint(self.model, *facts)[:16]}"

    def weights_digest(self) -> str:
        """Return the SHA-256 of weights, configuration and vocabulary, which `fingerprint` writes in another way."""
        vocabulary = repr(sorted(self.tokenizer.get_vocab().items()))
        return weights_fingerprint(self.model, config_facts(self.model.config), vocabulary)

    @property
    def limit(self) -> int | None:
        """The longest text that the model reads, in tokens with the special ones; None if there is none."""
        config = self.model.config
        longest: int | None = getattr(config, "max_position_embeddings", None)
        if longest is not None and config.model_type in _SHIFTED:
            longest -= 2
        if not self.tokenizer_limit:
            return longest
        model_limit = int(self.tokenizer.model_max_length)
        return model_limit if longest is None else min(model_limit, longest)

    def ids(
        self, texts: Sequence[str], *, least: int = 1, special: bool = True, masked: bool = False
    ) -> list[list[int]]:
        """Return the tokens of each text, with the special ones if wanted; `masked` texts hold some themselves."""
        if not texts:
            return []
        limit, control = self.limit, ControlTokens(self.tokenizer)
        options = {"padding": False, "truncation": False, "verbose": False} | ({} if masked else control.split)
        empty, *rows = self.tokenizer(["", *texts], add_special_tokens=special, **options)["input_ids"]
        if not masked:
            control.refuse(self.source, texts, rows, empty)
        for text, row in zip(texts, rows, strict=True):
            if len(row) < least or (limit is not None and len(row) > limit):
                most = "any number of" if limit is None else limit
                problem = f"{self.source} reads {least} to {most} tokens; {text[:60]!a} has {len(row)}"
                raise ModelError(f"{problem}: shorten the text, or leave it out")
        return rows

    def batches(self, rows: Sequence[list[int]]) -> Iterator[tuple[list[int], dict[str, Any]]]:
        """Yield positions of rows that are read together, and their inputs `(row, length)`, which may end in copies."""
        limit, tensor, pad = self.limit, import_torch().tensor, self.tokenizer.pad_token_id or 0
        for length, positions in positions_by_key(bucket(len(row), limit) for row in rows).items():
            for batch, real in fixed_batches(positions, self.rows):
                padded = [rows[position] + [pad] * (length - len(rows[position])) for position in batch]
                mask = [[1] * len(rows[position]) + [0] * (length - len(rows[position])) for position in batch]
                inputs = {"input_ids": padded, "attention_mask": mask}
                yield batch[:real], {name: tensor(row, device=self.runtime.device) for name, row in inputs.items()}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CausalLikelihood:
    """A text's log-likelihood in nats, the sum over its tokens or, `per_token`, the mean.

    The token `begin` is put before the first one, which without it is not predicted.
    """

    text_model: TextModel
    name: str
    fingerprint: str
    begin: int | None
    per_token: bool
    kind: ClassVar[ScoreKind] = "similarity"

    @classmethod
    def from_mark(cls, source: str, *, per_token: bool) -> Self:
        """Load a model that reads a text after its mark for the beginning, or else for the end (GPT-2)."""
        loaded = TextModel.load("AutoModelForCausalLM", source, runtime(ModelOptions()))
        begin, end = loaded.tokenizer.bos_token_id, loaded.tokenizer.eos_token_id
        if begin is None and end is None:
            raise ModelError(
                f"{source}: its tokenizer has no mark for the beginning or the end of a text, so the first word has no "
                "probability; name another causal model"
            )
        way = "mean" if per_token else "sum"
        fingerprint = f"tellapart:causal:1:{way}:{loaded.weights_digest()}"
        return cls(
            loaded, f"{type(loaded.model).__name__}-{way}", fingerprint, end if begin is None else begin, per_token
        )

    @classmethod
    def from_second_token(cls, source: str, runtime: Runtime) -> Self:
        """Load a model that predicts all tokens but the first, and scores the mean: minus the log of the perplexity.

        Source: the authors' code of Le et al., COCO-Counterfactuals, 2023, with GPT-2 large.
        """
        loaded = TextModel.load("AutoModelForCausalLM", source, runtime)
        return cls(loaded, source, loaded.fingerprint(), begin=None, per_token=True)

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return each text's log-likelihood in nats, float32 `(n,)`."""
        unmarked = self.begin is None
        rows = self.text_model.ids(texts, least=2 if unmarked else 1, special=unmarked)
        if self.begin is not None:
            rows = [[self.begin, *row] for row in rows]

        def predict(batch: list[list[int]]) -> Tensor:
            with forward(self.name, self.text_model.model):
                ids = import_torch().tensor(batch, device=self.text_model.runtime.device)
                return self.text_model.model(input_ids=ids).logits

        sums = read_batches([row[:-1] for row in rows], [row[1:] for row in rows], self.text_model.limit, predict)
        return np.array([total.total / (total.tokens if self.per_token else 1) for total in sums], np.float32)
