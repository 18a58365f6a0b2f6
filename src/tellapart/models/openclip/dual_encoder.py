"""Dual encoders of open_clip: published weights, hub models, folders and checkpoint files."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, first_line
from tellapart.models.caption_rules import caption_rule
from tellapart.models.openclip.fitting import complete_name
from tellapart.models.openclip.library import import_open_clip
from tellapart.models.openclip.source import FOLDER, resolve
from tellapart.models.openclip.tokens import TextTower, Tokens
from tellapart.models.openclip.weights import Parts, assemble, is_siglip
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix, files_below
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.torch.backend import (
    Runtime,
    exact_size,
    fixed_batches,
    import_torch,
    move,
    parameter_count,
    positions_by_key,
    runtime,
    weights_fingerprint,
)
from tellapart.models.torch.backend import forward as compute
from tellapart.models.torch.checkpoint import split_part
from tellapart.models.torch.packs import HIDDEN
from tellapart.models.torch.shared_beginnings import CausalTower, are_untouched, encode_packs
from tellapart.models.vectors import dot_products, normalise

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from tellapart.models.torch.network import Network


_MODELS = frozenset({"open_clip.model.CLIP", "open_clip.model.CustomTextCLIP", "open_clip.coca_model.CoCa"})
_PARTS = frozenset(
    f"open_clip.transformer.{name}"
    for name in (
        "LayerNorm",
        "LayerNormFp32",
        "LayerScale",
        "QuickGELU",
        "ResidualAttentionBlock",
        "TextTransformer",
        "Transformer",
    )
)


class SharedTexts:
    """The text tower of a model of `open_clip.create_model`, on a CPU, with shared beginnings."""

    def __init__(self, model: Network, tower: TextTower) -> None:
        self._model, self._tower = model, tower
        self._text = getattr(model, "text", model)
        #: The token that CoCa appends to every text, and reads its answer off.
        self._last = getattr(self._text, "cls_emb", None)

    @property
    def works(self) -> bool:
        """Whether the tower is one of those known here: causal, read at one token, and of untouched modules."""
        kind, text = type(self._model), self._text
        if f"{kind.__module__}.{kind.__qualname__}" not in _MODELS or "encode_text" in vars(self._model):
            return False
        names = ("token_embedding", "transformer", "ln_final")  # of CLIP, which is its own text tower
        parts = [text] if text is not self._model else [getattr(text, name) for name in names]
        causal = self._tower.shortens or (self._last is not None and getattr(text, "attn_mask", None) is not None)
        return causal and are_untouched(parts, _PARTS)

    def encode(self, ids: Tensor, size: int) -> Tensor:
        """Return the features, `(n, dimensions)`, of ids `(n, length)`."""
        return self._encode_ended(ids, size) if self._last is None else self._encode_appended(ids, size)

    def _encode_ended(self, ids: Tensor, size: int) -> Tensor:
        torch, length = import_torch(), ids.shape[1]
        end_positions = self._tower.pooling_positions(ids)
        tokens = torch.where(torch.arange(length) <= end_positions[:, None], ids, HIDDEN)
        mask = self._text.attn_mask[:length, :length].to(self._dtype)

        def embed(tokens: Tensor, depths: Tensor) -> Tensor:
            return self._embed_places(self._text.token_embedding(tokens), depths)

        def read(states: Tensor) -> Tensor:
            return self._tower.project(self._tower.last_norm(states))

        tower = CausalTower(embed, self._layers, read, lambda _: mask)
        return encode_packs(tower, tokens.numpy(), end_positions.numpy(), size)

    def _encode_appended(self, ids: Tensor, size: int) -> Tensor:
        """Encode as CoCa: an appended token sees the tokens that its mask shows, and is read."""
        torch, (count, length) = import_torch(), ids.shape
        shown = ids != self._text.pad_id
        appended = shown.new_ones(count, 1)
        # In CoCa's released weights the mask is one place off, which open_clip keeps for them.
        parts = [shown, appended] if self._text.correct_cls_mask else [appended, shown]
        shown = torch.cat(parts, dim=1)  # (n, length + 1), as keys
        marker = self._text.token_embedding.num_embeddings
        tokens = torch.where(shown[:, :-1], ids, HIDDEN)
        tokens = torch.cat([tokens, tokens.new_full((count, 1), marker)], dim=1)
        causal = self._text.attn_mask[: length + 1, : length + 1].to(self._dtype)

        def embed(tokens: Tensor, depths: Tensor) -> Tensor:
            words = self._text.token_embedding(tokens.clamp(max=marker - 1))
            return self._embed_places(torch.where((tokens == marker)[:, None], self._last, words), depths)

        def mask(texts: Sequence[int]) -> Tensor:
            return causal.masked_fill(~shown[texts][:, None, None], float("-inf"))  # (size, 1, length + 1, length + 1)

        def read(states: Tensor) -> Tensor:
            return torch.nn.functional.normalize(self._tower.project(self._tower.last_norm(states)), dim=-1)

        end_positions = torch.full((count,), length)
        return encode_packs(CausalTower(embed, self._layers, read, mask), tokens.numpy(), end_positions.numpy(), size)

    @property
    def _dtype(self) -> torch.dtype:
        dtype: torch.dtype = self._text.transformer.get_cast_dtype()
        return dtype

    @property
    def _layers(self) -> list[_Layer]:
        return [_Layer(block) for block in self._text.transformer.resblocks]

    def _embed_places(self, words: Tensor, depths: Tensor) -> Tensor:
        return words.to(self._dtype) + self._text.positional_embedding[depths].to(self._dtype)


class _Layer:
    """A residual attention block of open_clip."""

    def __init__(self, block: Network) -> None:
        names = ("attn", "ln_1", "ln_2", "ls_1", "ls_2", "mlp")
        self._attention, self._norm, self._last_norm, self._scale, self._last_scale, self._mlp = (
            getattr(block, name) for name in names
        )
        self.heads: int = self._attention.num_heads

    def project(self, states: Tensor) -> Tensor:
        # Product, then bias, as torch's attention computes it: one fused step may round otherwise.
        product = self._norm(states) @ self._attention.in_proj_weight.T
        bias = self._attention.in_proj_bias
        return product if bias is None else product + bias

    def finish(self, states: Tensor, mixed: Tensor) -> Tensor:
        states = states + self._scale(self._attention.out_proj(mixed))
        return states + self._last_scale(self._mlp(self._last_norm(states)))


#: Names the way from pixels and texts to vectors; part of the fingerprint, changed when that way changes.
_VERSION = "open_clip-1"

#: Samples in one forward pass. ViT-B/32 on one core: 97 ms an image in batches of 4, 93 ms in 16 and in 32.
_ON_CPU, _ELSEWHERE = 16, 64


def load(name: str, options: ModelOptions) -> OpenClipEncoder:
    """Load an open_clip model by its name (see `tellapart.models.openclip.source.resolve`)."""
    if options.reading not in {None, "itc"}:
        raise ModelError(f"{name} has no reading {options.reading!r}; a dual encoder of open_clip has one, 'itc'")
    place = runtime(options)
    name = complete_name(name)
    source = resolve(name)
    config = import_open_clip().get_model_config(source.architecture)
    return OpenClipEncoder(name, assemble(source, texts=options.texts), place, config=config)


def hold_encoder(name: str, model: Network, transform: Any, tokenizer: Any, place: Runtime) -> OpenClipEncoder:
    """Return a caller's model as an encoder, without moving it; its identity is the caller's affair."""
    tokenizer = copy.copy(tokenizer)
    if hasattr(tokenizer, "tokenizer"):
        tokenizer.tokenizer = copy.copy(tokenizer.tokenizer)
    rule, _ = caption_rule(is_siglip(model, tokenizer), tokenizer)
    parts = Parts(model, transform, tokenizer, "", rule)
    tokens = move(Tokens(tokenizer).read(["a"])[0], place)
    with compute(name, model):
        width = int(model.encode_text(tokens).shape[-1])
    return OpenClipEncoder(name, parts, place, config={"embed_dim": width}, fingerprint="held")


def _name_activation(tower: Network) -> str:
    """Return the activation of a tower's layers; empty if it is none that is known here."""
    kinds = {"GELU": "GELU", "GELUTanh": "GELU (tanh)", "QuickGELU": "QuickGELU"}
    activations = {
        "GELU (tanh)" if "tanh" in part.extra_repr() else kinds[type(part).__name__]
        for part in tower.modules()
        if type(part).__name__ in kinds
    }
    return " and ".join(sorted(activations))


def _name_preparation(config: Mapping[str, Any]) -> str:
    """Name all that a prepared image depends on; mean and deviation are applied later, a batch at a time."""
    shaping = {key: value for key, value in config.items() if key not in {"mean", "std"}}
    libraries = {name: version(name) for name in ("open_clip_torch", "torchvision", "pillow")}
    return json.dumps([_VERSION, shaping, libraries], sort_keys=True)


def _checkpoint_files(name: str) -> list[Path] | None:
    _, at, path = name.partition("@")
    file = Path(split_part(path)[0]).expanduser()
    if not at or not file.is_file():
        return None
    # The files near a checkpoint may show how it was trained.
    neighbours = (
        neighbour
        for neighbour in file.parent.iterdir()
        if neighbour.suffix in {".json", ".txt"} and neighbour.is_file()
    )
    return [file, *sorted(neighbours)]


_TAKES = frozenset({"device", "dtype", "reading", "texts"})

OPEN_CLIP = ModelPrefix(
    {
        "open_clip:ARCH/TAG": "weights that open_clip lists, for example open_clip:ViT-B-32/laion2b_s34b_b79k",
        "open_clip:ARCH@FILE": "a checkpoint of an open_clip architecture; ViT-B-32-quickgelu@FILE if fine-tuned from "
        "OpenAI's",
        "open_clip:ARCH/TAG@FILE": "a checkpoint fine-tuned from the weights of that tag, or a folder of peft's LoRA",
        "open_clip:ARCH@FILE#ema": "the averaged weights of a checkpoint that holds both; #PART is any of its entries",
    },
    load,
    _checkpoint_files,
    takes=_TAKES,
)
HF_HUB = ModelPrefix({"hf-hub:ORG/REPO": "a model of open_clip on the hub"}, load, takes=_TAKES)
LOCAL_DIR = ModelPrefix(
    {"local-dir:PATH": "a folder with open_clip_config.json, of any architecture, and one file of weights"},
    load,
    lambda name: files_below(split_part(name.removeprefix(FOLDER))[0]),
    takes=_TAKES,
)


class OpenClipEncoder:
    """A dual encoder of open_clip; a score is the cosine of image and text.

    Every forward pass has one shape: 16 images on a CPU (64 elsewhere), or as many texts of one padded length that
    depends on the text alone. So no vector changes with the batch, the order or the neighbours, on one device with one
    number of threads.

    A text is padded to the next multiple of 8 tokens where that changes nothing: a causal text tower that reads its
    answer off the end-of-text token sees nothing behind it. Other towers (not causal, or pooled elsewhere) get the
    full context length, as they were trained. On a CPU a causal tower computes beginnings that several texts share
    once (`shares_beginnings`), which changes no bit.

    Attributes:
        activation: `QuickGELU` or `GELU`; empty if no tower is open_clip's.
        batch_size: samples that are best given at once; some forward passes, so that texts of one length meet.
        preparation: names the way from pixels to a prepared image; models that crop alike share it.
        logit_scale: the factor of its cosines in training.
        texts: the rule by which captions are changed before the tokenizer reads them; empty if there is none.
        provenance: which part of its file the weights are, if that holds others; else empty.
        truncated: how many of the texts encoded so far were longer than the context and lost their end.
    """

    kind: ScoreKind = "similarity"
    #: Scores rise with the cosine of the vectors, so that a gallery can be ranked by it.
    ranks_by_cosine = True

    def __init__(
        self, name: str, parts: Parts, runtime: Runtime, *, config: dict[str, Any], fingerprint: str | None = None
    ) -> None:
        self.truncated = 0
        self.activation, self.texts, self.device = parts.activation, parts.texts, runtime.device
        self.provenance = parts.checkpoint.weights if parts.checkpoint else ""
        self.logit_scale = float(parts.model.logit_scale.detach().exp())
        self._size = _ON_CPU if runtime.device == "cpu" else _ELSEWHERE
        self.batch_size = 4 * self._size
        self.name, self._runtime, self._dimensions = name, runtime, int(config["embed_dim"])
        # The last two of open_clip's steps, to a tensor and to mean and deviation, are done a batch at a time.
        *shaping, _, scale = parts.transform.transforms
        self._shape = type(parts.transform)(shaping)
        self._tokens = Tokens(parts.tokenizer)
        preprocessing = import_open_clip().get_model_preprocess_cfg(parts.model)
        self.preparation = _name_preparation(preprocessing)
        # Of the architecture much (heads, activation) is in no weight.
        facts = (config, preprocessing, self._tokens.facts)
        self.fingerprint = fingerprint or weights_fingerprint(
            parts.model, _VERSION, runtime.dtype, *(json.dumps(fact, sort_keys=True) for fact in facts)
        )
        self.parameters = parameter_count(parts.model)
        self.traits = {
            "activation": _name_activation(getattr(parts.model, "text", None) or parts.model.transformer),
            "image activation": _name_activation(parts.model.visual),
            "context": f"{self._tokens.facts['context_length']} tokens",
            "dtype": runtime.dtype,
            "texts": parts.texts,
        }
        self._model = parts.model if fingerprint else parts.model.to(runtime.device, runtime.torch_dtype)
        self._tower = TextTower(self._model)
        self._shared = SharedTexts(self._model, self._tower)
        # Not by torchvision's step, which copies these again and asks the device about zeros, a wait in every batch.
        try:
            self._mean, self._deviation = (
                import_torch().as_tensor(numbers, device=runtime.device).view(-1, 1, 1)
                for numbers in (scale.mean, scale.std)
            )
        except (RuntimeError, TypeError, ValueError) as error:  # each of torch's, for what is no number
            raise ModelError(f"{name}: mean and std must be a number for each colour ({first_line(error)})") from error

    def prepare_image(self, pixels: Pixels) -> Tensor:
        """Resize and crop one image, uint8 `(height, width, 3)`, to a `torch.uint8` tensor `(height, width, 3)`."""
        from PIL import Image

        return import_torch().from_numpy(np.array(self._shape(Image.fromarray(pixels))))

    def pack_image(self, prepared: Tensor) -> Pixels:
        """Return a prepared image as an array, to be kept."""
        packed: Pixels = prepared.numpy()
        return packed

    def unpack_image(self, packed: Pixels) -> Tensor:
        """Return a prepared image that was kept."""
        return import_torch().from_numpy(packed)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, padded to the context."""
        return self._tokens.token_ids(texts)

    def find_cut(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it is longer than the context."""
        return self._tokens.find_cut(texts)

    def input_pixels(self, pixels: Pixels) -> NDArray[np.float32]:
        """Return one image as the tower is given it, float32 `(3, height, width)`."""
        unit: NDArray[np.float32] = self._scale([self.prepare_image(pixels)])[0].float().cpu().numpy()
        return unit

    def _scale(self, prepared: list[Tensor]) -> Tensor:
        """Return prepared images as the tower is given them, `(n, 3, height, width)`."""
        torch = import_torch()
        pixels = move(torch.stack(prepared), self._runtime).permute(0, 3, 1, 2).contiguous()
        return pixels.to(torch.float32).div(255).sub_(self._mean).div_(self._deviation).to(self._runtime.torch_dtype)

    def encode_images(self, images: Sequence[Any]) -> Vectors:
        """Encode RGB images, uint8 `(height, width, 3)` or prepared, to float32 `(n, dimensions)` of length one."""

        def forward(batch: list[Any]) -> Tensor:
            prepared = [self.prepare_image(image) if isinstance(image, np.ndarray) else image for image in batch]
            return self._model.encode_image(self._scale(prepared))

        return self._encode_batches(forward, images)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)` of length one; count the cut ones in `truncated`."""
        ids, cut = self._tokens.read(texts)
        self.truncated += cut
        vectors = np.zeros((len(texts), self._dimensions), np.float32)
        shares = self.shares_beginnings
        for length, rows in positions_by_key(self._tower.lengths(ids)).items():

            def forward(batch: list[int], length: int = length) -> Tensor:
                return self._tower.encode(move(ids[batch, :length], self._runtime))

            if shares:
                with compute(self.name, self._model):
                    features = self._shared.encode(ids[rows, :length], self._size)
                vectors[rows] = normalise(features.float().numpy(), self.name, self._runtime.dtype)
            else:
                vectors[rows] = self._encode_batches(forward, rows)
        return vectors

    @property
    def shares_beginnings(self) -> bool:
        """Whether texts share the states of common beginnings: on a CPU, by a causal tower of known modules."""
        return self.device == "cpu" and not exact_size() and self._shared.works

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors of length one: the cosines, float32 `(images, texts)`."""
        return dot_products(images, texts)

    similarities = similarity

    def _encode_batches(self, forward: Callable[[list[Any]], Any], samples: Sequence[Any]) -> Vectors:
        rows = []
        with compute(self.name, self._model):
            for batch, real in fixed_batches(samples, self._size):
                rows.append(forward(batch)[:real].float())
            # Only here, for a GPU computes one batch while the next is put together.
            vectors = [np.zeros((0, self._dimensions), np.float32), *(row.cpu().numpy() for row in rows)]
        return normalise(np.concatenate(vectors), self.name, self._runtime.dtype)
