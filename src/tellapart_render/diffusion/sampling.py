"""Load diffusion pipelines safely, and draw pictures: of one caption, or of two from the same noise in one loop."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from tellapart.data.rows import read_object
from tellapart.errors import DataError, ModelError, first_line, require
from tellapart.models.hub import reach_hub
from tellapart.models.huggingface.files import quiet, silent
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import fixed_batches, guard_torch_load, import_torch, runtime

if TYPE_CHECKING:
    from diffusers import DiffusionPipeline, SchedulerMixin, UNet2DConditionModel
    from diffusers.models.attention_processor import Attention
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


# Pipelines are loaded from a folder or the hub: at one revision, from safetensors, without foreign code.
#
# The safety checker of Stable Diffusion 1 is not loaded: it would replace pictures that it suspects by black ones. The
# sets' cards say that people must look at the pictures before they are shown to others.

PIPELINES = ("StableDiffusionPipeline", "StableDiffusionXLPipeline")

_LIBRARIES = {"diffusers", "transformers"}  # whose code a pipeline's parts may name
_UNUSED_PARTS = {"safety_checker", "feature_extractor", "image_encoder"}
_SUFFIXES = {".json", ".txt", ".model", ".safetensors"}  # of the files that are read


class DiffusionModel(BaseModel):
    """The table `[options.model]` of a recipe.

    Attributes:
        name: a folder (relative to the recipe) or a hub id.
        revision: the commit on the hub, 40 hexadecimal digits; a branch would change under a build.
        variant: the variant of the weights' files, such as `fp16`.
        unet, unet_revision: another folder or hub id, whose denoiser is used (for example DPO's), and its commit.
        vae, vae_revision: the same for the autoencoder (for example vae-ft-mse).
        device: `auto` takes CUDA, then Apple's, then the CPU.
        dtype: of weights and activations.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    revision: str = ""
    variant: str = ""
    unet: str = ""
    unet_revision: str = ""
    vae: str = ""
    vae_revision: str = ""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"


@dataclass(frozen=True, slots=True)
class DiffusionCheckpoint:
    """The checked files of a pipeline, not loaded yet.

    `kind` is one of `PIPELINES`. `folders` has the folder of the `pipeline`, and those of a `unet` or `vae` in place of
    its part; `revisions` has their commits on the hub, or the SHA-256 of the files. `device` is not `auto`.
    """

    kind: str
    folders: dict[str, Path]
    revisions: dict[str, str]
    device: str
    dtype: str
    variant: str = ""

    @property
    def versions(self) -> dict[str, str]:
        """All that decides the pixels, by name: revisions, the library, and its device and number type."""
        torch = f"{metadata.version('torch')}, {self.device}, {self.dtype}"
        return {**self.revisions, "diffusers": metadata.version("diffusers"), "torch": torch}

    def load(self) -> DiffusionPipeline:
        """Load the pipeline, on its device and in its dtype."""
        torch = import_torch()
        diffusers = require("diffusers", extra="diffusion")
        options: dict[str, Any] = {"use_safetensors": True, "local_files_only": True, "variant": self.variant or None}
        parts: dict[str, Any] = {}
        try:
            with quiet_diffusion(), guard_torch_load(self.folders["pipeline"]):
                for part, name in (("unet", "UNet2DConditionModel"), ("vae", "AutoencoderKL")):
                    if part in self.folders:
                        folder = self.folders[part]
                        subfolder = part if (folder / part).is_dir() else None
                        parts[part] = getattr(diffusers, name).from_pretrained(folder, subfolder=subfolder, **options)
                if self.kind == "StableDiffusionPipeline":
                    parts |= {"safety_checker": None, "requires_safety_checker": False}
                else:
                    parts["add_watermarker"] = False
                pipeline = getattr(diffusers, self.kind).from_pretrained(self.folders["pipeline"], **options, **parts)
                pipeline.set_progress_bar_config(disable=True)
                return pipeline.to(self.device, getattr(torch, self.dtype))
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            fault = f"cannot be loaded as a {self.kind} ({error!s:.300})"
            raise ModelError(f"{self.folders['pipeline']}: {fault}") from error


def open_checkpoint(model: DiffusionModel, home: Path, kinds: Sequence[str] = PIPELINES) -> DiffusionCheckpoint:
    """Find a pipeline's files, the hub's cache before the hub, and check that it is of one of these kinds."""
    require("diffusers", extra="diffusion")
    parts = {"pipeline": (model.name, model.revision)}
    parts |= {"unet": (model.unet, model.unet_revision)} if model.unet else {}
    parts |= {"vae": (model.vae, model.vae_revision)} if model.vae else {}
    folders, revisions = {}, {}
    for part, (name, revision) in parts.items():
        check: Callable[[Path, str], None] = partial(_check_part, part)
        if part == "pipeline":
            check = partial(_check_pipeline, kinds=kinds, replaced=set(parts))
        folders[part], revisions[part] = _find_folder(name, revision, home, model.variant, check)
        check(folders[part], model.variant)
    kind = str(read_object(folders["pipeline"] / "model_index.json")["_class_name"])
    return DiffusionCheckpoint(kind, folders, revisions, _choose_device(model.device), model.dtype, model.variant)


@contextmanager
def quiet_diffusion() -> Iterator[None]:
    """Keep the libraries' reports off the terminal, and numpy 2's warning of how diffusers makes arrays of tensors."""
    with silent(require("diffusers", extra="diffusion").utils.logging), quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _find_folder(
    name: str, revision: str, home: Path, variant: str, check: Callable[[Path, str], None]
) -> tuple[Path, str]:
    """Return a folder with its revision: the hub's commit, or the SHA-256 of its files."""
    local = home / Path(name).expanduser()
    if local.is_dir():
        return local, _digest_files(local)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ModelError(f"{name} is neither a folder nor an id of the hub (owner/name)")
    if not re.fullmatch("[0-9a-f]{40}", revision):
        fault = f"needs its commit: 40 hexadecimal digits, got {revision!r}"
        raise ModelError(f"{name} is not a folder, and as an id of the hub it {fault}")
    hub = require("huggingface_hub", extra="hub")
    weights = [f"*.{variant}*.safetensors"] if variant else ["*model.safetensors", "*-of-*.safetensors"]
    patterns = ["*.json", "*.txt", "*.model", *weights]
    problem: ModelError | None = None
    try:
        cached = Path(hub.snapshot_download(name, revision=revision, local_files_only=True))
        check(cached, variant)
        return cached, revision
    except (hub.errors.LocalEntryNotFoundError, OSError, ValueError):
        pass  # it is not in the cache
    except ModelError as error:
        problem = error  # the cache may have only some of the files
    try:
        skipped = [f"{part}/*" for part in _UNUSED_PARTS]
        with reach_hub(hub):
            fetched = hub.snapshot_download(name, revision=revision, allow_patterns=patterns, ignore_patterns=skipped)
    except (hub.errors.HfHubHTTPError, hub.errors.LocalEntryNotFoundError, OSError, ValueError) as error:
        if problem is not None:
            raise problem from error
        fault = f"the hub's cache lacks it, and it cannot be fetched ({first_line(error):.200})"
        fix = f"fetch it where there is a network (hf download {name} --revision {revision}) or name a folder"
        raise ModelError(f"{name} at {revision[:12]} is no folder, {fault}; {fix}") from error
    return Path(fetched), revision


def _check_pipeline(folder: Path, variant: str, *, kinds: Sequence[str], replaced: set[str]) -> None:
    """Check that a pipeline is of one of these kinds, with known parts and safe weights."""
    try:
        index = read_object(folder / "model_index.json")
    except DataError as error:
        raise ModelError(f"{folder} is not a folder of a diffusers pipeline: {error}") from error
    kind = index.get("_class_name")
    if kind not in kinds:
        raise ModelError(f"{folder} is a {kind}; use a {' or a '.join(kinds)}")
    for part, origin in index.items():  # origin: library and class
        if (
            part.startswith("_")
            or part in _UNUSED_PARTS | replaced
            or not isinstance(origin, list)
            or origin[0] is None
        ):
            continue
        if origin[0] not in _LIBRARIES:
            raise ModelError(f"{folder}: its {part} is code outside diffusers ({origin[0]}), which is not run")
        if not (folder / part).is_dir():
            raise ModelError(f"{folder} has no {part}; its model_index.json names one: copy or fetch it again")
        if (folder / part / "config.json").is_file():
            _check_weights(folder / part, variant)


def _check_part(part: str, folder: Path, variant: str) -> None:
    """Check the weights of a part that replaces a pipeline's; `folder` is the part's, or holds a folder of its name."""
    _check_weights(folder / part if (folder / part).is_dir() else folder, variant)


def _check_weights(folder: Path, variant: str) -> None:
    if any(folder.glob(f"*.{variant}*.safetensors" if variant else "*.safetensors")):
        return
    pickles = sorted(path.name for path in folder.glob("*.bin"))
    file_kind = f"safetensors of variant {variant!r}" if variant else "safetensors"
    pickle_note = f", only {pickles[0]}, a pickle, which could run code" if pickles else ""
    fix = "convert it, or name a revision or variant that has them"
    raise ModelError(f"{folder} has no {file_kind}{pickle_note}; {fix}")


def _digest_files(folder: Path) -> str:
    """Return the SHA-256 over the names and contents of the files that a pipeline reads."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.suffix in _SUFFIXES and path.is_file() and inside.parts[0] not in _UNUSED_PARTS:
            with path.open("rb") as file:
                digest.update(f"{inside.as_posix()} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def _choose_device(name: str) -> str:
    torch = import_torch()
    if name == "auto":
        name = "mps" if torch.backends.mps.is_available() else "cpu"
        name = "cuda" if torch.cuda.is_available() else name
    return runtime(ModelOptions(device=name)).device


# Prompt-to-Prompt: two captions are drawn side by side, and the second picture takes attention maps from the first.
#
# Self-attention maps decide a picture's layout, cross-attention maps the place of each word in it. Attention processors
# of diffusers share both, for a part of the steps.
#
# Source: Hertz et al., Prompt-to-Prompt (arXiv 2208.01626), whose released code maps words (replace) or aligned tokens
# (refine); Brooks et al., instruct-pix2pix, whose code shares self-attention alone, with and without the caption, in a
# random part of the steps. The code here is tellapart's.


@dataclass(frozen=True, slots=True)
class TokenMap:
    """How the second caption's attention maps are made of the first one's, by words or by aligned tokens (`rule`).

    Column `j` of `source`, float32 `(length, length)`, has the weights of the first caption's maps for token `j` of the
    second. `share`, float32 `(length,)`, is 1 for a token that takes this mix, 0 for a token that keeps its map.
    """

    rule: Literal["replace", "refine"]
    source: NDArray[np.float32]
    share: NDArray[np.float32]


def token_map(first: Sequence[Sequence[int]], second: Sequence[Sequence[int]], length: int) -> TokenMap:
    """Map the tokens of one caption to those of another.

    If both captions have as many words, a word takes the maps of the word in its position (`replace`): token by token,
    or their sum in equal parts if the words have different numbers of tokens; so a pixel's attention to a word does not
    change. Else tokens that both captions have in the same order take the first one's maps, and new tokens keep theirs
    (`refine`). The token at the text's end and the padding after it take the maps of the first caption's.

    >>> token_map([[5], [6]], [[5], [7, 8]], 6).source[2, 2:4]  # both tokens look where 6 did, with half its weight
    array([0.5, 0.5], dtype=float32)
    >>> token_map([[5], [6]], [[5], [9], [6]], 6).share  # the new word alone keeps its own map
    array([1., 1., 0., 1., 1., 1.], dtype=float32)
    """
    first_count, second_count = sum(map(len, first)), sum(map(len, second))
    most = max(first_count, second_count)
    if most > length - 2:  # without the tokens at start and end
        raise ValueError(f"a caption has {most} tokens; {length - 2} fit")
    source, share = np.zeros((length, length), np.float32), np.ones(length, np.float32)
    source[0, 0] = 1  # the token at the start
    if len(first) == len(second):
        rule: Literal["replace", "refine"] = "replace"
        row = column = 1
        for word, other in zip(first, second, strict=True):
            block = source[row : row + len(word), column : column + len(other)]
            block[:] = np.eye(len(word)) if len(word) == len(other) else 1 / max(len(other), 1)
            row, column = row + len(word), column + len(other)
    else:
        rule = "refine"
        share[1 : second_count + 1] = 0
        tokens, other_tokens = list(chain.from_iterable(first)), list(chain.from_iterable(second))
        for i, j, size in SequenceMatcher(None, tokens, other_tokens, autojunk=False).get_matching_blocks():
            source[np.arange(i, i + size) + 1, np.arange(j, j + size) + 1] = 1
            share[j + 1 : j + 1 + size] = 1
    for j in range(second_count + 1, length):
        source[min(j - second_count + first_count, length - 1), j] = 1
    return TokenMap(rule, source, share)


class Sharing:
    """The pairs that share attention maps at the present step, for the attention processors.

    A batch has `n` pairs of pictures denoised without captions, then the same with their captions: `(2, n, 2)`
    pictures. On the last axis, the second picture takes maps from the first, and never the other way round.
    """

    def __init__(
        self, steps: int, self_fraction: Sequence[float], cross_fraction: Sequence[float], tokens: TokenMap
    ) -> None:
        self._steps = steps
        self._fractions = (np.asarray(self_fraction), np.asarray(cross_fraction))
        self._tokens = tokens
        self.begin(0)

    def begin(self, step: int) -> None:
        """Go to a step, counted from 0.

        With a fraction `p`, self-attention is shared while `p > step / (steps - 1)`, as in instruct-pix2pix (its
        `len(sigmas) - 2`), so `p = 1` leaves out the last step; cross-attention in the first `int(p * steps)` steps, as
        in Hertz et al. Both results are bool `(n,)`.
        """
        self_fraction, cross_fraction = self._fractions
        self.shares_self: NDArray[np.bool_] = self_fraction > step / max(self._steps - 1, 1)
        self.shares_cross: NDArray[np.bool_] = step < (cross_fraction * self._steps).astype(int)

    def share_self(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Give the second pictures the queries and keys of the first.

        A map depends on queries and keys alone, so this equals copying the map, which memory-saving attention never
        makes. Tensors are `(2 * n * 2, heads, length, width)`.
        """
        if not self.shares_self.any():
            return queries, keys
        shared = []
        for tensor in (queries, keys):
            pairs = tensor.clone().view(2, len(self.shares_self), 2, *tensor.shape[1:])
            pairs[:, self.shares_self, 1] = pairs[:, self.shares_self, 0]
            shared.append(pairs.view(tensor.shape))
        return shared[0], shared[1]

    def share_cross(self, maps: Tensor) -> Tensor:
        """Give the second pictures with captions the maps of the first pictures' words, as the `TokenMap` says.

        Maps are `(2 * n * 2, heads, pixels, tokens)`.
        """
        torch = import_torch()
        source, share = (torch.as_tensor(a).to(maps) for a in (self._tokens.source, self._tokens.share))
        pairs = maps.clone().view(2, len(self.shares_cross), 2, *maps.shape[1:])
        attention = pairs[1, self.shares_cross, 1]
        pairs[1, self.shares_cross, 1] = (pairs[1, self.shares_cross, 0] @ source) * share + attention * (1 - share)
        return pairs.view(maps.shape)


class _Processor:
    """Attention as diffusers computes it, with shared maps."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing

    def __call__(
        self,
        attn: Attention,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        *_: object,
        **__: object,
    ) -> Tensor:
        attention = import_torch().nn.functional.scaled_dot_product_attention
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states

        def by_head(states: Tensor) -> Tensor:  # (batch, length, heads * width) -> (batch, heads, length, width)
            return states.view(*states.shape[:2], attn.heads, -1).transpose(1, 2)

        queries = by_head(attn.to_q(hidden_states))
        keys, values = by_head(attn.to_k(context)), by_head(attn.to_v(context))
        if attn.upcast_attention:
            queries, keys, values = queries.float(), keys.float(), values.float()
        if encoder_hidden_states is None:
            queries, keys = self._sharing.share_self(queries, keys)
        if encoder_hidden_states is None or not self._sharing.shares_cross.any():
            mixed = attention(queries, keys, values, scale=attn.scale)
        else:
            maps = (queries @ keys.transpose(-1, -2) * attn.scale).softmax(dim=-1)
            mixed = self._sharing.share_cross(maps) @ values
        states = mixed.transpose(1, 2).reshape(*hidden_states.shape[:2], -1).to(hidden_states.dtype)
        out: Tensor = attn.to_out[1](attn.to_out[0](states)) / attn.rescale_output_factor
        return out


@contextmanager
def sharing_attention(unet: UNet2DConditionModel, sharing: Sharing) -> Iterator[None]:
    """Let the attention layers of a denoiser share maps within this context."""
    for name, layer in unet.named_modules():
        if hasattr(layer, "processor") and any(
            getattr(layer, part, None) is not None for part in ("group_norm", "spatial_norm", "norm_q", "add_k_proj")
        ):
            raise ModelError(f"attention layer {name} is none of Stable Diffusion 1 or 2; Prompt-to-Prompt takes those")
    before = unet.attn_processors
    unet.set_attn_processor(_Processor(sharing))
    try:
        yield
    finally:
        unet.set_attn_processor(dict(before))


_SCHEDULERS = {"euler-ancestral": "EulerAncestralDiscreteScheduler", "ddim": "DDIMScheduler"}


@dataclass(frozen=True, slots=True)
class Draw:
    """The seed of all noise of a pair of pictures, the scale of guidance, and two fractions of the steps.

    In these fractions the second picture uses the first one's self- or cross-attention maps. The higher the guidance,
    the more closely a picture follows its caption.
    """

    seed: int
    guidance: float
    self_fraction: float
    cross_fraction: float = 0.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """The settings of denoising that all pictures share; the side is in pixels, 0 for the model's size.

    `euler-ancestral` is instruct-pix2pix's sampler, `ddim` that of Hertz et al. `batch` is the number of pairs in one
    forward pass: a picture's last bits depend on it, so recipes fix it.
    """

    steps: int = 100
    sampler: Literal["euler-ancestral", "ddim"] = "euler-ancestral"
    side: int = 0
    batch: int = 1


def random_numbers(seed: int, name: str, index: int) -> np.random.Generator:
    """Return the random generator of one draw of one item; it depends on these three arguments only."""
    return np.random.default_rng(list(hashlib.sha256(f"{seed}:{name}:{index}".encode()).digest()))


def words_of(tokenizer: PreTrainedTokenizerBase, caption: str) -> list[list[int]]:
    """Return the token ids of each word of a caption, as the text encoder gets them."""
    return [list(tokenizer(word, add_special_tokens=False).input_ids) for word in caption.split()]


def room_for(pipeline: DiffusionPipeline, caption: str) -> bool:
    """Return whether a caption fits into a pipeline's text encoder, and into the second one if there are two."""
    tokenizers = [getattr(pipeline, name, None) for name in ("tokenizer", "tokenizer_2")]
    return all(
        len(tokenizer(caption, truncation=False, verbose=False).input_ids) <= tokenizer.model_max_length
        for tokenizer in tokenizers
        if tokenizer is not None
    )


def sample_pairs(
    pipeline: DiffusionPipeline, captions: tuple[str, str], draws: Sequence[Draw], schedule: Schedule
) -> Iterator[tuple[Pixels, Pixels]]:
    """Yield a pair of pictures for each draw, in their order.

    Every forward pass has the same shape (the last one is filled up), so a pair does not depend on the number of draws.
    Each draw has a separate generator of all its noise, on the CPU, so the noise depends on neither device nor batch.

    Yields:
        RGB pictures, uint8 `(side, side, 3)`.
    """
    if not draws:
        return
    torch = import_torch()
    with torch.inference_mode():
        texts = _encode_texts(pipeline, captions)
        for batch, real in fixed_batches(draws, schedule.batch):
            pictures = _denoise_batch(pipeline, texts, captions, batch, schedule)
            yield from zip(pictures[0 : 2 * real : 2], pictures[1 : 2 * real : 2], strict=True)


def sample_images(
    pipeline: DiffusionPipeline, prompt: str, seeds: Sequence[int], schedule: Schedule, guidance: float
) -> Iterator[Pixels]:
    """Yield a picture of one prompt for each seed, in their order, with the pipeline's sampler.

    Each picture has a separate generator, on the CPU; every forward pass has the same shape.

    Yields:
        RGB pictures, uint8 `(side, side, 3)`.
    """
    torch = import_torch()
    for batch, real in fixed_batches(seeds, schedule.batch):
        generators = [torch.Generator("cpu").manual_seed(seed) for seed in batch]
        with quiet_diffusion():
            floats = pipeline(
                [prompt] * len(batch),
                num_inference_steps=schedule.steps,
                guidance_scale=guidance,
                height=schedule.side or None,
                width=schedule.side or None,
                generator=generators,
                output_type="np",
            ).images
        yield from _to_bytes(floats)[:real]


def _encode_texts(pipeline: DiffusionPipeline, captions: tuple[str, str]) -> Tensor:
    """Encode the empty caption, the first and the second one, each by itself: `(3, 1, tokens, width)`."""
    (first, without), (second, _) = (pipeline.encode_prompt(text, pipeline.device, 1, True) for text in captions)
    stacked: Tensor = import_torch().stack([without, first, second])
    return stacked


def _denoise_batch(
    pipeline: DiffusionPipeline, texts: Tensor, captions: tuple[str, str], draws: Sequence[Draw], schedule: Schedule
) -> list[Pixels]:
    """Draw one batch; return the first and the second picture of each draw in turn."""
    torch = import_torch()
    unet, device, dtype, n = pipeline.unet, pipeline.device, pipeline.unet.dtype, len(draws)
    scheduler = _make_scheduler(pipeline, schedule)
    # One generator for each picture, the same seed for both of a pair: they share all noise, also that of the steps.
    generators = [torch.Generator("cpu").manual_seed(draw.seed) for draw in draws for _ in range(2)]
    side = schedule.side // pipeline.vae_scale_factor or unet.config.sample_size
    shape = (1, unet.config.in_channels, side, side)
    noise = [torch.randn(shape, generator=generator, dtype=dtype) for generator in generators]
    latents = torch.cat(noise).to(device) * scheduler.init_noise_sigma
    context = torch.cat([texts[0]] * 2 * n + [texts[1], texts[2]] * n)  # (2, n, 2) captions
    guidance = torch.tensor([d.guidance for d in draws for _ in range(2)], dtype=dtype, device=device).view(-1, 1, 1, 1)
    words = [words_of(pipeline.tokenizer, caption) for caption in captions]
    tokens = token_map(words[0], words[1], context.shape[1])
    sharing = Sharing(schedule.steps, [d.self_fraction for d in draws], [d.cross_fraction for d in draws], tokens)
    with sharing_attention(unet, sharing):
        for step, time in enumerate(scheduler.timesteps):
            sharing.begin(step)
            scaled = scheduler.scale_model_input(torch.cat([latents] * 2), time)
            without, with_caption = unet(scaled, time, encoder_hidden_states=context, return_dict=False)[0].chunk(2)
            guided = without + guidance * (with_caption - without)
            latents = scheduler.step(guided, time, latents, generator=generators, return_dict=False)[0]
    images = pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor, return_dict=False)[0]
    return _to_bytes(pipeline.image_processor.postprocess(images, output_type="np"))


def _to_bytes(pictures: NDArray[np.float32]) -> list[Pixels]:
    return list((pictures * 255).round().astype(np.uint8))


def _make_scheduler(pipeline: DiffusionPipeline, schedule: Schedule) -> SchedulerMixin:
    import diffusers

    config = {**pipeline.scheduler.config, "timestep_spacing": "linspace"}  # as k-diffusion spaces them
    with quiet_diffusion():
        scheduler = getattr(diffusers, _SCHEDULERS[schedule.sampler]).from_config(config)
        scheduler.set_timesteps(schedule.steps, device=pipeline.device)
    return scheduler
