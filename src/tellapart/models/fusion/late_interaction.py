"""Late interaction of transformers: ColPali, ColQwen2 and ColModernVBert give an image and a text a vector a token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.models.control_tokens import ControlTokens
from tellapart.models.fusion.family import Tensors
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import SIZES, TorchState, encode_states
from tellapart.models.huggingface.files import (
    config_facts,
    load_processor,
    load_weights,
    processor_facts,
    read_config,
)
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, parameter_count, runtime, weights_fingerprint
from tellapart.models.torch.dual_encoder import Inputs
from tellapart.models.vectors import late_interaction

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

    from tellapart.models.options import ModelOptions

#: A reading -> the rule by which token vectors become a score (`late_interaction`).
RULES = {"retrieval": "maxsim", "filip": "filip"}


class TokenVectors:
    """A model with a vector for each token of an image and of a text; the text is the query.

    The library pads the samples of a batch to the longest, and a padded vector can be the nearest. Here each sample is
    prepared alone. Vectors are float32 and stay in memory; the store keeps the pairs' scores.

    Args:
        reading: `retrieval`, the processor's `score_retrieval` (MaxSim); or `filip`, the mean of both directions.
    """

    kind: ScoreKind = "similarity"

    def __init__(
        self, name: str, model: PreTrainedModel, processor: ProcessorMixin, place: Runtime, reading: str
    ) -> None:
        self.name, self.parameters = name, parameter_count(model)
        facts = (type(model).__name__, place.dtype, config_facts(model.config), processor_facts(processor))
        self.fingerprint = weights_fingerprint(model, "tellapart:late-interaction:1", reading, *facts)
        self._model, self._processor, self._place, self._rule = model, processor, place, RULES[reading]
        self._control = ControlTokens(processor.tokenizer)

    def prepare_image(self, pixels: Pixels) -> Inputs:
        """Preprocess one RGB image, uint8 `(height, width, 3)`; may be called from many threads."""
        from PIL import Image

        return dict(self._processor.process_images([Image.fromarray(pixels)], return_tensors="pt"))

    def encode_images(self, images: Sequence[Pixels | Inputs]) -> list[TorchState]:
        """Encode RGB images, raw or prepared: one state each, `(tokens, dimensions)`."""
        return self._encode([image if isinstance(image, Mapping) else self.prepare_image(image) for image in images])

    def encode_texts(self, texts: Sequence[str]) -> list[TorchState]:
        """Encode texts: one state each, `(tokens, dimensions)`."""
        for text in texts:
            self._control.refuse_in_prompt(self.name, text)
        return self._encode([dict(self._processor.process_queries([text], return_tensors="pt")) for text in texts])

    def score_states(self, images: Sequence[TorchState], texts: Sequence[TorchState]) -> NDArray[np.float32]:
        """Score image state `k` against text state `k`: float32 `(n,)`, computed in float64, pair by pair."""
        return score_tokens(images, texts, self._rule)

    def _encode(self, samples: Sequence[Inputs]) -> list[TorchState]:
        def read(inputs: Inputs) -> Iterable[Tensors]:
            vectors, shown = self._model(**inputs).embeddings, inputs["attention_mask"].bool()
            return ((rows[mask],) for rows, mask in zip(vectors, shown, strict=True))

        return encode_states(self.name, self._model, self._place, samples, read, SIZES)


def score_tokens(images: Sequence[TorchState], texts: Sequence[TorchState], rule: str) -> NDArray[np.float32]:
    """Score the token vectors of image `k` against those of text `k` by a rule: float32 `(n,)`."""
    arrays = ([state.tensors[0].double().cpu().numpy() for state in states] for states in (images, texts))
    return np.array([late_interaction(image, text, rule) for image, text in zip(*arrays, strict=True)], np.float32)


def load_late(source: str, options: ModelOptions) -> FusionScorer:
    """Load a late-interaction model of transformers from a folder or the hub."""
    place = runtime(options)
    processor = load_processor(source)
    model = load_weights(read_config(source)["architectures"][0], source, place)
    return FusionScorer(TokenVectors(source, model, processor, place, options.reading or "retrieval"))
