"""A `SentenceTransformer` that takes pictures and texts to one space, as a dual encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.sentence_transformers.library import Features, Library, as_picture, as_text
from tellapart.models.torch.backend import parameter_count
from tellapart.models.vectors import dot_products, normalise

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer


def roles(model: SentenceTransformer | CrossEncoder) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the prompt and the task of a query and of a document, as `encode_query` and `encode_document` set them."""
    names = [name for name in ("document", "passage", "corpus") if name in model.prompts]
    default = model.prompts.get(model.default_prompt_name)
    query = {"prompt": model.prompts.get("query", default), "task": "query"}
    return query, {"prompt": model.prompts[names[0]] if names else default, "task": "document"}


class SentenceTransformerDual:
    """A `SentenceTransformer`; a score is the similarity that the model names: the cosine or the dot product.

    The reading `encode` gives images and texts what `encode` gives them, the default prompt included; `retrieval` asks
    for texts as queries and for images as documents. On one device a vector depends on its own image or text alone, bit
    for bit on a CPU.

    Attributes:
        batch_size: samples that are best given at once: some forward passes, so that texts of one length meet.
    """

    kind: ScoreKind = "similarity"

    def __init__(self, library: Library, reading: str = "encode") -> None:
        model = library.model
        if reading not in ("encode", "retrieval"):
            raise ModelError(f"{library.source}: it has no reading {reading!r}; it has encode, retrieval")
        if model.similarity_fn_name not in ("cosine", "dot"):
            raise ModelError(
                f"{library.source}: its similarity is {model.similarity_fn_name!r}; cosine and dot are read here: set "
                "similarity_fn_name in config_sentence_transformers.json to the one it was trained with"
            )
        self.name, self.fingerprint = library.source, library.fingerprint(reading)
        self.parameters, self.batch_size = parameter_count(model), 4 * library.size
        #: Scores rise with the cosine of the vectors, so that a gallery can be ranked by it.
        self.ranks_by_cosine = model.similarity_fn_name == "cosine"
        self._library, self.provenance = library, library.provenance
        default = {"prompt": model.prompts.get(model.default_prompt_name)}
        self._query, self._document = (default, default) if reading == "encode" else roles(model)

    @property
    def truncated(self) -> int:
        """Texts so far that were longer than the model's limit and lost their end."""
        return self._library.truncated

    def prepare_image(self, pixels: Pixels) -> Features:
        """Preprocess one RGB image, uint8 `(height, width, 3)`, for `encode_images`; may be called from many
        threads.
        """
        return self._library.prepare(as_picture(pixels), **self._document)

    def encode_images(self, images: Sequence[Pixels | Features]) -> Vectors:
        """Encode RGB images, raw or prepared, to float32 `(n, dimensions)`."""
        prepared = [image if isinstance(image, Mapping) else self.prepare_image(image) for image in images]
        return self._encode_samples(prepared, self._document)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)`; count the cut ones in `truncated`."""
        return self._encode_samples(
            [self._library.prepare_text(as_text(text), **self._query) for text in texts], self._query
        )

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors: float32 `(images, texts)`; of stacks of vectors, item by item."""
        return dot_products(images, texts)

    similarities = similarity

    def _encode_samples(self, samples: Sequence[Features], role: Mapping[str, Any]) -> Vectors:
        if not samples:
            return np.zeros((0, 0), np.float32)
        width = self._library.model.truncate_dim
        options = {name: value for name, value in role.items() if name == "task"}
        rows = self._library.run_samples(
            samples, lambda outputs: outputs["sentence_embedding"][:, :width].float().cpu().numpy(), **options
        )
        vectors = np.stack(rows)
        return normalise(vectors, self.name) if self.ranks_by_cosine else vectors
