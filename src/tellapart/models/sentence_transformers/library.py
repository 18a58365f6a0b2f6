"""A model of sentence-transformers, run so that no sample's numbers depend on the others of a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from tellapart.errors import ModelError, first_sentence
from tellapart.models.control_tokens import ControlTokens
from tellapart.models.huggingface.files import config_facts, processor_facts, quiet, tokenizer_facts
from tellapart.models.huggingface.towers import pool_at_end
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import (
    Runtime,
    fixed_batches,
    forward,
    import_torch,
    positions_by_key,
    weights_fingerprint,
)

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from transformers import PreTrainedTokenizerBase

    from tellapart.models.torch.network import Network

Value = TypeVar("Value")

#: One sample as the library's preprocessing leaves it: tensors by name, and constants (`modality`, ...).
Features = Mapping[str, Any]

#: Samples in every forward pass: on a CPU more gains nothing, elsewhere fewer leave it idle.
_ON_CPU, _ELSEWHERE = 8, 32


class Library:
    """A loaded model of sentence-transformers.

    The library pads the samples of a call to the longest, so that a number's last digits depend on its neighbours.
    Here every sample is prepared alone by the library's preprocessing; those of one shape meet in batches of a
    fixed size, without padding.

    Attributes:
        size: samples in one forward pass.
        truncated: texts so far that were longer than the model's limit and lost their end.
        provenance: where a CLIP among its parts reads a text, if transformers would read it elsewhere; else empty.
    """

    def __init__(
        self, source: str, model: SentenceTransformer | CrossEncoder, place: Runtime, identity: str | None = None
    ) -> None:
        self.source, self.model, self.where = source, model, place
        self.size = _ON_CPU if place.device == "cpu" else _ELSEWHERE
        self.truncated = 0
        held = identity is not None
        tokenizers = ((part, _tokenizer_of(part)) for part in model.modules())
        # The whole has the tokenizer of its first part: of those with one tokenizer the innermost comes last.
        readers = {id(words): (part, words) for part, words in tokenizers if words is not None}.values()
        sentences = [pool_at_end(source, part, words, held=held) for part, words in readers]
        self.provenance = "; ".join(filter(None, sentences))
        self._control = [ControlTokens(words, str(getattr(words, "chat_template", ""))) for _, words in readers]
        self._lock = Lock()  # a tokenizer's settings are changed by a call
        self._identity = identity

    def prepare(self, sample: object, **options: Any) -> Features:
        """Preprocess one sample, a batch of one; may be called from many threads."""
        try:
            with self._lock:
                return dict(self.model.preprocess([sample], **options))
        except (ValueError, TypeError, AttributeError, RuntimeError, ZeroDivisionError) as error:
            raise ModelError(f"{self.source}: its preprocessing fails: {first_sentence(error)}") from error

    def prepare_text(self, sample: Mapping[str, Any] | tuple[Mapping[str, Any], object], **options: Any) -> Features:
        """Preprocess one sample that has a text; count it in `truncated` if the text loses its end."""
        text = sample if isinstance(sample, Mapping) else sample[0]
        with self._lock:
            for control in self._control:
                control.refuse_in_prompt(self.source, text["text"])
        features, limit = self.prepare(sample, **options), self.model.max_seq_length
        if limit is not None and "input_ids" in features and features["input_ids"].shape[-1] >= limit:
            with quiet():  # it warns of the length that is asked for
                uncut = self.prepare(sample, **options, processing_kwargs={"text": {"truncation": False}})
            self.truncated += uncut["input_ids"].shape[-1] > features["input_ids"].shape[-1]
        return features

    def run_samples(
        self, samples: Sequence[Features], read: Callable[[Mapping[str, Any]], Iterable[Value]], **options: Any
    ) -> list[Value]:
        """Run prepared samples through the model, those of one shape together."""
        values: dict[int, Value] = {}
        for positions in positions_by_key(map(_batch_shape, samples)).values():
            for batch, real in fixed_batches(positions, self.size):
                inputs = self._collate_batch([samples[position] for position in batch])
                with forward(self.source, self.model):
                    outputs = read(self.model(inputs, **options))
                values |= zip(batch[:real], outputs, strict=False)
        return [values[position] for position in range(len(samples))]

    def fingerprint(self, reading: str) -> str:
        """Return a hash of the weights, the preprocessing and the reading: the same wherever the files lie."""
        if self._identity is None:
            kept = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim", "max_seq_length")
            settings: dict[str, Any] = {name: getattr(self.model, name, None) for name in kept}
            settings["activation"] = str(getattr(self.model, "activation_fn", None))
            settings["modules"] = [_module_facts(module) for module in self.model.modules()]
            facts = json.dumps(settings, sort_keys=True, default=str)
            self._identity = weights_fingerprint(self.model, type(self.model).__name__, self.where.dtype, facts)
        return f"tellapart:sentence-transformers:{reading}:1:{self._identity}"

    def _collate_batch(self, batch: Sequence[Features]) -> dict[str, Any]:
        torch = import_torch()
        inputs = dict(batch[0])
        for name, value in inputs.items():
            if torch.is_tensor(value):
                joined = torch.cat([features[name] for features in batch])
                dtype = self.where.torch_dtype if joined.is_floating_point() else None
                inputs[name] = joined.to(self.where.device, dtype)
        return inputs


def as_text(text: str) -> dict[str, Any]:
    """Return a text as the library takes it: a bare one that looks like an image's path would be read as an image."""
    return {"text": text}


def as_picture(pixels: Pixels) -> dict[str, Any]:
    """Return an RGB image, uint8 `(height, width, 3)`, as the library takes it."""
    from PIL import Image

    return {"image": Image.fromarray(pixels)}


def _tokenizer_of(part: Network) -> PreTrainedTokenizerBase | None:
    """Return the tokenizer of a part that reads texts by a network of transformers."""
    tokenizer = getattr(getattr(part, "processor", None), "tokenizer", getattr(part, "tokenizer", None))
    return tokenizer if hasattr(tokenizer, "special_tokens_map") else None


def _batch_shape(features: Features) -> tuple[Any, ...]:
    """Return the traits that all samples of a batch must share: shapes and dtypes of tensors, and all other values."""
    torch = import_torch()
    return tuple(
        (name, tuple(value.shape), str(value.dtype)) if torch.is_tensor(value) else (name, str(value))
        for name, value in sorted(features.items())
    )


def _module_facts(module: Network) -> object:
    """Describe a part of a model: its class and its settings; of a network of transformers its configuration."""
    facts: dict[str, Any] = {"kind": type(module).__name__}
    if hasattr(module, "get_config_dict"):
        facts["settings"] = module.get_config_dict()
    if hasattr(config := getattr(module, "config", None), "to_dict"):
        facts["config"] = config_facts(config)
    processor = getattr(module, "processor", None)
    if hasattr(processor, "image_processor"):
        facts["processor"] = processor_facts(processor)
    elif (tokenizer := _tokenizer_of(module)) is not None:
        facts["processor"] = tokenizer_facts(tokenizer)
    facts["chat"] = str(getattr(processor, "chat_template", None))
    return facts
