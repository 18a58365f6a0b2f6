"""A checkpoint of the transformers library for a fusion encoder: its weights, and the preprocessing of its images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tellapart.errors import ModelError, require
from tellapart.models.fusion_scoring import Prepared
from tellapart.models.fusion_torch import Halves, ImageInputs
from tellapart.models.protocols import Pixels
from tellapart.models.torch_backend import Runtime, import_torch

__all__ = ["context", "import_transformers", "load_tokenizer", "load_weights", "pixel_inputs", "quiet"]

#: Counters that older versions of the library saved beside the weights, and newer ones make themselves.
_BUFFERS = ("position_ids", "token_type_ids")


def import_transformers() -> Any:
    """Import the transformers library (after torch, which makes the torchvision beside it importable).

    Raises:
        MissingDependencyError: it, or torch, is not installed.

    >>> import_transformers().__name__
    'transformers'
    """
    import_torch()
    return require("transformers", extra="models")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the library's progress bars and advice off the terminal while it loads; what matters is raised.

    >>> with quiet():
    ...     import_transformers().utils.logging.is_progress_bar_enabled()
    False
    """
    logging = import_transformers().utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def load_weights(architecture: Any, source: str, runtime: Runtime, *, unused: Sequence[str] = ()) -> Any:
    """Load a model of that class, in evaluation mode, on its device; no weight is guessed.

    Args:
        architecture: a class of the transformers library.
        source: a folder, or a hub id.
        runtime: device and dtype.
        unused: names of submodules that the reading does not use; they are dropped, loaded or not.

    Raises:
        ModelError: the source is not to be had, or weights are missing, left over or of the wrong shape.

    >>> blip = import_transformers().BlipForImageTextRetrieval
    >>> load_weights(blip, str(getfixture("tmp_path")), Runtime("cpu"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: ... cannot be loaded as BlipForImageTextRetrieval: ...
    """
    with quiet():
        try:
            model, report = architecture.from_pretrained(source, dtype=runtime.torch_dtype, output_loading_info=True)
        except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
            raise ModelError(f"{source} cannot be loaded as {architecture.__name__}: {_first_line(error)}") from error

    def matter(kind: str) -> list[str]:
        return sorted(
            key
            for key in map(_first, report.get(kind) or ())
            if not key.startswith(tuple(f"{name}." for name in unused)) and not key.endswith(_BUFFERS)
        )

    wrong = [
        f"{len(keys)} {kind}, first {keys[0]!r}"
        for kind in ("missing", "unexpected")
        if (keys := matter(f"{kind}_keys"))
    ]
    if wrong:
        has = ", ".join(getattr(model.config, "architectures", None) or ["an unnamed architecture"])
        raise ModelError(
            f"{source} does not fit {architecture.__name__}: weights {' and '.join(wrong)}; it was saved as {has}. "
            "Name a checkpoint with an image-text matching head, or ask for another reading"
        )
    for name in unused:
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, None)
    return model.eval().requires_grad_(False).to(runtime.device)


def load_tokenizer(source: str) -> Any:
    """Load the tokenizer of a checkpoint that has no image processor.

    Raises:
        ModelError: the source lacks it, or its vocabulary.

    >>> load_tokenizer(str(getfixture("tmp_path")))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: ... has no tokenizer that can be read: ...
    """
    with quiet():
        try:
            tokenizer = import_transformers().AutoTokenizer.from_pretrained(source)
        except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
            raise ModelError(f"{source} has no tokenizer that can be read: {_first_line(error)}") from error
    # Without its files a tokenizer is made all the same, of its special tokens.
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise ModelError(
            f"{source} has no vocabulary; copy the tokenizer's files from the model that it was trained from (of VisualBERT "
            "and LXMERT: bert-base-uncased)"
        )
    return tokenizer


def context(source: str, halves: Halves, tokenizer: Any) -> int:
    """Return how many tokens a text may have, once the tokenizer has been held against the model.

    Raises:
        ModelError: the tokenizer knows tokens that the model does not.

    >>> from types import SimpleNamespace as Of
    >>> halves = Of(context=512, module=Of(config=Of(text_config=Of(vocab_size=9))))
    >>> context("m", halves, Of(vocab_size=9, model_max_length=40))
    40
    """
    config = halves.module.config
    text = getattr(config, "qformer_config", None) or getattr(config, "text_config", None) or config
    if tokenizer.vocab_size > text.vocab_size:
        raise ModelError(
            f"{source}: its tokenizer knows {tokenizer.vocab_size} tokens and its text encoder {text.vocab_size}: they are "
            "not of one model; copy the tokenizer's files from the model that it was trained from"
        )
    return min(halves.context, int(tokenizer.model_max_length))


def pixel_inputs(processor: Any) -> ImageInputs:
    """Return the preprocessing of one image by the checkpoint's own processor: `pixel_values`, float32 `(3, h, w)`.

    >>> blip = import_transformers().BlipImageProcessorPil(size={"height": 4, "width": 4})
    >>> import numpy as np
    >>> pixel_inputs(blip)(np.zeros((3, 9, 3), np.uint8))["pixel_values"].shape
    (3, 4, 4)
    """

    def inputs(pixels: Pixels) -> Prepared:
        from PIL import Image

        # A picture, for of an array with three rows the processor cannot tell which axis holds the colours.
        made = processor(images=Image.fromarray(pixels), input_data_format="channels_last", return_tensors="np")
        return {"pixel_values": made["pixel_values"][0]}

    return inputs


def _first(key: Any) -> str:
    return str(key if isinstance(key, str) else key[0])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
