"""Dual encoders of transformers: images and texts are encoded apart, by the model's towers and processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.caption_rules import caption_rule
from tellapart.models.huggingface.files import (
    config_facts,
    import_transformers,
    load_processor,
    load_weights,
    processor_facts,
    read_config,
)
from tellapart.models.huggingface.images import Prepared, check_images, image_inputs
from tellapart.models.huggingface.tokens import TokenReader
from tellapart.models.huggingface.towers import (
    LEGACY_END,
    TOWERS,
    Tower,
    Towers,
    context_length,
    find_towers,
    fit_towers,
    is_siglip,
    pool_at_end,
)
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.torch.backend import (
    Runtime,
    exact_size,
    fixed_batches,
    forward,
    import_torch,
    move,
    parameter_count,
    positions_by_key,
    runtime,
    weights_fingerprint,
)
from tellapart.models.torch.packs import HIDDEN
from tellapart.models.torch.shared_beginnings import CausalTower, are_untouched, encode_packs
from tellapart.models.vectors import dot_products, normalise

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel, ProcessorMixin

    from tellapart.models.options import ModelOptions
    from tellapart.models.torch.network import Network


_CLIP = "transformers.models.clip.modeling_clip."
_PARTS = frozenset(
    {
        *(_CLIP + name for name in ("CLIPAttention", "CLIPEncoder", "CLIPEncoderLayer", "CLIPMLP")),
        *(_CLIP + name for name in ("CLIPTextEmbeddings", "CLIPTextModel", "CLIPTextTransformer")),
        *(f"transformers.activations.{name}" for name in ("GELUActivation", "QuickGELUActivation")),
    }
)


def reads_causally(model: Network) -> bool:
    """Return whether a model's text tower is CLIP's, of untouched modules, with torch's fused attention."""
    kind = type(model)
    return (
        f"{kind.__module__}.{kind.__qualname__}" == _CLIP + "CLIPModel"
        and "get_text_features" not in vars(model)
        and model.config.text_config._attn_implementation == "sdpa"
        and are_untouched([model.text_model, model.text_projection], _PARTS)
    )


def share_beginnings(model: Network, ids: Tensor, shown: Tensor, size: int) -> Tensor | None:
    """Return the features of texts of one padded length, `(n, dimensions)`; None if padding is read in one of them."""
    torch, text = import_torch(), model.text_model
    end_positions = (ids if text.eos_token_id == LEGACY_END else (ids == text.eos_token_id).int()).argmax(dim=-1)
    read = torch.arange(ids.shape[1]) <= end_positions[:, None]
    if not shown[read].all():
        return None
    embeddings = text.embeddings
    length, dtype = ids.shape[1], embeddings.token_embedding.weight.dtype
    mask = torch.full((length, length), float("-inf"), dtype=dtype).triu(1)
    tower = CausalTower(
        lambda tokens, depths: embeddings.token_embedding(tokens) + embeddings.position_embedding(depths),
        [_Layer(layer) for layer in text.encoder.layers],
        lambda states: model.text_projection(text.final_layer_norm(states)),
        lambda _: mask,
    )
    return encode_packs(tower, torch.where(read, ids, HIDDEN).numpy(), end_positions.numpy(), size)


class _Layer:
    """A layer of CLIP's encoder."""

    def __init__(self, layer: Network) -> None:
        self._layer, self._attention = layer, layer.self_attn
        self.heads: int = layer.self_attn.num_heads

    def project(self, states: Tensor) -> Tensor:
        states, attention = self._layer.layer_norm1(states), self._attention
        parts = [project(states) for project in (attention.q_proj, attention.k_proj, attention.v_proj)]
        return import_torch().cat(parts, dim=1)

    def finish(self, states: Tensor, mixed: Tensor) -> Tensor:
        states = states + self._attention.out_proj(mixed)
        return states + self._layer.mlp(self._layer.layer_norm2(states))


#: How far a vector of length one may move by influences that must not move it, and by others.
_NOISE = {"float32": 1e-5, "bfloat16": 0.05, "float16": 0.01}
_SAME = 1e-7

#: Samples of a model's test: pictures of three shapes, and texts of two lengths and more.
_SHAPES = ((48, 64), (64, 40), (32, 32))
_TEXTS = ("a cat", "two dogs on a red mat, beside a cat", "a red mat on two dogs")

#: Images or texts in every forward pass: on a CPU more gains nothing, elsewhere fewer leave it idle.
_ON_CPU, _ELSEWHERE = 16, 64


def load_dual(source: str, options: ModelOptions) -> HuggingFaceDual:
    """Load a dual encoder of transformers from a folder or the hub."""
    place = runtime(options)
    config = read_config(source)
    architecture = next(iter(config.get("architectures") or ()), "") or _plain_architecture(config["model_type"])
    towers = find_towers(architecture)
    if towers is None:
        raise ModelError(
            f"{source}: {architecture or 'a model without an architecture'} has no contrastive heads, so it has no "
            f"reading 'itc'; name another reading, or a checkpoint of {', '.join(TOWERS)}, or of another class with "
            "get_image_features and get_text_features"
        )
    processor = load_processor(source)
    model = load_weights(architecture, source, place, unused=towers.unused)
    if towers.tested:
        return HuggingFaceDual(source, model, processor, towers, place, texts=options.texts)
    return _test_encoder(
        HuggingFaceDual(source, model, processor, fit_towers(towers, model, processor), place), processor
    )


def _test_encoder(encoder: HuggingFaceDual, processor: ProcessorMixin) -> HuggingFaceDual:
    encoder.test_itself(pads_whole=(getattr(processor, "text_kwargs", None) or {}).get("padding") == "max_length")
    return encoder


def hold_dual(
    name: str, model: PreTrainedModel, architecture: str, processor: ProcessorMixin, place: Runtime
) -> HuggingFaceDual:
    """Return a caller's model as an encoder, without moving it; its identity is the caller's affair."""
    towers = find_towers(architecture)
    if towers is None:
        raise ModelError(f"{name}: {architecture} has no contrastive heads")
    if towers.tested:
        return HuggingFaceDual(name, model, processor, towers, place, fingerprint="held")
    fitted = fit_towers(towers, model, processor)
    return _test_encoder(HuggingFaceDual(name, model, processor, fitted, place, fingerprint="held"), processor)


def _read_activation(config: PreTrainedConfig, tower: str) -> str:
    """Return the activation of a tower, as configurations name it; empty if none is named."""
    activation = getattr(getattr(config, tower, config), "hidden_act", "")
    return {"quick_gelu": "QuickGELU", "gelu": "GELU", "gelu_pytorch_tanh": "GELU (tanh)"}.get(
        activation, str(activation)
    )


def _plain_architecture(model_type: str) -> str:
    """Return a family's class without other heads, for a configuration that names no architecture."""
    plain = (name for name, towers in TOWERS.items() if towers.model_type == model_type and name.endswith("Model"))
    class_name = import_transformers().models.auto.modeling_auto.MODEL_MAPPING_NAMES.get(model_type)
    return next(plain, class_name if isinstance(class_name, str) else "")


class HuggingFaceDual:
    """A dual encoder of transformers; a score is the cosine of image and text.

    Images are prepared by the model's processor, in Pillow; texts by its tokenizer, cut to the context. Where
    an image has several vectors (BLIP-2's queries), its score is the largest of their cosines. Every forward has one of
    a few fixed shapes: on one device a vector depends on its own image or text alone, bit for bit on
    a CPU. There CLIP's text tower computes beginnings that several texts share once (`shares_beginnings`), which
    changes no bit.

    Attributes:
        batch_size: samples that are best given at once: some forward passes, so that texts of one length meet.
        texts: the rule by which captions are changed before the tokenizer reads them; empty if there is none.
        provenance: where its text tower reads a text, if transformers would read it elsewhere; else empty.
        truncated: how many of the texts encoded so far were longer than the context and lost their end.
    """

    kind: ScoreKind = "similarity"

    #: Scores rise with the cosine of the vectors, so that a gallery can be ranked by it.
    ranks_by_cosine = True

    def __init__(
        self,
        name: str,
        model: PreTrainedModel,
        processor: ProcessorMixin,
        towers: Towers,
        place: Runtime,
        *,
        texts: str = "raw",
        fingerprint: str | None = None,
    ) -> None:
        self.name, self.device = name, place.device
        self._size = _ON_CPU if place.device == "cpu" else _ELSEWHERE
        self.batch_size = 4 * self._size
        self.truncated = 0
        self.parameters = parameter_count(model)
        self._model, self._towers, self._where = model, towers, place
        self.provenance = pool_at_end(name, model, processor.tokenizer, held=fingerprint is not None)
        length = context_length(name, model.config, processor.tokenizer, towers)
        self.texts, clean = caption_rule(is_siglip(towers), processor.tokenizer, texts)
        self._texts = TokenReader(processor.tokenizer, length, whole=towers.whole, clean=clean)
        self.traits = {
            "activation": _read_activation(model.config, "text_config"),
            "image activation": _read_activation(model.config, "vision_config"),
            "context": f"{length} tokens",
            "dtype": place.dtype,
            "texts": self.texts,
        }
        self._image_inputs = image_inputs(name, processor.image_processor)
        check_images(name, model.config, self._image_inputs)
        self.fingerprint = fingerprint or "tellapart:huggingface:itc:1:" + weights_fingerprint(
            model,
            type(model).__name__,
            place.dtype,
            f"{self._texts.length} tokens",
            config_facts(model.config),
            processor_facts(processor),
            *([self.texts] if clean else []),
        )

    def prepare_image(self, pixels: Pixels) -> Prepared:
        """Preprocess one RGB image, uint8 `(height, width, 3)`, for `encode_images`; may be called from many
        threads.
        """
        return self._image_inputs(pixels)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, padded to the context."""
        return self._texts.token_ids(texts)

    def find_cut(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it is longer than the context."""
        return self._texts.find_cut(texts)

    def input_pixels(self, pixels: Pixels) -> NDArray[np.float32]:
        """Return one image as the tower is given it; of a model that takes patches, `(patches, values)`."""
        values: NDArray[np.float32] = np.asarray(self.prepare_image(pixels)["pixel_values"], np.float32)
        return values

    def encode_images(self, images: Sequence[Pixels | Prepared]) -> Vectors:
        """Encode RGB images, raw or prepared, to float32 `(n, dimensions)`, or `(n, queries * dimensions)`."""
        prepared = [image if isinstance(image, Mapping) else self.prepare_image(image) for image in images]
        return (
            self._encode_samples(self._towers.image, prepared, _stack_images)
            if prepared
            else np.zeros((0, 0), np.float32)
        )

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)`; count the cut ones in `truncated`."""
        lengths, truncated = self._texts.lengths(texts)
        self.truncated += sum(truncated)
        rows: dict[int, NDArray[np.float32]] = {}
        shares = self.shares_beginnings
        for length, positions in positions_by_key(lengths).items():
            tokenize = partial(self._texts.tokens, length=length)
            group = [texts[position] for position in positions]
            vectors = self._share_beginnings(tokenize(group)) if shares else None
            if vectors is None:
                vectors = self._encode_samples(self._towers.text, group, tokenize)
            rows |= zip(positions, vectors, strict=True)
        return np.stack([rows[position] for position in range(len(texts))]) if rows else np.zeros((0, 0), np.float32)

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors: float32 `(images, texts)`, cosines; of an image's several vectors the largest.

        Of stacks of vectors, `(items, images, ...)` and `(items, texts, ...)`, item by item: `(items, images, texts)`.
        """
        (*items, count, width), dimensions = images.shape, texts.shape[-1]
        queries, rest = divmod(width, dimensions)
        if rest or not queries:
            raise ModelError(
                f"{self.name}: images are encoded to {width} dimensions and texts to {dimensions}: its towers do not "
                "meet in one space; check the sizes of its projections in config.json"
            )
        similarities = dot_products(images.reshape(*items, count * queries, dimensions), texts)
        largest: NDArray[np.float32] = similarities.reshape(*items, count, queries, texts.shape[-2]).max(axis=-2)
        return largest

    similarities = similarity

    def test_itself(self, *, pads_whole: bool = False) -> None:
        """Test the promises of the other methods on a few images and texts, for a model that nobody has looked at."""
        kind, noise, own = type(self._model).__name__, _NOISE[self._where.dtype], self._texts
        images = [np.random.default_rng(k).integers(0, 256, (*_SHAPES[k], 3), dtype=np.uint8) for k in range(3)]
        vectors = {"image": self.encode_images(images), "text": self.encode_texts(_TEXTS)}
        for side, each in vectors.items():
            if np.allclose(each, each[0], rtol=0, atol=_SAME):
                raise ModelError(f"{self.name}: {kind} gives three {side}s one and the same vector")
        self.similarity(vectors["image"], vectors["text"])
        alone = {"image": [self.encode_images([image])[0] for image in images]}
        alone["text"] = [self.encode_texts([text])[0] for text in _TEXTS]
        moved = {f"batching moves {side} vectors": _largest_difference(vectors[side], alone[side]) for side in vectors}
        turned = {"image": self.encode_images(images[::-1])[::-1], "text": self.encode_texts(_TEXTS[::-1])[::-1]}
        moved |= {
            f"the order moves {side} vectors": _largest_difference(vectors[side], turned[side]) for side in vectors
        }
        self._texts = TokenReader(own.tokenizer, own.length, whole=True)
        padding = _largest_difference(vectors["text"], self.encode_texts(_TEXTS))
        self.truncated = 0
        if padding <= noise or not pads_whole:
            self._texts = own
            moved["padding moves text vectors"] = padding
        for what, distance in moved.items():
            if not distance <= noise:
                raise ModelError(
                    f"{self.name}: {what} of {kind} by up to {distance:.2g}, so no number of it would be its own; a "
                    "model of another kind can be measured through tellapart.score"
                )

    @property
    def shares_beginnings(self) -> bool:
        """Whether texts share the states of common beginnings: on a CPU, by CLIP's tower of untouched modules."""
        return self.device == "cpu" and not exact_size() and reads_causally(self._model)

    def _share_beginnings(self, inputs: Prepared) -> Vectors | None:
        ids = inputs["input_ids"]
        mask = inputs.get("attention_mask", import_torch().ones_like(ids))
        with forward(self.name, self._model):
            features = share_beginnings(self._model, ids, mask, self._size)
        return None if features is None else normalise(features.float().numpy(), self.name, self._where.dtype)

    def _encode_samples(
        self, tower: Tower, samples: Sequence[Any], collate: Callable[[list[Any]], Prepared]
    ) -> Vectors:
        parts = []
        for batch, real in fixed_batches(samples, self._size):
            inputs = {name: move(tensor, self._where) for name, tensor in collate(batch).items()}
            with forward(self.name, self._model):
                features = tower(self._model, inputs)
            parts.append(features[:real].float())
        # Only here, for a GPU computes one batch while the next is put together.
        rows = np.concatenate([part.cpu().numpy() for part in parts])  # (n, dimensions) or (n, queries, dimensions)
        unit = normalise(rows.reshape(-1, rows.shape[-1]), self.name, self._where.dtype)
        return unit.reshape(len(samples), -1)


def _largest_difference(vectors: Vectors, others: Sequence[NDArray[np.float32]] | Vectors) -> float:
    return float(np.abs(vectors - np.asarray(others)).max())


def _stack_images(images: Sequence[Prepared]) -> Prepared:
    torch = import_torch()
    return {name: torch.stack([image[name] for image in images]) for name in images[0]}
