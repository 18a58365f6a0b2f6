"""A `CrossEncoder` that reads a picture and a text together, as a pair scorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.protocols import Pixels
from tellapart.models.sentence_transformers.library import Library, as_picture, as_text
from tellapart.models.torch.backend import parameter_count

if TYPE_CHECKING:
    pass


class CrossEncoderScorer:
    """A `CrossEncoder`: the text is the query, the image the document, and one number comes out.

    The reading `predict` is the number that `predict` returns, a probability if the model's activation is a sigmoid;
    `logit` is the number before that activation, which separates pairs where the probability is rounded to 0 or 1.

    Attributes:
        batch_size: pairs that are best given at once.
    """

    is_reranker = True

    def __init__(self, library: Library, reading: str = "predict") -> None:
        model = library.model
        if reading not in ("predict", "logit"):
            raise ModelError(f"{library.source}: it has no reading {reading!r}; it has predict, logit")
        if model.num_labels != 1:
            raise ModelError(
                f"{library.source}: it puts out {model.num_labels} numbers for a pair, and nothing names the match "
                "among them; a reranker puts out one"
            )
        self.name, self.fingerprint = library.source, library.fingerprint(reading)
        self.parameters, self.batch_size = parameter_count(model), 4 * library.size
        squashed = reading == "predict" and type(model.activation_fn).__name__ == "Sigmoid"
        self.kind: ScoreKind = "probability" if squashed else "logit"
        self._library, self._raw = library, reading == "logit"
        self._prompt = model.prompts.get(model.default_prompt_name)

    @property
    def truncated(self) -> int:
        """Pairs so far that were longer than the model's limit and lost their end."""
        return self._library.truncated

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)`."""
        if len(images) != len(texts):
            raise ModelError(f"score_pairs takes as many images as texts; got {len(images)} and {len(texts)}")
        pairs = zip(images, texts, strict=True)
        samples = [
            self._library.prepare_text((as_text(text), as_picture(pixels)), prompt=self._prompt)
            for pixels, text in pairs
        ]
        return np.array(self._library.run_samples(samples, self._read_scores), np.float32)

    def _read_scores(self, outputs: Mapping[str, Any]) -> NDArray[np.float32]:
        scores = outputs["scores"].float()
        if not self._raw and self._library.model.activation_fn is not None:
            scores = self._library.model.activation_fn(scores)
        return scores.reshape(-1).cpu().numpy()
