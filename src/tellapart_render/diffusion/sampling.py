"""Pairs of pictures drawn from the same noise: one denoising loop for many draws of one pair of captions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import fixed_batches, import_torch
from tellapart_render.diffusion.attention import Sharing, sharing_attention, token_map
from tellapart_render.diffusion.loading import quiet_diffusion

if TYPE_CHECKING:
    from diffusers import DiffusionPipeline, SchedulerMixin
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

__all__ = ["Draw", "Schedule", "random_numbers", "room_for", "sample_images", "sample_pairs", "words_of"]

_SCHEDULERS = {"euler-ancestral": "EulerAncestralDiscreteScheduler", "ddim": "DDIMScheduler"}


@dataclass(frozen=True, slots=True)
class Draw:
    """The parameters of one pair of pictures.

    Attributes:
        seed: of the initial noise and of the noise that steps add; both pictures get the same.
        guidance: the scale of classifier-free guidance; the higher, the closer a picture follows its caption.
        self_fraction, cross_fraction: the share of the steps in which the second picture uses the first one's self- or
            cross-attention maps.
    """

    seed: int
    guidance: float
    self_fraction: float
    cross_fraction: float = 0.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """The settings of denoising that all pictures share.

    Attributes:
        steps: number of denoising steps.
        sampler: `euler-ancestral` (instruct-pix2pix) or `ddim` (Hertz et al.).
        side: of the pictures, in pixels; 0 for the model's size.
        batch: pairs in one forward pass. A picture's last bits depend on it, so recipes fix it.
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

    Every forward pass has the same shape, the last one filled up, so a pair does not depend on how many are drawn. All
    noise comes from the draw's separate generator, on the CPU, so it does not depend on the device or the batch either.

    Args:
        pipeline: a `StableDiffusionPipeline`.
        captions: of the first and the second picture; neither is longer than the text encoder reads.
        draws: one for each pair.
        schedule: of all.

    Yields:
        RGB pictures, uint8 `(side, side, 3)`.

    Raises:
        ModelError: the denoiser's attention is not Stable Diffusion's.
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

    Args:
        pipeline: a `StableDiffusionPipeline` or a `StableDiffusionXLPipeline`.
        prompt: the text to draw.
        seeds: one for each picture.
        schedule: its sampler is not used.
        guidance: the scale of classifier-free guidance.

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
    """Draw one batch: first and second picture of each draw in turn."""
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
